"""I16: at the end of a run all members of an ISR have the same bytes below the high watermark.

They index the same aborted transactions.

Each replica of a compacted topic compacts on its own. Where two of them have a record at an offset, it is the same.
Both have the same last record of each key that was not deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from yak.ids import Offset
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import WalkedRecord
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History
from yak.sim.originals import records_of
from yak.storage.reader import aborted_transactions


def check_replicas_equal(history: History) -> None:
    """Compare the files of all copies that are in their partition's ISR."""
    for key, copies in history.copies.items():
        leader = next((copy for copy in copies.values() if copy.is_leader and copy.is_held), None)
        if leader is None or leader.partition is None or history.is_given_up(key):
            continue
        members = [copies[node_id] for node_id in leader.partition.isr if node_id in copies]
        if leader.originals is not None:
            for copy in members:
                if key not in history.forfeited:
                    _compare_records(copy, leader)
            continue
        start = max(copy.log_start for copy in members)
        wanted = _bytes(leader, start, leader.high_watermark)
        for copy in members:
            if _bytes(copy, start, leader.high_watermark) != wanted:
                raise Violation(f"I16: {copy} and {leader} have other bytes below {leader.high_watermark}")
            aborted, leaders = (_aborted(each, start, leader.high_watermark) for each in (copy, leader))
            if aborted != leaders:
                raise Violation(f"I16: {copy} and {leader} index other aborted transactions: {aborted}, {leaders}")


def _aborted(copy: Copy, start: int, end: int) -> list[tuple[int, int, int]]:
    """Producer, first and last offset of each aborted transaction that a replica indexes between two offsets."""
    assert copy.log is not None
    found = aborted_transactions(copy.log.segments, start, end)
    known = {(each.producer_id, each.first_offset, each.last_offset) for each in found}
    return sorted(each for each in known if start <= each[1] and each[2] < end)


def _bytes(copy: Copy, start: int, end: int) -> bytes:
    """All whole batches from `start` to `end`."""
    return b"".join(batch for base_offset, batch in _batches(copy) if start <= base_offset < end)


def _batches(copy: Copy) -> Iterator[tuple[Offset, bytes]]:
    log = copy.log
    assert log is not None
    for segment in log.segments:
        data = copy.node.disk.peek(segment.path(".log"), 0)
        for place, header in iterate_headers(data):
            yield header.base_offset, data[place : place + header.size_bytes]


def _compare_records(copy: Copy, leader: Copy) -> None:
    end, originals = leader.high_watermark, leader.originals
    assert originals is not None
    if copy.chain.at(end) != leader.chain.at(end):
        raise Violation(f"I16: {copy} and {leader} were written other batches below {end}")
    own, leaders = _records(copy, end), _records(leader, end)
    start = max(copy.log_start, leader.log_start)
    for offset, record in own.items():
        if offset >= start and leaders.get(offset, record) != record:
            raise Violation(f"I16: {copy} and {leader} have other records at {offset}")
    decided = originals.decided_in(leader.chain)
    last = {record.key: record for record in own.values() if record.offset not in decided.aborted | decided.open}
    written = {record.key: record for record in originals.values_in(leader.chain) if record.offset < end}
    for key, record in written.items():
        if record.value is not None and record.offset >= copy.log_start and last.get(key) != record:
            raise Violation(f"I16: {copy} does not end with the record of {key!r} at {record.offset}")


def _records(copy: Copy, end: Offset) -> dict[Offset, WalkedRecord]:
    found: dict[Offset, WalkedRecord] = {}
    for base_offset, batch in _batches(copy):
        records = records_of(batch)
        if records is None:
            raise Violation(f"I16: {copy}@{base_offset}: the CRC does not hold")
        found |= {record.offset: record for record in records if record.offset < end}
    return found
