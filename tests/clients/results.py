"""The results of the clients' tests: three forms of reports, what is known of their failures, and the page."""

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.clients.suites import NOT_RUN, SUITES, Suite


class Kind(StrEnum):
    """How a test ended, as a column of the page."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Results:
    """The tests of one suite by name."""

    suite: str
    kinds: Mapping[str, Kind]

    @property
    def counts(self) -> Counter[Kind]:
        """The number of tests by kind."""
        return Counter(self.kinds.values())

    @property
    def failures(self) -> list[str]:
        """The names of the tests that failed, sorted."""
        return sorted(name for name, kind in self.kinds.items() if kind is Kind.FAILED)


def read_results(suite: Suite, report: Path) -> Results:
    """The results in the report that a suite's tests wrote; none if they wrote none."""
    text = report.read_text(errors="replace") if report.exists() else ""
    return Results(suite.name, _FORMS[suite.report](text) if text else {})


def read_junit(text: str) -> dict[str, Kind]:
    """pytest's JUnit XML."""
    kinds = {}
    for case in ET.fromstring(text).iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        if failed:
            kinds[name] = Kind.FAILED
        else:
            kinds.setdefault(name, Kind.PASSED if case.find("skipped") is None else Kind.SKIPPED)
    return kinds


def read_go(text: str) -> dict[str, Kind]:
    """`go test -json`: tests without subtests. A test that began and did not end, as after a panic, failed."""
    ended: dict[str, Kind] = {}
    for line in text.splitlines():
        event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        test = event.get("Test")
        if test and event["Action"] == "run":
            ended[test] = Kind.FAILED
        elif test and event["Action"] in {"pass", "skip"}:
            ended[test] = Kind.PASSED if event["Action"] == "pass" else Kind.SKIPPED
    parents = {name.rpartition("/")[0] for name in ended}
    return {name: kind for name, kind in ended.items() if name not in parents}


def read_librdkafka(text: str) -> dict[str, Kind]:
    """The report of librdkafka's test-runner, whose texts may break its JSON."""
    return {
        name: Kind(state.lower()) if state in {"PASSED", "SKIPPED"} else Kind.FAILED
        for name, state in re.findall(r'"name": "(\w+)", "state": "([\w ]+)"', text)
        if name != "<MAIN>" and state != "DID NOT RUN"
    }


_FORMS: Final[Mapping[str, Callable[[str], dict[str, Kind]]]] = {
    "junit": read_junit,
    "go": read_go,
    "librdkafka": read_librdkafka,
}


@dataclass(frozen=True, slots=True)
class Known:
    """By suite: tests that fail, or may fail, with the reason, from `known_failures.toml`."""

    always: Mapping[str, Mapping[str, str]]
    sometimes: Mapping[str, Mapping[str, str]]

    @classmethod
    def read(cls, path: Path) -> "Known":
        """The known failures in a file."""
        raw = tomllib.loads(path.read_text())
        return cls(raw.get("always", {}), raw.get("sometimes", {}))

    def why(self, suite: str, test: str) -> str | None:
        """Why a test fails."""
        return self.always.get(suite, {}).get(test) or self.sometimes.get(suite, {}).get(test)

    def surprises(self, ran: Iterable[Results]) -> list[str]:
        """What differs from what is known, a sentence each: new failures, and known ones that have gone."""
        said = []
        for each in ran:
            if not each.kinds:
                said.append(f"{each.suite}: no test ran")
            said += [f"{each.suite}: {test} fails" for test in each.failures if self.why(each.suite, test) is None]
            said += [
                f"{each.suite}: {test} passes: remove it from known_failures.toml"
                for test in self.always.get(each.suite, {})
                if each.kinds.get(test) is Kind.PASSED
            ]
        return said


def page(ran: Iterable[Results], known: Known) -> str:
    """docs/clients.md."""
    found = {each.suite: each for each in ran}
    lines = [
        "# The clients' own tests",
        "",
        "`make client-suites` fetches the sources of these libraries at the tags below, and runs the tests that need a",
        "broker against YAK, unmodified. It writes this page. `ARGS=NAME` runs one of them.",
        "",
        "| Library | Tag | Passed | Failed | Skipped | Left out |",
        "|---|---|--:|--:|--:|---|",
    ]
    for suite in SUITES:
        if suite.name in found:
            counts = found[suite.name].counts
            numbers = " | ".join(str(counts[kind]) for kind in Kind)
            lines.append(f"| [{suite.name}]({suite.url}) | {suite.tag} | {numbers} | {suite.left_out} |")
    lines += ["", "## Failures", ""]
    for each in found.values():
        lines += [
            f"- {each.suite} `{test}`: {known.why(each.suite, test) or 'not explained'}." for test in each.failures
        ]
    lines += ["", "## Not run", "", *(f"- {name}: {why}." for name, why in NOT_RUN.items()), ""]
    return "\n".join(lines)
