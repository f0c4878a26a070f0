"""Owns what the log may say of a fault of ours: its kind and its place. Its words may hold a prompt's contents."""

from modelwire.logs import told

__all__ = ["told"]
