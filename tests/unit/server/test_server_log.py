import fcntl
import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from yak.errors import UsageError
from yak.server import log


@pytest.fixture(autouse=True)
def _restore_logger() -> object:
    before = (log.LOGGER.handlers[:], log.LOGGER.level, log.LOGGER.propagate, logging.raiseExceptions)
    yield
    log.LOGGER.handlers[:], log.LOGGER.propagate = before[0], before[2]
    log.LOGGER.setLevel(before[1])
    logging.raiseExceptions = before[3]


def test_text_lines_name_the_event_and_its_fields():
    stream = io.StringIO()
    log.set_up("text", "info", stream)
    log.write("info", "ready", {"node": 1, "why": "all is\nwell", "empty": ""})
    log.write("debug", "unseen")
    line = stream.getvalue()
    assert line.endswith('INFO    ready node=1 why="all is\\nwell" empty=""\n')
    assert line.count("\n") == 1


def test_json_lines_are_objects_with_the_traceback_in_them():
    stream = io.StringIO()
    log.set_up("json", "debug", stream)
    try:
        raise ValueError("oh")
    except ValueError as error:
        log.write("error", "bug", {"peer": "1.2.3.4:5"}, error=error)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["peer"]) == ("error", "bug", "1.2.3.4:5")
    assert "ValueError: oh" in line["traceback"]


@pytest.mark.parametrize(("log_format", "level"), [("xml", "info"), ("text", "loud")])
def test_unknown_formats_and_levels_are_refused(log_format, level):
    with pytest.raises(UsageError):
        log.set_up(log_format, level)


def test_a_rate_limit_counts_what_it_holds_back(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    limit = log.RateLimit(burst=2, per_seconds=10)
    assert [limit.held_back("a") for _ in range(5)] == [0, 0, None, None, None]
    assert limit.held_back("b") == 0
    now[0] = 11
    assert limit.held_back("a") == 3
    assert limit.held_back("a") == 0


def test_a_rate_limit_forgets_old_keys_rather_than_grow():
    limit = log.RateLimit(keys_max=3)
    for number in range(10):
        limit.held_back(str(number))
    assert len(limit._windows) == 3


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_fields_of_every_line_are_in_each_line_and_an_event_has_its_own(log_format):
    stream = io.StringIO()
    log.set_up(log_format, "info", stream, {"node_id": 7})
    log.write("info", "one", {"a": 1})
    log.write("info", "two", {"node_id": 8})
    one, two = stream.getvalue().splitlines()
    assert ("node_id=7 a=1" in one) if log_format == "text" else (json.loads(one)["node_id"] == 7)
    assert ("node_id=8" in two) if log_format == "text" else (json.loads(two)["node_id"] == 8)


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """The reading end of a small pipe, and its other end."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 8192)
    with os.fdopen(writing, "w") as stream:
        yield reading, stream
        os.close(reading)


def write_lines(count: int, fields: dict[str, object]) -> bool:
    """Whether so many lines are written, or dropped, in time."""
    thread = threading.Thread(
        target=lambda: [log.write("info", f"line-{n}", fields) for n in range(count)], daemon=True
    )
    thread.start()
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("size", [10, 30_000])
def test_log_whose_reader_hangs_loses_lines_and_stops_nothing(pipe, log_format, size):
    reading, stream = pipe
    log.set_up(log_format, "info", log.LastingStream(stream))
    assert write_lines(2000, {"text": "x" * size})
    found = os.read(reading, 1 << 16).decode()
    assert write_lines(1, {})
    after = os.read(reading, 1 << 16).decode()
    dropped, last = after.splitlines()[-2:]
    assert "log-lines-dropped" in dropped
    assert "line-0" in last
    whole = [line for line in (found + after).splitlines() if "line-" in line and "x" * size in line]
    assert f"{2000 - len(whole)}" in dropped


def test_log_line_longer_than_a_pipe_is_written_whole_to_a_reader_that_reads(pipe):
    reading, stream = pipe
    log.set_up("text", "info", log.LastingStream(stream))
    found: list[bytes] = []

    def read() -> None:
        while not found or not found[-1].endswith(b"\n"):
            found.append(os.read(reading, 1 << 16))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert write_lines(1, {"text": "é" * 30_000})
    reader.join(10)
    assert b"".join(found).decode().endswith("é" * 30_000 + "\n")
