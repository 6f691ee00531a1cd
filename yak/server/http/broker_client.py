"""The broker client of the handlers: sends Kafka requests to this broker or to another one.

    topics = await broker_client.ask(METADATA, {"topics": None})
    answer = await broker_client.ask(PRODUCE, fields, node_id=leader)

Fields are plain values by kio's names (see `yak.protocol.response_encoder`); the answer is kio's object.
"""

import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from yak.broker.apis import TABLE
from yak.broker.audit import AUDITED
from yak.broker.broker import Broker
from yak.broker.call import forwarded_fields
from yak.config.listeners import bracketed
from yak.core.peers import CLIENT_ID as PEERS_CLIENT_ID
from yak.errors import ErrorCode, ProtocolViolation
from yak.ids import NodeId
from yak.limits import REQUEST_BYTES_MAX
from yak.protocol.codec import decode_request, decode_response, encode_request, framed
from yak.protocol.peer_proof import MECHANISM, NONCE_BYTES, Exchange, Hello
from yak.protocol.request_header import read_request_header
from yak.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.server import log
from yak.server.http.authentication import CALLER
from yak.server.http.problems import Problem
from yak.server.http.rights import check_rights
from yak.server.in_process import ClosedByBroker, InProcess
from yak.server.peer_connect import NotConnectedError, connect_stream
from yak.server.tls_socket import explain

if TYPE_CHECKING:
    from yak.server.log import RateLimit
    from yak.server.tls_listener import ListenerTls

CLIENT_ID: Final = "yak-http"
TIMEOUT_SECONDS: Final = 30.0
Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"
Secure: TypeAlias = Callable[[trio.SocketStream, tuple[str, int]], Awaitable[Stream]]
"""Prepares a connection to the broker at this address; closes it and raises what went wrong."""
_LENGTH: Final = struct.Struct(">i")
_IDLE_PER_BROKER_MAX: Final = 8
_IDLE_SECONDS_MAX: Final = 60.0
_CONNECT_SECONDS: Final = 3.0
_READ_BYTES: Final = 1 << 18


def needs_authentication(broker: Broker) -> bool:
    """Whether other brokers require a login of this one, or have ACLs."""
    return broker.identity.inter_broker.security_protocol.uses_sasl or broker.authorization.is_active


class BrokerClient:
    """Sends requests to this broker, or to another by its node id."""

    def __init__(
        self, broker: Broker, in_process: InProcess, rate_limit: "RateLimit", tls: "ListenerTls | None" = None
    ) -> None:
        """`rate_limit` writes the log, and `tls` is that of the inter-broker listener."""
        self._broker = broker
        self._rate_limit = rate_limit
        self._in_process = in_process
        is_secured = tls is not None or needs_authentication(broker)
        self._remote = RemoteBrokers(partial(secure, broker, tls) if is_secured else None)

    async def ask(
        self,
        api_key: int,
        fields: Mapping[str, object],
        *,
        node_id: NodeId | None = None,
        timeout_s: float = TIMEOUT_SECONDS,
        version: int | None = None,
    ) -> Any:
        """Send a request and wait for the answer. Without a node id this broker answers.

        Raises Problem: 403 `not-allowed`, 503 `broker-unreachable` when the other broker cannot be reached, 504
        `no-answer` on a timeout.
        """
        node_id = self._broker.node_id if node_id is None else node_id
        version = max(TABLE[api_key].VERSIONS) if version is None else version
        frame = self._frame(api_key, version, fields, node_id)
        try:
            with trio.fail_after(timeout_s):
                answer = await self._exchange(frame, node_id)
            found = decode_response(api_key, version, answer)
            if api_key in AUDITED and node_id != self._broker.node_id and needs_authentication(self._broker):
                self._audit(frame, found)
            return found
        except trio.TooSlowError:
            raise Problem(
                504, "no-answer", f"node {node_id} did not answer within {timeout_s:g} s", "try again"
            ) from None
        except (RemoteLost, ClosedByBroker, ProtocolViolation) as error:
            raise _unreachable(f"node {node_id} did not answer: {error}") from None

    def _audit(self, frame: bytes, answer: Any) -> None:
        """Log a change that another broker made for the caller: it knows the request as one of this broker, and logs none."""
        header = read_request_header(memoryview(frame))
        request = decode_request(header.api_key, header.api_version, memoryview(frame), header.body_offset)
        fields, caller = forwarded_fields(answer), CALLER.get()
        for notice in self._broker.audit.notices(header.api_key, request, fields, caller.principal, caller.host):
            if notice.is_provoked:
                self._rate_limit.write(notice.level, notice.event, dict(notice.fields))
            else:
                log.write(notice.level, notice.event, dict(notice.fields))

    async def send(self, api_key: int, version: int, fields: Mapping[str, object], node_id: NodeId) -> None:
        """Send a request without an answer (acks=0). Raises Problem 503 `broker-unreachable` when it cannot be sent."""
        frame = self._frame(api_key, version, fields, node_id)
        try:
            with trio.fail_after(TIMEOUT_SECONDS):
                await self._exchange(frame, node_id, has_answer=False)
        except trio.TooSlowError:
            raise _unreachable(f"node {node_id} did not take the request within {TIMEOUT_SECONDS:g} s") from None
        except (RemoteLost, ClosedByBroker) as error:
            raise _unreachable(f"node {node_id} did not take the request: {error}") from None

    def _frame(self, api_key: int, version: int, fields: Mapping[str, object], node_id: NodeId) -> bytes:
        """The request. Raises Problem 403 `not-allowed` if another broker gets it, and the caller may not send it."""
        if node_id != self._broker.node_id:
            check_rights(self._broker, self._rate_limit, CALLER.get(), api_key, fields)
        return encode_request(api_key, version, 0, CLIENT_ID, fields)

    async def _exchange(self, frame: bytes, node_id: NodeId, *, has_answer: bool = True) -> bytes:
        if node_id == self._broker.node_id:
            caller = CALLER.get()
            if has_answer:
                return await self._in_process.ask(frame, caller.peer, caller.principal)
            self._in_process.send(frame, caller.peer, caller.principal)
            return b""
        info = self._broker.image.brokers.get(node_id)
        if info is None:
            raise RemoteLost("it is not registered")
        address = info.endpoint_for(self._broker.identity.inter_broker)
        return await self._remote.exchange(address, frame, has_answer=has_answer)


def _unreachable(message: str) -> Problem:
    hint = "it may be restarting: retry; GET /get_active_brokers lists the live brokers"
    return Problem(503, "broker-unreachable", message, hint)


class RemoteLost(Exception):
    """The other broker is unreachable, or the connection was lost; the request may have been processed."""


class RemoteBrokers:
    """Connections to other brokers, by address: one request at a time on each; idle ones are reused."""

    def __init__(self, secure: "Secure | None" = None) -> None:
        """`secure` prepares each new connection."""
        self._secure = secure
        self._idle: dict[tuple[str, int], list[tuple[float, Stream]]] = {}

    async def exchange(self, address: tuple[str, int], frame: bytes, *, has_answer: bool = True) -> bytes:
        """Send one request without its length prefix; returns the response, also without. Raises RemoteLost."""
        stream = await self._take(address)
        try:
            await stream.send_all(framed(frame))
            answer = await receive_frame(stream) if has_answer else b""
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await trio.aclose_forcefully(stream)
            raise _lost(address, error) from None
        except BaseException:  # cancelled before the response: the connection cannot be reused
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            raise
        self._keep(address, stream)
        return answer

    async def _take(self, address: tuple[str, int]) -> Stream:
        idle = self._idle.get(address, [])
        while idle:
            since, stream = idle.pop()
            if trio.current_time() - since <= _IDLE_SECONDS_MAX and _is_quiet(stream):
                return stream
            await trio.aclose_forcefully(stream)
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                stream = await connect_stream(*address, _CONNECT_SECONDS)
                return stream if self._secure is None else await self._secure(stream, address)
        except (OSError, NotConnectedError, trio.BrokenResourceError, trio.TooSlowError, ProtocolViolation) as error:
            raise _lost(address, error) from None

    def _keep(self, address: tuple[str, int], stream: Stream) -> None:
        now = trio.current_time()
        self._idle.setdefault(address, []).append((now, stream))
        for idle in self._idle.values():  # also those to addresses that brokers have no more
            while len(idle) > _IDLE_PER_BROKER_MAX or (idle and now - idle[0][0] > _IDLE_SECONDS_MAX):
                _socket_of(idle.pop(0)[1]).close()


def _lost(address: tuple[str, int], error: Exception) -> RemoteLost:
    return RemoteLost(f"{reason_of(error)} ({bracketed(address[0])}:{address[1]})")


def reason_of(error: Exception) -> str:
    """Why a connection failed: the system's reason, or the one in the error. Trio's own errors have it as cause."""
    if isinstance(error, trio.TooSlowError):
        return "the connection timed out"
    cause = error.__cause__ if isinstance(error, trio.BrokenResourceError) and error.__cause__ else error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _socket_of(stream: Stream) -> trio.socket.SocketType:
    found = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    return found.socket


def _is_quiet(stream: Stream) -> bool:
    """Whether the peer has neither closed the connection nor sent anything; does not wait."""
    raw = socket.socket(fileno=_socket_of(stream).fileno())
    try:
        raw.setblocking(False)
        raw.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        raw.detach()


async def receive_frame(stream: Stream) -> bytes:
    """One whole answer without its length prefix. Raises OSError, BrokenResourceError."""
    received = bytearray()
    wanted = _LENGTH.size
    length: int | None = None
    while len(received) < wanted:
        piece = await stream.receive_some(_READ_BYTES)
        if not piece:
            raise OSError("closed in the middle of an answer")
        received += piece
        if length is None and len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if not _LENGTH.size <= length <= REQUEST_BYTES_MAX:
                raise OSError(f"a response of {length} bytes")
            wanted = _LENGTH.size + length
    if len(received) > wanted:
        raise OSError("more than one answer")
    return bytes(memoryview(received)[_LENGTH.size :])


_VERSION: Final = 1


async def secure(
    broker: Broker, tls: "ListenerTls | None", plain: trio.SocketStream, address: tuple[str, int]
) -> Stream:
    """A new connection, under TLS and authenticated as the inter-broker listener demands.

    Raises OSError, BrokenResourceError, ProtocolViolation.
    """
    try:
        stream: Stream = plain if tls is None else await handshake(plain, tls, address[0])
        if needs_authentication(broker):
            await _authenticate(broker, stream, address)
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(plain)
        raise
    return stream


async def handshake(plain: trio.SocketStream, tls: "ListenerTls", host: str) -> "trio.SSLStream[trio.SocketStream]":
    """The connection to this host under TLS. Raises OSError with the reason, BrokenResourceError."""
    stream = trio.SSLStream(plain, tls.contexts.connecting, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise OSError(f"TLS: {explain(error.__cause__)}") from None
        raise
    return stream


async def _authenticate(broker: Broker, stream: Stream, address: tuple[str, int]) -> None:
    """Mutual authentication of both ends. Raises ProtocolViolation."""
    listener, peers = broker.identity.inter_broker, broker.peers
    wanted = next((each for each in broker.image.brokers.values() if each.endpoint_for(listener) == address), None)
    if wanted is None:
        raise ProtocolViolation("no broker is registered with this address")
    assert peers.secret is not None, "a broker that serves HTTP is registered"
    hello = Hello(peers.incarnation(), os.urandom(NONCE_BYTES)).encode()
    await _ask(stream, SASL_HANDSHAKE, {"mechanism": MECHANISM})
    there = (await _ask(stream, SASL_AUTHENTICATE, {"auth_bytes": hello})).auth_bytes
    found = Hello.decode(there).broker
    if found.node_id != wanted.node_id or found.broker_epoch < wanted.broker_epoch:
        # else a process there could pass this broker's proof on to another one
        raise ProtocolViolation(f"the process at the address of broker {wanted.node_id} is not that broker")
    exchange = Exchange(peers.cluster_id, hello, there)
    answer = await _ask(stream, SASL_AUTHENTICATE, {"auth_bytes": peers.secret.caller_proof(exchange)})
    if not peers.secret.is_server(answer.auth_bytes, exchange):
        raise ProtocolViolation(f"the process at the address of broker {wanted.node_id} is not of this cluster")


async def _ask(stream: Stream, api_key: int, fields: dict[str, object]) -> Any:
    await stream.send_all(framed(encode_request(api_key, _VERSION, 0, PEERS_CLIENT_ID, fields)))
    answer = decode_response(api_key, _VERSION, await receive_frame(stream))
    if answer.error_code != ErrorCode.none:
        raise ProtocolViolation("the other broker rejected this broker's authentication")
    return answer
