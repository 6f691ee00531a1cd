"""At the end of a run every acknowledged record was read at its offset, once, and in order per producer."""

from __future__ import annotations

from yak.sim.deliveries import Deliveries, Violation


def check_nothing_acked_is_lost(deliveries: Deliveries) -> None:
    """Compare the consumed records with the acknowledged ones."""
    for topic_partition, held in deliveries.partitions():
        for offset, value in held.acked.items():
            seen = held.seen.get(offset)
            if seen is None and not held.is_due(offset):
                continue
            if seen is None:
                raise Violation(f"{topic_partition}@{offset}: {value!r} was acknowledged and never read")
            if seen != value:
                raise Violation(f"{topic_partition}@{offset}: {value!r} was acknowledged, {seen!r} is there")
        if not deliveries.promises(*topic_partition):
            continue
        newest: dict[bytes, int] = {}
        first_offsets: dict[bytes, int] = {}
        for offset in sorted(held.seen):
            producer, _, number = held.seen[offset].partition(b":")
            if not producer.isdigit():
                continue  # written without a producer id: its order is not guaranteed
            first = first_offsets.setdefault(held.seen[offset], offset)
            if int(number) <= newest.get(producer, 0):
                if first < min(offset, deliveries.forgotten(*topic_partition)):
                    continue
                raise Violation(f"{topic_partition}@{offset}: {held.seen[offset]!r} is repeated or out of order")
            newest[producer] = int(number)
