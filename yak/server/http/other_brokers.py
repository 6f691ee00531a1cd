"""HTTP requests to other brokers: one request for each connection, no redirects.

h11 comes with Hypercorn. Limits: `CONNECT_SECONDS`, `ANSWER_SECONDS`, `ANSWER_BYTES_MAX`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import h11
import trio

from yak.cluster.image import BrokerInfo
from yak.server.http.problems import Problem

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_PARSED_AT_ONCE_BYTES: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class OtherAnswer:
    """The answer of another broker."""

    status: int
    body: bytes

    async def json(self) -> Any:
        """The body as JSON; a large one is parsed in a thread. Raises ValueError."""
        if len(self.body) > _PARSED_AT_ONCE_BYTES:
            return await trio.to_thread.run_sync(json.loads, self.body)
        return json.loads(self.body)


async def ask_broker(
    broker: BrokerInfo, method: str, target: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> OtherAnswer:
    """Send one request. Raises Problem 503 `broker-unreachable` without a valid HTTP answer in time."""
    if not broker.http_port:
        raise _unreachable(broker, "it has no HTTP address")
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(broker.host, broker.http_port)
    except trio.TooSlowError:
        raise _unreachable(broker, "the connection timed out") from None
    except OSError as error:
        raise _unreachable(broker, str(error)) from None
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    fields = {"host": f"{host}:{broker.http_port}", "connection": "close", **(headers or {})}
    if method != "GET":
        fields["content-length"] = str(len(body))
    try:
        with trio.fail_after(ANSWER_SECONDS):
            async with stream:
                return await _exchange(
                    stream, h11.Request(method=method, target=target, headers=list(fields.items())), body
                )
    except trio.TooSlowError:
        raise _unreachable(broker, f"no answer within {ANSWER_SECONDS:g} s") from None
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError) as error:
        raise _unreachable(broker, str(error) or type(error).__name__) from None


async def _exchange(stream: trio.SocketStream, request: h11.Request, body: bytes) -> OtherAnswer:
    connection = h11.Connection(h11.CLIENT)
    sent = connection.send(request) or b""
    if body:
        sent += connection.send(h11.Data(data=body)) or b""
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
            return OtherAnswer(status, bytes(received))


def _unreachable(broker: BrokerInfo, why: str) -> Problem:
    return Problem(
        503,
        "broker-unreachable",
        f"broker {broker.node_id} did not answer: {why}",
        "it may be restarting: retry; GET /api/cluster lists the live brokers",
    )
