"""The executable of YAK, which needs no Python package: `find_yak_bin()` is its path."""

import os

__all__ = ["find_yak_bin"]


def find_yak_bin() -> str:
    """The path of the executable."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "yak", "yak")
