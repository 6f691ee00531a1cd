"""Bounds the wait for a master that accepts a connection and does not answer; PySpark has no timeout for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psutil

from yak.spark.session.settings import SessionSettings

_LOOK_S: Final = 1.0
_WORKS: Final = 0.03
"""Share of a core. A starting Java uses more, even on a busy machine; a waiting Java uses less."""


@contextmanager
def bounded(settings: SessionSettings) -> Iterator[threading.Event]:
    """While a session is made: kill its JVM after it has waited for `answer_s` in total, and set the event.

    Only idle time of Java counts: its own start, which may take a minute on a busy machine, is not the master's delay.
    """
    is_late = threading.Event()
    if settings.is_local or settings.is_connect:
        yield is_late
        return
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(settings.answer_s, done, is_late), daemon=True)
    watch.start()
    try:
        yield is_late
    finally:
        done.set()


def _watch(answer_s: float, done: threading.Event, is_late: threading.Event) -> None:
    from pyspark import SparkContext

    waited_s, worked_s = 0.0, 0.0
    while not done.wait(_LOOK_S):
        gateway = SparkContext._gateway  # noqa: SLF001 - the process that PySpark started has no other name
        if gateway is None or gateway.proc is None:
            continue
        now_s = _worked_s(gateway.proc)
        waited_s += _LOOK_S if now_s - worked_s < _WORKS * _LOOK_S else 0.0
        worked_s = now_s
        if waited_s > answer_s:
            is_late.set()
            gateway.proc.kill()
            return


def _worked_s(process: Any) -> float:
    """CPU seconds of a process; 0 after it has ended."""
    try:
        used = psutil.Process(process.pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)
