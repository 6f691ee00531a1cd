"""A shell that listens with TLS, and clients of the standard library."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tests.unit.security.identities import Identities
from tests.unit.server.shell_rig import Running, ScriptedCore, halted
from yak.config.listeners import Listener, SecurityProtocol
from yak.server.listener import Acceptor, Bound, bind, bound_port, start_listening
from yak.server.shell import ConnectionLimits, Shell
from yak.server.sweeper import run_sweeper
from yak.server.tls_listener import ListenerTls
from yak.sim.disk import SimDisk

SSL_LISTENER = Listener("SSL", SecurityProtocol.SSL, "127.0.0.1", 0)


@asynccontextmanager
async def running_tls(
    configs: dict[str, str], limits: ConnectionLimits | None = None, core: ScriptedCore | None = None
) -> AsyncIterator[tuple[Running, ListenerTls]]:
    core = core or ScriptedCore()
    tls = ListenerTls("SSL", configs)
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, disk=SimDisk(), limits=limits, end_process=halted)
        sockets = bind("127.0.0.1", 0)
        start_listening(sockets, "127.0.0.1")
        nursery.start_soon(Acceptor(shell, {SSL_LISTENER.name: tls}).run, [Bound(SSL_LISTENER, sockets)])
        nursery.start_soon(shell.run_timer)
        nursery.start_soon(shell.selector.run)
        nursery.start_soon(run_sweeper, shell, 0.02)
        yield Running(core, shell, bound_port(sockets)), tls
        nursery.cancel_scope.cancel()


def trusting(identities: Identities, *, certificate: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=identities.ca)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


async def secured(
    broker: Running, context: ssl.SSLContext, host: str = "localhost"
) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(await broker.connect(), context, server_hostname=host)
    with trio.fail_after(5):
        await stream.do_handshake()
    return stream


async def receive(stream: trio.SSLStream[trio.SocketStream], size: int) -> bytes:
    data = bytearray()
    with trio.fail_after(10):
        while len(data) < size:
            more = await stream.receive_some(1 << 20)
            assert more, f"closed after {len(data)} of {size} bytes"
            data += more
    return bytes(data)


async def ask(stream: trio.SSLStream[trio.SocketStream], data: bytes) -> bytes:
    await stream.send_all(len(data).to_bytes(4, "big") + data)
    return (await receive(stream, len(data) + 4))[4:]
