"""A connection to one broker for requests that librdkafka has no call for, one at a time.

A request's fields have kio's names and the plain values of `yak.protocol.response_encoder`; an answer is kio's object.
"""

import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, Self, TypeAlias, TypeVar

from yak.client.errors import Change, reason_of
from yak.client.login import current_login, log_in
from yak.client.reach import split_address
from yak.client.security import in_force
from yak.errors import ProtocolViolation, Unreachable, YakError
from yak.lean_imports import import_kio
from yak.limits import ANSWER_ELEMENTS_MAX

Api: TypeAlias = tuple[int, int]
"""The key and the version that are used of an API."""
CLIENT_ID: Final = b"yak"
BROKER_RESOURCE: Final = 4
TOPIC_RESOURCE: Final = 2
ANSWER_BYTES_MAX: Final = 256 << 20
_HEADER = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_NO_TAGS = b"\x00"
_DESCRIBE_CONFIGS: Final = 32, 4
ITEMS_AT_ONCE: Final = 10_000
"""Partitions, or other items, of one request: a YAK broker closes the connection at more than 12,000 array elements."""
T = TypeVar("T")
_ONE_AT_A_TIME: Final = threading.Lock()
"""Threads that import one package at once, as kio's messages, may get a deadlock error of Python's import system."""


@cache
def _import_encoder() -> None:
    """Before a connection is opened: on a loaded machine this takes longer than a broker waits for the first bytes."""
    with _ONE_AT_A_TIME:
        import_kio()
        import yak.protocol.response_encoder  # noqa: F401


class RawConnection:
    """A connection and a context manager, logged in if the process has a login.

    Every method raises OSError when the broker is gone or times out; the constructor Unreachable (`login-failed`) too.
    """

    def __init__(self, address: str, *, timeout_s: float, only_login: bool = False) -> None:
        """With `only_login` no request follows."""
        if not only_login:
            _import_encoder()
        self.address = address
        host, port = split_address(address)
        self._socket = in_force().secured(socket.create_connection((host, port), timeout=timeout_s), host)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        if (login := current_login()) is not None:
            try:
                log_in(login, partial(self._exchange, is_flexible=False), address)
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

    def call(self, api: Api, fields: Mapping[str, object]) -> Any:
        """Send one request and wait for its response. Raises OSError for an invalid response too."""
        answer = self.ask(api, fields)
        with _ONE_AT_A_TIME:
            from kio.index import load_response_schema
            from kio.serial import entity_reader
            from kio.serial.errors import SerialError

            from yak.protocol.request_check import apply_edits, check_body

            schema = load_response_schema(*api)
        try:
            # as in `yak.protocol.codec`: kio ends the process for a count that it cannot allocate
            edits = check_body(schema, answer, 0, ANSWER_ELEMENTS_MAX)
            decoded, _ = entity_reader(schema)(apply_edits(answer, 0, edits) if edits else answer, 0)
        except (
            ProtocolViolation,
            SerialError,
            ValueError,
            KeyError,
            IndexError,
            OverflowError,
            TypeError,
            struct.error,
        ) as error:
            raise OSError(f"an answer that is no {schema.__name__}: {error}") from None
        return decoded

    def ask(self, api: Api, fields: Mapping[str, object]) -> bytes:
        """Send one request and wait for the body of its response, for one that kio cannot read."""
        body = bytearray()
        with _ONE_AT_A_TIME:
            from yak.protocol.response_encoder import request_writer
            from yak.protocol.versions import is_flexible

            request_writer(*api)(body, fields)
        return self._exchange(*api, bytes(body), is_flexible=is_flexible(*api))

    def _exchange(self, api_key: int, version: int, body: bytes, *, is_flexible: bool) -> bytes:
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

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self._socket.recv(min(count - len(received), 1 << 16))
            if not piece:
                raise ConnectionResetError("closed in the middle of an answer")
            received += piece
        return bytes(received)


def runs(items: Sequence[T], size: int = ITEMS_AT_ONCE) -> list[Sequence[T]]:
    """The items in order, in runs of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def first(results: Sequence[Any]) -> Any:
    """The result of a request for one. Raises OSError for a response without results."""
    if not results:
        raise OSError("the answer has no result")
    return results[0]


def call_once(address: str, api: Api, fields: Mapping[str, object], what: str, timeout_s: float) -> Any:
    """Send a request over a connection of its own. Raises Unreachable, which says `what` did not happen."""
    try:
        with RawConnection(address, timeout_s=timeout_s) as connection:
            return connection.call(api, fields)
    except OSError as error:
        raise Unreachable("unreachable", what, why=f"{address} did not answer: {reason_of(error)}") from None


def call_change(address: str, api: Api, fields: Mapping[str, object], change: Change, timeout_s: float) -> Any:
    """As `call_once`, for a change. Raises YakError (`timed-out`) when the request was sent and no answer came."""
    try:
        with RawConnection(address, timeout_s=timeout_s) as connection:
            try:
                return connection.call(api, fields)
            except OSError as error:
                why = f"{address} did not answer: {reason_of(error)}"
                raise change.failure(YakError("timed-out", change.not_made, why=why)) from None
    except OSError as error:
        raise Unreachable("unreachable", change.not_made, why=f"{address} did not answer: {reason_of(error)}") from None


def describe_configs(
    connection: RawConnection, kind: int, resources: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Some configs of each resource (DescribeConfigs, key 32); brokers leave out unknown configs. Raises OSError."""
    found: dict[str, dict[str, str]] = {}
    for some in runs(resources, ITEMS_AT_ONCE // (1 + len(names))):
        wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": list(names)} for name in some]
        results = connection.call(_DESCRIBE_CONFIGS, {"resources": wanted}).results
        found |= {each.resource_name: {config.name: config.value or "" for config in each.configs} for each in results}
    return found
