"""A run on one processor: its threads take turns (`yak.sim.jobs`), and a turn that wakes another processor costs 20 times more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/thread-self/stat")
_PROCESSOR: Final = 36
"""The processor's place in it (proc_pid_stat(5): field 39) behind the program's name in brackets."""


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep this thread, and the threads that it starts meanwhile, on the processor where it runs; only where /proc is."""
    if not _STAT.exists():  # another system, or a chroot without /proc
        yield
        return
    allowed = os.sched_getaffinity(0)
    fields = _STAT.read_text().rpartition(") ")[2].split()
    os.sched_setaffinity(0, {int(fields[_PROCESSOR])})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
