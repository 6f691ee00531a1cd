"""Reads offsets from a file, for `yak groups reset --from-file`. Pure.

It accepts the `--export` files of Kafka's tool, and the CSV output of `yak groups`. Lines are `topic,partition,offset`,
or `group,topic,partition,offset` (the two forms of kafka-consumer-groups.sh). With a header the columns may have any
order and others beside them: `offset`, else `after` or `committed_offset`, is the offset to commit.
"""

import csv
from collections.abc import Iterator, Mapping
from shlex import quote

from yak.client.numbers import parse_long
from yak.errors import UsageError
from yak.ids import Offset, TopicPartition

_OFFSET_COLUMNS = ("offset", "after", "committed_offset")
_CHARACTERS_MAX = 16 * 1024 * 1024
_PLAIN = ("topic", "partition", "offset")


def parse_offsets(text: str, group: str, name: str) -> dict[TopicPartition, Offset]:
    """The offsets for one group; lines of other groups are skipped. Raises UsageError (`offsets-file`)."""
    found: dict[TopicPartition, Offset] = {}
    columns: list[str] = []
    for number, cells in _rows(text, name):
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        if not columns:
            columns = _columns(cells, name)
            if columns == cells:
                continue
        row = dict(zip(columns, cells, strict=False))
        if len(cells) != len(columns):
            raise _bad(name, number, f"it has {len(cells)} cells, and {len(columns)} are needed")
        if row.get("group", group) != group:
            continue
        partition, offset = _numbers(row, name, number)
        if offset is None:
            continue
        place = TopicPartition(row["topic"], partition)
        if found.setdefault(place, offset) != offset:
            raise _bad(name, number, f"{place} is there twice, with {found[place]} and {offset}")
    if not found:
        raise UsageError(
            "offsets-file",
            f'{name} has no offsets for group "{group}"',
            why="lines are TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET",
            try_=(f"yak groups describe {quote(group)} -o csv",),
        )
    return found


def read_text(path: str) -> str:
    """The whole file. Raises UsageError (`offsets-file`)."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            "offsets-file",
            f"{path} cannot be read",
            why=f"{reason}".lower(),
            try_=(f"ls -l {path}", "yak groups describe GROUP -o csv          prints such a file"),
        ) from None
    if len(text) > _CHARACTERS_MAX:
        raise UsageError("offsets-file", f"{path} is too large", why="a file with a line for each partition is smaller")
    return text


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    rows, number = csv.reader(text.removeprefix("\ufeff").splitlines()), 0
    try:
        for number, cells in enumerate(rows, 1):
            yield number, cells
    except csv.Error as error:
        raise _bad(name, number + 1, str(error)) from None


def _columns(first: list[str], name: str) -> list[str]:
    if "topic" in first and "partition" in first and any(each in first for each in _OFFSET_COLUMNS):
        return first
    if len(first) == len(_PLAIN):
        return list(_PLAIN)
    if len(first) == len(_PLAIN) + 1:
        return ["group", *_PLAIN]
    raise _bad(name, 1, f"it has {len(first)} cells, and no header that names topic, partition and offset")


def _numbers(row: Mapping[str, str], name: str, number: int) -> tuple[int, Offset | None]:
    """Partition and offset; None without a committed offset."""
    text = next(row[each] for each in _OFFSET_COLUMNS if each in row)
    partition = parse_long(row["partition"])
    if partition is None:
        raise _bad(name, number, f'"{row["partition"]}" is no partition')
    if text in ("", "-"):
        return partition, None
    offset = parse_long(text)
    if offset is None:
        raise _bad(name, number, f'"{text}" is no offset')
    return partition, offset


def _bad(name: str, number: int, why: str) -> UsageError:
    return UsageError("offsets-file", f"line {number} of {name} cannot be read", why=why)
