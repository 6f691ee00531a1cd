"""A process that ends what a killed run leaves: `python -m yak.local.guardian PARENT FOLDER [delete]`.

A run that ends normally cleans up itself and reports it by one byte on this process's standard input. When the input
ends without the byte, or the parent is gone, the guardian cleans up: after `kill -9`, a timeout of the CI, or
`os._exit`.

It finds the processes by the folder, which was made for this run. The folder is in each broker's arguments, and is the
working directory of the Redis server. So even a process that started at the very end, and is in no state file, is
found.
"""

import contextlib
import os
import select
import shutil
import subprocess
import sys
from typing import Final, Self

from yak.local.processes import end_processes_of
from yak.local.spawn import Detached, yak_environment

ALL_CLEAN: Final = b"."
_DELETE: Final = "delete"
_POLL_SECONDS: Final = 1.0
"""Interval of the parent check: the pipe ends at once, unless a process that the parent forked still holds it."""
_END_SECONDS: Final = 5.0


class Guardian:
    """The guardian of this process's run, from now to `end`. `folder` is a real path, as the kernel reports.

    `deletes`: it also deletes the folder of a killed run.
    """

    def __init__(self, folder: str, *, deletes: bool = False) -> None:
        more = [_DELETE] if deletes else []
        self._child = Detached(
            [sys.executable, "-P", "-m", "yak.local.guardian", str(os.getpid()), folder, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=yak_environment(),
            start_new_session=True,
        )

    def end(self, *, is_clean: bool = True) -> None:
        """End the guardian; it cleans up first unless the run did."""
        assert self._child.stdin is not None
        if is_clean:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._child.stdin.fileno(), ALL_CLEAN)
        self._child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # on a loaded machine it may still be starting
            self._child.wait(_END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def main() -> None:
    """Wait for the parent's end, then clean up."""
    parent, folder, *more = sys.argv[1:]
    if not _wait_for_end(int(parent)):
        clean_up(folder, deletes=_DELETE in more)


def _wait_for_end(parent: int) -> bool:
    """Wait for the end of the run; return whether it cleaned up itself."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _POLL_SECONDS)
        if readable:
            return os.read(0, 1) == ALL_CLEAN
    return False


def clean_up(folder: str, *, deletes: bool) -> None:
    """Kill every process of the folder, and delete it if it is to be."""
    end_processes_of(folder)
    if deletes:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
