"""One record of a group coordinator's log: what `decide` returns and `replay` takes."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """A key and its value in Kafka's format of `__consumer_offsets`; a value of None takes the key back (a tombstone)."""

    key: bytes
    value: bytes | None
