"""HTTP requests to other brokers: one request for each connection, no redirects.

h11 comes with Hypercorn. Limits: `CONNECT_SECONDS`, `ANSWER_SECONDS`, `ANSWER_BYTES_MAX`.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import h11
import trio

from yak.cluster.image import BrokerInfo
from yak.config.listeners import bracketed
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import PARSED_AT_ONCE_BYTES_MAX, in_thread
from yak.server.http.broker_client import Stream, handshake, reason_of
from yak.server.http.forwarded_caller import forwarding_header
from yak.server.http.problems import Problem
from yak.server.peer_connect import NotConnectedError, connect_stream

if TYPE_CHECKING:
    from yak.server.http.context import Context

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The answer of another broker."""

    status: int
    body: bytes

    async def json(self, context: "Context") -> Any:
        """The body as JSON; a large one is parsed in a thread. Raises ValueError."""
        if len(self.body) > PARSED_AT_ONCE_BYTES_MAX:
            return await in_thread(context, json.loads, self.body)
        return json.loads(self.body)


async def ask_broker(context: "Context", broker: BrokerInfo, method: str, target: str) -> BrokerAnswer:
    """Send one request without a body, for the caller of the request that this task serves.

    `yak.server.http.forwarded_caller` says how the caller is named; a broker of an earlier version of YAK reads the
    Authorization header only. Raises Problem 503 `broker-unreachable` without a valid HTTP answer in time.
    """
    if not broker.http_port:
        raise _unreachable(broker, "it has no HTTP address")
    address = f"{bracketed(broker.host)}:{broker.http_port}"
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await _connect(context, broker.host, broker.http_port)
    except (OSError, NotConnectedError, trio.BrokenResourceError, trio.TooSlowError) as error:
        raise _unreachable(broker, f"{reason_of(error)} ({address})") from None
    fields = {"host": address, "connection": "close"}
    caller = CALLER.get()
    fields |= forwarding_header(context.broker, caller, broker.node_id, method, target)
    if caller.authorization is not None:
        fields["authorization"] = caller.authorization
    if method != "GET":
        fields["content-length"] = "0"
    try:
        with trio.fail_after(ANSWER_SECONDS):
            async with stream:
                # Latin-1, as Starlette decoded the client's Authorization header; h11 would encode text as ASCII
                headers = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
                return await _exchange(stream, h11.Request(method=method, target=target, headers=headers))
    except trio.TooSlowError:
        raise _unreachable(broker, f"no answer within {ANSWER_SECONDS:g} s ({address})") from None
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError) as error:
        raise _unreachable(broker, f"{reason_of(error)} ({address})") from None


async def _connect(context: "Context", host: str, port: int) -> Stream:
    """Raises OSError, NotConnectedError, BrokenResourceError."""
    plain = await connect_stream(host, port, CONNECT_SECONDS)
    try:
        return plain if context.tls is None else await handshake(plain, context.tls, host)
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(plain)
        raise


async def _exchange(stream: trio.abc.Stream, request: h11.Request) -> BrokerAnswer:
    connection = h11.Connection(h11.CLIENT)
    sent = connection.send(request) or b""
    await stream.send_all(sent + (connection.send(h11.EndOfMessage()) or b""))
    status, received = 0, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(_READ_BYTES)))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > ANSWER_BYTES_MAX:
                raise OSError(f"a response of more than {ANSWER_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return BrokerAnswer(status, bytes(received))


def _unreachable(broker: BrokerInfo, why: str) -> Problem:
    return Problem(
        503,
        "broker-unreachable",
        f"broker {broker.node_id} did not answer: {why}",
        "it may be restarting: retry; GET /api/cluster lists the live brokers",
    )
