"""One message about to be sent: what other screens hand to the Producer, to be edited and sent from there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as it would be sent. `partition` None lets the key choose; a `value` of None is a tombstone."""

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
