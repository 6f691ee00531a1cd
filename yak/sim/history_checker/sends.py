"""Checks of writes: no loss, no duplicates, one value per offset, and order."""

from collections.abc import Iterator, Mapping

from yak.ids import Offset
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import History, Outcome, Send
from yak.sim.history_checker.logs import KnownLog


def offset_conflicts(logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`inconsistent-offsets` and `duplicate`."""
    for log in logs.values():
        for offset, values in log.disputed.items():
            named = ", ".join(map(str, sorted(values)))
            yield Anomaly(Kind.INCONSISTENT_OFFSETS, log.name, f"offset {offset} holds {named}", offset, max(values))
        for value, offsets in log.all_offsets.items():
            if sum(offset >= log.forgotten for offset in offsets) <= 1:
                continue
            named = ", ".join(map(str, sorted(offsets)))
            yield Anomaly(Kind.DUPLICATE, log.name, f"{value} is at offsets {named}", max(offsets), value)


def losses(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`lost-write` and `unseen`.

    Without a read of everything at the end, a write counts as lost if a reader went past its offset and no reader got
    it.
    """
    finals, readers = history.ends, {final.process for final in history.finals}
    seen_last = history.values_read(lambda poll: poll.process in readers)
    for log in logs.values():
        last = seen_last.get(log.name, set())
        for send in log.acknowledged():
            if not history.is_committed(send.txn):
                continue
            is_over = log.name in finals
            missing = send.value not in log.polled or (is_over and send.value not in last)
            if not missing:
                continue
            place = log.first_offset.get(send.value)
            if place in log.taken:
                continue
            was_passed = place is not None and place < max(log.polled_end, finals.get(log.name, 0))
            if was_passed:
                yield _about(Kind.LOST_WRITE, send, "was acknowledged and is not there", place)
            elif is_over:
                yield _about(Kind.UNSEEN, send, "was acknowledged and never read", place)


def order_of_producers(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`nonmonotonic-send`: acknowledged records of one producer are stored in the order in which it sent them."""
    last: dict[tuple[str, str], tuple[Offset, Send]] = {}
    for send, offset in _placed(history, logs):
        key = (send.process, send.partition)
        before = last.get(key)
        if before is not None and offset <= before[0] and send.value != before[1].value:
            inside = send.txn is not None and send.txn == before[1].txn
            kind = Kind.INT_NONMONOTONIC_SEND if inside else Kind.NONMONOTONIC_SEND
            yield _about(kind, send, f"is before {before[1].value} at {before[0]}, which was sent first", offset)
        last[key] = (offset, send)


def order_in_time(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`stale-append`: an acknowledged record is stored before all records that any producer sends afterwards.

    A log is appended to at its end, and a new leader's log has everything ever acknowledged.
    """
    of_partition: dict[str, list[tuple[float, float, Offset, Send]]] = {}
    for send, offset in _placed(history, logs):
        of_partition.setdefault(send.partition, []).append((send.invoked, send.ended, offset, send))
    for found in of_partition.values():
        by_start = sorted(found, key=lambda each: each[0])
        by_end = sorted(found, key=lambda each: each[1])
        ended, highest = 0, -1
        for invoked, _ended, offset, send in by_start:
            while by_end[ended][1] < invoked:
                highest = max(highest, by_end[ended][2])
                ended += 1
            if offset < highest:
                yield _about(Kind.STALE_APPEND, send, f"is before {highest}, acknowledged before it was sent", offset)


def _placed(history: History, logs: Mapping[str, KnownLog]) -> Iterator[tuple[Send, Offset]]:
    """The acknowledged sends whose offset is known."""
    for send in history.sends:
        if send.outcome is Outcome.OK:
            offset = send.offset if send.offset is not None else logs[send.partition].first_offset.get(send.value)
            if offset is not None:
                yield send, offset


def _about(kind: Kind, send: Send, text: str, offset: Offset | None) -> Anomaly:
    where = "" if offset is None else f" at offset {offset}"
    return Anomaly(kind, send.partition, f"{send.value}{where} {text}", offset, send.value, send.process, send.ended)
