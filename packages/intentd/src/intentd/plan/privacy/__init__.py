"""What may enter a prompt (I3): which files by their path, and which parts of a text."""

from intentd.plan.privacy.paths import IgnoreFile, PathRules
from intentd.plan.privacy.scrub import REDACTED, Scrubbed, scrub

__all__ = ["REDACTED", "IgnoreFile", "PathRules", "Scrubbed", "scrub"]
