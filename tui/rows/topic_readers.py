"""Groups that read a topic, and the topic's latest records, as rows. Pure."""

import base64
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from yak.tui.look import Look, short, span
from yak.tui.rows.cells import Cell, Column, Row, Tone

GROUP_COLUMNS: Final = (
    Column("GROUP", 8, most=50, flex=1),
    Column("STATE", 8, most=20, flash=True),
    Column("MEMBERS", 3, is_right=True),
    Column("LAG", 5, is_right=True),
    Column("TREND", 10, rank=1),
    Column("ETA", 5, is_right=True, rank=2),
    Column("PARTITIONS", 6, is_right=True, rank=3),
)
TAIL_COLUMNS: Final = (
    Column("OFFSET", 8, is_right=True),
    Column("TIME", 10),
    Column("KEY", 4, most=24),
    Column("VALUE", 12, most=300, flex=1),
)
LAGS_KEPT: Final = 60
_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "Stable": ("good", "good"),
    "Empty": ("down", "dim"),
    "Dead": ("bad", "bad"),
}


@dataclass(slots=True)
class Reader:
    """A group's state on one topic; `lags` are samples of (time, records)."""

    group: str
    state: str
    members: int
    lag: int | None
    partitions: int
    lags: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=LAGS_KEPT))

    @property
    def eta_ms(self) -> float | None:
        """The time until the lag is 0 at the rate of the last samples; None if it does not fall."""
        if not self.lags or len(self.lags) < 2:
            return None
        (first_ms, first), (last_ms, last) = self.lags[max(0, len(self.lags) - 10)], self.lags[-1]
        if last == 0 or first <= last or last_ms <= first_ms:
            return None
        return last * (last_ms - first_ms) / (first - last)


def reader_of(topic: str, answer: Mapping[str, Any], known: Reader | None, now_ms: int) -> Reader | None:
    """The reader from `/api/groups/GROUP`; None if the group does not read the topic."""
    partitions = [each for each in answer["partitions"] if each["topic"] == topic]
    members = [
        each
        for each in answer["members"]
        if topic in (each["topics"] or ()) or any(part["topic"] == topic for part in each["assignment"] or ())
    ]
    if not partitions and not members:
        return None
    lags = [each["lag"] for each in partitions]
    lag = sum(each for each in lags if each is not None) if any(each is not None for each in lags) else None
    reader = Reader(answer["group"], answer["state"], len(members), lag, len(partitions))
    if known is not None:
        reader.lags.extend(known.lags)
    if lag is not None:
        reader.lags.append((now_ms, lag))
    return reader


def group_rows(readers: Iterable[Reader], look: Look) -> list[Row]:
    """Rows ordered by group, which is the key."""
    return [_group_row(each, look) for each in sorted(readers, key=lambda each: each.group)]


def _group_row(reader: Reader, look: Look) -> Row:
    sign, tone = _STATES.get(reader.state, ("warn", "warn"))
    eta = reader.eta_ms
    trend = look.spark([lag for _, lag in reader.lags], 12)
    return Row(
        reader.group,
        (
            Cell(reader.group, "strong"),
            Cell(f"{look.sign(sign)} {reader.state}", tone),
            Cell(str(reader.members), "" if reader.members else "dim", reader.members),
            Cell(look.number(reader.lag), "warn" if reader.lag else "dim", -1 if reader.lag is None else reader.lag),
            Cell(trend, "accent"),
            Cell(look.sign("none") if eta is None else span(eta), "dim", eta or 0),
            Cell(str(reader.partitions), "dim", reader.partitions),
        ),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One of the latest records."""

    partition: int
    offset: int
    time_ms: int | None
    key: str | None
    value: str
    is_plain: bool = True

    @classmethod
    def of(cls, partition: int, record: Mapping[str, Any]) -> "Message":
        """Parse a record of `/consume`."""
        key, value, is_plain = record.get("key"), "", True
        if "key_base64" in record:
            key = _hex(record["key_base64"])
        if "payload_base64" in record:
            value, is_plain = _hex(record["payload_base64"]), False
        elif "payload_text" in record:
            value = record["payload_text"]
        elif record["payload"] is None:
            value, is_plain = "(no value)", False
        else:
            value = json.dumps(record["payload"], ensure_ascii=False, separators=(",", ":"))
        return cls(partition, record["offset"], record["timestamp_ms"], key, value[:400], is_plain)


def _hex(text: str) -> str:
    data = base64.b64decode(text)
    return f"hex {data[:24].hex(' ')}" + (f" and {len(data) - 24} bytes more" if len(data) > 24 else "")


def tail_rows(messages: Iterable[Message], look: Look, now_ms: int, count: int) -> list[Row]:
    """The last `count` by time, newest first."""
    newest = sorted(messages, key=lambda each: (each.time_ms or 0, each.offset), reverse=True)[:count]
    return [
        Row(
            f"{each.partition}@{each.offset}",
            (
                Cell(f"{each.partition}@{each.offset}", "dim", each.offset),
                Cell(look.time(each.time_ms, now_ms, millis=look.zone != "relative"), "dim", each.time_ms or 0),
                Cell(look.sign("none") if each.key is None else each.key, "dim" if each.key is None else ""),
                Cell(each.value, "" if each.is_plain else "dim"),
            ),
        )
        for each in newest
    ]


def rate_words(rate: float) -> str:
    """`840/s come in`."""
    return f"{short(rate)}/s come in" if rate >= 1 else "nothing comes in"
