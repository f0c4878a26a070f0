"""Owns `python -m intentd`: the same as the command."""

import sys

from intentd.cli import main

sys.exit(main())
