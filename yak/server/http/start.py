"""Builds the HTTP server from a broker's options, without loading any HTTP library."""

import socket
from collections.abc import Sequence

from yak.broker.broker import Broker
from yak.server.http.broker_client import BrokerClient
from yak.server.http.context import Context, HttpLimits
from yak.server.http.http_server import HttpServer
from yak.server.options import ServeOptions
from yak.server.shell import Shell


def make_http_server(
    sockets: Sequence[socket.socket],
    shell: Shell,
    broker: Broker,
    options: ServeOptions,
    http_port: int,
    limits: HttpLimits,
) -> HttpServer:
    """Listen; the caller runs `run` as a task. Raises UsageError if the port is in use after all."""
    context = Context(
        shell=shell,
        broker=broker,
        broker_client=BrokerClient(broker, shell.in_process),
        http_port=http_port,
        host=options.host,
        advertised_host=options.advertised(0)[0],
        token=options.http_token,
        limits=limits,
        started_ms=shell.clock.now_ms(),
    )
    server = HttpServer(sockets, context)
    context.connections = lambda: server.connections
    server.listen()
    return server
