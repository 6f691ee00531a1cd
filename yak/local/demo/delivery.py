"""What became of the records of a load: the counts of a checked history, by partition. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self

from yak.ids import Offset
from yak.sim.history_checker.anomalies import Kind
from yak.sim.history_checker.history import History, Outcome
from yak.sim.history_checker.report import LOST, REORDERED, check_history


@dataclass(frozen=True, slots=True)
class Delivery:
    """The counts of a topic, or of one of its partitions.

    `moved`: acknowledged at one offset, read at another. `out_of_order`: stored before a record that was sent earlier.
    `unconfirmed`: read without an acknowledgement to the client; allowed, and displayed.
    """

    topic: str = ""
    acknowledged: int = 0
    read: int = 0
    lost: int = 0
    duplicated: int = 0
    moved: int = 0
    out_of_order: int = 0
    unconfirmed: int = 0

    @property
    def holds(self) -> bool:
        """Whether every acknowledged record was read once, at its offset and in order."""
        return self.acknowledged > 0 and self.lost + self.duplicated + self.moved + self.out_of_order == 0

    def counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if name != "topic"}

    @classmethod
    def total(cls, parts: Iterable["Delivery"], topic: str = "") -> Self:
        sums: Counter[str] = Counter()
        for part in parts:
            sums.update(part.counts())
        return cls(topic, **sums)


def deliveries(history: History) -> dict[str, Delivery]:
    """The counts of each partition, by its name. Everything must have been read."""
    anomalies = Counter((each.partition, each.kind) for each in check_history(history).anomalies)
    acknowledged: dict[str, dict[int, Offset | None]] = defaultdict(dict)
    read: dict[str, dict[int, set[Offset]]] = defaultdict(lambda: defaultdict(set))
    for send in history.sends:
        if send.outcome is Outcome.OK:
            acknowledged[send.partition][send.value] = send.offset
    for poll in history.polls():
        for run in poll.runs:
            for offset, value in zip(run.offsets, run.values, strict=True):
                read[run.partition][value].add(offset)

    def delivery(name: str) -> Delivery:
        sent, seen = acknowledged[name], read[name]
        return Delivery(
            topic=name.rpartition("-")[0],
            acknowledged=len(sent),
            read=sum(map(len, seen.values())),
            lost=_sum(anomalies, name, LOST),
            duplicated=sum(len(offsets) - 1 for offsets in seen.values()),
            moved=sum(
                1 for value, offset in sent.items() if offset is not None and offset not in seen.get(value, {offset})
            ),
            out_of_order=_sum(anomalies, name, REORDERED),
            unconfirmed=sum(1 for value in seen if value not in sent),
        )

    return {name: delivery(name) for name in sorted({*acknowledged, *read})}


def _sum(anomalies: "Counter[tuple[str, Kind]]", partition: str, kinds: tuple[Kind, ...]) -> int:
    return sum(anomalies[partition, kind] for kind in kinds)
