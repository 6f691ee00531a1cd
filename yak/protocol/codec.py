"""The entry point to kio: request frames to objects, responses to bytes, for every API version.

    decode_request        body to object: hand-written for Produce and Fetch (`produce_request`, `fetch_request`), all
                          others checked (`request_check`) and then decoded by kio
    encode_request        dict to bytes, for requests to this process or another broker; decode_response reads the reply
    encode_response       dict to bytes with length prefix and header (`response_encoder`); the two hot responses have
                          their own encoders (`produce_answer`, `fetch_answer`)

The first use of a version prepares it, which takes milliseconds: `preload` does this at start for the hot versions, and
between requests for the others.
"""

import struct
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias

from kio.serial import entity_reader
from kio.serial.errors import InvalidUnicode, SerialError

from yak.errors import ProtocolViolation
from yak.limits import ANSWER_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX
from yak.ports.disk import Buffer
from yak.protocol.fetch_request import decode_fetch_in_slices, decode_fetch_request
from yak.protocol.pace import Pace
from yak.protocol.produce_request import decode_produce_in_slices, decode_produce_request
from yak.protocol.request_check import apply_edits, check_body, check_in_slices
from yak.protocol.response_encoder import EncodedItems, Fields, UnknownNames, Writer, request_writer, struct_writer
from yak.protocol.schema_fields import EntityClass, schema_fields
from yak.protocol.schemas import load_request_schema, load_response_schema
from yak.protocol.versions import (
    API_NAMES,
    API_VERSIONS,
    FETCH,
    PRODUCE,
    decodable_range,
    is_decodable,
    is_flexible,
)

BodyDecoder: TypeAlias = Callable[[Buffer, int, int], Any]
"""(frame, where the body starts in it, how many elements it may have)."""

_PREFIX: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhih")
_NUMBERS_PER_ELEMENT: Final = 8
_ITEMS_ENCODED_AT_ONCE: Final = 20
"""An array of fewer structures without structures in them is encoded at once."""
_KIO_ERRORS: Final = (SerialError, ValueError, KeyError, IndexError, OverflowError, TypeError, struct.error)


def decode_request(
    api_key: int, api_version: int, frame: Buffer, offset: int, elements_max: int = REQUEST_ELEMENTS_MAX
) -> Any:
    """The body of a request that starts at `offset` of its frame.

    Produce and Fetch return a `ProduceRequest` and a `FetchRequest`, the same for all versions. Their `records` are
    views into the frame and valid as long as it is. All others return kio's dataclass of the version. Bytes of a string
    that are not UTF-8 are replaced by U+FFFD, as in Kafka.

    Raises ProtocolViolation when the version cannot be decoded, the bytes are not exactly one such body, or the body
    has more than `elements_max` array elements and tagged fields. `frame` must be read-only.
    """
    return _decoder(api_key, api_version)(frame, offset, elements_max)


def decode_in_slices(
    api_key: int, api_version: int, frame: Buffer, offset: int, elements_max: int
) -> Generator[None, None, Any]:
    """`decode_request` that yields between slices, for a request of many elements; it may raise after any yield."""
    if api_key == PRODUCE:
        return (yield from decode_produce_in_slices(api_version, frame, offset, elements_max))
    if api_key == FETCH:
        return (yield from decode_fetch_in_slices(api_version, frame, offset, elements_max))
    entity = load_request_schema(api_key, api_version)
    edits = yield from check_in_slices(entity, frame, offset, elements_max)
    yield
    try:
        return _read_checked(entity, entity_reader(entity), frame, offset, edits)
    except InvalidUnicode:
        edits = yield from check_in_slices(entity, frame, offset, elements_max, replaces_text=True)
        return _read_checked(entity, entity_reader(entity), frame, offset, edits)


@cache
def _decoder(api_key: int, api_version: int) -> BodyDecoder:
    if not is_decodable(api_key, api_version):
        # A raised exception is not cached, so a peer cannot fill the cache.
        raise ProtocolViolation(f"this YAK has no version {api_version} of api key {api_key}")
    if api_key == PRODUCE:
        return partial(decode_produce_request, api_version)
    if api_key == FETCH:
        return partial(decode_fetch_request, api_version)
    return _checked_kio_decoder(load_request_schema(api_key, api_version))


def _checked_kio_decoder(entity: EntityClass) -> BodyDecoder:
    read = entity_reader(entity)

    def decode(frame: Buffer, offset: int, elements_max: int) -> Any:
        edits = check_body(entity, frame, offset, elements_max)
        try:
            return _read_checked(entity, read, frame, offset, edits)
        except InvalidUnicode:
            edits = check_body(entity, frame, offset, elements_max, replaces_text=True)
            return _read_checked(entity, read, frame, offset, edits)

    return decode


def _read_checked(
    entity: EntityClass,
    read: Callable[[Buffer, int], tuple[Any, int]],
    frame: Buffer,
    offset: int,
    edits: list[tuple[int, int, bytes]],
) -> Any:
    """Raises ProtocolViolation; InvalidUnicode for a string that is not UTF-8."""
    if edits:
        frame, offset = apply_edits(frame, offset, edits), 0
    try:
        return read(frame, offset)[0]
    except InvalidUnicode:
        raise
    except _KIO_ERRORS as error:
        raise ProtocolViolation(f"{entity.__name__} v{entity.__version__}: {error}") from None


def encode_response(api_key: int, api_version: int, correlation_id: int, fields: Mapping[str, object]) -> list[Buffer]:
    """A whole response, length prefix and header included, as parts to send in order.

    `fields` is version-independent (see `response_encoder`). Raises TypeError for a field that no version of this API
    has, or a value that does not fit its kind: both are bugs of the caller.
    """
    out = bytearray(_PREFIX.pack(0, correlation_id))
    # ApiVersions responses never have tagged header fields: the client does not know YAK's versions yet (KIP-511).
    if api_key != API_VERSIONS and _response_class(api_key, api_version).__flexible__:
        out.append(0)
    _writer(api_key, api_version)(out, fields)
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return [out]


def encode_in_slices(
    api_key: int, api_version: int, correlation_id: int, fields: Mapping[str, object]
) -> Generator[None, None, list[Buffer]]:
    """`encode_response` that yields between slices, for a response of many elements."""
    known = _names_at(_response_class(api_key, api_version), ())
    encoded, pace = dict(fields), Pace()
    for name, value in fields.items():
        if name in known and _are_structures(value):
            encoded[name] = yield from _encode_items_in_slices(api_key, api_version, (name,), value, pace)
    return encode_response(api_key, api_version, correlation_id, encoded)


def _encode_items_in_slices(
    api_key: int, api_version: int, path: tuple[str, ...], items: Any, pace: Pace
) -> Generator[None, None, EncodedItems]:
    out = bytearray()
    write = _item_writer(api_key, api_version, path)
    nested = _nested_structures(api_key, api_version, path)
    for item in items:
        encoded, passed = item, 1
        for name, value in item.items():
            if _are_structures(value) and (
                nested.get(name) or (name in nested and len(value) > _ITEMS_ENCODED_AT_ONCE)
            ):
                inner = yield from _encode_items_in_slices(api_key, api_version, (*path, name), value, pace)
                encoded = {**encoded, name: inner}
            else:
                passed += _elements(value)
        write(out, encoded)
        if pace.is_over(passed):
            yield
    return EncodedItems(len(items), bytes(out))


def _elements(value: object) -> int:
    """About how many elements this value costs; numbers are cheap."""
    if type(value) is dict:
        return sum(map(_elements, value.values()))
    if type(value) is not list or not value:
        return 0
    return len(value) // _NUMBERS_PER_ELEMENT if type(value[0]) is int else len(value)


@cache
def _nested_structures(api_key: int, api_version: int, path: tuple[str, ...]) -> dict[str, bool]:
    """The names of the fields of an array's structures that are structures; True if those have structures again."""
    entity = _entity_at(_response_class(api_key, api_version), path)
    return {
        field.name: any(inner.struct is not None for inner in schema_fields(field.struct))
        for field in schema_fields(entity)
        if field.struct is not None
    }


def _are_structures(value: object) -> bool:
    return type(value) is list and bool(value) and type(value[0]) is dict


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str, fields: Mapping[str, object]
) -> bytes:
    """A whole request without its length prefix; `fields` and errors are those of `encode_response`."""
    name = client_id.encode()
    out = bytearray(_REQUEST_HEAD.pack(api_key, api_version, correlation_id, len(name)) + name)
    if is_flexible(api_key, api_version):
        out.append(0)
    request_writer(api_key, api_version)(out, fields)
    return bytes(out)


def framed(message: bytes) -> bytes:
    """The message behind its length, as it is sent."""
    return _LENGTH.pack(len(message)) + message


def decode_response(api_key: int, api_version: int, frame: bytes) -> Any:
    """kio's object of a response without its length prefix. Raises ProtocolViolation."""
    entity = _response_class(api_key, api_version)
    offset = _LENGTH.size + (api_key != API_VERSIONS and entity.__flexible__)
    try:
        # Checked like requests: kio allocates as many elements as a count claims, and aborts the process if it cannot.
        return _checked_answer_decoder(api_key, api_version)(memoryview(frame), offset, ANSWER_ELEMENTS_MAX)
    except ProtocolViolation as error:
        raise ProtocolViolation(f"the response is not a valid {entity.__name__}: {error}") from None


@cache
def _checked_answer_decoder(api_key: int, api_version: int) -> BodyDecoder:
    return _checked_kio_decoder(_response_class(api_key, api_version))


def encode_items(api_key: int, api_version: int, path: tuple[str, ...], items: Sequence[Fields]) -> EncodedItems:
    """The encoded structures of one array of a response, for a response that repeats them.

    `path` has the names of the fields that lead to the array. Errors are those of `encode_response`.
    """
    out = bytearray()
    write = _item_writer(api_key, api_version, path)
    for item in items:
        write(out, item)
    return EncodedItems(len(items), bytes(out))


@cache
def _response_class(api_key: int, api_version: int) -> EntityClass:
    return load_response_schema(api_key, api_version)


@cache
def _writer(api_key: int, api_version: int) -> Writer:
    return struct_writer(_response_class(api_key, api_version), (), _refuse_unknown_in(api_key))


@cache
def _item_writer(api_key: int, api_version: int, path: tuple[str, ...]) -> Writer:
    entity = _entity_at(_response_class(api_key, api_version), path)
    return struct_writer(entity, path, _refuse_unknown_in(api_key))


def _entity_at(entity: EntityClass, path: tuple[str, ...]) -> EntityClass:
    for step in path:
        entity = next(field.struct for field in schema_fields(entity) if field.name == step)
    return entity


def _refuse_unknown_in(api_key: int) -> UnknownNames:
    def refuse_unknown(path: tuple[str, ...], names: frozenset[str]) -> None:
        for name in sorted(names):
            if not _known_in_any_version(api_key, path, name):
                place = ".".join((API_NAMES[api_key], *path))
                raise TypeError(f"{place} has no field {name!r} in any version")

    return refuse_unknown


def has_response_field(api_key: int, name: str) -> bool:
    """Whether any version of an API's response has this field; `encode_response` drops it in the others."""
    return _known_in_any_version(api_key, (), name)


@cache
def _known_in_any_version(api_key: int, path: tuple[str, ...], name: str) -> bool:
    versions = decodable_range(api_key)
    assert versions is not None
    return any(
        name in _names_at(_response_class(api_key, version), path)
        for version in range(versions.maximum, versions.minimum - 1, -1)
    )


def _names_at(entity: EntityClass, path: tuple[str, ...]) -> frozenset[str]:
    for step in path:
        inner = next((field.struct for field in schema_fields(entity) if field.name == step), None)
        if inner is None:
            return frozenset()
        entity = inner
    return frozenset(field.name for field in schema_fields(entity))


def preload(hot: Iterable[tuple[int, Iterable[int]]]) -> None:
    """Prepare these (key, versions) now, so that no request has to."""
    for api_key, versions in hot:
        for version in versions:
            if is_decodable(api_key, version):
                _decoder(api_key, version)
                _writer(api_key, version)
