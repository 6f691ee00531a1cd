"""A connection to one broker for requests that librdkafka has no call for, one at a time.

`RawConnection.ask` exchanges bodies as bytes; `call` encodes and decodes them with kio.
"""

import io
import socket
import struct
from functools import partial
from typing import Any, Final, Self

from yak.client.errors import Change
from yak.client.login import current_login, log_in
from yak.client.reach import split_address
from yak.client.security import in_force
from yak.errors import Unreachable, YakError
from yak.lean_imports import import_kio

CLIENT_ID: Final = b"yak"
LIST_OFFSETS: Final = 2, 7
"""The key and the version that are used of an API."""
DESCRIBE_CONFIGS: Final = 32, 4
ANSWER_BYTES_MAX: Final = 256 << 20
_HEADER = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_NO_TAGS = b"\x00"


def import_messages(api_key: int, version: int) -> None:
    """Import the classes of an API's request and response; call it before threads use them.

    Threads that import one package at once may get a deadlock error of Python's import system.
    """
    import_kio()
    from kio.index import load_request_schema, load_response_schema

    load_request_schema(api_key, version)
    load_response_schema(api_key, version)


class RawConnection:
    """A connection and a context manager, logged in if the process has a login.

    Every method raises OSError when the broker is gone or times out; the constructor Unreachable (`login-failed`) too.
    """

    def __init__(self, address: str, *, timeout_s: float) -> None:
        self.address = address
        host, port = split_address(address)
        self._socket = in_force().secured(socket.create_connection((host, port), timeout=timeout_s), host)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        if (login := current_login()) is not None:
            try:
                log_in(login, partial(self.ask, is_flexible=False), address)
            except BaseException:
                self._socket.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, api_key: int, version: int, body: bytes, *, is_flexible: bool) -> bytes:
        """Send one request and wait for the body of its response; `is_flexible` versions have tags in both headers."""
        self._correlation_id += 1
        head = _HEADER.pack(api_key, version, self._correlation_id, len(CLIENT_ID)) + CLIENT_ID
        frame = head + (_NO_TAGS if is_flexible else b"") + body
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if not _LENGTH.size + is_flexible <= length <= ANSWER_BYTES_MAX:
            raise OSError(f"an answer of {length} bytes")
        answer = self._exactly(length)
        if _LENGTH.unpack_from(answer)[0] != self._correlation_id:
            raise OSError("an answer to another request")
        return answer[_LENGTH.size + is_flexible :]

    def call(self, request: Any) -> Any:
        """Send one of kio's requests and wait for its response. Raises OSError for an invalid response too."""
        from kio.index import load_response_schema
        from kio.serial import entity_reader, entity_writer
        from kio.serial.errors import SerialError

        api_key, version = int(request.__api_key__), int(request.__version__)
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        schema = load_response_schema(api_key, version)
        answer = self.ask(api_key, version, body.getvalue(), is_flexible=schema.__flexible__)
        try:
            decoded, _ = entity_reader(schema)(answer, 0)
        except (SerialError, ValueError, KeyError, IndexError, OverflowError, TypeError, struct.error) as error:
            raise OSError(f"an answer that is no {schema.__name__}: {error}") from None
        return decoded

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self._socket.recv(min(count - len(received), 1 << 16))
            if not piece:
                raise ConnectionResetError("closed in the middle of an answer")
            received += piece
        return bytes(received)


def call_once(address: str, request: Any, what: str, timeout_s: float) -> Any:
    """Send one of kio's requests over a connection of its own. Raises Unreachable, which says `what` did not happen."""
    try:
        with RawConnection(address, timeout_s=timeout_s) as connection:
            return connection.call(request)
    except OSError as error:
        raise Unreachable("unreachable", what, why=f"{address} did not answer: {error}") from None


def call_change(address: str, request: Any, change: Change, timeout_s: float) -> Any:
    """As `call_once`, for a change. Raises YakError (`timed-out`) when the request was sent and no answer came."""
    try:
        with RawConnection(address, timeout_s=timeout_s) as connection:
            try:
                return connection.call(request)
            except OSError as error:
                why = f"{address} did not answer: {error}"
                raise change.failure(YakError("timed-out", change.not_made, why=why)) from None
    except OSError as error:
        raise Unreachable("unreachable", change.not_made, why=f"{address} did not answer: {error}") from None
