"""A blocking connection to one broker, with which the caller can send a request before it decodes the last response."""

import contextlib
import socket
import struct
from typing import Final, Self

import numpy as np

from yak.spark.columnar.client_settings import Connecting
from yak.spark.columnar.schema import UnsupportedSetting
from yak.spark.columnar.wire import API_VERSIONS, VERSIONS, Malformed, frame, read_api_versions

ANSWER_BYTES_MAX: Final = 1 << 30
"""Below 2 GiB, so that Arrow's 32-bit positions reach every byte."""
_LENGTH: Final = struct.Struct(">i")


class Connection:
    """A context manager.

    Methods raise OSError when the broker is gone or too slow, and Malformed for invalid responses.

    Raises UnsupportedSetting when the broker does not support the API versions of `wire`.
    """

    def __init__(self, address: tuple[str, int], connecting: Connecting) -> None:
        self.address = address
        self._client_id = connecting.client_id
        self._correlation_id = 0
        plain = socket.create_connection(address, timeout=connecting.request_timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connecting.receive_buffer_bytes:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, connecting.receive_buffer_bytes)
            tls = connecting.tls
            self._socket = tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain
        except BaseException:
            plain.close()
            raise
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._check_versions()
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; closing it twice is allowed."""
        self._socket.close()

    def send(self, api_key: int, body: bytes) -> None:
        """Send a request. Responses arrive in the order of the requests."""
        self._correlation_id += 1
        self._socket.sendall(frame(api_key, self._correlation_id, self._client_id, body))

    def receive(self) -> memoryview:
        """The body of the next response."""
        head = self._exactly(2 * _LENGTH.size)
        (length,), (correlation_id,) = _LENGTH.unpack_from(head), _LENGTH.unpack_from(head, _LENGTH.size)
        if not _LENGTH.size <= length <= ANSWER_BYTES_MAX:
            raise Malformed(f"an answer of {length} bytes")
        if correlation_id != self._correlation_id:
            raise Malformed("an answer to another request")
        return self._exactly(length - _LENGTH.size)

    def ask(self, api_key: int, body: bytes) -> memoryview:
        """Send a request and return its response's body."""
        self.send(api_key, body)
        return self.receive()

    def _exactly(self, count: int) -> memoryview:
        received = np.empty(count, np.uint8).data  # unlike a bytearray, not zeroed
        have = 0
        while have < count:
            size = self._socket.recv_into(received[have:])
            if not size:
                raise ConnectionResetError("the connection was closed in the middle of an answer")
            have += size
        return received

    def _check_versions(self) -> None:
        spoken = read_api_versions(self.ask(API_VERSIONS, b""))
        for api_key, version in VERSIONS.items():
            lowest, highest = spoken.get(api_key, (0, -1))
            if not lowest <= version <= highest:
                host, port = self.address
                why = f"{host}:{port} does not speak version {version} of Kafka's API {api_key}"
                raise UnsupportedSetting("this broker", why)
