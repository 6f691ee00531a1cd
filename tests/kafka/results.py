"""The results of Apache Kafka's tests, what is known of their failures, and the page that shows both."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

_REASON_CHARS: Final = 160


class Kind(StrEnum):
    """How an invocation of a test ended, as a column of the page."""

    PASSED = "passed"
    FAILED = "failed"
    IN_PROCESS = "in-process"
    """It needs the objects of a broker inside the test's JVM."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """One invocation. `test` is Class.method; a failure outside of any method has the name of the class."""

    test: str
    name: str
    kind: Kind
    reason: str
    took_ms: int


@dataclass(slots=True)
class ClassResults:
    """The results of one test class."""

    name: str
    results: list[Result] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)
    """Broker configs that YAK refused."""

    @property
    def counts(self) -> Counter[Kind]:
        """The number of invocations by kind."""
        return Counter(result.kind for result in self.results)

    def failures(self) -> dict[str, str]:
        """The first reason of each test that failed."""
        found: dict[str, str] = {}
        for result in self.results:
            if result.kind is Kind.FAILED:
                found.setdefault(result.test, result.reason)
        return found


def read_results(name: str, path: Path) -> ClassResults:
    """The results of a class in the file that `ResultWriter.java` wrote."""
    simple = name.rpartition(".")[2]
    read = ClassResults(simple)
    for line in path.read_text().splitlines():
        raw = json.loads(line)
        if "note" in raw:
            read.dropped.add(raw["text"])
            continue
        test = f"{simple}.{raw['method']}" if "method" in raw else simple
        read.results.append(
            Result(test, raw["name"], _kind(raw["status"], raw["reason"]), raw["reason"], raw["took_ms"])
        )
    return read


_ROW: Final = re.compile(r"\| (\w+) \| (\d*) \| (\d*) \| (\d*) \| (\d*) \|")
_FAILURE: Final = re.compile(r"- `((\w+)(?:\.\w+)?)`: (?:not explained: )?(.*)")
_DROPPED: Final = re.compile(r"(?:- `)?([^=]+)=(.*?): (?:Unknown config name|Invalid value|Null value).*")


def read_page(text: str) -> tuple[dict[str, ClassResults], list[tuple[str, str]]]:
    """What a page that `page` wrote says: the results of each class, and the (name, value) of broker configs that YAK
    refused.

    A page names the tests that failed, and only counts the other invocations.
    """
    found: dict[str, ClassResults] = {}
    failed: dict[str, list[tuple[str, str]]] = {}
    rows, _, rest = text.partition("## Failures")
    failures, _, refused = rest.partition("## Left out")
    for test, name, reason in _FAILURE.findall(failures):
        failed.setdefault(name, []).append((test, reason))
    for name, *columns in _ROW.findall(rows):
        counts = dict(zip(Kind, (int(column or 0) for column in columns), strict=True))
        named = [Result(test, "", Kind.FAILED, reason, 0) for test, reason in failed.get(name, [])]
        more = counts[Kind.FAILED] - len(named)
        others = [Result("", "", kind, "", 0) for kind in Kind if kind is not Kind.FAILED for _ in range(counts[kind])]
        found[name] = ClassResults(name, [*named, *named[-1:] * more, *others])
    return found, refused_configs(refused.splitlines())


def refused_configs(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The (name, value) of each broker config that these notes, or lines of a page, say is refused."""
    return [match.groups() for line in lines if (match := _DROPPED.fullmatch(line)) is not None]  # type: ignore[misc]


def _kind(status: str, reason: str) -> Kind:
    if status == "successful":
        return Kind.PASSED
    if status in {"skipped", "aborted"}:
        return Kind.SKIPPED
    return Kind.IN_PROCESS if "in-process only: " in reason else Kind.FAILED


@dataclass(frozen=True, slots=True)
class Known:
    """Tests that may fail, with the reason, from `known_failures.toml`. Those under `[sometimes]` may also pass."""

    always: Mapping[str, str]
    sometimes: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> "Known":
        """The known failures in a file."""
        raw = tomllib.loads(path.read_text())
        return cls(raw.get("always", {}), raw.get("sometimes", {}))

    def why(self, test: str) -> str | None:
        """Why a test fails."""
        return self.always.get(test) or self.sometimes.get(test)

    def surprises(self, classes: Iterable[ClassResults]) -> list[str]:
        """What differs from what is known, a sentence each: new failures, and known ones that have gone."""
        said = []
        for each in classes:
            failed = each.failures()
            said += [f"{test} fails: {reason}" for test, reason in failed.items() if self.why(test) is None]
            ran = {result.test for result in each.results if result.kind is Kind.PASSED}
            said += [
                f"{test} passes: remove it from known_failures.toml"
                for test in sorted(ran - failed.keys())
                if test in self.always
            ]
        return said


def page(
    suites: Mapping[str, list[ClassResults]],
    left_out: Mapping[str, str],
    known: Known,
    version: str,
    refused: Iterable[str],
) -> str:
    """docs/kafka-tests.md. `refused` says which broker configs YAK refuses."""
    everything = [each for classes in suites.values() for each in classes]
    total = sum((each.counts for each in everything), Counter[Kind]())
    decided = total[Kind.PASSED] + total[Kind.FAILED]
    lines = [
        "# Apache Kafka's own tests",
        "",
        f"`make kafka-tests` fetches the integration tests that Apache Kafka {version} publishes on Maven Central and runs",
        "them unmodified. A few Java classes come before Kafka's on the class path (`tests/kafka/java`): where Kafka's own",
        "would start brokers inside the test's JVM, they start `yak serve` processes. The command writes this page.",
        "",
        (
            f"**{total[Kind.PASSED]} of {decided} invocations that can run against a process pass"
            f" ({total[Kind.PASSED] / max(decided, 1):.1%}).** {total[Kind.IN_PROCESS]} more look into the broker's objects"
            f" and cannot run out of process. {total[Kind.SKIPPED]} are skipped: those with TLS or SASL listeners, the repetitions"
            " in Kafka's combined mode, those with streams groups (KIP-1071), which YAK does not have, and those that Kafka"
            " itself disables."
        ),
        "",
    ]
    for suite, classes in suites.items():
        lines += [
            f"## {suite.capitalize()}",
            "",
            "| Class | Passed | Failed | In-process | Skipped |",
            "|---|--:|--:|--:|--:|",
        ]
        for each in classes:
            counts = each.counts
            lines.append(f"| {each.name} | {' | '.join(str(counts[kind]) if counts[kind] else '' for kind in Kind)} |")
        lines.append("")
    lines += ["## Failures", ""]
    for each in everything:
        lines += [
            f"- `{test}`: {known.why(test) or 'not explained: ' + _short(reason)}"
            for test, reason in each.failures().items()
        ]
    lines += ["", "## Left out", "", *(f"- {name}: {why}." for name, why in left_out.items())]
    lines += [
        "",
        "## Broker configs that YAK refuses",
        "",
        "These were not passed on:",
        "",
        *(f"- `{each}`" for each in sorted(refused)),
        "",
    ]
    return "\n".join(lines)


def _short(reason: str) -> str:
    return reason if len(reason) <= _REASON_CHARS else reason[:_REASON_CHARS] + "…"
