"""Reads Produce requests that differ from an earlier one of their connection in correlation id and records only.

A producer sends most of its requests to one partition after the other, so the bytes in front of the records repeat: the
API, the client id, acks, the timeout, the topic and the partition. To compare them costs a third of decoding them.
"""

from __future__ import annotations

import struct
from typing import Final

from yak.protocol.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from yak.protocol.request_header import RequestHeader
from yak.protocol.varint import read_uvarint, uvarint
from yak.protocol.versions import PRODUCE

FIRST_VERSION: Final = 9
"""The first flexible version; earlier ones are decoded."""
MISSES_MAX: Final = 16
"""After this many requests in succession that none repeated, a connection learns no more of them."""
_API_BYTES: Final = 4
"""API key and version, before the correlation id."""
_BODY_AT: Final = 8
_NO_TAGS: Final = memoryview(b"\0\0\0")
"""The tagged fields of partition, topic and request, none of each, end the frame."""
_make = tuple.__new__


class RepeatedProduce:
    """The last Produce request of a connection with one batch and no tagged fields, and how to read another like it."""

    __slots__ = (
        "_acks",
        "_api",
        "_body",
        "_client_id",
        "_index",
        "_misses",
        "_name",
        "_records_at",
        "_timeout_ms",
        "_topic_id",
        "_unpack",
        "_version",
    )

    def __init__(self) -> None:
        self._version = 0
        self._client_id: str | None = None
        self._api = self._body = b""
        self._misses = 0
        self._unpack = struct.Struct(">4si0sBB").unpack_from
        self._records_at = 0

    def learn(self, frame: memoryview, header: RequestHeader, request: ProduceRequest) -> None:
        """Note a request that `read` did not recognise, if it has one batch."""
        if self._misses >= MISSES_MAX or header.api_version < FIRST_VERSION or len(request.topic_data) != 1:
            return
        (topic,) = request.topic_data
        if request.transactional_id is not None or len(topic.partition_data) != 1:
            return
        (partition,) = topic.partition_data
        records = partition.records
        if records is None or frame[-len(_NO_TAGS) :] != _NO_TAGS:
            return
        length_at = len(frame) - len(_NO_TAGS) - len(records) - len(uvarint(len(records) + 1))
        self._misses += 1
        self._version, self._client_id = header.api_version, header.client_id
        self._api, self._body = bytes(frame[:_API_BYTES]), bytes(frame[_BODY_AT:length_at])
        self._unpack = struct.Struct(f">4si{length_at - _BODY_AT}sBB").unpack_from
        self._records_at = length_at + 1
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._name, self._topic_id, self._index = topic.name, topic.topic_id, partition.index

    def read(self, frame: memoryview) -> tuple[RequestHeader, ProduceRequest] | None:
        """The header and the request, whose records are a view into the frame; None for any other frame.

        Raises ProtocolViolation for a length of more than five bytes.
        """
        try:
            api, correlation_id, body, length, high = self._unpack(frame)
        except struct.error:
            return None
        if body != self._body or api != self._api:
            return None
        position = self._records_at
        if length >= 0x80:
            if high < 0x80:
                length = length & 0x7F | high << 7
                position += 1
            else:
                length, position = read_uvarint(frame, position - 1)
        end = position + length - 1
        if not length or frame[end:] != _NO_TAGS:
            return None
        self._misses = 0
        partition = _make(PartitionProduceData, (self._index, frame[position:end]))
        topic = _make(TopicProduceData, (self._name, self._topic_id, [partition]))
        header = _make(RequestHeader, (PRODUCE, self._version, correlation_id, self._client_id, position))
        return header, _make(ProduceRequest, (None, self._acks, self._timeout_ms, [topic]))
