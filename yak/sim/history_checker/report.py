"""All checks of one history, and the counts."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from yak.sim.history_checker import cycles, groups, reads, sends, transactions
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import History, Outcome, Poll, Send
from yak.sim.history_checker.logs import known_logs

LOST = (Kind.LOST_WRITE, Kind.UNSEEN)
REORDERED = (
    Kind.NONMONOTONIC_SEND,
    Kind.INT_NONMONOTONIC_SEND,
    Kind.STALE_APPEND,
    Kind.NONMONOTONIC_POLL,
    Kind.INT_NONMONOTONIC_POLL,
)
_AROUND_SENDS = 10
_OK_SHARE_MIN = 0.3
"""A history with a smaller acknowledged share proves little (docs/reliability.md)."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The anomalies of a history, and the number of operations checked."""

    anomalies: tuple[Anomaly, ...]
    operations: int
    acknowledged: int
    refused: int
    unknown: int
    polled: int
    committed: int = 0
    aborted: int = 0
    undecided: int = 0
    """Transactions of unknown outcome."""
    processed: int = 0
    """Records that committed transactions of a read-process-write chain had as their input."""
    write_cycles: int = 0
    """Components of transactions in a cycle by the order of their writes alone (G0), which Kafka allows."""
    mixed_cycles: int = 0
    """Components in a cycle of writes and reads (G1c through writes), which Kafka allows too."""
    by_kind: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """Partitions with acknowledged records that no consumer read to the end after the last write."""

    @property
    def holds(self) -> bool:
        return not self.anomalies

    @property
    def why_void(self) -> str | None:
        """Why a history without a contradiction proves nothing; None if it proves something."""
        sends = self.acknowledged + self.unknown
        if not self.acknowledged:
            return "no record was acknowledged"
        if self.acknowledged < _OK_SHARE_MIN * sends:
            were = "was" if self.acknowledged == 1 else "were"
            return f"only {self.acknowledged} of {sends} records {were} acknowledged"
        if not self.committed and self.aborted + self.undecided:
            return "no transaction was committed"
        if self.unread:
            return f"no consumer read {', '.join(self.unread)} to its end, so a lost end is not noticed"
        return None

    def count(self, *kinds: Kind) -> int:
        return sum(self.by_kind.get(kind, 0) for kind in kinds)

    def as_json(self, anomalies_max: int = 100) -> dict[str, Any]:
        """The fields by name, with the first anomalies."""
        return {
            "operations": self.operations,
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "unknown": self.unknown,
            "polled": self.polled,
            "transactions": {
                "committed": self.committed,
                "aborted": self.aborted,
                "unknown": self.undecided,
                "processed": self.processed,
                "allowed_cycles": {"g0": self.write_cycles, "g1c": self.mixed_cycles},
            },
            "lost": self.count(*LOST),
            "duplicated": self.count(Kind.DUPLICATE),
            "reordered": self.count(*REORDERED),
            "void": self.why_void,
            "by_kind": self.by_kind,
            "anomalies": [each.as_json() for each in self.anomalies[:anomalies_max]],
        }


def check_history(history: History) -> HistoryReport:
    """Find every contradiction in a history; the most telling ones come first."""
    logs = known_logs(history)
    dependencies = cycles.dependencies(history, logs)
    found = tuple(
        chain(
            sends.losses(history, logs),
            sends.offset_conflicts(logs),
            sends.order_of_producers(history, logs),
            sends.order_in_time(history, logs),
            reads.contents(history, logs),
            reads.order(history, logs),
            transactions.wholeness(history, logs),
            transactions.inputs(history, logs),
            cycles.of_reads(dependencies),
            groups.commits_are_found(history),
            groups.nothing_passed_over(history, logs),
        )
    )
    outcomes = Counter(send.outcome for send in history.sends)
    polled = sum(len(run.offsets) for poll in history.polls() for run in poll.runs)
    operations = len(history.sends) + len(history.reads) + len(history.commits) + len(history.txns)
    by_kind = dict(Counter(str(each.kind) for each in found))
    counts = (operations, outcomes[Outcome.OK], outcomes[Outcome.FAIL], outcomes[Outcome.INFO], polled)
    ends = Counter(txn.outcome for txn in history.txns.values())
    inputs = (poll for poll in history.polls() if poll.txn is not None and history.is_committed(poll.txn))
    processed = sum(len(run.offsets) for poll in inputs for run in poll.runs)
    transactions_counts = (
        ends[Outcome.OK],
        ends[Outcome.FAIL],
        ends[Outcome.INFO],
        processed,
        *cycles.allowed(dependencies),
    )
    ends_read = {name for final in history.finals for name in final.ends}
    unread = {send.partition for send in history.sends if send.outcome is Outcome.OK} - ends_read
    return HistoryReport(found, *counts, *transactions_counts, by_kind, tuple(sorted(unread)))


def around(history: History, anomaly: Anomaly) -> Iterator[str]:
    """The sends near an anomaly's offset, and the polls that covered it, as lines for a reader."""
    near = [each for each in history.sends if each.partition == anomaly.partition]
    middle = next((n for n, each in enumerate(near) if each.value == anomaly.value), None)
    if middle is not None:
        for send in near[max(0, middle - _AROUND_SENDS) : middle + _AROUND_SENDS + 1]:
            yield f"{'>' if send.value == anomaly.value else ' '} {_send_text(send)}"
    for poll in history.polls():
        for run in poll.runs:
            if (
                run.partition == anomaly.partition
                and anomaly.offset is not None
                and _covers(run.offsets, anomaly.offset)
            ):
                yield f"  {_poll_text(poll, run.offsets[0], run.offsets[-1])}"


def _covers(offsets: Any, offset: int) -> bool:
    return len(offsets) > 0 and offsets[0] - 1 <= offset <= offsets[-1] + 1


def _send_text(send: Send) -> str:
    where = "?" if send.offset is None else str(send.offset)
    return (
        f"{send.invoked:10.3f} to {send.ended:10.3f}  {send.process} sent {send.value}: {send.outcome}, offset {where}"
    )


def _poll_text(poll: Poll, first: int, last: int) -> str:
    return f"{poll.invoked:10.3f} to {poll.ended:10.3f}  {poll.process} read {first} to {last}"
