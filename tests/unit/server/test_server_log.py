import io
import json
import logging

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


def test_text_lines_name_the_event_and_its_fields() -> None:
    stream = io.StringIO()
    log.set_up("text", "info", stream)
    log.write("info", "ready", {"node": 1, "why": "all is\nwell", "empty": ""})
    log.write("debug", "unseen")
    line = stream.getvalue()
    assert line.endswith('INFO    ready node=1 why="all is\\nwell" empty=""\n')
    assert line.count("\n") == 1


def test_json_lines_are_objects_with_the_traceback_in_them() -> None:
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
def test_unknown_formats_and_levels_are_refused(log_format: str, level: str) -> None:
    with pytest.raises(UsageError):
        log.set_up(log_format, level)


def test_a_rate_limit_counts_what_it_holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    limit = log.RateLimit(burst=2, per_seconds=10)
    assert [limit.held_back("a") for _ in range(5)] == [0, 0, None, None, None]
    assert limit.held_back("b") == 0
    now[0] = 11
    assert limit.held_back("a") == 3
    assert limit.held_back("a") == 0


def test_a_rate_limit_forgets_old_keys_rather_than_grow() -> None:
    limit = log.RateLimit(keys_max=3)
    for number in range(10):
        limit.held_back(str(number))
    assert len(limit._windows) == 3


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_fields_of_every_line_are_in_each_line_and_an_event_has_its_own(log_format: str) -> None:
    stream = io.StringIO()
    log.set_up(log_format, "info", stream, {"node_id": 7})
    log.write("info", "one", {"a": 1})
    log.write("info", "two", {"node_id": 8})
    one, two = stream.getvalue().splitlines()
    assert ("node_id=7 a=1" in one) if log_format == "text" else (json.loads(one)["node_id"] == 7)
    assert ("node_id=8" in two) if log_format == "text" else (json.loads(two)["node_id"] == 8)
