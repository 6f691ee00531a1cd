"""A Metadata request for all topics, as librdkafka writes it from version 9 on.

It reserves four bytes for the length of the topic array. When the array is null, it leaves all four, where a compact
array needs one (`rd_kafka_MetadataRequest0` in librdkafka's `rdkafka_request.c`; seen in 2.16). Apache Kafka reads the
three surplus bytes as the next fields, and ignores the bytes left over. YAK refuses bytes left over, so it removes the
three; the flags after them then have the values that the client meant.

A valid request stays unchanged: up to version 10 the same bytes may be three flags that are not set, followed by
unknown tagged fields. Of the bytes that librdkafka writes, only `01 tt 01 00` can mean this, one field of one byte.
"""

from typing import Final

from yak.ports.disk import Buffer

METADATA: Final = 3
_FIRST_COMPACT_VERSION: Final = 9
_LEAN_VERSION: Final = 11
_RESERVED: Final = bytes(4)
_FLAGS: Final = (0, 1)
_FIELDS_BYTES_BEFORE_11: Final = 4
"""allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations, no tags."""
_FIELDS_BYTES: Final = 3
"""The same without include_cluster_authorized_operations (KIP-700)."""


def without_reserved_bytes(api_version: int, frame: Buffer, offset: int) -> tuple[Buffer, int]:
    """The frame and its body's offset: new ones for such a request, otherwise the same."""
    if api_version < _FIRST_COMPACT_VERSION:
        return frame, offset
    fields_bytes = _FIELDS_BYTES if api_version >= _LEAN_VERSION else _FIELDS_BYTES_BEFORE_11
    if len(frame) - offset != len(_RESERVED) + fields_bytes or frame[offset : offset + 4] != _RESERVED:
        return frame, offset
    *flags, tags = frame[offset + 4 :]
    if tags != 0 or any(flag not in _FLAGS for flag in flags):
        return frame, offset
    if api_version < _LEAN_VERSION and flags[0] == flags[2] == 1:  # one tagged field, with a value of one byte
        return frame, offset
    return memoryview(bytes(frame[offset + 3 :])), 0
