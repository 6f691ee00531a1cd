"""Key updates of TLS 1.3 (RFC 8446, section 4.6.3), which Java's clients send, and floods of them."""

import contextlib
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.unit.security.identities import Identities
from tests.unit.server.frames import frame
from tests.unit.server.http.rig import serving
from tests.unit.server.shell_rig import ask
from tests.unit.server.test_tls_socket import Pair
from tests.unit.server.tls_rig import running_tls, secured, trusting
from yak.server.tls_listener import ListenerTls
from yak.server.tls_socket import KeyUpdatesError

APPLICATION_DATA, HANDSHAKE = 23, 22
REQUESTED, NOT_REQUESTED = 1, 0


def expand(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label for SHA-384 and at most 48 bytes (RFC 8446, section 7.1)."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    return hmac.digest(secret, info + b"\1", "sha384")[:size]


class ClientRecords:
    """The records of a client after its handshake, which Python's ssl cannot write: it sends no key updates."""

    def __init__(self, key_log: Path) -> None:
        lines = [line.split() for line in key_log.read_text().splitlines()]
        (secret,) = [words[2] for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._use(bytes.fromhex(secret))

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key, self._iv = AESGCM(expand(secret, b"key", 32)), int.from_bytes(expand(secret, b"iv", 12), "big")

    def record(self, content: bytes, content_type: int = APPLICATION_DATA) -> bytes:
        inner = content + bytes([content_type])
        head = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        nonce = (self._iv ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, inner, head)

    def key_update(self, request: int) -> bytes:
        found = self.record(b"\x18\0\0\1" + bytes([request]), HANDSHAKE)
        self._use(expand(self._secret, b"traffic upd", hashlib.sha384().digest_size))
        return found


@pytest.fixture
def client(known: Identities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """The context of a client that writes its key log to `tmp_path / "keys"`."""
    context = trusting(known)
    context.keylog_filename = str(tmp_path / "keys")
    monkeypatch.setattr("tests.unit.server.test_tls_socket.trusting", lambda _known: context)
    yield context
    context.keylog_filename = None


@pytest.fixture
def pair(known: Identities, client: ssl.SSLContext) -> Pair:
    """Both sides of a connection of that client."""
    return Pair(known)


@pytest.fixture
def records(pair: Pair, tmp_path: Path) -> ClientRecords:
    return ClientRecords(tmp_path / "keys")


def test_data_after_key_updates_are_decrypted_and_answered_under_the_new_keys(pair, records):
    for number in range(100):
        pair.sock.waiting += records.key_update(number % 2) + records.record(b"%d" % number)
        buffer = bytearray(10)
        assert buffer[: pair.tls.recv_into(buffer)] == b"%d" % number
        pair.sock.sent += pair.tls.encrypt(b"answer %d" % number)
        assert pair.decrypted() == b"answer %d" % number


def test_key_updates_without_data_are_refused_after_32(pair, records):
    pair.sock.waiting += b"".join(records.key_update(NOT_REQUESTED) for _ in range(1_000))
    with pytest.raises(KeyUpdatesError, match="32 key updates in succession"):
        pair.tls.recv_into(bytearray(100))


def test_key_updates_whose_answers_are_not_read_are_refused(pair, records):
    updates = 0

    def update_until_refused() -> None:
        nonlocal updates
        while updates < 10_000:
            pair.sock.waiting += records.key_update(REQUESTED) + records.record(b"x")
            updates += 1
            assert pair.tls.recv_into(bytearray(100)) == 1

    with pytest.raises(KeyUpdatesError, match="bytes of answers to key updates are unsent"):
        update_until_refused()
    assert 2_000 < updates < 3_000


def test_key_update_after_each_record_of_a_large_answer_is_served(pair, records):
    """Java's client updates its keys also for what it reads: each 32 KiB of an answer with a low jdk.tls.keyLimits."""
    pair.sock.sent += pair.tls.encrypt(bytes(4 * 1024 * 1024))
    pair.sock.waiting += b"".join(records.key_update(REQUESTED) for _ in range(256)) + records.record(b"next")
    buffer = bytearray(100)
    for _ in range(8):
        with pytest.raises(BlockingIOError):
            pair.tls.recv_into(buffer)
        assert pair.tls.has_pending
    assert buffer[: pair.tls.recv_into(buffer)] == b"next"
    pair.sock.sent += pair.tls.encrypt(b"answer")
    assert pair.decrypted() == bytes(4 * 1024 * 1024) + b"answer"
    pair.sock.waiting += b"".join(records.key_update(REQUESTED) for _ in range(64))
    with pytest.raises(BlockingIOError):
        pair.tls.recv_into(buffer)
    with pytest.raises(KeyUpdatesError):
        pair.tls.recv_into(buffer)


def test_records_that_come_in_pieces_of_any_size_are_decrypted(pair, records):
    sent = b"".join(records.key_update(NOT_REQUESTED) + records.record(b"%d," % number) for number in range(500))
    expected = b"".join(b"%d," % number for number in range(500))
    pair.sock.waiting += sent
    pair.sock.pieces = [1 + number * 7 % 61 for number in range(len(sent))]
    received, buffer = b"", bytearray(1000)
    while len(received) < len(expected):
        try:
            received += buffer[: pair.tls.recv_into(buffer)]
        except BlockingIOError:
            assert pair.sock.waiting
    assert received == expected
    assert not pair.tls.has_pending


async def test_client_that_floods_key_updates_is_closed_alone_and_logged(known, tmp_path, client, caplog):
    async with running_tls(known.configs) as (broker, _):
        other = await secured(broker, trusting(known))
        stream = await secured(broker, client)
        records = ClientRecords(tmp_path / "keys")
        await stream.transport_stream.send_all(records.key_update(REQUESTED) + records.record(frame(b"a request")))
        assert (await stream.receive_some())[4:] == b"a request"
        await flood(stream, records)
        await broker.until(lambda: len(broker.shell.connections) == 1)
        assert broker.shell.counters.bad_requests == {"tls-key-updates": 1}
        assert await ask(other, b"still here") == b"still here"
    fields = caplog.records[-1].yak_fields  # type: ignore[attr-defined]
    assert (caplog.messages[-1], fields["kind"]) == ("tls-connection-refused", "tls-key-updates")
    assert "key updates in succession" in fields["hint"]


async def test_http_client_that_floods_key_updates_is_closed(known, tmp_path, client):
    async with serving((), tls=ListenerTls("HTTP", known.configs, uses_sasl=True)) as rig:
        stream = trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", rig.port), client, server_hostname="localhost")
        await stream.do_handshake()
        records = ClientRecords(tmp_path / "keys")
        request = b"GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n"
        await stream.transport_stream.send_all(records.key_update(REQUESTED) + records.record(request))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 404")
        await flood(stream, records)


async def flood(stream: trio.SSLStream[trio.SocketStream], records: ClientRecords) -> None:
    """Send key updates until the server closes."""
    with contextlib.suppress(trio.BrokenResourceError), trio.fail_after(10):
        while True:
            await stream.transport_stream.send_all(b"".join(records.key_update(REQUESTED) for _ in range(100)))
            await trio.sleep(0.001)
