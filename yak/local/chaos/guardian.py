"""Ends the brokers and the Redis of a run whose own process was killed, which cannot end them."""

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from yak.local.demo.child import Child
from yak.local.processes import end_processes_of
from yak.local.spawn import yak_argv

_DONE: Final = b"."
_END_SECONDS: Final = 10.0


@contextlib.contextmanager
def guarded(folder: str) -> Iterator[None]:
    """End the processes of a folder if this process ends in the body. `folder` is a real path, as the kernel reports."""
    child = Child(yak_argv("chaos", "guard", folder))
    try:
        yield
    finally:
        child.write(_DONE)
        child.end(_END_SECONDS)


def guard(folder: str, stdin: int) -> None:
    """Kill the processes of a folder when `stdin` is closed without a byte."""
    if not os.read(stdin, 1):
        end_processes_of(folder)
