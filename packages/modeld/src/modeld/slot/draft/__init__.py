"""Owns drafting by copying: guesses of the next tokens from the tape itself. Verifying them is the decode loop's."""

from modeld.slot.draft.base import Drafters, NoDrafts
from modeld.slot.draft.clients import PromptLookup
from modeld.slot.draft.drafter import Drafter
from modeld.slot.draft.ledger import Ledger
from modeld.slot.draft.lengths import Acceptance, Costs, Lengths
from modeld.slot.draft.timing import time_widths

__all__ = [
    "Acceptance",
    "Costs",
    "Drafter",
    "Drafters",
    "Ledger",
    "Lengths",
    "NoDrafts",
    "PromptLookup",
    "time_widths",
]
