"""TLS in front of a server on a local port, for servers whose own build has none."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def tls_proxy(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """The port of the proxy, which forwards to `port` of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context, port), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, context, port), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with (
        contextlib.suppress(OSError),
        context.wrap_socket(client, server_side=True) as inside,
        socket.create_connection(("127.0.0.1", port)) as outside,
    ):
        threading.Thread(target=_copy, args=(outside, inside), daemon=True).start()
        _copy(inside, outside)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
