"""Counters of this broker since its start, read by metrics and views.

    counters = broker.counters
    counters.topics["orders"].messages_in        # of a topic, while this broker has a replica of it
    counters.total().bytes_out                   # of all topics, deleted ones included: never decreases
    counters.errors[ApiKey, code]                # error codes answered
    counters.elections                           # by this broker as the controller (`yak.cluster.controller`)

They only grow, so a rate is the difference of two readings divided by the time between them. Read them between turns, and
change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from typing import Any, Final

from yak.cluster.election_counts import ElectionCounts
from yak.limits import SLICE_ELEMENTS
from yak.replication.partition import Partition
from yak.replication.traffic import Traffic

FOLLOWER_FETCH: Final = -1
"""Pseudo API key for the Fetch of a follower, which is counted apart: it waits for other things than a consumer's Fetch."""
_MEASURED_MAX: Final = 65_536
"""Answered requests, for measurement: those of one turn, or the latest where none are measured (the simulator)."""


class Counters:
    """The counters of one broker."""

    def __init__(self) -> None:
        self.topics: dict[str, Traffic] = {}
        """By topic, while this broker has a replica of it."""
        self.partitions: dict[str, int] = {}
        """Number of replicas on this broker, by topic."""
        self.retired = Traffic()
        """Sum of the topics that are no longer in `topics`."""
        self.replicated = Traffic()
        """Bytes of records fetched from leaders, and sent to followers."""
        self.errors: dict[tuple[int, int], int] = {}
        """By API key and error code: one for each partition, topic, group or whole answer with that code."""
        self.elections = ElectionCounts()
        self.turn_ns = 0
        """Start of the present turn, on the clock of the shell's latency measurement; 0 without it."""
        self.answered: deque[int] = deque(maxlen=_MEASURED_MAX)
        """API keys of the requests that this turn answered at once; the latency measurement empties it."""
        self.waited: deque[tuple[int, int]] = deque(maxlen=_MEASURED_MAX)
        """(API key, `turn_ns` on arrival) of the requests that were answered after a delay."""

    def replica_added(self, partition: Partition) -> None:
        """Count a new replica's traffic as its topic's."""
        name = partition.topic_partition.topic
        self.partitions[name] = self.partitions.get(name, 0) + 1
        partition.traffic = self.topics.setdefault(name, partition.traffic)

    def replica_removed(self, partition: Partition) -> None:
        """Drop a topic that this broker has no replica of any more; its traffic stays in `total()`."""
        name = partition.topic_partition.topic
        self.partitions[name] -= 1
        if not self.partitions[name]:
            del self.partitions[name]
            self.retired.add(self.topics.pop(name))

    def total(self) -> Traffic:
        """The traffic of all topics, retired ones included."""
        total = Traffic()
        total.add(self.retired)
        for traffic in self.topics.values():
            total.add(traffic)
        return total

    def failed(self, api_key: int, error_code: int) -> None:
        """Count one error code of an answer."""
        key = (api_key, int(error_code))
        self.errors[key] = self.errors.get(key, 0) + 1

    def note_errors(self, api_key: int, fields: Mapping[str, Any]) -> Generator[None, None, None]:
        """Count the error codes of an answer, its own and those of the items in its lists, in slices."""
        left, passed = [fields], 0
        while left:
            part = left.pop()
            code = part.get("error_code")
            if code:
                self.failed(api_key, code)
            for value in part.values():
                if type(value) is list and value and type(value[0]) is dict:
                    left += value
            passed += 1
            if passed % (4 * SLICE_ELEMENTS) == 0:  # these are cheap
                yield
