"""A received record, as plain values."""

from dataclasses import dataclass
from typing import Any

from yak.ids import Offset

TIMESTAMP_TYPES = {0: "NotAvailable", 1: "CreateTime", 2: "LogAppendTime"}


@dataclass(slots=True)
class Received:
    """One record of a topic. `timestamp_ms` is -1 without a timestamp."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int | None

    @classmethod
    def of(cls, message: Any) -> "Received":
        """From librdkafka's message."""
        kind, timestamp_ms = message.timestamp()
        return cls(
            message.topic(),
            message.partition(),
            message.offset(),
            timestamp_ms if kind else -1,
            TIMESTAMP_TYPES.get(kind, "NotAvailable"),
            message.key(),
            message.value(),
            message.headers() or [],
            message.leader_epoch(),
        )
