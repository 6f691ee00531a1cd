"""The metadata store that a broker of a quorum calls and tails: the leader's commands, this node's applied state.

A call goes to the quorum's leader: here, or through Envelope (KIP-590) to another node. The metadata log comes from this
node's own state machine. While no leader is known the store counts as lost, as Redis does when it does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from yak.core.context import Context
from yak.core.events import RecordsTailed, StoreConnected, StoreLost, StoreReplied
from yak.errors import ErrorCode, ProtocolViolation
from yak.ids import LeaderEpoch, MetadataOffset, NodeId, Nonce
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.transport import ENVELOPE, Transport

if TYPE_CHECKING:
    from yak.quorum.leader_state import Respond
    from yak.quorum.quorum import Quorum

StoreEvent = StoreConnected | StoreLost | StoreReplied | RecordsTailed
PROCESS_ID: Final = "quorum"
_RECORDS_PER_READ: Final = 200
_CONNECT_AGAIN_MS: Final = 20


class QuorumStore:
    """The store. It reports its events to `report`; the broker acts on them later in its step, never within a call."""

    def __init__(self, context: Context, report: Callable[[StoreEvent], None]) -> None:
        self._context = context
        self._report = report
        self._quorum: Quorum
        self._transport: Transport
        self._leader: tuple[NodeId, LeaderEpoch] | None = None
        """The leader to which the store counts as connected."""
        self._tail_after: MetadataOffset | None = None

    def attach(self, quorum: Quorum, transport: Transport) -> None:
        """Use this quorum; before its `start`."""
        self._quorum, self._transport = quorum, transport

    # ------------------------------------------------------------------------------------------------- calls

    def call(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call; `StoreReplied` or `StoreLost` follows. Without a leader, `StoreLost` was reported before."""
        leader, quorum = self._leader, self._quorum
        if leader is None:
            return
        if quorum.leader is not None:
            quorum.propose(request, partial(self._on_outcome, leader, nonce))
            return
        address = quorum.leader_address
        if address is None:
            self._lose("the quorum's leader is not known")
            return
        fields = {"request_data": encode_request(request), "request_principal": None, "client_host_address": b""}
        self._transport.send(address, ENVELOPE, fields, partial(self._on_response, leader, nonce))

    def tail(self, after: MetadataOffset) -> None:
        """Report the records of the metadata log after this offset, now and whenever some are applied."""
        self._tail_after = after
        self.on_applied()

    def reconnect(self) -> None:
        """Report the connection to the leader again, if there is one: the store is used from now on, or no more."""
        self._leader = self._tail_after = None
        self.on_leader()

    def _on_outcome(self, leader: tuple[NodeId, LeaderEpoch], nonce: Nonce, outcome: StoreOutcome | None) -> None:
        if leader != self._leader:
            return
        if outcome is None:
            self._lose("the quorum's leader resigned")
        else:
            self._report(StoreReplied(nonce, outcome))

    def _on_response(self, leader: tuple[NodeId, LeaderEpoch], nonce: Nonce, response: Any | None) -> None:
        if response is None or response.error_code != ErrorCode.none:
            if leader == self._leader:
                self._lose("the quorum's leader does not answer")
            return
        self._on_outcome(leader, nonce, decode_outcome(response.response_data))

    def _lose(self, reason: str) -> None:
        """The calls under way may or may not take effect. The leader may be the same one a moment later."""
        self._leader = self._tail_after = None
        self._report(StoreLost(reason))
        self._context.after((self, "connect"), _CONNECT_AGAIN_MS, self.on_leader)

    # ------------------------------------------------------------------------------------------------- the quorum

    def on_leader(self) -> None:
        """The leader, its epoch or its readiness changed."""
        quorum = self._quorum
        is_known = quorum.is_ready_leader or quorum.leader_address is not None
        leader = (quorum.leader_id, quorum.epoch) if is_known else None
        if leader == self._leader:
            return
        if self._leader is not None:
            self._leader = self._tail_after = None
            self._report(StoreLost("the metadata quorum has no leader"))
        if leader is not None:
            self._context.timers.disarm((self, "connect"))
            self._leader = leader
            self._report(StoreConnected(PROCESS_ID))

    def on_applied(self) -> None:
        """Report new records of the metadata log."""
        if self._tail_after is None:
            return
        records = self._quorum.machine.state.records_after(self._tail_after, _RECORDS_PER_READ)
        if not records:
            return
        self._tail_after = records[-1].offset
        self._report(RecordsTailed(records))
        if len(records) >= _RECORDS_PER_READ:
            self._context.after((self, "tail"), 0, self.on_applied)

    def serve(self, request: Any, respond: Respond) -> None:
        """Execute another node's call, as the leader."""
        try:
            call = decode_request(request.request_data)
        except ProtocolViolation:
            respond({"response_data": None, "error_code": ErrorCode.invalid_request})
            return

        def done(outcome: StoreOutcome | None) -> None:
            if outcome is None:
                respond({"response_data": None, "error_code": ErrorCode.not_controller})
            else:
                respond({"response_data": encode_outcome(outcome), "error_code": ErrorCode.none})

        self._quorum.propose(call, done)


def encode_request(request: StoreRequest) -> bytes:
    """A store request for Envelope."""
    fields = [request.script, request.arguments, request.known_offset, request.known_hash]
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_request(data: bytes) -> StoreRequest:
    """Decode a store request. Raises ProtocolViolation."""
    try:
        script, arguments, offset, chain_hash = json.loads(data)
        if not (isinstance(script, str) and isinstance(arguments, dict) and isinstance(offset, int)):
            raise TypeError
        return StoreRequest(script, arguments, offset, str(chain_hash))
    except (ValueError, TypeError):
        raise ProtocolViolation("the bytes are not a request to the metadata store") from None


def encode_outcome(outcome: StoreOutcome) -> bytes:
    """A store outcome for Envelope."""
    fields = [outcome.code, outcome.offset, outcome.chain_hash, outcome.value]
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_outcome(data: bytes) -> StoreOutcome:
    """Decode a store outcome of the quorum's leader."""
    code, offset, chain_hash, value = json.loads(data)
    return StoreOutcome(code, offset, chain_hash, value)
