"""Requests and responses as a client sees them: frames, encoded and decoded by kio, not by the code under test."""

from __future__ import annotations

import dataclasses
import io
import struct
import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

from kio.serial import entity_reader, entity_writer

from yak.protocol.record_writer import build_batch
from yak.protocol.schemas import load_request_schema, load_response_schema

_LENGTH = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhih")


@cache
def request_class(api_key: int, version: int) -> Any:
    """kio's class of a request."""
    return load_request_schema(api_key, version)


@cache
def _answer_format(api_key: int, version: int) -> tuple[Any, bool]:
    """The reader of a response's body, and whether its header has tagged fields."""
    schema = load_response_schema(api_key, version)
    return entity_reader(schema), schema.__flexible__ and api_key != 18


@cache
def nested(cls: Any, field_name: str) -> Any:
    """The class of the structures in a field of a kio class: single, array or optional."""
    declared = next(field.type for field in dataclasses.fields(cls) if field.name == field_name)
    unseen: list[Any] = [declared]
    while unseen:
        candidate = unseen.pop()
        if dataclasses.is_dataclass(candidate):
            return candidate
        unseen.extend(typing.get_args(candidate))
    raise KeyError(field_name)


def request_frame(api_key: int, version: int, correlation_id: int, body: Any, client_id: str = "sim") -> bytes:
    """A whole request without its length prefix."""
    name = client_id.encode()
    head = _REQUEST_HEADER.pack(api_key, version, correlation_id, len(name)) + name
    return (head + b"\0" if type(body).__flexible__ else head) + encoded(body)


def encoded(entity: Any) -> bytes:
    """The bytes of one of kio's structures."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def read_answer(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, body) of a response with its length prefix; asserts that the frame is complete."""
    (length,) = _LENGTH.unpack_from(frame)
    assert length == len(frame) - 4, "the answer's length prefix is wrong"
    (correlation_id,) = _LENGTH.unpack_from(frame, 4)
    position = 8
    read_body, has_tagged_fields = _answer_format(api_key, version)
    if has_tagged_fields:
        assert frame[position] == 0, "tagged fields in an answer's header"
        position += 1
    body, consumed = read_body(frame, position)
    assert position + consumed == len(frame), "bytes after the answer"
    return correlation_id, body


def record_batch(
    values: Sequence[bytes | None],
    timestamp_ms: int,
    *,
    keys: Sequence[bytes | None] = (),
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """One uncompressed batch of records, without keys unless some are given."""
    return build_batch(
        list(zip(keys or [None] * len(values), values, strict=True)),
        timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
