"""One record of a group coordinator: decisions return records, and `replay` applies them."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """A key and its value in Kafka's format of `__consumer_offsets`; a value of None is a tombstone."""

    key: bytes
    value: bytes | None
