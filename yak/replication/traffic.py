"""Bytes and records in and out of a topic on this broker: requests count them, metrics read them."""

from __future__ import annotations


class Traffic:
    """One topic's totals since this broker began to hold it; shared by its partitions here.

    Input counts records appended by a leader, the broker's own (groups' offsets) too. Output counts records put into an
    answer to a consumer. Replication to followers is not counted.
    """

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "messages_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Bytes of record batches, as they are stored."""
        self.messages_in = 0
        self.bytes_out = 0
        self.messages_out = 0
        """Offsets that the returned batches span: the number of records, or more where compaction removed some."""

    def add(self, other: Traffic) -> None:
        """Add another's totals."""
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.bytes_out += other.bytes_out
        self.messages_out += other.messages_out
