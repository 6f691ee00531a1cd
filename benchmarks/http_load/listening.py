"""Listeners to `/api/events`: connections in one process that reads what comes and counts it."""

import multiprocessing
import selectors
import socket
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Listeners:
    """So many listeners in a process of their own, for as long as the block runs; then `received_bytes`."""

    def __init__(self, url: str, path: str, count: int) -> None:
        self._stop, stop = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_run, args=(url, path, count, stop))
        self.received_bytes = 0
        self.reads = 0

    def __enter__(self) -> Self:
        self._process.start()
        assert self._stop.recv() == "ready"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.send("stop")
        self.received_bytes, self.reads, gone = self._stop.recv()
        self._process.join()
        assert not gone, f"{gone} listeners were dropped"


def _run(url: str, path: str, count: int, stop: Connection) -> None:
    parts = urlsplit(url)
    request = f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n".encode()
    received = reads = gone = 0
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            sock = socket.create_connection((parts.hostname, parts.port))
            sock.sendall(request)
            assert sock.recv(65536).startswith(b"HTTP/1.1 200"), "not listening"
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        selector.register(stop, selectors.EVENT_READ)
        stop.send("ready")
        while True:
            for key, _ in selector.select():
                if key.fileobj is stop:
                    stop.send((received, reads, gone))
                    return
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                received += len(data)
                reads += 1
                if not data:
                    gone += 1
                    selector.unregister(key.fileobj)
