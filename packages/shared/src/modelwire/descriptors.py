"""Owns how many descriptors a daemon may have: a connection that finds none left ends the process in libzmq."""

import resource
from contextlib import suppress

WANTED = 65_536


def raise_limit() -> None:
    """Raises the soft limit as far as the hard one allows, never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
