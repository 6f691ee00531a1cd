"""Connections of a TLS listener: handshakes that fail, and traffic of every size."""

import contextlib
import itertools
import socket
import ssl
import struct
from datetime import timedelta

import pytest
import trio
import trio.lowlevel

from tests.unit.security.identities import NOW, Identities, make
from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import Running, ScriptedCore, ask, is_closed, receive, running
from tests.unit.server.tls_rig import running_tls, secured, tls_client, trusting
from yak.core.events import ConnectionClosed, ConnectionOpened, Effect, Event, FrameReceived, Reply, UnmuteConnection
from yak.limits import REQUEST_BYTES_MAX
from yak.security.certificates import create_certificates
from yak.server.disk import RealDisk
from yak.server.shell import ConnectionLimits
from yak.server.tls_listener import ListenerTls
from yak.server.tls_socket import TlsSocket

CLIENT_AUTH = {"ssl.client.auth": "required"}
CLIENT_HELLO_HEAD = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
MUTE = frame(b"mute.... now")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_client_is_served_with_either_version(known, version):
    async with running_tls(known.configs) as (broker, _):
        context = trusting(known)
        context.minimum_version = context.maximum_version = version
        stream = await secured(broker, context)
        assert await ask(stream, b"hello TLS") == b"hello TLS"
        await stream.aclose()
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.counters.bad_requests == {}
        assert [type(event) for event in broker.core.events] == [ConnectionOpened, ConnectionClosed]


@pytest.mark.parametrize(
    ("auth", "has_certificate", "principal"), [("required", True, "User:alice"), ("requested", False, "User:ANONYMOUS")]
)
async def test_principal_comes_from_the_certificate_by_the_rules(known, auth, has_certificate, principal):
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/", "ssl.client.auth": auth}
    async with running_tls(known.configs | rules) as (broker, _):
        certificate = known.client if has_certificate else None
        await ask(await secured(broker, trusting(known, certificate=certificate)), b"who am I")
        (opened,) = broker.core.of(ConnectionOpened)
        assert isinstance(opened, ConnectionOpened)
        assert opened.principal == principal


async def refused(configs: dict[str, str], context: ssl.SSLContext, kind: str = "tls-handshake-failed") -> None:
    """A client with this context is refused, for this reason, and the core has not seen it."""
    async with running_tls(configs) as (broker, _):
        with contextlib.suppress(trio.BrokenResourceError):
            assert await ask(await secured(broker, context), b"let me in") == b""
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.counters.bad_requests == {kind: 1}
        assert broker.core.of(ConnectionOpened) == []
        assert broker.shell.counters.bugs == 0


async def test_client_without_a_certificate_is_refused_where_one_is_required(known, caplog):
    await refused(known.configs | CLIENT_AUTH, trusting(known))
    assert "the client sent no certificate" in str([record.__dict__ for record in caplog.records])


@pytest.mark.parametrize("auth", ["required", "requested"])
async def test_client_with_a_certificate_of_another_authority_is_refused(known, strange, auth):
    await refused(known.configs | {"ssl.client.auth": auth}, trusting(known, certificate=strange.client))


@pytest.mark.parametrize(("made_days_ago", "reason"), [(30, "certificate has expired"), (-30, "not yet valid")])
async def test_client_with_a_certificate_outside_its_dates_is_refused(tmp_path, caplog, made_days_ago, reason):
    own = make(tmp_path / "certs", age_days=40)
    made = NOW - timedelta(days=made_days_ago)
    create_certificates(str(own.folder), [], 10, ["bob"], force=False, now=made)
    await refused(own.configs | CLIENT_AUTH, trusting(own, certificate=str(own.folder / "bob.pem")))
    assert reason in str([record.__dict__ for record in caplog.records])


@pytest.mark.parametrize(
    ("has_authority", "host", "error", "noted"),
    [
        (True, "elsewhere.example", "Hostname mismatch", ""),
        (False, "localhost", "certificate verify failed", "unknown CA"),
    ],
)
async def test_client_refuses_a_broker_of_another_name_or_authority(
    known, strange, caplog, has_authority, host, error, noted
):
    def connect(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            pytest.raises(ssl.SSLCertVerificationError, match=error),
        ):
            trusting(known if has_authority else strange).wrap_socket(sock, server_hostname=host)

    async with running_tls(known.configs) as (broker, _):
        await trio.to_thread.run_sync(connect, broker.port)
        await broker.until(lambda: broker.shell.counters.bad_requests == {"tls-handshake-failed": 1})
    assert noted in str([record.__dict__ for record in caplog.records])


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
async def test_client_that_offers_tls_11_is_refused(known):
    context = trusting(known)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    await refused(known.configs, context)


async def test_client_of_tls_12_is_refused_where_only_tls_13_is_enabled(known):
    context = trusting(known)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    await refused(known.configs | {"ssl.enabled.protocols": "TLSv1.3"}, context)


async def test_certificate_that_no_rule_names_is_refused(known):
    rules = {"ssl.principal.mapping.rules": "RULE:^OU=(.*)$/$1/"}
    await refused(
        known.configs | CLIENT_AUTH | rules, trusting(known, certificate=known.client), kind="tls-principal-refused"
    )


async def test_rules_refuse_no_certificate_where_the_login_names_the_client(known):
    configs = {
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^OU=(.*)$/$1/",
    }
    async with running(tls=ListenerTls("SASL_SSL", known.configs | configs, uses_sasl=True)) as broker:
        stream = await secured(broker, trusting(known, certificate=known.client))
        assert await ask(stream, b"log me in") == b"log me in"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (frame(b"\0\x12\0\0\0\0\0\x01plain kafka"), "plain-kafka"),
        (b"GET / HTTP/1.1\r\n\r\n", "plain-http"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not-tls"),
        (b"\x16\x03\x01\xff\xff" + bytes(100), "tls-handshake-failed"),
    ],
)
async def test_peer_that_speaks_no_tls_is_closed_with_a_reason(known, data, kind):
    async with running_tls(known.configs) as (broker, _):
        stream = await broker.connect()
        await stream.send_all(data)
        assert await is_closed(stream)
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.counters.bad_requests == {kind: 1}
        assert await ask(await secured(broker, trusting(known)), b"still here") == b"still here"


async def test_half_a_handshake_ends_at_its_deadline(known):
    async with running_tls(known.configs, ConnectionLimits(tls_handshake_ms_max=100)) as (broker, tls):
        silent, half = await broker.connect(), await broker.connect()
        await half.send_all(CLIENT_HELLO_HEAD)
        assert await is_closed(silent)
        assert await is_closed(half)
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.counters.bad_requests == {"tls-handshake-deadline": 2}
        assert tls.handshaking == {}
        assert broker.core.of(ConnectionOpened) == []


async def test_peer_that_closes_during_the_handshake_is_only_counted(known):
    async with running_tls(known.configs) as (broker, _):
        await (await broker.connect()).aclose()
        await broker.until(lambda: broker.shell.counters.bad_requests == {"tls-handshake-closed": 1})
        await broker.until(lambda: not broker.shell.connections)


async def test_unfinished_tls_handshake_above_the_limit_closes_the_oldest(known):
    async with running_tls(known.configs, ConnectionLimits(tls_handshakes_max=2)) as (broker, tls):
        streams = [await broker.connect() for _ in range(2)]
        await broker.until(lambda: len(tls.handshaking) == 2)
        streams.append(await broker.connect())
        assert await is_closed(streams[0])
        assert broker.shell.counters.bad_requests == {"tls-too-many-handshakes": 1}
        await broker.until(lambda: len(tls.handshaking) == 2)


async def test_half_handshakes_that_end_together_are_ended_one_at_a_time(known):
    """Else those that are connected wait for all of them: a close costs more than a request."""

    class ConnectionsPerPass(trio.abc.Instrument):
        def __init__(self, broker: Running) -> None:
            self.broker, self.counts = broker, [0]

        def before_io_wait(self, timeout: float) -> None:
            self.counts.append(len(self.broker.shell.connections))

    async with running_tls(known.configs) as (broker, _):
        streams = [await broker.connect() for _ in range(30)]
        for stream in streams:
            await stream.send_all(CLIENT_HELLO_HEAD)
        await broker.until(lambda: len(broker.shell.connections) == 30)
        passes = ConnectionsPerPass(broker)
        trio.lowlevel.add_instrument(passes)
        for stream in streams:
            stream.socket.close()
        await broker.until(lambda: not broker.shell.connections)
        assert max(before - after for before, after in itertools.pairwise(passes.counts)) <= 2


async def test_client_that_finished_its_handshake_has_to_send_a_request(known):
    async with running_tls(known.configs, ConnectionLimits(first_byte_ms_max=100)) as (broker, _):
        stream = await secured(broker, trusting(known))
        assert await is_closed(stream.transport_stream)
        assert broker.shell.counters.bad_requests == {"first-byte-deadline": 1}


@pytest.mark.parametrize("size", [8, 4_000, 16_384, 100_000, 262_144, 1_000_000, 20_000_000])
async def test_frames_of_every_size_go_both_ways(known, size):
    async with tls_client(known) as (broker, stream):
        data = (b"yak " * (size // 4 + 1))[:size]
        assert await ask(stream, data) == data
        assert await ask(stream, b"and then") == b"and then"
        assert broker.shell.memory.frame_bytes == 0


async def test_many_small_frames_in_one_send_are_all_answered(known):
    async with tls_client(known) as (_broker, stream):
        frames = b"".join(frame(b"%08d" % number) for number in range(50_000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, frames)
            assert await receive(stream, len(frames)) == frames


async def test_frames_in_records_of_one_byte_are_put_together(known):
    async with tls_client(known) as (_broker, stream):
        for byte in frame(b"drop by drop"):
            await stream.send_all(bytes([byte]))
        assert await receive(stream, 16) == frame(b"drop by drop")


async def tls_by_hand(
    known: Identities, stream: trio.SocketStream
) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """TLS after its handshake, and its incoming and outgoing bytes: the last message of the handshake is not sent yet."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(known).wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            return tls, incoming, outgoing
        except ssl.SSLWantReadError:
            await stream.send_all(outgoing.read())
            incoming.write(await stream.receive_some())


async def test_first_request_may_come_with_the_end_of_the_handshake(known):
    async with running_tls(known.configs) as (broker, _):
        stream = await broker.connect()
        tls, incoming, outgoing = await tls_by_hand(known, stream)
        tls.write(frame(b"at once!"))
        await stream.send_all(outgoing.read())
        received = b""
        with trio.fail_after(5):
            while len(received) < 12:
                incoming.write(await stream.receive_some())
                try:
                    received += tls.read(100)
                except ssl.SSLWantReadError:
                    continue
        assert received == frame(b"at once!")


async def test_client_that_does_not_read_pauses_and_then_gets_everything(known):
    async with tls_client(known) as (broker, stream):
        await stream.send_all(frame(b"big.....") * 20)
        await broker.until(lambda: broker.shell.counters.pauses > 0)
        assert len(await receive(stream, 20 * 3_000_004)) == 20 * 3_000_004
        await stream.aclose()
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.memory.held_bytes == 0


async def test_reset_in_the_middle_of_an_answer_frees_its_memory(known):
    async with tls_client(known) as (broker, stream):
        await stream.send_all(frame(b"big.....") * 20)
        await broker.until(lambda: broker.shell.memory.held_bytes > 0)
        stream.transport_stream.socket.close()
        await broker.until(lambda: not broker.shell.connections)
        assert broker.shell.memory.held_bytes == 0
        assert broker.shell.counters.bugs == 0


async def test_end_in_the_segment_of_the_last_request_is_answered_with_the_end(known):
    async with running_tls(known.configs) as (broker, _):
        stream = await broker.connect()
        tls, incoming, outgoing = await tls_by_hand(known, stream)
        tls.write(frame(b"the last"))
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        await stream.send_all(outgoing.read())
        with trio.fail_after(5):
            while more := await stream.receive_some():
                incoming.write(more)
        assert tls.read(100) == frame(b"the last")
        tls.unwrap()
        await broker.until(lambda: not broker.shell.connections)


async def test_length_that_no_frame_has_closes_the_connection(known):
    async with tls_client(known) as (broker, stream):
        await stream.send_all(struct.pack(">i", REQUEST_BYTES_MAX + 1) + bytes(20))
        assert await is_closed(stream.transport_stream)
        assert broker.shell.counters.bad_requests == {"frame-too-large": 1}


async def test_record_that_does_not_decrypt_ends_its_connection_alone(known):
    async with tls_client(known) as (broker, stream):
        assert await ask(stream, b"a record") == b"a record"
        await stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert await is_closed(stream.transport_stream)
        assert broker.shell.counters.bugs == 0
        assert await ask(await secured(broker, trusting(known)), b"still here") == b"still here"


class SlicingCore(ScriptedCore):
    """Answers with a slice of a file, as for a large fetch."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, FrameReceived):
            return [Reply(event.connection_id, [struct.pack(">i", self.size), self.slice_of(self.size)])]  # type: ignore[attr-defined]
        return super().step(event, now_ms)


async def test_slice_of_a_file_is_encrypted_piece_by_piece(known, tmp_path):
    content = bytes(range(256)) * 20_000
    (tmp_path / "log").write_bytes(content)
    file = RealDisk(max_open_files=4).open(str(tmp_path / "log"))
    core = SlicingCore()
    core.size = len(content)  # type: ignore[attr-defined]
    core.slice_of = lambda size: file.slice_cached(size, 0)  # type: ignore[attr-defined]
    if file.slice_cached(len(content), 0) is None:
        pytest.skip("this kernel does not say what is cached")
    async with running_tls(known.configs, core=core) as (broker, _):
        stream = await secured(broker, trusting(known))
        await stream.send_all(frame(b"fetch it"))
        assert (await receive(stream, len(content) + 4))[4:] == content


async def test_a_connection_that_closes_itself_and_has_an_alert_to_send_ends_alone(known, monkeypatch):
    """As a client of TLS 1.2 whose bad request and renegotiation come at once: it ended the selector's task."""
    async with tls_client(known) as (broker, stream):
        while not len(broker.shell.selector._readers):  # the first turns of a connection are its own task's
            assert await ask(stream, b"a request") == b"a request"
            await trio.lowlevel.checkpoint()
        monkeypatch.setattr(TlsSocket, "has_output", True)
        await stream.send_all(struct.pack(">i", -5) + b"bad length")
        await broker.until(lambda: not broker.shell.connections)
        monkeypatch.undo()
        assert len(broker.shell.selector._readers) == 0
        other = await secured(broker, trusting(known))
        assert await ask(other, b"another one") == b"another one"


async def test_bytes_that_a_paused_connection_has_not_decrypted_count_as_memory(known):
    """OpenSSL gets some records at once; a client may send its requests in many small ones."""
    requests, later = 1000, frame(b"a later request")
    async with running_tls(known.configs) as (broker, _):
        stream = await secured(broker, trusting(known))
        records = [seal(stream, each) for each in (MUTE, *[later] * requests)]
        await stream.transport_stream.send_all(b"".join(records))
        (connection,) = broker.shell.connections.values()
        await broker.until(lambda: connection.relief is not None)
        assert broker.shell.memory.held_bytes > len(b"".join(records)) // 2
        broker.shell.carry_out([UnmuteConnection(connection.connection_id)])
        await receive(stream, len(MUTE) + requests * len(later))
        assert broker.shell.memory.held_bytes == 0


async def test_connections_whose_undecrypted_bytes_fill_the_memory_are_served_one_after_the_other(known):
    requests, later = 1000, frame(b"a later request")
    async with running_tls(known.configs, ConnectionLimits(memory_bytes_max=100_000)) as (broker, _):
        streams = [await secured(broker, trusting(known)) for _ in range(3)]
        for stream in streams:
            records = [seal(stream, each) for each in (MUTE, *[later] * requests)]
            await stream.transport_stream.send_all(b"".join(records))
        connections = list(broker.shell.connections.values())
        await broker.until(lambda: all(each.relief is not None for each in connections))
        assert broker.shell.memory.is_full
        for each in connections:
            broker.shell.carry_out([UnmuteConnection(each.connection_id)])
        for stream in streams:
            size = len(MUTE) + requests * len(later)
            assert len(await receive(stream, size)) == size
        await broker.until(lambda: broker.shell.memory.held_bytes == 0)


def seal(stream: trio.SSLStream[trio.SocketStream], data: bytes) -> bytes:
    """A record with these bytes."""
    stream._ssl_object.write(data)
    return stream._outgoing.read()
