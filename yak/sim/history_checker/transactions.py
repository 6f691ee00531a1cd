"""Atomicity of transactions."""

from collections.abc import Iterator, Mapping

from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import History, Outcome, Send
from yak.sim.history_checker.logs import KnownLog


def wholeness(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`torn-transaction`: part of a transaction with an unknown outcome was read as committed, and the rest skipped.

    `lost-write` checks committed transactions, `aborted-read` aborted ones.
    """
    if not history.txns:
        return
    seen: dict[str, set[int]] = {}
    ends: dict[str, int] = {}
    for poll in history.polls():
        if poll.read_committed:
            for run in poll.runs:
                seen.setdefault(run.partition, set()).update(run.values)
                ends[run.partition] = max(ends.get(run.partition, 0), max(run.offsets, default=-1) + 1)
    sent: dict[int, list[Send]] = {}
    for send in history.sends:
        if send.txn is not None and send.outcome is Outcome.OK:
            sent.setdefault(send.txn, []).append(send)
    for number, sends in sent.items():
        txn = history.txns.get(number)
        if txn is None or txn.outcome is not Outcome.INFO:
            continue
        there = [send for send in sends if send.value in seen.get(send.partition, ())]
        for send in sends:
            place = logs[send.partition].place.get(send.value)
            passed = place is not None and place < ends.get(send.partition, 0)
            if there and passed and send.value not in seen.get(send.partition, ()):
                words = f"{send.value} of transaction {number} is missing, {there[0].value} of it was read"
                yield Anomaly(Kind.TORN_TRANSACTION, send.partition, words, place, send.value, send.process, send.ended)
