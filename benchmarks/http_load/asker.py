"""A client that asks one path again and again over several connections, one request at a time on each."""

import multiprocessing
import selectors
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of it: requests, seconds, and the time of each answer in ms, sorted."""

    requests: int
    seconds: float
    latencies_ms: list[float]

    def percentile(self, share: float) -> float:
        """The latency in ms below which this share of the answers came."""
        return self.latencies_ms[min(len(self.latencies_ms) - 1, int(len(self.latencies_ms) * share))]


def ask_for(url: str, path: str, *, connections: int, seconds: float) -> Asked:
    """Ask from a process of its own; every answer must be 200."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_run, args=(url, path, connections, seconds, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    finally:
        process.join()
    assert isinstance(found, Asked), found
    return found


def _run(url: str, path: str, connections: int, seconds: float, out: Connection) -> None:
    try:
        out.send(_ask(url, path, connections, seconds))
    except Exception as error:
        out.send(repr(error))


def _ask(url: str, path: str, connections: int, seconds: float) -> Asked:
    parts = urlsplit(url)
    request = f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\naccept: */*\r\n\r\n".encode()
    latencies: list[float] = []
    with selectors.DefaultSelector() as selector:
        sent: dict[int, float] = {}
        for _ in range(connections):
            sock = socket.create_connection((parts.hostname, parts.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(sock, selectors.EVENT_READ, bytearray())
            sock.send(request)
            sent[sock.fileno()] = time.perf_counter()
        started = time.perf_counter()
        while (now := time.perf_counter()) < started + seconds:
            for key, _ in selector.select(0.1):
                sock = key.fileobj  # type: ignore[assignment]
                key.data.extend(sock.recv(65536))
                if not _is_whole(key.data):
                    continue
                key.data.clear()
                now = time.perf_counter()
                latencies.append((now - sent[sock.fileno()]) * 1000)
                sock.send(request)
                sent[sock.fileno()] = now
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return Asked(len(latencies), seconds, sorted(latencies))


def _is_whole(answer: bytearray) -> bool:
    head, found, body = bytes(answer).partition(_HEAD_END)
    if not found:
        assert answer, "the broker closed the connection"
        return False
    assert head.startswith(b"HTTP/1.1 200"), head
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n")
