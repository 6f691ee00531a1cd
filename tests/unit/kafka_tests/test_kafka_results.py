"""The results of Apache Kafka's tests: what counts as a surprise, and the page."""

import json
import re
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
        {"clients": [read]},
        {"ShareConsumerTest": "no share groups"},
        results.Known({"B": "hangs"}, {}),
        "4.3.1",
        ["a.b=c: unknown"],
    )
    assert "**2 of 5 invocations that can run against a process pass (40.0%).** 1 more" in page
    assert "| B | 2 | 3 | 1 | 2 |" in page
    assert "- `B`: hangs" in page
    assert "- `B.good`: not explained: java.lang.AssertionError: 1 is not 2" in page
    assert "- ShareConsumerTest: no share groups." in page
    assert "- `a.b=c: unknown`" in page


def test_page_of_a_run_of_some_classes_keeps_the_rows_of_the_others(read: object) -> None:
    known = results.Known({"B": "hangs"}, {})
    page = results.page(
        {"clients": [read]}, {}, known, "4.3.1", [f"c.d={value}: Unknown config name: c.d" for value in ("1=2", "3")]
    )
    found, refused = results.read_page(page)
    assert (found["B"].counts, list(found["B"].failures())) == (read.counts, ["B.good", "B"])
    assert refused == [("c.d", "1=2"), ("c.d", "3")]
    assert results.refused_configs(["c.d=4: Invalid value 4 for configuration c.d: odd"]) == [("c.d", "4")]
    other = results.ClassResults("A", [results.Result("A.one", "one", results.Kind.PASSED, "", 1)])
    both = results.page({"clients": [other, found["B"]]}, {}, known, "4.3.1", ())
    assert "**3 of 6 invocations" in both
    assert "| B | 2 | 3 | 1 | 2 |" in both
    assert "- `B.good`: not explained: java.lang.AssertionError: 1 is not 2" in both


def test_published_page_is_read_whole() -> None:
    text = (FOLDER.parents[1] / "docs/kafka-tests.md").read_text()
    found, _refused = results.read_page(text)
    counts = [each.counts for each in found.values()]
    passed, failed = (sum(each[kind] for each in counts) for kind in (results.Kind.PASSED, results.Kind.FAILED))
    assert f"**{passed} of {passed + failed} invocations that can run against a process pass" in text
    assert {test for each in found.values() for test in each.failures()} == set(re.findall(r"- `(\w+\.\w+)`: ", text))


def test_the_known_failures_have_reasons() -> None:
    known = results.Known.read(FOLDER / "known_failures.toml")
    assert not set(known.always) & set(known.sometimes)
    assert all("." in test and why.strip() for test, why in {**known.always, **known.sometimes}.items())
