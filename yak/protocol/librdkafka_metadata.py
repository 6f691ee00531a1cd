"""A Metadata request for all topics, as librdkafka writes it from version 9 on.

It reserves four bytes for the length of the topic array and, when the array is null, leaves all four where a compact
array needs one (`rd_kafka_MetadataRequest0` in librdkafka's `rdkafka_request.c`; seen in 2.16). Apache Kafka reads the
three that are too many as the fields that follow, and does not mind the bytes left over. We refuse bytes left over, so
the three are taken out, which also gives the flags behind them the values that the client meant.
"""

from typing import Final

from yak.seams.disk import Buffer

METADATA: Final = 3
_FIRST_COMPACT_VERSION: Final = 9
_RESERVED: Final = bytes(4)
_FIELDS_BYTES_BEFORE_11: Final = 4
"""allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations, no tags."""
_FIELDS_BYTES: Final = 3
"""The same without include_cluster_authorized_operations (KIP-700)."""


def without_reserved_bytes(api_version: int, frame: Buffer, offset: int) -> tuple[Buffer, int]:
    """The frame and the offset of its body to read on with: new ones for such a request, else the same."""
    if api_version < _FIRST_COMPACT_VERSION:
        return frame, offset
    fields_bytes = _FIELDS_BYTES if api_version >= 11 else _FIELDS_BYTES_BEFORE_11
    if len(frame) - offset != len(_RESERVED) + fields_bytes or frame[offset : offset + 4] != _RESERVED:
        return frame, offset
    return memoryview(bytes(frame[offset + 3 :])), 0
