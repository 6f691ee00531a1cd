"""A broker on a socket that answers what a test tells it to: leaders that move, lost connections, answers that make no sense."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from yak.spark.columnar.wire import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, VERSIONS, AbortedRange

CLOSE = b"close the connection"
Script = Callable[[int], bytes]


def string(text: str) -> bytes:
    """A Kafka string."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def fetched(
    records: bytes = b"",
    *,
    error: int = 0,
    high_watermark: int = 1 << 40,
    stable: int | None = None,
    aborted: tuple[AbortedRange, ...] = (),
) -> bytes:
    """The body of a Fetch answer, version 11, for t-0."""
    stable = high_watermark if stable is None else stable
    head = struct.pack(">ihi", 0, 0, 0) + struct.pack(">i", 1) + string("t") + struct.pack(">i", 1)
    head += struct.pack(">ihqqqi", 0, error, high_watermark, stable, 0, len(aborted))
    head += b"".join(struct.pack(">qq", *each) for each in aborted)
    return head + struct.pack(">ii", -1, len(records)) + records


def throttled(throttle_ms: int) -> bytes:
    """The body of a Fetch answer without records, since the client exceeds a quota."""
    return struct.pack(">ihii", throttle_ms, 0, 0, 0)


@dataclass
class ScriptedBroker:
    """A context manager. `fetch` is called with each offset that is fetched, and gives the answer's body, or CLOSE.

    `leader_port` None: the broker leads t-0 itself. `asked` has the offsets and sizes of all fetches.
    """

    fetch: Script
    metadata_error: int = 0
    leader_port: int | None = None
    earliest: int = 0
    latest: int = 1 << 40
    fetch_versions: tuple[int, int] = (4, 18)
    tls: ssl.SSLContext | None = None
    requests: list[tuple[int, int]] = field(default_factory=list)
    committed: list[bool] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._open:
            each.close()

    @property
    def bootstrap(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
        except OSError:
            return
        with connection, connection.makefile("rb") as incoming:
            try:
                while size := incoming.read(4):
                    request = incoming.read(struct.unpack(">i", size)[0])
                    answer = self._answer(request)
                    if answer == CLOSE:
                        return
                    body = request[4:8] + answer
                    connection.sendall(struct.pack(">i", len(body)) + body)
            except OSError:
                return

    def _answer(self, request: bytes) -> bytes:
        api_key, version, _, client_size = struct.unpack_from(">hhih", request)
        assert version == VERSIONS[api_key]
        body = request[10 + client_size :]
        if api_key == API_VERSIONS:
            ranges = dict.fromkeys(VERSIONS, (0, 30)) | {FETCH: self.fetch_versions}
            entries = b"".join(struct.pack(">hhh", key, *bounds) for key, bounds in ranges.items())
            return struct.pack(">hi", 0, len(ranges)) + entries
        if api_key == METADATA:
            return self._metadata()
        if api_key == LIST_OFFSETS:
            wanted = struct.unpack(">q", body[-8:])[0]
            offset = self.earliest if wanted == -2 else self.latest
            entry = struct.pack(">iihqqi", 1, 0, 0, -1, offset, 0)
            return struct.pack(">ii", 0, 1) + string("t") + entry
        offset, size = struct.unpack_from(">q8xi", body, 29 + 3 + 4 + 4 + 4)
        self.requests.append((offset, size))
        self.committed.append(bool(body[16]))
        return self.fetch(offset)

    def _metadata(self) -> bytes:
        broker = struct.pack(">i", 1) + string("127.0.0.1") + struct.pack(">ih", self.leader_port or self.port, -1)
        partition = struct.pack(">hiii", 0, 0, 1, 5) + 3 * struct.pack(">i", 0)
        partitions = struct.pack(">i", 0) if self.metadata_error else struct.pack(">i", 1) + partition
        topic = struct.pack(">h", self.metadata_error) + string("t") + b"\0" + partitions
        return struct.pack(">ii", 0, 1) + broker + struct.pack(">hii", -1, 1, 1) + topic
