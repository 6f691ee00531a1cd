"""One corruption of a clean history per kind of anomaly: a checker that accepts one proves nothing.

Each corruption changes a copy and returns it, or None if the history has no place for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from yak.sim.history_checker import random_history
from yak.sim.history_checker.anomalies import Kind
from yak.sim.history_checker.history import Assign, History, Outcome, Poll, Run, Send, Txn, run
from yak.sim.history_checker.report import check_history
from yak.sim.seeded_random import SeededRandom

Corruption = Callable[[History], History | None]
_TRIES: Final = 50


def copy_of(history: History) -> History:
    """Another history of the same events."""
    copied = History(first_offsets=dict(history.first_offsets))
    for event in history.events():
        copied.add(event)
    return copied


def _acked(history: History, *, txn: bool = False) -> list[Send]:
    """Acknowledged sends with an offset, in order: those outside of transactions, or with `txn` those inside."""
    good = (each for each in history.sends if each.outcome is Outcome.OK and each.offset is not None)
    return [each for each in good if (each.txn is not None) == txn]


def _records(poll: Poll, number: int) -> list[tuple[int, int]]:
    return list(zip(poll.runs[number].offsets, poll.runs[number].values, strict=True))


def _change_runs(history: History, change: Callable[[Poll, Run], Run | None]) -> None:
    """Replace every run of every poll by the result of `change`; None removes the run."""
    for index, event in enumerate(history.reads):
        if isinstance(event, Poll):
            runs = tuple(found for each in event.runs if (found := change(event, each)) is not None)
            history.reads[index] = replace(event, runs=runs)


def _without(history: History, partition: str, value: int, *, only: str = "") -> None:
    """Remove this record from all polls, or from those of the process `only`."""

    def change(poll: Poll, each: Run) -> Run:
        if each.partition != partition or (only and poll.process != only):
            return each
        pairs = zip(each.offsets, each.values, strict=True)
        return run(partition, [(offset, found) for offset, found in pairs if found != value])

    _change_runs(history, change)


def _acked_below_end(history: History, *, is_last: bool) -> Send | None:
    """An acknowledged record that is the last one of its log, or one before the last."""
    ends = history.ends
    return next((each for each in _acked(history) if is_last == ((each.offset or 0) + 1 == ends[each.partition])), None)


def _lost(history: History) -> History | None:
    send = _acked_below_end(history, is_last=False)
    if send is None:
        return None
    _without(history, send.partition, send.value)
    return history


def _unseen(history: History) -> History | None:
    """The last record of a log was acknowledged, and all readers end before it."""
    send = _acked_below_end(history, is_last=True)
    if send is None or send.offset is None:
        return None
    _without(history, send.partition, send.value)
    history.finals = [replace(each, ends={**each.ends, send.partition: send.offset}) for each in history.finals]
    return history


def _duplicate(history: History) -> History | None:
    """A record is appended to its log a second time."""
    name, end = next(((n, e) for n, e in history.ends.items() if e), ("", 0))
    send = next((each for each in _acked(history) if each.partition == name), None)
    if send is None:
        return None
    history.add(Poll("final", send.ended + 1e6, send.ended + 1e6, (run(name, [(end, send.value)]),)))
    return history


def _inconsistent(history: History) -> History | None:
    """One reader gets another record at an offset than all others."""
    for index, event in enumerate(history.reads):
        if not isinstance(event, Poll) or event.process == "final" or not event.runs:
            continue
        name, records = event.runs[0].partition, _records(event, 0)
        other = next((each for each in history.sends if each.partition == name and each.value != records[0][1]), None)
        if other is not None:
            records[0] = (records[0][0], other.value)
            history.reads[index] = replace(event, runs=(run(name, records), *event.runs[1:]))
            return history
    return None


def _swap_sends(history: History, *, txn: bool, same_txn: bool = True) -> History | None:
    """Two records of a producer are swapped, for the producer and for all readers."""
    last: dict[tuple[str, str], Send] = {}
    for send in _acked(history, txn=txn):
        before = last.get((send.process, send.partition))
        if before is not None and (before.txn == send.txn) is same_txn:
            swap = {before.value: send.value, send.value: before.value}
            offsets = {before.value: send.offset, send.value: before.offset}
            history.sends = [
                replace(each, offset=offsets[each.value]) if each.value in offsets else each for each in history.sends
            ]
            name = send.partition

            def change(_poll: Poll, each: Run, name: str = name, swap: dict[int, int] = swap) -> Run:
                if each.partition != name:
                    return each
                return Run(name, each.offsets, [swap.get(value, value) for value in each.values])

            _change_runs(history, change)
            return history
        last[send.process, send.partition] = send
    return None


def _stale(history: History) -> History | None:
    """A record that was acknowledged first is stored after one that another producer sent later."""
    last: dict[str, Send] = {}
    for index, send in enumerate(history.sends):
        if send.outcome is not Outcome.OK or send.offset is None:
            continue
        before = last.get(send.partition)
        if before is not None and before.process != send.process:
            early = before.invoked - 2.0
            history.sends[index] = replace(send, invoked=early, ended=early + 0.5)
            return history
        last[send.partition] = send
    return None


def _goes_back(history: History, *, inside: bool) -> History | None:
    for index, event in enumerate(history.reads):
        if not isinstance(event, Poll):
            continue
        for number, each in enumerate(event.runs):
            records = _records(event, number)
            if inside and len(records) > 1:
                changed = run(each.partition, [*records, records[0]])
                history.reads[index] = replace(event, runs=(*event.runs[:number], changed, *event.runs[number + 1 :]))
                return history
            if not inside:
                again = Poll(
                    event.process, event.ended, event.ended, (run(each.partition, [records[0]]),), event.read_committed
                )
                history.reads.insert(index + 1, again)
                return history
    return None


def _passes_over(history: History, *, inside: bool) -> History | None:
    """One reader, whose start is known, misses a record that others got."""
    for event in history.reads:
        if not isinstance(event, Poll) or not event.process.startswith("reader"):
            continue
        for number, each in enumerate(event.runs):
            records = _records(event, number)
            if inside and len(records) > 2:
                _without(history, each.partition, records[1][1], only=event.process)
                return history
            if not inside and len(records) > 1:
                _without(history, each.partition, records[0][1], only=event.process)
                return history
    return None


def _phantom(history: History) -> History | None:
    name, end = next(iter(history.ends.items()), ("", 0))
    history.add(Poll("final", 1e6, 1e6, (run(name, [(end, 1 << 60)]),)))
    return history


def _aborted(history: History) -> History | None:
    """A record that was refused is in the log."""
    send = next(iter(_acked(history)), None)
    if send is None:
        return None
    failed = replace(send, outcome=Outcome.FAIL, offset=None)
    history.sends = [failed if each is send else each for each in history.sends]
    return history


def _aborted_txn(history: History) -> History | None:
    committed = [each for each in history.txns.values() if each.outcome is Outcome.OK]
    if not committed:
        return None
    first = committed[0]
    history.txns[first.number] = replace(first, outcome=Outcome.FAIL)
    return history


def _precommitted(history: History) -> History | None:
    """A `read_committed` reader got a record of a transaction that ended much later."""
    seen = {value for poll in history.polls() for each in poll.runs for value in each.values}
    for send in _acked(history, txn=True):
        txn: Txn | None = history.txns.get(send.txn) if send.txn is not None else None
        if txn is not None and txn.outcome is Outcome.OK and send.value in seen:
            history.txns[txn.number] = replace(txn, end_invoked=2e6, ended=2e6)
            return history
    return None


def _half_visible(history: History) -> History | None:
    """A transaction with an unknown outcome lacks one record."""
    by_txn: dict[int, list[Send]] = {}
    for send in _acked(history, txn=True):
        if send.txn is not None and history.txns[send.txn].outcome is Outcome.OK:
            by_txn.setdefault(send.txn, []).append(send)
    for number, sends in by_txn.items():
        later = [each for each in sends if each.offset is not None and _something_after(history, each)]
        if len(sends) > 1 and later and history.ends:
            history.txns[number] = replace(history.txns[number], outcome=Outcome.INFO)
            _without(history, later[0].partition, later[0].value)
            return history
    return None


def _something_after(history: History, send: Send) -> bool:
    return any(
        each.partition == send.partition and each.offsets and each.offsets[-1] > (send.offset or 0)
        for poll in history.polls()
        for each in poll.runs
    )


def _forgotten_commit(history: History) -> History | None:
    for index, event in enumerate(history.reads):
        if isinstance(event, Assign) and event.group is not None:
            for name, start in event.starts.items():
                promised = any(
                    each.group == event.group and name in each.offsets and each.ended < event.at
                    for each in history.commits
                    if each.outcome is Outcome.OK
                )
                if promised and start is not None and start > 0:
                    history.reads[index] = replace(event, starts={**event.starts, name: -1})
                    return history
    return None


def _skipped_by_group(history: History) -> History | None:
    """A member never got a record below its committed offset."""
    for commit in history.commits:
        if commit.outcome is not Outcome.OK:
            continue
        for name, end in commit.offsets.items():
            send = next((each for each in _acked(history) if each.partition == name and (each.offset or 0) < end), None)
            if send is not None:
                for number in range(random_history.HistorySettings().members):
                    _without(history, name, send.value, only=f"member-{number}")
                return history
    return None


def _process(history: History, *, twice: bool) -> History | None:
    """A committed transaction did not process its input, or another one processed it too."""
    inputs = [each for each in history.polls() if each.runs and each.txn is not None and history.is_committed(each.txn)]
    if len(inputs) < 2:
        return None
    first, second = inputs[:2]
    if twice:
        history.reads.append(replace(first, txn=second.txn))
    else:
        history.reads[history.reads.index(first)] = replace(first, txn=None)
    return history


def _read_in_a_cycle(history: History) -> History | None:
    """Two committed transactions processed a record of each other."""
    last = {send.txn: send for send in _acked(history, txn=True) if history.is_committed(send.txn)}
    if len(last) < 2:
        return None
    first, second = list(last.values())[:2]
    for reader, send in ((first, second), (second, first)):
        records = run(send.partition, [(send.offset or 0, send.value)])
        history.add(Poll(f"worker of {reader.txn}", 1e6, 1e6, (records,), read_committed=True, txn=reader.txn))
    return history


CORRUPTIONS: Final[tuple[tuple[str, Kind, Corruption], ...]] = (
    ("an acknowledged record is in no log", Kind.LOST_WRITE, _lost),
    ("the end of a log is cut off", Kind.UNSEEN, _unseen),
    ("a record is stored twice", Kind.DUPLICATE, _duplicate),
    ("two readers see different records at one offset", Kind.INCONSISTENT_OFFSETS, _inconsistent),
    ("two records of a producer are swapped", Kind.NONMONOTONIC_SEND, lambda each: _swap_sends(each, txn=False)),
    ("the same in a transaction", Kind.INT_NONMONOTONIC_SEND, lambda each: _swap_sends(each, txn=True)),
    (
        "the same in two transactions of a producer",
        Kind.NONMONOTONIC_SEND,
        lambda each: _swap_sends(each, txn=True, same_txn=False),
    ),
    ("a later write stands before an acknowledged one", Kind.STALE_APPEND, _stale),
    ("a consumer is given a record again", Kind.NONMONOTONIC_POLL, lambda each: _goes_back(each, inside=False)),
    ("the same in one poll", Kind.INT_NONMONOTONIC_POLL, lambda each: _goes_back(each, inside=True)),
    ("a consumer is not given a record", Kind.POLL_SKIP, lambda each: _passes_over(each, inside=False)),
    ("the same in one poll", Kind.INT_POLL_SKIP, lambda each: _passes_over(each, inside=True)),
    ("a record that no producer sent", Kind.PHANTOM, _phantom),
    ("a refused record is there", Kind.ABORTED_READ, _aborted),
    ("an aborted transaction is visible", Kind.ABORTED_READ, _aborted_txn),
    ("a record is visible before its transaction ends", Kind.PRECOMMITTED_READ, _precommitted),
    ("half a transaction is visible", Kind.TORN_TRANSACTION, _half_visible),
    ("two transactions read each other's records", Kind.G1C, _read_in_a_cycle),
    ("a group forgets a commit", Kind.LOST_COMMIT, _forgotten_commit),
    ("a group commits past what it read", Kind.GROUP_SKIP, _skipped_by_group),
    ("a transaction commits offsets without its records", Kind.LOST_INPUT, lambda each: _process(each, twice=False)),
    ("two transactions process a record", Kind.DUPLICATE_INPUT, lambda each: _process(each, twice=True)),
)


@dataclass(frozen=True, slots=True)
class CorruptionResult:
    """The result of one corruption."""

    name: str
    kind: Kind
    is_found: bool
    reported: str


def self_test(seed: int) -> Iterator[CorruptionResult]:
    """Corrupt clean histories in each way, and report whether the checker noticed."""
    rng = SeededRandom(f"judge:{seed}")
    for name, kind, corrupt in CORRUPTIONS:
        for number in range(_TRIES):
            clean = random_history.make(rng.fork(f"{kind}:{number}"))
            corrupted = corrupt(copy_of(clean))
            if corrupted is not None:
                found = [each for each in check_history(corrupted).anomalies if each.kind is kind]
                yield CorruptionResult(name, kind, bool(found), found[0].words if found else "")
                break
        else:
            yield CorruptionResult(name, kind, False, "no history had a place for it")


def clean_histories(seed: int, count: int) -> int:
    """How many of `count` clean histories are accepted."""
    rng = SeededRandom(f"clean:{seed}")
    return sum(check_history(random_history.make(rng.fork(str(number)))).holds for number in range(count))
