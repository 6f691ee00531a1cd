"""Messages for the recorded cluster, the same each time: what `yak.tui.messages.reader.open_feed` is replaced by where
no cluster runs.

monkeypatch.setattr("yak.tui.messages.reader.open_feed", records.open_recorded(now_ms))
"""

import json
import time
from collections.abc import Callable
from typing import Any

from tests.messages import kafka_message
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.messages.feeds import OpenedFeed
from yak.tui.messages.subscription import Subscription

PARTITIONS = 3
EACH = 40


def recorded_message(topic: str, partition: int, offset: int, time_ms: int) -> Any:
    """Some have no key. The value is JSON, now and then bytes, or nothing; each third has a header."""
    number = offset * PARTITIONS + partition
    lines = [{"sku": f"sku-{number % 9}", "count": number % 4 + 1}]
    said = {"order": number, "total": number * 7 % 100, "currency": "EUR", "lines": lines}
    value: bytes | None = json.dumps(said).encode()
    if number % 13 == 0:
        value = None
    elif number % 17 == 0:
        value = bytes([0, 0x1F, 0x8B, 8, number % 256])
    return kafka_message(
        topic, partition, offset, timestamp=(1, time_ms), leader_epoch=2, value=value,
        key=None if offset % 11 == 0 else b"u%d" % (offset * 7 % 50),
        headers=[("source", b"web")] if offset % 3 == 0 else None,
    )  # fmt: skip


class RecordedFeed:
    """Gives everything once, and then nothing."""

    must_poll = False
    is_joining = False
    is_done = False

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages
        self.partitions = tuple(dict.fromkeys(TopicPartition(each.topic(), each.partition()) for each in messages))

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """All of it at first."""
        if not self._messages:
            time.sleep(min(wait_s, 0.01))
        found, self._messages = self._messages[:limit], self._messages[limit:]
        return found

    def pause(self) -> None:
        """Nothing comes anyway."""

    def resume(self) -> None:
        """As above."""

    def behind(self) -> int:
        """All is read."""
        return len(self._messages)

    def find_partitions(self) -> list[TopicPartition]:
        """There are no more."""
        return []

    def commit_now(self) -> str:
        """As if it had been done."""
        return ""

    def close(self) -> None:
        """Nothing to close."""


def open_recorded(now_ms: int, topics: tuple[str, ...] = ("orders", "payments")) -> Callable[..., OpenedFeed]:
    """Stands in for `open_feed`: these topics have messages of the minute before `now_ms`, others are not there."""

    def open_(_servers: str, wanted: Subscription, **_how: object) -> OpenedFeed:
        messages = []
        for choice in wanted.choices:
            if choice.topic not in topics:
                raise YakError("unknown-topic", f'topic "{choice.topic}" does not exist', why="it is not recorded")
            for partition in choice.partitions or range(PARTITIONS):
                for offset in range(1000, 1000 + EACH):
                    time_ms = now_ms - 60_000 + (offset - 1000) * 1500 + partition * 400
                    messages.append(recorded_message(choice.topic, partition, offset, time_ms))
        messages.sort(key=lambda message: message.timestamp()[1])
        return OpenedFeed(RecordedFeed(messages), [], {})

    return open_
