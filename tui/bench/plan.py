"""The benchmarks, their options, and the resulting command line. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from yak.errors import UsageError

_DURATION: Final = re.compile(r"\d+(\.\d+)?(ms|s|m|h)?")
_SIZE: Final = re.compile(r"\d+(\.\d+)?\s*([kKmM](i?[bB])?|[bB])?")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: a flag of `yak bench`. `form` selects its check.

    `value` is the proposed value. The command line omits it if it is the command's own default.
    """

    name: str
    label: str
    flag: str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    form: str = "text"
    is_usual: bool = True
    """Whether the proposed value is the command's default."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A benchmark of `yak bench`."""

    name: str
    words: str
    options: tuple[Option, ...]
    is_on_cluster: bool = True
    """Whether it runs on the visible cluster, instead of one of its own."""


_TOPIC: Final = Option("topic", "Topic", "--topic", "yak-bench", "made if it is not there")
_PARTITIONS: Final = Option("partitions", "Partitions", "--partitions", "", "of a new topic", form="number")
_CLIENTS: Final = Option("clients", "Clients", "--clients", "1", "processes", form="number")
_SIZE_OPTION: Final = Option("size", "Bytes of a value", "--size", "100", "100, 1KB", form="size")
_DURATION_OPTION: Final = Option("duration", "Duration", "--duration", "10s", "10s, 1m", form="duration")
_ACKS: Final = Option("acks", "Acknowledgements", "--acks", "all", choices=("all", "1", "0"))
_COMPRESSION: Final = Option(
    "compression", "Compression", "--compression", "none", choices=("none", "gzip", "snappy", "lz4", "zstd")
)


def _rate(value: str, hint: str) -> Option:
    return Option("throughput", "Records a second", "--throughput", value, hint, form="number")


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            "produce", "writes as fast as it goes, or at a rate",
            (
                _TOPIC, _PARTITIONS, _CLIENTS, _SIZE_OPTION, _rate("", "as fast as it goes"),
                replace(_DURATION_OPTION, is_usual=False), _ACKS, _COMPRESSION,
            ),
        ),
        Kind(
            "consume", "reads a topic from its start to its end",
            (_TOPIC, _CLIENTS, Option("msgs", "Records", "--msgs", "", "all that there are", form="number")),
        ),
        Kind(
            "latency", "times each acknowledgement at a steady rate",
            (_TOPIC, _PARTITIONS, _CLIENTS, _SIZE_OPTION, _rate("1000", ""), _DURATION_OPTION, _ACKS, _COMPRESSION),
        ),
        Kind(
            "e2e", "times records from the producer's call to the consumer's hand",
            (_TOPIC, _PARTITIONS, _CLIENTS, _SIZE_OPTION, _rate("1000", ""), _DURATION_OPTION, _ACKS, _COMPRESSION),
        ),
        Kind(
            "failover", "kills leaders of a cluster of its own, and counts",
            (
                Option("mode", "How", "--mode", "kill", choices=("kill", "pause")),
                Option("kills", "Kills", "--kills", "5", form="number", is_usual=False),
                _rate("1000", ""), _SIZE_OPTION,
            ),
            is_on_cluster=False,
        ),
    )
}  # fmt: skip


def arguments(kind: Kind, values: Mapping[str, str], bootstrap: str) -> list[str]:
    """The arguments of `yak`. Raises UsageError `bad-bench-option`."""
    words = ["bench", kind.name]
    if kind.is_on_cluster:
        words += ["-b", bootstrap.partition(",")[0]]
    for option in kind.options:
        value = values.get(option.name, "").strip()
        if value and not (option.is_usual and value == option.value):
            _check(option, value)
            words += [option.flag, value]
    return words


def command_line(words: list[str]) -> str:
    """The shell command."""
    return shlex.join(["yak", *words])


def settings_words(kind: Kind, values: Mapping[str, str]) -> str:
    """The options that differ from their defaults, for a table."""
    chosen = [
        f"{option.name} {values[option.name]}"
        for option in kind.options
        if values.get(option.name) and values[option.name] != option.value
    ]
    return ", ".join(chosen)


def _check(option: Option, value: str) -> None:
    forms = {
        "number": (_NUMBER, "a number"),
        "size": (_SIZE, "a size, as 100 or 1KB"),
        "duration": (_DURATION, "a time, as 10s"),
    }
    if option.form not in forms:
        return
    pattern, what = forms[option.form]
    if not pattern.fullmatch(value):
        raise UsageError("bad-bench-option", f'{option.label}: "{value}" is not {what}')
