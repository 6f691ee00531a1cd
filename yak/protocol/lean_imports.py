"""Importing kio without the test tools it registers itself with.

kio's base types import hypothesis when it is installed, and that imports pytest: in a development environment 20 MB and
a quarter of a second of every broker's start and of some commands, for nothing (kio/static/_phantom.py).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TEST_TOOL = "hypothesis"


@contextmanager
def without_test_tools() -> Iterator[None]:
    """While this lasts hypothesis cannot be imported, unless it was already."""
    if _TEST_TOOL in sys.modules:
        yield
        return
    sys.modules[_TEST_TOOL] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_TEST_TOOL]


def import_kio() -> None:
    """Import what all of kio's messages are made of, leanly; what is imported of it later finds this done."""
    with without_test_tools():
        import kio.static.primitive  # noqa: F401
