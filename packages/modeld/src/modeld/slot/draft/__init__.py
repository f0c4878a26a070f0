"""Owns drafting by copying: guesses of the next tokens from the tape itself. Verifying them is the decode loop's."""

from modeld.slot.draft.drafter import Drafter, DraftFigures
from modeld.slot.draft.ledger import Ledger
from modeld.slot.draft.lengths import Acceptance, Costs, Lengths

__all__ = ["Acceptance", "Costs", "DraftFigures", "Drafter", "Ledger", "Lengths"]
