"""Brokers that only answer what a test put into them, over real sockets."""

import contextlib
import socket
import struct
import threading

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from tests.unit.response_bodies import encode_response_body


class FakeBroker:
    """Answers each request by `answers[api key](request)`: a response's fields, or its body as bytes; closes for None."""

    def __init__(self, answers, lists=()):
        """`lists`: the keys that ApiVersions names."""
        self.answers = answers
        self._lists = lists
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, struct.error):
            while True:
                (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                frame = connection.recv(length, socket.MSG_WAITALL)
                key, version, correlation, name_length = struct.unpack_from(">hhih", frame)
                if key == 18:  # the probe before everything
                    keys = b"".join(struct.pack(">hhh", each, 0, 0) for each in self._lists)
                    head = struct.pack(">ihi", correlation, 0, len(self._lists))
                    connection.sendall(struct.pack(">i", len(head + keys)) + head + keys)
                    continue
                schema = load_request_schema(key, version)
                request, _ = entity_reader(schema)(frame, 10 + name_length + schema.__flexible__)
                self.requests.append(request)
                answer = self.answers[key](request)
                if answer is None:
                    return
                body = answer if isinstance(answer, bytes) else encode_response_body(key, version, answer)
                tags = b"\0" if load_response_schema(key, version).__flexible__ else b""
                answer = struct.pack(">i", correlation) + tags + body
                connection.sendall(struct.pack(">i", len(answer)) + answer)


def ask(api_key, answer, call):
    """Call a broker that answers with this; what it was asked, and what the call returned."""
    broker = FakeBroker({api_key: lambda _: answer})
    try:
        returned = call(broker.address)
    finally:
        broker.close()
    return broker.requests[0], returned
