"""Shared parts of the hand-written responses to Produce (versions 3 to 13) and Fetch (4 to 18).

A response is a list of parts to send in order, length prefix and header included. Topics are pairs of a key (name up to
version 12, id from 13) and the partitions' results. The most frequent shape, one partition without an error message,
has one struct for everything but the topic's name. kio is the oracle: tests compare the bytes of both.
"""

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from yak.protocol.varint import append_uvarint

LENGTH: Final = struct.Struct(">i")
"""The length prefix."""
pack_int32: Final = struct.Struct(">i").pack
_pack_int16: Final = struct.Struct(">h").pack
_ZERO_ID: Final = bytes(16)

TopicKey: TypeAlias = str | uuid.UUID | bytes | None
"""A topic in a response: its name up to version 12, its id or the id's 16 bytes from 13 (None is the zero id)."""


class LeaderHint(NamedTuple):
    """The current leader, sent with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The address of a hinted leader (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def append_count(out: bytearray, count: int, flexible: bool) -> None:
    """Append the size of an array or blob, compact if `flexible`; -1 is null."""
    if not flexible:
        out += pack_int32(count)
    elif count < 0x7F:
        out.append(count + 1)
    else:
        append_uvarint(out, count + 1)


def append_string(out: bytearray, text: str | None, flexible: bool) -> None:
    """Append a string or null, compact if `flexible`."""
    if text is None:
        out += b"\0" if flexible else b"\xff\xff"
        return
    encoded = text.encode()
    if flexible:
        append_uvarint(out, len(encoded) + 1)
    else:
        out += _pack_int16(len(encoded))
    out += encoded


def id_bytes(key: TopicKey) -> bytes:
    """The 16 bytes of a topic id."""
    if type(key) is bytes:
        return key
    if key is None:
        return _ZERO_ID
    assert isinstance(key, uuid.UUID), f"this version names topics by id, not {key!r}"
    return key.bytes


def name_bytes(key: TopicKey) -> bytes:
    """The bytes of a topic name."""
    assert isinstance(key, str), f"this version names topics by name, not {key!r}"
    return key.encode()


def append_topic(out: bytearray, key: TopicKey, by_id: bool, flexible: bool) -> None:
    """Append a topic's id (`by_id`) or its name."""
    if by_id:
        out += id_bytes(key)
        return
    encoded = name_bytes(key)
    if flexible:
        append_uvarint(out, len(encoded) + 1)
    else:
        out += _pack_int16(len(encoded))
    out += encoded


_LEADER_TAG: Final = struct.Struct(">BBiiB")


def leader_tag(tag: int, leader: LeaderHint | None) -> bytes:
    """The tagged field of a leader hint; empty without a hint."""
    if leader is None or leader == (-1, -1):
        return b""
    return _LEADER_TAG.pack(tag, 9, leader.leader_id, leader.leader_epoch, 0)


def append_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Append the tagged fields of the whole response: none, or the endpoints under tag 0."""
    if not endpoints:
        out.append(0)
        return
    value = bytearray()
    append_uvarint(value, len(endpoints) + 1)
    for endpoint in endpoints:
        value += pack_int32(endpoint.node_id)
        append_string(value, endpoint.host, True)
        value += pack_int32(endpoint.port)
        append_string(value, endpoint.rack, True)
        value.append(0)
    out += b"\x01\x00"
    append_uvarint(out, len(value))
    out += value
