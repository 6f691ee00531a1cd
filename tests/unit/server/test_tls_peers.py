"""Connections between brokers under TLS, against a listener of the same settings."""

from functools import partial

import pytest
import trio

from tests.unit.security.identities import make
from tests.unit.server.frames import frame
from tests.unit.server.peers_rig import Running, port_of, running
from tests.unit.server.tls_rig import running_tls
from yak.core.events import ClosePeer, ConnectionOpened, ConnectPeer, PeerConnected, PeerLost, SendPeer
from yak.server.tls_listener import ListenerTls
from yak.server.tls_peers import TlsPeerConnection

CLIENT_AUTH = {"ssl.client.auth": "required"}


def use_tls(caller: Running, configs: dict[str, str]) -> None:
    caller.shell.peers.make = partial(TlsPeerConnection, ListenerTls("SSL", configs))


async def test_peer_answers_a_request_under_tls(known):
    async with running_tls(known.configs | CLIENT_AUTH) as (broker, _), running() as (caller, _listening):
        use_tls(caller, known.configs)
        caller.ask(ConnectPeer(1, "localhost", broker.port), SendPeer(1, [frame(b"sent early")]))
        await caller.until(lambda: caller.core.answers == [b"sent early"])
        requests = [frame(b"%08d" % number) for number in range(5_000)] + [frame(b"large" * 1_000_000)]
        caller.ask(SendPeer(1, requests))
        await caller.until(lambda: len(caller.core.answers) == 5_002)
        assert caller.core.answers[1:] == [each[4:] for each in requests]
        (opened,) = broker.core.of(ConnectionOpened)
        assert isinstance(opened, ConnectionOpened)
        assert opened.principal == "User:CN=broker,O=YAK"
        caller.ask(ClosePeer(1))
        await broker.until(lambda: not broker.shell.connections)
        assert caller.core.events == [PeerConnected(1)]


async def lost_reason(listener: dict[str, str], caller_configs: dict[str, str], host: str) -> PeerLost:
    async with running_tls(listener) as (broker, _), running() as (caller, _listening):
        use_tls(caller, caller_configs)
        caller.ask(ConnectPeer(1, host, broker.port))
        lost = await caller.lost()
        await broker.until(lambda: not broker.shell.connections)
    return lost


async def test_peer_of_another_authority_is_lost(known, strange):
    lost = await lost_reason(strange.configs, known.configs, "localhost")
    assert lost.how == "unreachable"
    assert "certificate is refused" in lost.reason


async def test_peer_with_another_host_name_is_lost_unless_names_are_not_checked(known, tmp_path):
    elsewhere = make(tmp_path / "certs", hosts=["elsewhere.example"])
    lost = await lost_reason(elsewhere.configs, elsewhere.configs, "127.0.0.1")
    assert "IP address mismatch" in lost.reason
    async with running_tls(elsewhere.configs) as (broker, _), running() as (caller, _listening):
        use_tls(caller, elsewhere.configs | {"ssl.endpoint.identification.algorithm": ""})
        caller.ask(ConnectPeer(1, "127.0.0.1", broker.port))
        await caller.until(lambda: caller.core.events == [PeerConnected(1)])
        caller.ask(ClosePeer(1))


async def test_peer_that_speaks_no_tls_is_lost_in_time(known):
    async with running(peer_connect_ms_max=500) as (caller, listening):
        use_tls(caller, known.configs)
        caller.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)))
        lost = await caller.lost()
        assert (lost.how, lost.reason) == ("timeout", "no TLS handshake in 500 ms")


async def test_peer_that_closes_during_the_handshake_is_lost(known):
    async with running() as (caller, listening):
        use_tls(caller, known.configs)
        caller.ask(ConnectPeer(1, "localhost", port_of(listening)))
        sock, _ = await trio.socket.from_stdlib_socket(listening).accept()
        sock.close()
        assert (await caller.lost()).how == "reset"


@pytest.mark.parametrize("when", ["at once", "in the handshake"])
async def test_close_during_the_handshake_leaves_nothing(known, when):
    async with running() as (caller, listening):
        use_tls(caller, known.configs)
        caller.ask(ConnectPeer(1, "localhost", port_of(listening)))
        if when == "in the handshake":
            sock, _ = await trio.socket.from_stdlib_socket(listening).accept()
            assert await sock.recv(3) == b"\x16\x03\x01"
        caller.ask(ClosePeer(1))
        await caller.until(lambda: len(caller.shell.peers._connections) == 0)
        assert caller.core.events == []
