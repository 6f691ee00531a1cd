"""The results of Apache Kafka's tests: what counts as a surprise, and the page."""

import json
from pathlib import Path

import pytest

from tests.kafka import results

FOLDER = Path(__file__).resolve().parents[2] / "kafka"


def line(method: str, status: str, reason: str = "") -> str:
    return json.dumps(
        {"class": "a.B", "method": method, "name": method, "status": status, "reason": reason, "took_ms": 1}
    )


@pytest.fixture
def read(tmp_path: Path) -> object:
    path = tmp_path / "a.B.jsonl"
    path.write_text(
        "\n".join(
            [
                line("good", "successful"),
                line("good", "failed", "java.lang.AssertionError: 1 is not 2"),
                line("good", "failed", "another"),
                line("fixed", "successful"),
                line("inside", "failed", "yak.InProcessOnly: in-process only: controllers()"),
                line("later", "skipped", "combined mode"),
                line("unless", "aborted", "an assumption"),
                json.dumps({"note": "dropped", "text": "a.b=c: unknown"}),
                json.dumps({"class": "a.B", "name": "B", "status": "failed", "reason": "hung", "took_ms": 0}),
            ]
        )
    )
    return results.read_results("a.B", path)


def test_every_invocation_has_a_kind(read: object) -> None:
    kind = results.Kind
    assert read.counts == {kind.PASSED: 2, kind.FAILED: 3, kind.IN_PROCESS: 1, kind.SKIPPED: 2}
    assert read.failures() == {"B.good": "java.lang.AssertionError: 1 is not 2", "B": "hung"}
    assert read.dropped == {"a.b=c: unknown"}


def test_new_failures_and_known_ones_that_pass_are_surprises(read: object) -> None:
    known = results.Known({"B.fixed": "was broken", "B": "hangs"}, {"B.unseen": "a race"})
    assert known.surprises([read]) == [
        "B.good fails: java.lang.AssertionError: 1 is not 2",
        "B.fixed passes: remove it from known_failures.toml",
    ]
    assert results.Known({"B": "hangs"}, {"B.good": "a race", "B.fixed": "a race"}).surprises([read]) == []


def test_the_page_counts_explains_and_lists(read: object) -> None:
    page = results.page(
        {"clients": [read]}, {"ShareConsumerTest": "no share groups"}, results.Known({"B": "hangs"}, {}), "4.3.1"
    )
    assert "**2 of 5 invocations that can run against a process pass (40.0%).** 1 more" in page
    assert "| B | 2 | 3 | 1 | 2 |" in page
    assert "- `B`: hangs" in page
    assert "- `B.good`: not explained: java.lang.AssertionError: 1 is not 2" in page
    assert "- ShareConsumerTest: no share groups." in page
    assert "- `a.b=c: unknown`" in page


def test_the_known_failures_have_reasons() -> None:
    known = results.Known.read(FOLDER / "known_failures.toml")
    assert not set(known.always) & set(known.sometimes)
    assert all("." in test and why.strip() for test, why in {**known.always, **known.sometimes}.items())
