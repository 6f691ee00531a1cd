"""Starts `yak` with a world that is wrong: `python launcher.py '{"clock_ms": 3600000}' serve …`. A program, not a module.

clock_ms    the wall clock is off by so many milliseconds; the steady clock is right, as it is on a machine with a bad clock
stall_file  while a file of this name exists, whatever writes or syncs waits: a disk that hangs
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

WRITES = ("write", "writev", "pwrite", "fsync", "fdatasync", "ftruncate", "rename", "replace")


def set_clock(offset_ms: int) -> None:
    """Everything in this process that asks for the time of day is told a wrong one."""
    time_ns = time.time_ns
    time.time_ns = lambda: time_ns() + offset_ms * 1_000_000
    time.time = lambda: time.time_ns() / 1e9


def stall_on(path: str) -> None:
    """Each call that changes a file waits while `path` exists."""
    for name in WRITES:
        setattr(os, name, _waiting(getattr(os, name), path))


def _waiting(call: Callable[..., Any], path: str) -> Callable[..., Any]:
    stat = os.stat

    def wait_and_call(*arguments: Any, **named: Any) -> Any:
        while True:
            try:
                stat(path)
            except FileNotFoundError:
                return call(*arguments, **named)
            time.sleep(0.005)

    return wait_and_call


def main() -> None:
    faults = json.loads(sys.argv.pop(1))
    if "clock_ms" in faults:
        set_clock(faults["clock_ms"])
    if "stall_file" in faults:
        stall_on(faults["stall_file"])
    # Only now: what is imported binds the functions above.
    from yak.commands.main import main as yak

    yak()


if __name__ == "__main__":
    main()
