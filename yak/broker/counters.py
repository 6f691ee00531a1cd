"""What this broker has done since it started, as plain numbers: added to on the way, read by metrics and views.

    counters = broker.counters
    counters.topics["orders"].messages_in        # by topic, for those that this broker holds
    counters.total().bytes_out                   # over all topics, those that were deleted included: never goes back
    counters.errors[ApiKey, code]                # error codes answered
    counters.isr_shrinks, counters.isr_expands   # of partitions that this broker leads
    counters.elections                           # by this broker as the controller (`yak.cluster.election_counts`)

All of them only grow, so that a rate is the difference of two looks over the time between them. To read them costs
nothing to those who add to them; look between turns, and change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from yak.cluster.election_counts import ElectionCounts
from yak.replication.traffic import Traffic

FOLLOWER_FETCH: Final = -1
"""Stands for Fetch by a follower where requests are counted by API: it waits for other things than a consumer's does."""
_MEASURED_MAX: Final = 65_536
"""Requests answered in one turn that are measured; with nobody who measures (the simulator), what is kept of them."""


class Counters:
    """One broker's."""

    __slots__ = (
        "answered",
        "damaged_reads",
        "elections",
        "errors",
        "isr_expands",
        "isr_refused",
        "isr_shrinks",
        "replication_bytes_in",
        "replication_bytes_out",
        "retired",
        "store_outage_ms",
        "store_outages",
        "topics",
        "turn_ns",
        "waited",
    )

    def __init__(self) -> None:
        self.topics: dict[str, Traffic] = {}
        """By name, while this broker holds a partition of it."""
        self.retired = Traffic()
        """What the topics had that are no longer in `topics`."""
        self.replication_bytes_in = 0
        """Of records fetched from leaders."""
        self.replication_bytes_out = 0
        """Of records given to followers."""
        self.errors: dict[tuple[int, int], int] = {}
        """By API key and error code: once for each partition, topic, group or whole answer that is answered with it."""
        self.damaged_reads = 0
        """Reads of clients, followers and coordinators that met a damaged batch."""
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.isr_refused = 0
        """ISR changes that the store did not accept."""
        self.store_outages = 0
        self.store_outage_ms = 0
        """Of outages that are over; `Metadata.store_lost_ms` says since when one lasts."""
        self.elections = ElectionCounts()
        self.turn_ns = 0
        """When the turn under way began, on the clock of who measures; 0 where nobody does."""
        self.answered: deque[int] = deque(maxlen=_MEASURED_MAX)
        """API keys of what this turn answered at once; who measures empties it."""
        self.waited: deque[tuple[int, int]] = deque(maxlen=_MEASURED_MAX)
        """(API key, `turn_ns` when it came) of what was answered after waiting."""

    def topic(self, name: str) -> Traffic:
        """A topic's traffic; begun when there was none."""
        traffic = self.topics.get(name)
        if traffic is None:
            traffic = self.topics[name] = Traffic()
        return traffic

    def retire(self, name: str) -> None:
        """This broker holds nothing of the topic any more; its totals stay in `total()`."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.retired.add(gone)

    def total(self) -> Traffic:
        """Over all topics, those that are gone included."""
        total = Traffic()
        total.add(self.retired)
        for traffic in self.topics.values():
            total.add(traffic)
        return total

    def failed(self, api_key: int, error_code: int) -> None:
        """One more part of an answer with an error code."""
        key = (api_key, int(error_code))
        self.errors[key] = self.errors.get(key, 0) + 1

    def note_errors(self, api_key: int, fields: Mapping[str, Any]) -> None:
        """Count the error codes of an answer: its own, and those of the parts in its lists."""
        code = fields.get("error_code")
        if code:
            self.failed(api_key, code)
        for value in fields.values():
            if type(value) is list and value and type(value[0]) is dict:
                for part in value:
                    self.note_errors(api_key, part)
