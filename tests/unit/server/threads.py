"""A system that starts no thread."""

import threading

import pytest
from trio._core import _thread_cache

from yak.server import jobs


def start_no_thread(monkeypatch: pytest.MonkeyPatch, times: int) -> list[RuntimeError]:
    """Fail that many starts of a thread. Returns the failures that are left.

    A container may have a limit of processes, which those of others reach too (pids.max of cgroups).
    """
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")] * times

    def failing(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(jobs, "_THREAD_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(_thread_cache, "THREAD_CACHE", _thread_cache.ThreadCache())
    monkeypatch.setattr(threading.Thread, "start", failing)
    return failures
