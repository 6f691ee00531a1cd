"""Checks of reads: every record was sent, and each consumer moves forward and skips nothing."""

from collections.abc import Iterator, Mapping

from yak.ids import Offset
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import UNREADABLE, Assign, History, Outcome, Poll, Run, Send
from yak.sim.history_checker.logs import KnownLog


def contents(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`phantom`, `aborted-read` and `precommitted-read`."""
    reported: set[tuple[str, int]] = set()
    # this set makes the usual case one lookup per record
    plain = {
        name: {value for value, send in log.sent.items() if send.outcome is not Outcome.FAIL and send.txn is None}
        for name, log in logs.items()
    }
    for poll in history.polls():
        for run in poll.runs:
            good, log = plain[run.partition], logs[run.partition]
            if good.issuperset(run.values):
                continue
            for offset, value in zip(run.offsets, run.values, strict=True):
                if value in good or (run.partition, value) in reported:
                    continue
                found = _wrong_content(history, poll, value, log.sent.get(value))
                if found is not None:
                    reported.add((run.partition, value))
                    kind, text = found
                    named = f"{'a record' if value == UNREADABLE else value} at offset {offset} {text}"
                    yield Anomaly(kind, run.partition, named, offset, value, poll.process, poll.ended)


def _wrong_content(history: History, poll: Poll, value: int, send: Send | None) -> tuple[Kind, str] | None:
    if send is None:
        return Kind.PHANTOM, "cannot be read as ours" if value == UNREADABLE else "was never sent there"
    if send.outcome is Outcome.FAIL:
        return Kind.ABORTED_READ, "was refused to its producer"
    if send.txn is None:
        return None
    if send.txn == poll.txn:
        return Kind.PRECOMMITTED_READ, "was read in the transaction that sends it"
    txn = history.txns.get(send.txn)
    if not poll.read_committed or txn is None:
        return None
    if txn.outcome is Outcome.FAIL:
        return Kind.ABORTED_READ, f"is of transaction {send.txn}, which was aborted"
    if poll.ended < txn.end_invoked:
        return Kind.PRECOMMITTED_READ, f"is of transaction {send.txn}, which was not committed yet"
    return None


def order(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`nonmonotonic-poll` and `poll-skip`, between the polls of an assignment and inside one poll."""
    next_offset: dict[tuple[str, str], Offset] = {}
    for event in history.reads:
        if isinstance(event, Assign):
            _assign(event, next_offset)
            continue
        for run in event.runs:
            yield from _run_order(event, run, logs[run.partition], next_offset)


def _assign(event: Assign, next_offset: dict[tuple[str, str], Offset]) -> None:
    for name in event.dropped:
        next_offset.pop((event.process, name), None)
    for name, start in event.starts.items():
        if start is None or start < 0:
            next_offset.pop((event.process, name), None)
        else:
            next_offset[event.process, name] = start


def _run_order(poll: Poll, run: Run, log: KnownLog, next_offset: dict[tuple[str, str], Offset]) -> Iterator[Anomaly]:
    key = (poll.process, run.partition)
    expected = next_offset.get(key)
    for index, offset in enumerate(run.offsets):
        if expected is not None and offset != expected:
            if offset < expected:
                kind = Kind.INT_NONMONOTONIC_POLL if index else Kind.NONMONOTONIC_POLL
                text = f"{poll.process} was given {offset} after {expected - 1}"
                yield Anomaly(kind, run.partition, text, offset, run.values[index], poll.process, poll.ended)
            else:
                passed = log.between(expected, offset, poll.ended)
                if passed is not None:
                    kind = Kind.INT_POLL_SKIP if index else Kind.POLL_SKIP
                    text = f"{poll.process} was given {offset} after {expected - 1}, and {passed} is there"
                    value = log.at[passed]
                    yield Anomaly(kind, run.partition, text, passed, value, poll.process, poll.ended)
        expected = offset + 1
    if expected is not None:
        next_offset[key] = expected
