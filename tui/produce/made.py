"""Feeds a run with records generated from templates: as many as the plan says."""

import time
from collections.abc import Iterator
from itertools import count

from yak.client.metadata import Topic
from yak.client.produce import Failed, Outgoing, RecordSender
from yak.client.record_template import RecordTemplate
from yak.tui.produce.plan import Plan


class MadeFeed:
    """Records from a template. A failed record does not end the run: the next one may succeed."""

    def __init__(self, plan: Plan, template: RecordTemplate, *, seed: int | None = None) -> None:
        self._count = plan.count
        partition = -1 if plan.partition is None else plan.partition
        self._records = template.records(now_ms, seed=seed, partition=partition)

    def open(self, topic: Topic) -> None:
        """Nothing to prepare."""

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Generate the records. Other feeds use the sender to settle records themselves."""
        del sender
        numbers = count() if self._count is None else range(self._count)
        yield from zip(numbers, self._records, strict=False)

    def acknowledged(self, number: int) -> None:
        """Nothing: the run counts it."""

    def failed(self, failure: Failed) -> str:
        """Nothing: the run counts it, and goes on."""
        del failure
        return ""

    def moment(self, sender: RecordSender) -> None:
        """Nothing to save."""

    def close(self, sender: RecordSender | None, is_complete: bool) -> None:
        """Nothing to close."""


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
