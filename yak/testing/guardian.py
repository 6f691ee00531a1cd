"""A process that ends a killed test run's brokers and deletes its files: `python -m yak.testing.guardian PARENT FOLDER`.

A run that ends by itself cleans up by itself and says so by one byte on our standard input. Where that ends without the
byte, or the parent is gone, nobody is left to do it: not after `kill -9`, a time-out of the CI, or `os._exit`.

The processes are found by the folder, which was made for this run and is in each broker's arguments or is the working
directory of the Redis server. So one that was started in the very moment of the end, and is written down nowhere, is
found too.
"""

import os
import select
import shutil
import sys
import time
from typing import Final

from yak.local.processes import identify, kill

ALL_CLEAN: Final = b"."
_LOOK_EVERY_SECONDS: Final = 1.0
"""For the parent's death: the pipe tells at once, unless a process that the parent forked still holds it."""
_AGAIN_AFTER_SECONDS: Final = 0.05
_ROUNDS_MAX: Final = 100


def main() -> None:
    """Wait for the parent's end, then clean up."""
    parent, folder = int(sys.argv[1]), sys.argv[2]
    if wait_for_end(parent):
        return
    clean_up(folder)


def wait_for_end(parent: int) -> bool:
    """Wait for the end of the run; whether it cleaned up by itself."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _LOOK_EVERY_SECONDS)
        if readable:
            return os.read(0, 1) == ALL_CLEAN
    return False


def clean_up(folder: str) -> None:
    """Kill every process of the folder and delete it, until two looks in a row found none."""
    quiet = 0
    for _ in range(_ROUNDS_MAX):
        found = processes_of(folder)
        for pid in found:
            process = identify(pid)
            if process is not None:
                kill(process)
        quiet = 0 if found else quiet + 1
        if quiet > 1:
            break
        time.sleep(_AGAIN_AFTER_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: str) -> list[int]:
    """Pids of this user's brokers with data below a folder, and of servers without a terminal that work in it.

    Somebody's editor or shell there is neither.
    """
    import psutil

    below = folder + os.sep
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            arguments = process.cmdline()
            is_broker = "serve" in arguments and any(each.startswith(below) for each in arguments)
            if is_broker or (process.terminal() is None and f"{process.cwd()}{os.sep}".startswith(below)):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


if __name__ == "__main__":
    main()
