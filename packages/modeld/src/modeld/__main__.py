"""Owns `python -m modeld`, which is the command `modeld`."""

from modeld.cli import main

main()
