"""A shell that listens with TLS, and clients of the standard library."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from tests.unit.security.identities import Identities
from tests.unit.server.shell_rig import Running, running
from yak.server.shell import ConnectionLimits
from yak.server.tls_listener import ListenerTls


@asynccontextmanager
async def running_tls(
    configs: dict[str, str], limits: ConnectionLimits | None = None, core: Any = None
) -> AsyncIterator[tuple[Running, ListenerTls]]:
    tls = ListenerTls("SSL", configs)
    async with running(limits, core, tls) as broker:
        yield broker, tls


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


@asynccontextmanager
async def tls_client(identities: Identities) -> AsyncIterator[tuple[Running, trio.SSLStream[trio.SocketStream]]]:
    """A shell that listens with TLS, and a client that shook hands with it."""
    async with running_tls(identities.configs) as (broker, _):
        yield broker, await secured(broker, trusting(identities))
