"""The results of the clients' tests: four forms of reports, what is known of their failures, and the page."""

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

from tests.clients.suites import SUITES, Suite


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


def read_jest(text: str) -> dict[str, Kind]:
    """The lines of `jest_files.py`. A file that did not end is a failed test."""
    kinds: dict[str, Kind] = {}
    for line in text.splitlines():
        report: dict[str, Any] = json.loads(line)
        file = report["file"].removeprefix("src/").removesuffix(".spec.js").replace("__tests__/", "")
        if report["tests"] is None:
            kinds[file] = Kind.FAILED
        for title, status in report["tests"] or []:
            kind = {"passed": Kind.PASSED, "failed": Kind.FAILED}.get(status, Kind.SKIPPED)
            name = f"{file}: {title}"
            if kind is Kind.FAILED or kinds.get(name) is not Kind.FAILED:
                kinds[name] = kind
    return kinds


_FORMS: Final[Mapping[str, Callable[[str], dict[str, Kind]]]] = {
    "junit": read_junit,
    "go": read_go,
    "librdkafka": read_librdkafka,
    "jest": read_jest,
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


def page(ran: Iterable[Results], known: Known, written: str = "") -> str:
    """docs/clients.md. A suite that has no results keeps what is `written` about it."""
    found = {each.suite: each for each in ran}
    rows, failures = [], []
    for suite in SUITES:
        kept = [line for line in written.splitlines() if line.startswith((f"| [{suite.name}]", f"- {suite.name} `"))]
        if suite.name in found:
            kept = _lines(suite, found[suite.name], known)
        rows += [line for line in kept if line.startswith("|")]
        failures += [line for line in kept if line.startswith("-")]
    lines = [
        "# The clients' own tests",
        "",
        "`make client-suites` fetches the sources of these libraries at the tags below, and runs the tests that need a",
        "broker against YAK, unmodified. It writes this page. `ARGS=NAME` runs one of them.",
        "",
        "| Library | Tag | Passed | Failed | Skipped | Left out |",
        "|---|---|--:|--:|--:|---|",
    ]
    return "\n".join([*lines, *rows, "", "## Failures", "", *failures, ""])


def _lines(suite: Suite, results: Results, known: Known) -> list[str]:
    """A suite's row and the lines of its failures."""
    numbers = " | ".join(str(results.counts[kind]) for kind in Kind)
    return [
        f"| [{suite.name}]({suite.url}) | {suite.tag} | {numbers} | {suite.left_out} |",
        *(f"- {suite.name} `{test}`: {known.why(suite.name, test) or 'not explained'}." for test in results.failures),
    ]
