"""Which operation runs, which wait, how each ends: pure, with no socket, thread or clock."""

from modeld.schedule.life import IllegalMove
from modeld.schedule.limits import ScheduleLimits
from modeld.schedule.scheduler import Scheduler

__all__ = ["IllegalMove", "ScheduleLimits", "Scheduler"]
