"""Owns the profiles of generated tests: the usual one, and the long one of `make test-long`."""

from hypothesis import settings

settings.register_profile("usual", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2000, stateful_step_count=100)
settings.load_profile("usual")
