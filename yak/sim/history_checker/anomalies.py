"""Every kind of contradiction in a history, and the invariant that it breaks.

Names are Jepsen's where it has one (jepsen.tests.kafka, "anomalies"); `int-` is inside one transaction or one poll. The
others: `phantom`, `stale-append`, `torn-transaction`, `lost-commit`, `group-skip`, `lost-input`, `duplicate-input`.
`g1c` is Adya's and Elle's G1c, here by reads alone.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from yak.ids import Offset


class Kind(StrEnum):
    """The kinds of anomalies."""

    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    STALE_APPEND = "stale-append"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    POLL_SKIP = "poll-skip"
    INT_POLL_SKIP = "int-poll-skip"
    PHANTOM = "phantom"
    ABORTED_READ = "aborted-read"
    PRECOMMITTED_READ = "precommitted-read"
    TORN_TRANSACTION = "torn-transaction"
    G1C = "g1c"
    LOST_COMMIT = "lost-commit"
    GROUP_SKIP = "group-skip"
    LOST_INPUT = "lost-input"
    DUPLICATE_INPUT = "duplicate-input"


MEANINGS: dict[Kind, tuple[str, str]] = {
    Kind.LOST_WRITE: ("I1", "acknowledged, but a consumer read past its offset without it"),
    Kind.UNSEEN: ("L3", "acknowledged, but no consumer had read it at the end"),
    Kind.DUPLICATE: ("I11", "one record at two offsets"),
    Kind.INCONSISTENT_OFFSETS: ("I1", "two records at one offset"),
    Kind.NONMONOTONIC_SEND: ("I2", "a producer's later record before its earlier one"),
    Kind.INT_NONMONOTONIC_SEND: ("I2", "the same inside one transaction"),
    Kind.STALE_APPEND: ("I2", "a record before one that was acknowledged before it was sent"),
    Kind.NONMONOTONIC_POLL: ("I15", "a consumer went back"),
    Kind.INT_NONMONOTONIC_POLL: ("I15", "the same inside one poll"),
    Kind.POLL_SKIP: ("I15", "a consumer passed over a record that is there"),
    Kind.INT_POLL_SKIP: ("I15", "the same inside one poll"),
    Kind.PHANTOM: ("I10", "a record that no producer sent to that partition"),
    Kind.ABORTED_READ: ("I10", "a record whose send was refused, or whose transaction was aborted"),
    Kind.PRECOMMITTED_READ: ("I10", "a record of a transaction before its end was requested"),
    Kind.TORN_TRANSACTION: ("I12", "part of a transaction, though readers passed all of it"),
    Kind.G1C: ("I10", "committed transactions read each other's records in a cycle"),
    Kind.LOST_COMMIT: ("I13", "a group begins before what it had committed"),
    Kind.GROUP_SKIP: ("I13", "below what a group committed lies a record that no member read"),
    Kind.LOST_INPUT: ("I20", "a group committed past a record in transactions, and none of them processed it"),
    Kind.DUPLICATE_INPUT: ("I20", "two transactions that took effect processed one record"),
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One contradiction, with its place and time."""

    kind: Kind
    partition: str
    words: str
    offset: Offset | None = None
    value: int | None = None
    process: str = ""
    at: float | None = None

    @property
    def invariant(self) -> str:
        return MEANINGS[self.kind][0]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"kind": str(self.kind), "invariant": self.invariant}
