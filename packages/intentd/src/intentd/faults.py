"""Owns what the log may say of a fault of ours: its kind and its place. Its words may hold a prompt's contents."""

import traceback


def told(fault: BaseException) -> str:
    return "".join([*traceback.format_tb(fault.__traceback__), type(fault).__name__])
