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
from typing import Final

from yak.local.leftovers import end_processes_of

ALL_CLEAN: Final = b"."
_LOOK_EVERY_SECONDS: Final = 1.0
"""For the parent's death: the pipe tells at once, unless a process that the parent forked still holds it."""


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
    """Kill every process of the folder and delete it."""
    end_processes_of(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
