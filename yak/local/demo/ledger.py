"""The demo's check: acknowledged records against the records that are read back. No I/O.

Every record has a unique number in its content, so equal contents are duplicates.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from yak.ids import Offset


class Acknowledged(NamedTuple):
    """One acknowledged record, in the order of sending; partition and offset are None when not reported."""

    key: bytes
    content: Hashable
    partition: int | None = None
    offset: Offset | None = None


class Stored(NamedTuple):
    """One record that was read back."""

    key: bytes
    content: Hashable
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts for one topic.

    `moved`: acknowledged at one offset, read at another. `out_of_order`: read after a record of the same key that was
    sent later. `unconfirmed`: read without an acknowledgement to the client; allowed, and displayed.
    """

    topic: str
    acknowledged: int
    read: int
    lost: int
    duplicated: int
    moved: int
    out_of_order: int
    unconfirmed: int

    @property
    def holds(self) -> bool:
        """Whether every acknowledged record was read once, at its offset and in order."""
        wrong = self.lost + self.duplicated + self.moved + self.out_of_order
        return self.acknowledged > 0 and wrong == 0


def totals(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Each count summed over all topics, by name."""
    names = ("acknowledged", "read", "lost", "duplicated", "moved", "out_of_order", "unconfirmed")
    return {name: sum(getattr(verdict, name) for verdict in verdicts) for name in names}


def compare(topic: str, acknowledged: Sequence[Acknowledged], stored: Sequence[Stored]) -> Verdict:
    """Count lost, duplicated, moved and reordered records. `stored` is in offset order."""
    times_read = Counter((message.key, message.content) for message in stored)
    known = {(message.key, message.content) for message in acknowledged}
    places = {(message.key, message.content): (message.partition, message.offset) for message in stored}
    moved = sum(
        1
        for message in acknowledged
        if message.offset is not None
        and places.get((message.key, message.content), (message.partition, message.offset))
        != (message.partition, message.offset)
    )
    return Verdict(
        topic=topic,
        acknowledged=len(acknowledged),
        read=len(stored),
        lost=sum(1 for identity in known if identity not in times_read),
        duplicated=sum(times - 1 for times in times_read.values()),
        moved=moved,
        out_of_order=_out_of_order(acknowledged, stored),
        unconfirmed=sum(1 for identity in times_read if identity not in known),
    )


def _out_of_order(acknowledged: Sequence[Acknowledged], stored: Sequence[Stored]) -> int:
    sent_as = {(message.key, message.content): number for number, message in enumerate(acknowledged)}
    latest: dict[bytes, int] = {}
    count = 0
    for message in stored:
        number = sent_as.get((message.key, message.content))
        if number is None:
            continue
        if number < latest.get(message.key, -1):
            count += 1
        latest[message.key] = max(number, latest.get(message.key, -1))
    return count
