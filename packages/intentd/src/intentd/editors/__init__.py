"""Owns where the editors' plugins lie. What they do is written in the editors' own languages."""

from pathlib import Path
from typing import Final

NVIM: Final = Path(__file__).parent / "nvim"
"""To be put on Neovim's runtimepath."""
