"""What went in and out of a topic on this broker: plain numbers, added to by what serves requests, read by metrics."""

from __future__ import annotations


class Traffic:
    """One topic's totals since this broker began to hold it; shared by its partitions here.

    What is written is counted when it is in the log of a leader, the broker's own records (groups' offsets) too; what is read
    when it is put into an answer to a consumer. What followers copy is not in it.
    """

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "messages_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Of record batches, as they are stored."""
        self.messages_in = 0
        self.bytes_out = 0
        self.messages_out = 0
        """Offsets that the given batches take a consumer on by: as many as records, but where compaction took some out."""

    def add(self, other: Traffic) -> None:
        """Add another's totals."""
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.bytes_out += other.bytes_out
        self.messages_out += other.messages_out
