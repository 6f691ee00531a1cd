"""One record each: as a consumer receives it, and as a producer's acknowledgement reports it."""

from dataclasses import dataclass
from typing import Any, Final

from yak.client.api.failures import with_notes
from yak.client.api.serde import Serde
from yak.client.received import Received
from yak.errors import YakError
from yak.ids import LeaderEpoch, Offset, TopicPartition

_UNREAD: Final = object()


@dataclass(frozen=True, slots=True)
class Sent:
    """The position of an acknowledged record.

    With acks=0 the offset is -1; `timestamp_ms` is -1 if the broker reported none.
    """

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class Message:
    """One received record.

    `key` and `value` are decoded on first use, so that a record that cannot be decoded affects no other; `raw_key` and
    `raw_value` are the bytes. `timestamp_ms` is -1 when there is none.
    """

    __slots__ = ("_key", "_received", "_serdes", "_value")

    def __init__(self, received: Received, keys: Serde, values: Serde) -> None:
        self._received = received
        self._serdes = (keys, values)
        self._key: Any = _UNREAD
        self._value: Any = _UNREAD

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._received.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._received.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition, as arguments of `seek`, `pause` and `commit`."""
        return TopicPartition(self._received.topic, self._received.partition)

    @property
    def offset(self) -> Offset:
        """The record's offset in its partition."""
        return self._received.offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, set by the producer or the broker as the topic is configured; -1 when there is
        none."""
        return self._received.timestamp_ms

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's headers in order; a name may occur twice."""
        return self._received.headers

    @property
    def leader_epoch(self) -> LeaderEpoch | None:
        """The epoch of the leader that appended the record."""
        return self._received.leader_epoch

    @property
    def raw_key(self) -> bytes | None:
        """The undecoded key."""
        return self._received.key

    @property
    def raw_value(self) -> bytes | None:
        """The undecoded value."""
        return self._received.value

    @property
    def key(self) -> Any:
        """The key; text unless the consumer has another serde. Raises YakError (`not-decoded`)."""
        if self._key is _UNREAD:
            self._key = self._decode(self._serdes[0], "key", self._received.key)
        return self._key

    @property
    def value(self) -> Any:
        """The value; JSON unless the consumer has another serde. Raises YakError (`not-decoded`)."""
        if self._value is _UNREAD:
            self._value = self._decode(self._serdes[1], "value", self._received.value)
        return self._value

    def _decode(self, serde: Serde, what: str, raw: bytes | None) -> Any:
        if raw is None:
            return None
        try:
            return serde.decode(raw)
        except Exception as error:
            failure = YakError(
                "not-decoded",
                f"the {what} of {self.topic_partition} at offset {self.offset} is not {serde.name}",
                why=f"{str(error) or type(error).__name__}; it begins with {raw[:24]!r}",
                try_=(f"read message.raw_{what}", f"Consumer({what}s=yak.BYTES), or yak.TEXT, or a yak.Serde"),
            )
            raise with_notes(failure) from error

    def __repr__(self) -> str:
        raw = self._received
        return f"Message({raw.topic!r}, {raw.partition}, offset={raw.offset}, key={raw.key!r}, value={raw.value!r})"
