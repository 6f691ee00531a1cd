"""Importing kio without the test tools with which it registers itself.

kio's base types import hypothesis if it is installed, and that imports pytest. In a development environment this would
cost every broker's start and some commands 20 MB and a quarter of a second (kio/static/_phantom.py).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TEST_TOOL = "hypothesis"


@contextmanager
def without_test_tools() -> Iterator[None]:
    """Within this context hypothesis cannot be imported, unless it already was."""
    if _TEST_TOOL in sys.modules:
        yield
        return
    sys.modules[_TEST_TOOL] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_TEST_TOOL]


def import_kio() -> None:
    """Import the base of all kio messages without test tools; later kio imports find it loaded."""
    with without_test_tools():
        import kio.static.primitive  # noqa: F401
