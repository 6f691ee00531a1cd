"""What one pass over the partitions of a fetch read."""

from __future__ import annotations

from typing import Generic, TypeVar

from yak.ports.disk import Part
from yak.protocol.fetch_answer import FetchPartitionAnswer
from yak.replication.fetch_sessions import FetchItem
from yak.storage.reader import PendingRead

Item = TypeVar("Item", bound=FetchItem)
"""A partition as the fetch of a consumer or of a follower names it."""


class FetchRead(Generic[Item]):
    """The result of one pass over the partitions of a fetch."""

    __slots__ = ("answers", "bytes_count", "error", "found", "has_error", "pending", "to_count")

    def __init__(self) -> None:
        self.answers: list[tuple[Item, FetchPartitionAnswer]] = []
        """Each partition and its answer."""
        self.bytes_count = 0
        self.has_error = False
        self.pending: list[tuple[int, PendingRead]] = []
        """(index in `answers`, read) of reads that must come from the device."""
        self.found: list[object] = []
        self.error: BaseException | None = None
        """What the job found for each of `pending`, or the error that ended it."""
        self.to_count: list[tuple[Item, FetchPartitionAnswer]] = []
        """A consumer's answers with records or an error: few in a fetch of many partitions."""

    def add(self, answer: FetchPartitionAnswer, found: Part | PendingRead, size_bytes: int) -> int:
        """Put what was read into the next answer; returns its size. A read from the device counts as `size_bytes`."""
        if isinstance(found, PendingRead):
            self.pending.append((len(self.answers), found))
            taken = max(size_bytes, 1)
        else:
            answer.records = found
            taken = len(found)
        self.bytes_count += taken
        return taken

    def rotate(self, first: int) -> None:
        """Put the answers into the order of the request, which was read from its partition `first` on."""
        count = len(self.answers)
        cut = count - first
        self.answers = self.answers[cut:] + self.answers[:cut]
        self.pending = [((index - cut) % count, plan) for index, plan in self.pending]
