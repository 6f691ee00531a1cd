"""Ends the wait for a master that took the connection and then says nothing: PySpark itself has no bound for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psutil

from yak.spark.session.settings import SessionSettings

_LOOK_S: Final = 1.0
_WORKS: Final = 0.03
"""Java that starts takes more of a core than this, on a busy machine too; Java that waits for an answer takes less."""


@contextmanager
def bounded(settings: SessionSettings) -> Iterator[threading.Event]:
    """While a session is made: end its JVM when that has waited for `answer_s` in all; the event is then set.

    Only time in which Java does nothing counts: its own start, which may take a minute on a busy machine, is not the
    master's silence.
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
    """Seconds of a core that a process has used; 0 when it is gone."""
    try:
        used = psutil.Process(process.pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)
