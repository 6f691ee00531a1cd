"""A record to be edited and sent: other screens pass it to the Producer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """A record. `partition` None: chosen by the key. `value` None: a tombstone."""

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
