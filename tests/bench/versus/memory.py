"""A machine's memory, touched once before anything is measured.

A virtual machine gets its memory from its host page by page, when a page is first written: a file of 2 GB on one that had
just started took 24 s, and 2 s where the same pages had been in use. So whoever's turn is first pays for all.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESERVE_BYTES = 3 << 30
"""Left for what runs."""
_MEMINFO = Path("/proc/meminfo")
_TOUCH = """
import mmap, sys
size = int(sys.argv[1])
pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, mmap.PAGESIZE):
    pages[at] = 1
"""


def touch_memory(say: Callable[[str], None]) -> None:
    """Write to every page that is free; nothing where that cannot be known. It ends with the process that does it."""
    available = available_bytes()
    if available is None or available <= RESERVE_BYTES:
        return
    size = available - RESERVE_BYTES
    say(f"touching {size / 2**30:.0f} GiB of memory, which a virtual machine may not have been given yet")
    started_s = time.monotonic()
    # a process of its own: what it took is free again, whatever happens
    subprocess.run([sys.executable, "-c", _TOUCH, str(size)], check=False)
    say(f"touched in {time.monotonic() - started_s:.0f} s")


def available_bytes() -> int | None:
    """What could be had without swapping, as Linux says."""
    if not _MEMINFO.exists():
        return None
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None
