"""Model files: find them, check them, tell one from another, and requantise the packaged one."""
