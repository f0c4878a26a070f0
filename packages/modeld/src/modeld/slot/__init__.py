"""The one place where operations run: tapes, prefill, generation. Pure but for the backend and clock it is given."""

from modeld.slot.settings import SlotSettings
from modeld.slot.slot import Slot

__all__ = ["Slot", "SlotSettings"]
