"""Ends a killed test run's brokers and deletes its files: `python -m yak.testing.guardian PARENT FOLDER`.

A run that ends normally cleans up itself and reports it by one byte on this process's standard input. When the input
ends without the byte, or the parent is gone, the guardian cleans up: after `kill -9`, a timeout of the CI, or
`os._exit`.

It finds the processes by the folder, which was made for this run. The folder is in each broker's arguments, and is the
working directory of the Redis server. So even a process that started at the very end, and is in no state file, is
found.
"""

import os
import select
import shutil
import sys
from typing import Final

from yak.local.processes import end_processes_of

ALL_CLEAN: Final = b"."
_POLL_SECONDS: Final = 1.0
"""Interval of the parent check: the pipe ends at once, unless a process that the parent forked still holds it."""


def main() -> None:
    """Wait for the parent's end, then clean up."""
    parent, folder = int(sys.argv[1]), sys.argv[2]
    if wait_for_end(parent):
        return
    clean_up(folder)


def wait_for_end(parent: int) -> bool:
    """Wait for the end of the run; return whether it cleaned up itself."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _POLL_SECONDS)
        if readable:
            return os.read(0, 1) == ALL_CLEAN
    return False


def clean_up(folder: str) -> None:
    """Kill every process of the folder and delete it."""
    end_processes_of(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
