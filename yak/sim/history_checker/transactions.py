"""Atomicity of transactions, and of the offsets in them."""

from collections.abc import Iterator, Mapping

from yak.ids import Offset
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import Assign, History, Outcome, Send
from yak.sim.history_checker.logs import KnownLog, read_as_committed


def wholeness(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`torn-transaction`: part of a transaction with an unknown outcome was read as committed, and the rest skipped.

    `lost-write` checks committed transactions, `aborted-read` aborted ones.
    """
    if not history.txns:
        return
    seen = history.values_read(lambda poll: poll.read_committed)
    ends: dict[str, int] = {}
    for run in (run for poll in history.polls() if poll.read_committed for run in poll.runs):
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
            log = logs[send.partition]
            place = log.first_offset.get(send.value)
            passed = place is not None and place not in log.taken and place < ends.get(send.partition, 0)
            if there and passed and send.value not in seen.get(send.partition, ()):
                text = f"{send.value} of transaction {number} is missing, {there[0].value} of it was read"
                yield Anomaly(Kind.TORN_TRANSACTION, send.partition, text, place, send.value, send.process, send.ended)


def inputs(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`duplicate-input` and `lost-input`: of the input of a read-process-write chain, up to the offset that its group
    committed, each record was processed in exactly one transaction that took effect.

    A poll with `txn` is such an input. A transaction of unknown outcome took effect if a record of it was read as
    committed; before everything was read at the end, it may have.
    """
    groups = {each.process: each.group for each in history.reads if isinstance(each, Assign) and each.group is not None}
    in_effect = took_effect(history)
    processed: dict[tuple[str, str], dict[Offset, int]] = {}
    for poll in history.polls():
        group = groups.get(poll.process)
        if poll.txn is None or group is None:
            continue
        is_certain = poll.txn in in_effect
        is_possible = is_certain or not (history.finals or history.is_aborted(poll.txn))
        for run in poll.runs:
            by_offset = processed.setdefault((group, run.partition), {})
            for offset, value in zip(run.offsets, run.values, strict=True):
                other = by_offset.get(offset)
                if is_certain and other in in_effect and other != poll.txn:
                    text = f"{group} processed {offset} in the transactions {other} and {poll.txn}"
                    yield Anomaly(Kind.DUPLICATE_INPUT, run.partition, text, offset, value, poll.process, poll.ended)
                elif is_possible and other not in in_effect:
                    by_offset[offset] = poll.txn
    for (group, name), by_offset in processed.items():
        commits = [each for each in history.commits if each.group == group and each.outcome is Outcome.OK]
        end = max((each.offsets[name] for each in commits if name in each.offsets), default=0)
        log, first = logs[name], history.first_offsets.get(name, 0)
        for offset in log.visible:
            if first <= offset < end and offset not in by_offset and offset not in log.taken:
                text = f"{group} committed {end}, and no transaction processed {offset}"
                yield Anomaly(Kind.LOST_INPUT, name, text, offset, log.at[offset])


def took_effect(history: History) -> set[int | None]:
    """The committed transactions, and those of unknown outcome of which a record was read as committed."""
    committed = read_as_committed(history)
    found: set[int | None] = {number for number, txn in history.txns.items() if txn.outcome is Outcome.OK}
    return found | {
        send.txn
        for send in history.sends
        if send.txn in history.txns and send.value in committed and not history.is_aborted(send.txn)
    }
