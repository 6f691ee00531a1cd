"""Bytes and records in and out of a topic on this broker: requests count them, metrics read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Traffic:
    """One topic's totals since this broker began to hold it; shared by its partitions here.

    Input counts records appended by a leader, the broker's own (groups' offsets) too. Output counts records put into an
    answer to a consumer. Replication to followers is not counted.
    """

    bytes_in: int = 0
    """Bytes of record batches, as they are stored."""
    messages_in: int = 0
    bytes_out: int = 0
    messages_out: int = 0
    """Offsets that the returned batches span: the number of records, or more where compaction removed some."""

    def add(self, other: Traffic) -> None:
        """Add another's totals."""
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.bytes_out += other.bytes_out
        self.messages_out += other.messages_out
