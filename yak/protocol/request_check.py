"""Every request body is walked once before kio decodes it, and none of it is trusted before it is checked.

kio's native reader allocates an array from its count alone: ten bytes that claim 2^35 elements abort the whole process
(an allocation failure in Rust cannot be caught). It also accepts nulls where the schema has none, and tagged fields that
repeat or have a wrong size, and refuses unknown ones. So this walk
- checks every length and count against the remaining bytes, and the elements of one request against a limit;
- refuses nulls, descending tags and wrong sizes;
- notes unknown tagged fields, so that they can be removed;
- notes durations that kio refuses, so that they can be replaced by the longest one that it reads, 292,000 years (Kafka
  accepts every `long`);
- notes the bytes of booleans and before nullable structures that kio refuses: in Kafka each but 0 is true, and each
  negative one is null.

A checker is compiled from kio's classes once for each version. kio checks the content of strings. After it has refused one
that is not UTF-8, a second walk notes such strings, to replace them as Java's `new String(bytes, UTF_8)` does in Kafka.
"""

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Final, TypeAlias

from yak.errors import ProtocolViolation
from yak.limits import REPLICAS_PER_ELEMENT, SLICE_ELEMENTS
from yak.ports.disk import Buffer
from yak.protocol.bounded_reads import ENDS_EARLY, Budget, expect_end
from yak.protocol.schema_fields import STRUCT_KIND, EntityClass, SchemaField, schema_fields
from yak.protocol.tagged_fields import TaggedField, iterate_tags, read_tag_count
from yak.protocol.varint import read_uvarint, uvarint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_DURATION_MS_MAX: Final = (2**63 - 1) // 1000
"""kio's native reader counts durations in 64 bits of microseconds."""
_SHORT_TEXT_BYTES_MAX: Final = 2**15 - 1
_REPLICAS: Final = frozenset({"broker_ids", "replicas"})
"""Arrays of node ids: in CreateTopics and CreatePartitions, and in AlterPartitionReassignments."""


class Walk(Budget):
    """One pass over one body: the bytes, their end, and the findings."""

    __slots__ = ("data", "edits", "end", "replaces_text")

    def __init__(self, data: Buffer, elements_max: int, replaces_text: bool) -> None:
        super().__init__(elements_max)
        self.data = data
        self.replaces_text = replaces_text
        self.end = len(data)
        self.edits: list[tuple[int, int, bytes]] = []
        """(start, end, replacement) of the changes that kio needs to read the body; not in order."""

    def bound_array(self, count: int, position: int, element_bytes_min: int, per_element: int) -> None:
        """Refuse an impossible count, or too many elements in one request; `per_element` array items count as one."""
        if count * element_bytes_min > self.end - position:
            raise ProtocolViolation(f"an array of {count} with {self.end - position} bytes left")
        self.spend(count // per_element)


Step: TypeAlias = Callable[[Walk, int], int]
"""Checks one field that starts at a position; returns the position after it. Raises ProtocolViolation."""
Begin: TypeAlias = Callable[[Walk, int], tuple[int, int]]
"""Checks the count of an array; returns it and the position of the first element."""
_loops: Final[dict[Step, tuple[Begin, Step]]] = {}
"""The two parts of each array checker, to check an array in slices."""


def check_body(
    entity: EntityClass,
    data: Buffer,
    offset: int,
    elements_max: int,
    *,
    replaces_text: bool = False,
) -> list[tuple[int, int, bytes]]:
    """Walk the body of `entity` that starts at `offset`; returns the edits that kio needs (usually none).

    With `replaces_text` they make UTF-8 of the strings that are not.

    Bytes after the body are ignored, as by Kafka: librdkafka sends some in AlterUserScramCredentials and Metadata.
    Raises ProtocolViolation when the bytes are no such body.
    """
    walk = Walk(data, elements_max, replaces_text)
    try:
        position = struct_step(entity)(walk, offset)
    except struct.error:
        raise ProtocolViolation(ENDS_EARLY) from None
    return _edits(walk, position)


def check_in_slices(
    entity: EntityClass, data: Buffer, offset: int, elements_max: int, *, replaces_text: bool = False
) -> Generator[None, None, list[tuple[int, int, bytes]]]:
    """`check_body` that yields after every `SLICE_ELEMENTS` elements of a top-level array."""
    walk = Walk(data, elements_max, replaces_text)
    position = offset
    try:
        for step in _steps(entity):
            loop = _loops.get(step)
            if loop is None:
                position = step(walk, position)
                continue
            begin, check_one = loop
            count, position = begin(walk, position)
            for number in range(1, count + 1):
                position = check_one(walk, position)
                if number % SLICE_ELEMENTS == 0:
                    yield
    except struct.error:
        raise ProtocolViolation(ENDS_EARLY) from None
    return _edits(walk, position)


def _edits(walk: Walk, position: int) -> list[tuple[int, int, bytes]]:
    if position > walk.end:
        raise ProtocolViolation(ENDS_EARLY)
    return walk.edits


def apply_edits(data: Buffer, offset: int, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The body from `offset` on, with the edits applied."""
    pieces: list[Buffer] = []
    position = offset
    for start, end, replacement in sorted(edits):
        pieces += (data[position:start], replacement)
        position = end
    pieces.append(data[position:])
    return b"".join(pieces)


@cache
def struct_step(entity: EntityClass) -> Step:
    """The checker of one structure, including its tagged fields."""
    steps = _steps(entity)
    if len(steps) == 1:
        return steps[0]

    def check_struct(walk: Walk, position: int) -> int:
        for step in steps:
            position = step(walk, position)
        return position

    return check_struct


@cache
def _steps(entity: EntityClass) -> list[Step]:
    """The checkers of a structure's fields, including its tagged fields."""
    steps: list[Step] = []
    fixed = 0
    for field in schema_fields(entity):
        if field.tag is not None:
            continue
        size = field.fixed_size
        if size is not None and field.kind not in _EDITED:
            fixed += size
            continue
        if fixed:
            steps.append(_fixed_step(fixed))
            fixed = 0
        steps.append(_field_step(field, flexible=entity.__flexible__))
    if fixed:
        steps.append(_fixed_step(fixed))
    if entity.__flexible__:
        steps.append(_tags_step(entity))
    return steps


@cache
def _bytes_min(entity: EntityClass) -> int:
    """The smallest size of a structure in bytes."""
    flexible = entity.__flexible__
    total = sum(_field_bytes_min(field, flexible) for field in schema_fields(entity) if field.tag is None)
    return max(1, total + (1 if flexible else 0))


def _field_bytes_min(field: SchemaField, flexible: bool) -> int:
    if field.fixed_size is not None:
        return field.fixed_size
    if not field.is_array and field.struct is not None:
        return 1 if field.nullable else _bytes_min(field.struct)
    if flexible:
        return 1
    return 2 if field.kind == "string" and not field.is_array else 4


def _fixed_step(size: int) -> Step:
    def skip_fixed(walk: Walk, position: int) -> int:
        position += size
        if position > walk.end:
            raise ProtocolViolation(ENDS_EARLY)
        return position

    return skip_fixed


def _check_long_duration(walk: Walk, position: int) -> int:
    milliseconds = _INT64.unpack_from(walk.data, position)[0]
    position += _INT64.size
    bounded = max(-_DURATION_MS_MAX, min(milliseconds, _DURATION_MS_MAX))
    if bounded != milliseconds:
        walk.edits.append((position - _INT64.size, position, _INT64.pack(bounded)))
    return position


def _check_boolean(walk: Walk, position: int) -> int:
    if position >= walk.end:
        raise ProtocolViolation(ENDS_EARLY)
    if walk.data[position] > 1:
        walk.edits.append((position, position + 1, b"\1"))
    return position + 1


_EDITED: Final[dict[str, Step]] = {"timedelta_i64": _check_long_duration, "bool": _check_boolean}
"""The numbers that kio does not always read as Kafka does."""


def _field_step(field: SchemaField, *, flexible: bool) -> Step:
    if field.is_array:
        return _array_step(field, flexible=flexible)
    if field.kind == STRUCT_KIND:
        assert field.struct is not None
        inner = struct_step(field.struct)
        return _nullable_struct_step(inner) if field.nullable else inner
    if field.kind in _EDITED:
        return _EDITED[field.kind]
    if field.fixed_size is not None:
        return _fixed_step(field.fixed_size)
    is_text = field.kind == "string"
    if flexible:
        return _sized_step(field.name, _compact_length, _compact_text if is_text else None, nullable=field.nullable)
    if is_text:
        return _sized_step(field.name, _short_length, _short_text, nullable=field.nullable)
    return _sized_step(field.name, _long_length, None, nullable=field.nullable)


def _compact_length(data: Buffer, position: int) -> tuple[int, int]:
    value, position = read_uvarint(data, position)
    return value - 1, position


def _short_length(data: Buffer, position: int) -> tuple[int, int]:
    return _INT16.unpack_from(data, position)[0], position + 2


def _long_length(data: Buffer, position: int) -> tuple[int, int]:
    return _INT32.unpack_from(data, position)[0], position + 4


def _compact_text(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text


def _short_text(text: bytes) -> bytes:
    if len(text) > _SHORT_TEXT_BYTES_MAX:
        raise ProtocolViolation("a string is not UTF-8, and too long with its bytes replaced")
    return _INT16.pack(len(text)) + text


def _refuse_negative(name: str, length: int, nullable: bool) -> None:
    if length < -1:
        raise ProtocolViolation(f"{name} has length {length}")
    if not nullable:
        raise ProtocolViolation(f"{name} is null")


def _sized_step(
    name: str,
    length_of: Callable[[Buffer, int], tuple[int, int]],
    write_text: Callable[[bytes], bytes] | None,
    *,
    nullable: bool,
) -> Step:
    """The checker of a string, which `write_text` writes, or of bytes."""

    def skip_sized(walk: Walk, position: int) -> int:
        start = position
        length, position = length_of(walk.data, position)
        if length < 0:
            _refuse_negative(name, length, nullable)
            return position
        position += length
        if position > walk.end:
            raise ProtocolViolation(f"{name} of {length} bytes goes past the end")
        if walk.replaces_text and write_text is not None:
            text = bytes(walk.data[position - length : position])
            replaced = text.decode("utf-8", "replace").encode()
            if replaced != text:
                walk.edits.append((start, position, write_text(replaced)))
        return position

    return skip_sized


def _array_step(field: SchemaField, *, flexible: bool) -> Step:
    name, nullable = field.name, field.nullable
    count_of = _compact_length if flexible else _long_length
    element = SchemaField(name, field.kind, field.struct, False, False, None, None)
    element_bytes_min = _field_bytes_min(element, flexible)
    fixed = element.fixed_size
    per_element = REPLICAS_PER_ELEMENT if name in _REPLICAS else 1
    step = _field_step(element, flexible=flexible)

    def begin(walk: Walk, position: int) -> tuple[int, int]:
        count, position = count_of(walk.data, position)
        if count < 0:
            _refuse_negative(name, count, nullable)
            return 0, position
        walk.bound_array(count, position, element_bytes_min, per_element)
        return count, position

    def check_one(walk: Walk, position: int) -> int:
        before = walk.left
        position = step(walk, position)
        if walk.left < before:
            walk.left += 1  # a topic counts as its partitions; otherwise many small topics would exceed the limit
        return position

    def check_array(walk: Walk, position: int) -> int:
        # `begin` and `check_one` inlined: the calls would slow down small requests
        count, position = count_of(walk.data, position)
        if count < 0:
            _refuse_negative(name, count, nullable)
            return position
        walk.bound_array(count, position, element_bytes_min, per_element)
        if fixed is not None:
            return position + count * fixed
        for _ in range(count):
            before = walk.left
            position = step(walk, position)
            if walk.left < before:
                walk.left += 1
        return position

    if fixed is None:
        _loops[check_array] = begin, check_one
    return check_array


def _nullable_struct_step(inner: Step) -> Step:
    def check_nullable(walk: Walk, position: int) -> int:
        if position >= walk.end:
            raise ProtocolViolation(ENDS_EARLY)
        marker = walk.data[position]
        is_null = marker >= 0x80  # a negative byte, as in Kafka
        if marker not in (0xFF, 1):
            walk.edits.append((position, position + 1, b"\xff" if is_null else b"\1"))
        return position + 1 if is_null else inner(walk, position + 1)

    return check_nullable


def _tags_step(entity: EntityClass) -> Step:
    known = {
        # A tagged value is never null on the wire: a null field is absent.
        field.tag: _field_step(
            SchemaField(field.name, field.kind, field.struct, field.is_array, field.kind == "string", None, None),
            flexible=True,
        )
        for field in schema_fields(entity)
        if field.tag is not None
    }

    def check_tags(walk: Walk, position: int) -> int:
        data = walk.data
        if position < walk.end and data[position] == 0:
            return position + 1
        count_start = position
        count, position = read_tag_count(data, position, walk.end)
        walk.spend(count)
        count_end, unknown = position, 0
        for tagged in iterate_tags(data, position, walk.end, count):
            position = tagged.value_end
            step = known.get(tagged.tag)
            if step is None:
                unknown += 1
                walk.edits.append((tagged.start, tagged.value_end, b""))
            else:
                _check_tagged_value(walk, step, tagged)
        if unknown:
            walk.edits.append((count_start, count_end, uvarint(count - unknown)))
        return position

    return check_tags


def _check_tagged_value(walk: Walk, step: Step, tagged: TaggedField) -> None:
    """Check that the value has exactly its announced size; edits inside it change that size."""
    outer_end, walk.end = walk.end, tagged.value_end
    edits_before = len(walk.edits)
    reached = step(walk, tagged.value_start)
    walk.end = outer_end
    expect_end(tagged, reached)
    cut = sum(end - start - len(replacement) for start, end, replacement in walk.edits[edits_before:])
    if cut:
        walk.edits.append((tagged.size_start, tagged.value_start, uvarint(tagged.value_end - tagged.value_start - cut)))
