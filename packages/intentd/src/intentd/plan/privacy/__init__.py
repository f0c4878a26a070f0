"""What may enter a prompt (I3): which files by their path, and which parts of a text."""

from intentd.plan.privacy.paths import OWN_IGNORE_FILE, IgnoreFile, PathRules, in_denied_folder
from intentd.plan.privacy.scrub import OVERLAP, REDACTED, Scrubbed, scrub, scrub_long

__all__ = [
    "OVERLAP",
    "OWN_IGNORE_FILE",
    "REDACTED",
    "IgnoreFile",
    "PathRules",
    "Scrubbed",
    "in_denied_folder",
    "scrub",
    "scrub_long",
]
