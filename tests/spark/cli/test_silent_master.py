"""The bound for a master that says nothing counts the time in which Java waits, not that in which it starts."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark")

from yak.spark.session.settings import SessionSettings  # noqa: E402
from yak.spark.session.silence import bounded  # noqa: E402

SETTINGS = SessionSettings(master="spark://127.0.0.1:1", answer_s=1.5)


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives a function that starts a program in Java's place."""
    started = []

    def start(program: str) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen([sys.executable, "-c", program])
        started.append(child)
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", SimpleNamespace(proc=child))
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


def test_java_that_works_is_let_go_on_however_long_it_takes(java: Any) -> None:
    with bounded(SETTINGS) as is_late:
        child = java("while True: pass")
        assert not is_late.wait(5)
    assert child.poll() is None


def test_java_that_waits_is_ended(java: Any) -> None:
    with bounded(SETTINGS) as is_late:
        child = java("import time; time.sleep(300)")
        assert is_late.wait(60)
        assert child.wait(30) != 0


def test_after_the_session_was_made_nothing_is_ended(java: Any) -> None:
    before = threading.active_count()
    with bounded(SETTINGS):
        child = java("import time; time.sleep(300)")
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(4)
    assert threading.active_count() <= before
