"""A follower's Fetch that differs from its last one in a few numbers only: recognised by its bytes, without decoding.

A follower that keeps up names one partition in each request, and its identity, session and limits stay the same. Those
are compared as bytes, so a request with any other difference goes to the decoder.
"""

import struct
import uuid
from typing import Final, TypeAlias

from yak.ports.disk import Buffer
from yak.protocol.hot_pieces import id_bytes
from yak.protocol.replica_fetch import VERSION
from yak.protocol.versions import FETCH

_KIND: Final = struct.pack(">hh", FETCH, VERSION)
_CLIENT_ID_AT: Final = 8
_ID_LENGTH: Final = struct.Struct(">h")
_LIMITS_BYTES: Final = 17
"""Maximum wait, minimum and maximum size, isolation level and session id: the fields before the session epoch."""
_NAME: Final = struct.Struct(">B16sBi")
_NUMBERS_BYTES: Final = 4 + _NAME.size + 28
"""From the session epoch to the last number of the partition."""
_ONE: Final = 2
"""An array of one, in the compact form."""
_NOTHING_MORE: Final = b"\0\0\1"
"""No tagged fields of the partition and of the topic, and no forgotten topics."""

Repeated: TypeAlias = tuple[int, int, bytes, int, int, int, int, int]
"""Correlation id, session epoch, name (`partition_name`), and of the partition: the leader epoch that the follower
knows, fetch offset, last fetched epoch, log start offset, maximum size."""


def partition_name(topic_id: uuid.UUID | None, index: int) -> bytes:
    """The bytes that name a request's only partition: arrays of one, topic id (None is the zero id), index."""
    return _NAME.pack(_ONE, id_bytes(topic_id), _ONE, index)


class FetchPattern:
    """One request of a follower, as the pattern of the next ones in its session."""

    __slots__ = ("_front", "_size", "_tail", "_unpack")

    def __init__(self, front: bytes, tail: bytes) -> None:
        layout = struct.Struct(f">4si{len(front)}si{_NAME.size}siqiqi{len(tail)}s")
        self._front = front
        self._tail = tail
        self._size = layout.size
        self._unpack = layout.unpack

    @classmethod
    def of(cls, frame: Buffer) -> "FetchPattern | None":
        """The pattern of a decoded request; None when it names anything but one partition."""
        raw = bytes(frame)
        (length,) = _ID_LENGTH.unpack_from(raw, _CLIENT_ID_AT)
        body_at = _CLIENT_ID_AT + _ID_LENGTH.size + max(0, length) + 1
        epoch_at = body_at + _LIMITS_BYTES
        tail_at = epoch_at + _NUMBERS_BYTES
        has_no_tags = raw[body_at - 1 : body_at] == b"\0"
        if not has_no_tags or raw[tail_at : tail_at + len(_NOTHING_MORE)] != _NOTHING_MORE:
            return None
        topics, _topic_id, partitions, _index = _NAME.unpack_from(raw, epoch_at + 4)
        return cls(raw[_CLIENT_ID_AT:epoch_at], raw[tail_at:]) if topics == partitions == _ONE else None

    def read(self, frame: Buffer) -> Repeated | None:
        """The changed numbers of a request that is otherwise the same; None when it is another one.

        The caller checks the name: a request that names no partition of the session is another one, too.
        """
        if len(frame) != self._size:
            return None
        kind, correlation_id, front, session_epoch, name, leader_epoch, offset, last_epoch, start, size, tail = (
            self._unpack(frame)
        )
        if kind != _KIND or front != self._front or tail != self._tail:
            return None
        return correlation_id, session_epoch, name, leader_epoch, offset, last_epoch, start, size
