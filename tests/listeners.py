"""A server that is none of YAK's."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def answering(answer: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Its address. It answers the first bytes of a connection with `answer(received)`, and closes it; None: neither."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with suppress(OSError):
                reply = answer(connection.recv(4096))
                if reply is None:
                    held.append(connection)
                    continue
                connection.sendall(reply)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
        for connection in held:
            connection.close()
