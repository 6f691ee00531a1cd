"""A socket that speaks HTTP, right or wrong, and reads what comes back."""

import json
from dataclasses import dataclass
from typing import Any

from support.raw import RawSocket

CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One answer: its status, headers by lower-case name, and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class RawHttp(RawSocket):
    """One connection that speaks HTTP."""

    def __init__(self, port: int, *, source: str = "127.0.0.1") -> None:
        super().__init__(port, source=source)
        self._received = b""

    def answer(self, *, to_head: bool = False) -> RawAnswer:
        """The next answer that is no 1xx."""
        while True:
            assert self._read_until(lambda: b"\r\n\r\n" in self._received), "closed instead of answered"
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            status = int(first.split(" ")[1])
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if status >= 200:
                break
        size = 0 if to_head else int(headers.get("content-length", "0"))
        assert self._read_until(lambda: len(self._received) >= size), "the body was cut"
        body, self._received = self._received[:size], self._received[size:]
        return RawAnswer(status, headers, body)

    def _read_until(self, is_enough: Any) -> bool:
        while not is_enough():
            try:
                more = self.sock.recv(65536)
            except ConnectionResetError:
                return False
            if not more:
                return False
            self._received += more
        return True


def request(method: str, path: str, *headers: str, body: bytes | None = None, host: str | None = "localhost") -> bytes:
    """A request as it stands on the wire."""
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
