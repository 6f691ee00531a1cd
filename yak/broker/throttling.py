"""Throttles clients that exceed a quota: their answers say so, and their channels are muted (KIP-13, 124, 219, 599, 612).

An answer leaves at once, with the time for which the client must wait; until then the shell reads no request of its
connection (SocketServer's muted channels). Connections of brokers, proven by `yak.protocol.peer_proof`, and requests of
this process, as for HTTP, are not throttled.

A connection beyond the rate of its ip is closed after the time for which the ip exceeds its quota. Until then it may
prove to be a broker's. Any other request mutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from yak.broker.call import Call, DelayedOperation, Fields
from yak.core.context import Context
from yak.core.events import MuteConnection, UnmuteConnection
from yak.limits import PEER_PROOF_MS_MAX
from yak.protocol.codec import has_response_field
from yak.protocol.request_header import read_request_header
from yak.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.quotas.client_quotas import ClientQuotas
from yak.quotas.quota_types import QuotaType

if TYPE_CHECKING:
    from yak.broker.connections import Connection

_OF_THE_PROOF: Final = (SASL_HANDSHAKE, SASL_AUTHENTICATE)
_PERCENT_PER_NS: Final = 100 / 1e9
_THROTTLE_TIME: Final = "throttle_time"
S = TypeVar("S", bound="memoryview | DelayedOperation")


def user_of(connection: Connection) -> str:
    """The name of the user at the other end."""
    return connection.principal.removeprefix("User:")


@dataclass(slots=True)
class Throttled:
    """How often clients were throttled by quotas of one type, and for how long in total."""

    count: int = 0
    throttle_ms: int = 0


class Throttling:
    """The quotas of this broker's clients, and the channels that are muted."""

    def __init__(
        self, context: Context, processor_ns: Callable[[], int], close: Callable[[Connection, str], None]
    ) -> None:
        self._context, self._close = context, close
        self.processor_ns = processor_ns
        self.quotas = ClientQuotas(context)
        self.is_active = bool(self.quotas)
        """Whether any quota is set: the only cost where none is."""
        self.counts = {quota: Throttled() for quota in QuotaType}
        self._muted: dict[Connection, int] = {}
        """Until when each connection is muted, in ms."""
        self._refused: dict[Connection, int] = {}
        """When each connection beyond the rate of its ip is to be closed, in ms."""
        self._mark_ns = 0
        """Processor time up to which the present request has been counted."""

    def __len__(self) -> int:
        """How many connections are muted."""
        return len(self._muted)

    def set_quotas(self, quotas: Mapping[str, Mapping[str, str]]) -> None:
        """Put the quotas of a new image in force."""
        self.quotas.set_quotas(quotas)
        self.is_active = bool(self.quotas)

    # ------------------------------------------------------------------------------------------------- request time

    def serve(self, connection: Connection, request: S, action: Callable[[Connection, S], None]) -> None:
        """Run `action` for one request, and count its processor time.

        It is the time of this thread in the steps of the request. Threads that read from disks and flush are not
        counted, nor is the sending of the answer. Time after the answer counts for the client's next one.
        """
        if self._refused and connection in self._refused and not self._may_stay(connection, request):
            return
        is_bare_token = connection.login is not None and connection.login.takes_bare_tokens
        if _is_exempt(connection) or is_bare_token or not self.quotas.has(QuotaType.REQUEST):
            action(connection, request)
            return
        outer_ns, began_ns = self._mark_ns, self.processor_ns()
        self._mark_ns = began_ns
        try:
            action(connection, request)
        finally:
            client_id = _client_id_of(request)
            spent_ns = (ended_ns := self.processor_ns()) - self._mark_ns
            self.quotas.record(QuotaType.REQUEST, user_of(connection), client_id, spent_ns * _PERCENT_PER_NS)
            self._mark_ns = outer_ns + ended_ns - began_ns  # one request may complete another

    def _request_ms(self, call: Call) -> int:
        """Count the processor time until now; returns the ms for which the client must wait."""
        if not self.quotas.has(QuotaType.REQUEST):
            return 0
        now_ns = self.processor_ns()
        spent_ns, self._mark_ns = now_ns - self._mark_ns, now_ns
        return self._record(QuotaType.REQUEST, call, spent_ns * _PERCENT_PER_NS)

    def _record(self, quota: QuotaType, call: Call, value: float) -> int:
        return self.quotas.record(quota, user_of(call.connection), call.client_id or "", value)

    # ------------------------------------------------------------------------------------------------- answers

    def produced(self, call: Call) -> int:
        """Count the bytes of a Produce request that is answered now; returns its throttle time in ms."""
        if _is_exempt(call.connection):
            return 0
        bytes_ms = self._record(QuotaType.PRODUCE, call, getattr(call, "request_bytes", 0))
        return self._throttle(call.connection, QuotaType.PRODUCE, bytes_ms, self._request_ms(call))

    def fetch_bytes_max(self, call: Call) -> int:
        """The bytes that a fetch of this client may get at most."""
        if _is_exempt(call.connection):
            return 2**31 - 1
        return self.quotas.fetch_bytes_max(user_of(call.connection), call.client_id or "")

    def fetched(self, call: Call, record_bytes: int) -> int:
        """Count the bytes of records of a consumer's answer; returns its throttle time in ms.

        If there is one, the answer is empty, and its bytes do not count.
        """
        if _is_exempt(call.connection):
            return 0
        request_ms = self._request_ms(call)
        bytes_ms = self._record(QuotaType.FETCH, call, record_bytes)
        if bytes_ms or request_ms:
            self._record(QuotaType.FETCH, call, -record_bytes)
        return self._throttle(call.connection, QuotaType.FETCH, bytes_ms, request_ms)

    def throttled_fields(self, call: Call, fields: Fields) -> Fields:
        """The fields of any other answer, with its throttle time.

        Logins have none, as in Kafka: a broker proves itself by the same requests.
        """
        if _is_exempt(call.connection) or call.api_key in _OF_THE_PROOF:
            return fields
        request_ms, mutation_ms, is_refused = self._request_ms(call), 0, False
        quota = getattr(call, "mutation_quota", None)
        if quota is not None:
            mutation_ms, is_refused = quota.throttle_ms(), quota.is_exceeded
        throttle_ms = max(request_ms, mutation_ms)
        if is_refused:
            # the error says so: the channel stays open (RequestHandlerHelper.sendResponseMaybeThrottleWithControllerQuota)
            self._count(QuotaType.CONTROLLER_MUTATION, mutation_ms)
        else:
            self._throttle(call.connection, QuotaType.CONTROLLER_MUTATION, mutation_ms, request_ms)
        if throttle_ms and has_response_field(call.api_key, _THROTTLE_TIME):
            return {**fields, _THROTTLE_TIME: throttle_ms}
        return fields

    def mutates(self, call: Call, partitions: int, *, strict_since: int) -> None:
        """Count partitions that a request creates or deletes.

        Raises PeerError(THROTTLING_QUOTA_EXCEEDED), from the version `strict_since` on (KIP-599).
        """
        if not self.is_active or _is_exempt(call.connection):
            return
        quota = getattr(call, "mutation_quota", None)
        if quota is None:
            is_strict = call.version >= strict_since
            quota = self.quotas.mutations(user_of(call.connection), call.client_id or "", is_strict=is_strict)
            if quota is None:
                return
            call.mutation_quota = quota
        quota.record(partitions)

    # ------------------------------------------------------------------------------------------------- muted channels

    def _throttle(self, connection: Connection, quota: QuotaType, quota_ms: int, request_ms: int) -> int:
        """Mute a channel for the longer of two times; returns it."""
        throttle_ms = max(quota_ms, request_ms)
        if throttle_ms:
            self._count(quota if quota_ms > request_ms else QuotaType.REQUEST, throttle_ms)
            self._mute(connection, self._context.clock.now_ms + throttle_ms)
        return throttle_ms

    def _count(self, quota: QuotaType, throttle_ms: int) -> None:
        counts = self.counts[quota]
        counts.count += 1
        counts.throttle_ms += throttle_ms

    def _mute(self, connection: Connection, until_ms: int) -> None:
        if not connection.is_open or until_ms <= self._muted.get(connection, 0):
            return
        if connection not in self._muted:
            self._context.emit(MuteConnection(connection.connection_id))
        self._muted[connection] = until_ms
        self._context.timers.arm((self, connection), until_ms, partial(self._unmute, connection))

    def _unmute(self, connection: Connection) -> None:
        del self._muted[connection]
        if connection in self._refused:
            self._end(connection)
        else:
            self._context.emit(UnmuteConnection(connection.connection_id))

    # ------------------------------------------------------------------------------------------------- connections

    def opened(self, connection: Connection) -> None:
        """Count a connection of its ip. One beyond the rate is to be closed, unless a broker proves itself."""
        if connection.is_in_process:
            return
        throttle_ms = self.quotas.connection(connection.peer.rpartition(":")[0].strip("[]"))
        if throttle_ms:
            self._count(QuotaType.CONNECTION, throttle_ms)
            now_ms = self._context.clock.now_ms
            self._refused[connection] = now_ms + throttle_ms
            end_ms = now_ms + max(throttle_ms, PEER_PROOF_MS_MAX)
            self._context.timers.arm((self, connection), end_ms, partial(self._end, connection))

    def _may_stay(self, connection: Connection, request: memoryview | DelayedOperation) -> bool:
        if connection.proven is not None:
            self.closed(connection)
            return True
        if isinstance(request, DelayedOperation) or int.from_bytes(request[:2], "big") in _OF_THE_PROOF:
            return True
        self._mute(connection, max(self._refused[connection], self._context.clock.now_ms))
        return False

    def _end(self, connection: Connection) -> None:
        if self._refused.pop(connection, None) is not None and connection.proven is None:
            self._close(connection, "its ip creates more connections than its quota allows")

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        is_refused = self._refused.pop(connection, None) is not None
        if self._muted.pop(connection, None) is not None or is_refused:
            self._context.timers.disarm((self, connection))


def _is_exempt(connection: Connection) -> bool:
    return connection.proven is not None or connection.is_in_process


def _client_id_of(request: memoryview | DelayedOperation) -> str:
    if isinstance(request, DelayedOperation):
        return request.call.client_id or ""
    return read_request_header(request).client_id or ""
