"""Importing kio and crc32c without what they import and YAK never uses.

kio's base types import hypothesis if it is installed, and that imports pytest. In a development environment this would
cost every broker's start and some commands 20 MB and a quarter of a second (kio/static/_phantom.py). The type of kio's
writers names `asyncio.StreamWriter`, and asyncio takes 10 ms (kio/serial/writers.py). crc32c reads its own version from
its metadata, which takes as long.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def import_kio() -> None:
    """Import the base of all kio messages without what YAK does not use; later kio imports find it loaded."""
    asyncio = ModuleType("asyncio")
    asyncio.StreamWriter = object  # type: ignore[attr-defined]
    with _in_place_of("hypothesis", None), _in_place_of("asyncio", asyncio):
        import kio.serial.writers
        import kio.static.primitive  # noqa: F401


def import_crc32c() -> None:
    """Import crc32c without looking up its version."""
    metadata = ModuleType("importlib.metadata")
    metadata.version = lambda _name: ""  # type: ignore[attr-defined]
    with _in_place_of("importlib.metadata", metadata):
        import crc32c  # noqa: F401


@contextmanager
def _in_place_of(name: str, stand_in: ModuleType | None) -> Iterator[None]:
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stand_in  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
