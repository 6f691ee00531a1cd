"""Small readers for the hand-written decoders: counts, strings, topic ids, each checked against the remaining bytes.

Each raises ProtocolViolation, or struct.error where the bytes end; the decoders turn the latter into the former.
"""

import struct
import uuid
from typing import Final

from yak.errors import ProtocolViolation, TooManyElements
from yak.limits import TOPIC_IDS_CACHED_MAX
from yak.ports.disk import Buffer
from yak.protocol.tagged_fields import TaggedField, iterate_tags, read_tag_count
from yak.protocol.varint import read_uvarint

ENDS_EARLY: Final = "the request ends early"
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Budget:
    """How many more array elements and tagged fields one message may have. A topic counts as its partitions."""

    __slots__ = ("elements_max", "left")

    def __init__(self, elements_max: int) -> None:
        self.left = self.elements_max = elements_max

    def spend(self, count: int) -> None:
        """Count elements; refuse the message when it has too many."""
        self.left -= count
        if self.left < 0:
            raise TooManyElements(f"more than {self.elements_max} array elements in one message")

    def end_topic(self, partitions: int) -> None:
        """Refund the element of a topic with partitions, because the partitions count."""
        if partitions:
            self.left += 1

    def spend_array(self, count: int, bytes_left: int, element_bytes_min: int) -> None:
        """Count an array's elements; refuse a count that the remaining bytes cannot hold."""
        if count * element_bytes_min > bytes_left:
            raise ProtocolViolation(f"an array of {count} with {bytes_left} bytes left")
        self.spend(count)


def read_count(view: Buffer, position: int, element_bytes_min: int, budget: Budget) -> tuple[int, int]:
    """(count of a non-null array, position after it) in the form before flexible versions."""
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    if count < 0:
        raise ProtocolViolation(f"an array of {count}")
    budget.spend_array(count, len(view) - position, element_bytes_min)
    return count, position


def read_compact_count(view: Buffer, position: int, element_bytes_min: int, budget: Budget) -> tuple[int, int]:
    """(count of a non-null array, position after it) in the compact form."""
    count = view[position] if position < len(view) else 0x80
    if count < 0x80:
        position += 1
    else:
        count, position = read_uvarint(view, position)
    if count == 0:
        raise ProtocolViolation("an array is null")
    budget.spend_array(count - 1, len(view) - position, element_bytes_min)
    return count - 1, position


def read_text(view: Buffer, start: int, end: int) -> str:
    """The UTF-8 string in [start, end); other bytes are replaced by U+FFFD, as Java does in Kafka."""
    if end > len(view):
        raise ProtocolViolation(f"a string of {end - start} bytes goes past the end")
    return str(view[start:end], "utf-8", "replace")


def read_string(view: Buffer, position: int) -> tuple[str | None, int]:
    """(string or None, position after it) in the form before flexible versions."""
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    if length < 0:
        if length != -1:
            raise ProtocolViolation(f"a string of {length} bytes")
        return None, position
    end = position + length
    return read_text(view, position, end), end


def read_compact_string(view: Buffer, position: int) -> tuple[str | None, int]:
    """(string or None, position after it) in the compact form."""
    length = view[position] if position < len(view) else 0x80
    if length < 0x80:
        position += 1
    else:
        length, position = read_uvarint(view, position)
    if length == 0:
        return None, position
    end = position + length - 1
    return read_text(view, position, end), end


def required(text: str | None) -> str:
    """Refuse a null."""
    if text is None:
        raise ProtocolViolation("a string is null")
    return text


_topic_ids: dict[bytes, uuid.UUID | None] = {bytes(16): None}


def read_topic_id(view: Buffer, position: int) -> uuid.UUID | None:
    """The id at a position; cached between requests, because building one costs more than the rest of a topic."""
    raw = bytes(view[position : position + 16])
    try:
        return _topic_ids[raw]
    except KeyError:
        pass
    if len(raw) < 16:
        raise ProtocolViolation(ENDS_EARLY)
    if len(_topic_ids) >= TOPIC_IDS_CACHED_MAX:
        _topic_ids.clear()
        _topic_ids[bytes(16)] = None
    return _topic_ids.setdefault(raw, uuid.UUID(bytes=raw))


def end_of_tags(view: Buffer, position: int, budget: Budget) -> int:
    """Position after a block of tagged fields; all of them are ignored."""
    if position < len(view) and view[position] == 0:
        return position + 1
    count, position = read_tag_count(view, position, len(view))
    budget.spend(count)
    for tagged in iterate_tags(view, position, len(view), count):
        position = tagged.value_end
    return position


def expect_end(tagged: TaggedField, reached: int) -> None:
    """Refuse a tagged field whose value does not have its announced size."""
    if reached != tagged.value_end:
        size = tagged.value_end - tagged.value_start
        raise ProtocolViolation(
            f"tagged field {tagged.tag} has a size of {size} bytes, its value {reached - tagged.value_start}"
        )


def refuse_overrun(view: Buffer, position: int) -> None:
    """Refuse a body that ends behind the frame. Bytes after the body are ignored, as by Kafka."""
    if position > len(view):
        raise ProtocolViolation(ENDS_EARLY)
