"""Find and kill the processes of a folder, including processes that no state file lists.

For folders that were made for one run and are deleted with every process that works in them.
"""

import os
import time
from typing import Final

from yak.local.processes import identify, kill

_AGAIN_AFTER_SECONDS: Final = 0.05
_ROUNDS_MAX: Final = 100


def end_processes_of(folder: str) -> None:
    """Kill every process of the folder, until two scans in a row find none."""
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


def processes_of(folder: str) -> list[int]:
    """Pids of this user's brokers with data below a folder, and of processes without a terminal that work in it.

    A user's editor or shell in the folder has a terminal, and is left out.
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
