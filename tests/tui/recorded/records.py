"""Messages for the recorded cluster, the same each time: what `yak.tui.messages.reader.open_feed` is replaced by where
no cluster runs.

monkeypatch.setattr("yak.tui.messages.reader.open_feed", records.open_recorded(now_ms))
"""

import json
import time
from collections.abc import Callable
from typing import Any

from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.messages.feeds import OpenedFeed
from yak.tui.messages.subscription import Subscription

PARTITIONS = 3
EACH = 40


class RecordedMessage:
    """A message of librdkafka's kind."""

    def __init__(self, topic: str, partition: int, offset: int, time_ms: int) -> None:
        self._place = (topic, partition, offset)
        self._time_ms = time_ms

    def topic(self) -> str:
        """Of what topic."""
        return self._place[0]

    def partition(self) -> int:
        """Of which partition."""
        return self._place[1]

    def offset(self) -> int:
        """Where in it."""
        return self._place[2]

    def timestamp(self) -> tuple[int, int]:
        """CreateTime."""
        return (1, self._time_ms)

    def key(self) -> bytes | None:
        """Some have none."""
        return None if self.offset() % 11 == 0 else b"u%d" % (self.offset() * 7 % 50)

    def value(self) -> bytes | None:
        """JSON; now and then bytes, or nothing."""
        number = self.offset() * PARTITIONS + self.partition()
        if number % 13 == 0:
            return None
        if number % 17 == 0:
            return bytes([0, 0x1F, 0x8B, 8, number % 256])
        lines = [{"sku": f"sku-{number % 9}", "count": number % 4 + 1}]
        return json.dumps({"order": number, "total": number * 7 % 100, "currency": "EUR", "lines": lines}).encode()

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Each third has one."""
        return [("source", b"web")] if self.offset() % 3 == 0 else None

    def leader_epoch(self) -> int:
        """Of the second leader."""
        return 2


class RecordedFeed:
    """Gives everything once, and then nothing."""

    must_poll = False
    is_joining = False
    is_done = False

    def __init__(self, messages: list[RecordedMessage]) -> None:
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
                    messages.append(RecordedMessage(choice.topic, partition, offset, time_ms))
        messages.sort(key=lambda message: message.timestamp()[1])
        return OpenedFeed(RecordedFeed(messages), [], {})

    return open_
