"""The header of every request, versions 1 and 2 (and 0 for ControlledShutdown).

kio refuses unknown tagged fields, Kafka skips them; so YAK has its own parser. It also reads the header of unsupported
API versions: the response to a newer ApiVersions request needs its correlation id.
"""

import struct
from typing import NamedTuple

from yak.errors import ProtocolViolation
from yak.ports.disk import Buffer
from yak.protocol.tagged_fields import skip_tags
from yak.protocol.versions import CONTROLLED_SHUTDOWN, FIRST_FLEXIBLE, NEVER_FLEXIBLE

_FIXED = struct.Struct(">hhih")
_FIXED_V0 = struct.Struct(">hhi")
_unpack_fixed = _FIXED.unpack_from
_FIXED_BYTES = _FIXED.size
_first_flexible = FIRST_FLEXIBLE.get


class RequestHeader(NamedTuple):
    """API key, version, correlation id, client id, and where the body starts in the frame.

    Bytes of the client id that are not UTF-8 are replaced by U+FFFD, as Java does in Kafka.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


_make = tuple.__new__


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of one frame (without its length prefix). Raises ProtocolViolation."""
    try:
        api_key, api_version, correlation_id, length = _unpack_fixed(frame)
    except struct.error:
        return _read_short(frame)
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return RequestHeader(api_key, api_version, correlation_id, None, _FIXED_V0.size)
    position = _FIXED_BYTES
    client_id = None
    if length >= 0:
        start, position = position, position + length
        if position > len(frame):
            raise ProtocolViolation(f"client id of {length} bytes in a request of {len(frame)}")
        client_id = str(frame[start:position], "utf-8", "replace")
    elif length != -1:
        raise ProtocolViolation(f"client id of {length} bytes")
    if api_version >= _first_flexible(api_key, NEVER_FLEXIBLE):
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            position = skip_tags(frame, position, len(frame))
    # A NamedTuple's own constructor takes as long again as everything above.
    return _make(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def _read_short(frame: Buffer) -> RequestHeader:
    if len(frame) == _FIXED_V0.size:
        api_key, api_version, correlation_id = _FIXED_V0.unpack(frame)
        if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, _FIXED_V0.size)
    raise ProtocolViolation(f"a request of {len(frame)} bytes has no header")
