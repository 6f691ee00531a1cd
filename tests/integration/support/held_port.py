"""A port that stays one server's own while that server is down: the kernel lends a free one to whoever connects next."""

import socket

from yak.local import ports
from yak.server.listening_sockets import bind


class HeldPort:
    """`number` is kept until this is collected; where the system cannot keep it, it is one that was free."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._held: socket.socket | None = bind(host, 0)[0] if ports.CAN_HOLD else None
        self.number: int = ports.find_free(host) if self._held is None else self._held.getsockname()[1]
