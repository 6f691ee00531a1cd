"""I16: at the end of a run all members of an ISR have the same bytes below the high watermark."""

from __future__ import annotations

from yak.protocol.record_batch import iterate_headers
from yak.sim.books import Violation
from yak.sim.history import Copy, History


def check_replicas_equal(history: History) -> None:
    """Compare the files of all copies that are in their partition's ISR."""
    for key, copies in history.copies.items():
        leader = next((copy for copy in copies.values() if copy.is_leader and copy.is_held), None)
        if leader is None or leader.partition is None or key in history.forfeited:
            continue
        members = [copies[node_id] for node_id in leader.partition.isr if node_id in copies]
        start = max(copy.log_start for copy in members)
        wanted = _bytes(leader, start, leader.high_watermark)
        for copy in members:
            if _bytes(copy, start, leader.high_watermark) != wanted:
                raise Violation(f"I16: {copy} and {leader} have other bytes below {leader.high_watermark}")


def _bytes(copy: Copy, start: int, end: int) -> bytes:
    """All whole batches from `start` to `end`."""
    log = copy.log
    assert log is not None
    out = b""
    for segment in log.segments:
        data = copy.node.disk.peek(segment.path(".log"), 0)
        for place, header in iterate_headers(data):
            if start <= header.base_offset < end:
                out += data[place : place + header.size_bytes]
    return out
