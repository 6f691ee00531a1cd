"""The ports of one machine's brokers, held by their supervisor: a broker finds its port free when it is restarted."""

import errno
import socket
from typing import Self

from yak.config.listeners import ANY_HOST
from yak.errors import UsageError
from yak.local import ports


class HeldPorts:
    """Ports that are bound and not listened on, until the end of the `with` block."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def hold(self, host: str, port: int, is_shared: bool) -> int:
        """Hold a port at every address of a host, 0: any free one. Raises UsageError (`address-in-use`, `bad-address`)."""
        host = host or ANY_HOST
        try:
            held = ports.hold_all(host, port, is_shared=is_shared)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UsageError(
                    "bad-address",
                    f"cannot listen on {host}:{port}",
                    why=f"{error.strerror or error}: not an address of this machine, or not a port",
                    try_=("yak serve --cores 2 --host 127.0.0.1",),
                ) from error
            who = ports.holder(port)
            raise UsageError(
                "address-in-use",
                f"cannot listen on {host}:{port}",
                why=f"{who or 'another program'} has it; with --cores a listener takes its port and one for each broker",
                try_=("yak serve --cores 2 --port 0          take any free ports", f"ss -ltnp 'sport = :{port}'"),
            ) from error
        self._sockets += held
        return int(held[0].getsockname()[1])
