"""`yak.server.tls_socket` over a socket that takes and gives bytes as it likes."""

import contextlib
import functools
import ssl
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.security.identities import NOW_MS, Identities
from tests.unit.server.tls_rig import trusting
from yak.ports.disk import Part
from yak.security.tls import Contexts, TlsSettings, make_contexts
from yak.server.tls_socket import NoLowWater, TlsSending, TlsSocket

SLOW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


class CapriciousSocket:
    """Takes as many bytes of a send as it is told to, and gives what the peer left for it in pieces."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.room: list[int] = []
        self.waiting = bytearray()
        self.pieces: list[int] = []

    def send(self, data: bytes | memoryview) -> int:
        room = self.room.pop(0) if self.room else len(data)
        if not room:
            raise BlockingIOError
        self.sent += data[:room]
        return min(room, len(data))

    def recv_into(self, buffer: bytearray) -> int:
        if not self.waiting:
            raise BlockingIOError
        size = min(self.pieces.pop(0) if self.pieces else len(buffer), len(self.waiting), len(buffer))
        buffer[:size] = self.waiting[:size]
        del self.waiting[:size]
        return size


class Sending(TlsSending):
    def flush(self) -> None:
        self.send()


@functools.cache
def contexts_of(known: Identities) -> Contexts:
    return make_contexts(TlsSettings.of_listener("SSL", known.configs), "SSL", NOW_MS)


class Pair:
    """A `TlsSocket` that accepted, and its client in memory, after the handshake."""

    def __init__(self, known: Identities) -> None:
        contexts = contexts_of(known)
        self.sock = CapriciousSocket()
        self.tls = TlsSocket(self.sock, contexts.accepting)  # type: ignore[arg-type]
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = trusting(known).wrap_bio(self._in, self._out, server_hostname="localhost")
        self._shake_hands()

    def _shake_hands(self) -> None:
        for _ in range(4):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.sock.waiting += self._out.read()
            if self.sock.waiting:
                self.tls._receive()
                self.tls._pass_records()
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls._ssl.do_handshake()
            self.tls.send_output()
            self._in.write(bytes(self.sock.sent))
            self.sock.sent.clear()
        self.tls._idle_records = 0
        assert self.client.version() == "TLSv1.3"

    def decrypted(self) -> bytes:
        """What the client reads of all that was sent."""
        self._in.write(bytes(self.sock.sent))
        self.sock.sent.clear()
        found = bytearray()
        try:
            while True:
                found += self.client.read(1 << 20)
        except ssl.SSLWantReadError:
            return bytes(found)

    def encrypt(self, data: bytes) -> None:
        self.client.write(data)
        self.sock.waiting += self._out.read()


@pytest.fixture(scope="module")
def identities(known: Identities) -> Identities:
    return known


@SLOW
@given(
    turns=st.lists(st.lists(st.integers(0, 400_000), max_size=6), min_size=1, max_size=5),
    room=st.lists(st.sampled_from([0, 1, 5, 1000, 16_000, 200_000]), max_size=30),
)
def test_queued_parts_leave_in_order_whatever_the_socket_takes(identities, turns, room):
    pair = Pair(identities)
    pair.sock.room = room
    sending = Sending(cast("ssl.SSLSocket", pair.tls))
    expected, number = bytearray(), 0
    for sizes in turns:
        parts: list[Part] = []
        for size in sizes:
            number += 1
            parts.append(bytes([number % 256]) * size)
            expected += cast("bytes", parts[-1])
        if parts:
            sending.queue(parts)
        sending.flush()
        assert sending.unsent_bytes == sum(map(len, sending.outgoing))
    for _ in range(200):
        sending.flush()
    assert (sending.unsent_bytes, sending.outgoing) == (0, [])
    assert pair.decrypted() == expected


@SLOW
@given(
    data=st.lists(st.integers(1, 100_000), min_size=1, max_size=6),
    pieces=st.lists(st.sampled_from([1, 5, 4_000, 70_000]), max_size=20),
    sizes=st.lists(st.integers(100, 300_000), min_size=1, max_size=5),
)
def test_received_bytes_are_whole_whatever_comes_at_once(identities, data, pieces, sizes):
    pair = Pair(identities)
    pair.sock.pieces = pieces
    expected = b"".join(bytes([number % 256]) * size for number, size in enumerate(data))
    pair.encrypt(expected)
    received = bytearray()
    for turn in range(1_000_000):
        buffer = bytearray(sizes[turn % len(sizes)])
        is_silent = not pair.sock.waiting
        try:
            count = pair.tls.recv_into(buffer)
        except BlockingIOError:
            if is_silent:
                break
            continue
        assert count
        received += buffer[:count]
        if is_silent and not pair.tls.has_pending:
            break
    assert received == expected


def test_end_without_notice_and_with_it_is_the_end(known):
    for says_so in (True, False):
        pair = Pair(known)
        if says_so:
            with pytest.raises(ssl.SSLWantReadError):
                pair.client.unwrap()
            pair.sock.waiting += pair._out.read()
        else:
            pair.sock.recv_into = lambda _buffer: 0  # type: ignore[method-assign, assignment]
        assert pair.tls.recv_into(bytearray(100)) == 0


def test_low_water_is_never_marked():
    assert NoLowWater().mark(None, 1 << 20) is False  # type: ignore[arg-type]
