"""What a broker printed since a test began."""

from pathlib import Path

import pytest

from yak.testing import cluster
from yak.testing.cluster import BrokerLogs, last_lines


def test_broker_log_is_read_only_after_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "node-1.log"
    logs = BrokerLogs({1: str(path), 2: str(tmp_path / "node-2.log")})
    path.write_text("of the start\n")
    assert logs.read(1) == "of the start\n"
    logs.mark()
    assert logs.read(1) == ""
    with path.open("a") as log:
        log.write("of the test\n")
    assert logs.read(1) == "of the test\n"
    assert logs.tails(5) == {1: "of the test", 2: ""}


def test_a_log_that_was_put_aside_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "node-1.log"
    path.write_text("long\n" * 10)
    logs = BrokerLogs({1: str(path)})
    logs.mark()
    path.write_text("new\n")
    assert logs.read(1) == "new\n"


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_READ_AT_MOST_BYTES", 4)
    path = tmp_path / "node-1.log"
    path.write_text("0123456789")
    assert BrokerLogs({1: str(path)}).read(1) == "6789"


def test_a_tail_says_how_much_it_leaves_out() -> None:
    assert last_lines("a\nb\nc\n", 2) == "(1 lines before)\nb\nc"
    assert last_lines("a\nb\n", 2) == "a\nb"
    assert last_lines("", 2) == ""
