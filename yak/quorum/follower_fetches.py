"""The fetches of followers and observers, as the leader answers them (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yak.core.context import Context
from yak.errors import ErrorCode
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.protocol.fetch_request import NO_HIGH_WATERMARK
from yak.protocol.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from yak.quorum.leader_state import ROUND_MASK, Follower, LeaderState, Respond
from yak.quorum.snapshots import PIECE_BYTES

if TYPE_CHECKING:
    from yak.quorum.quorum import Quorum

WAIT_MS_MAX: Final = 500


class FollowerFetches:
    """Answers fetches. A fetch acknowledges everything below its offset, and that its sender follows this leader.

    An answer carries the leader's read round as its session id, and the follower's next fetch repeats it. The repeat proves
    that the follower had not elected another leader when the round began. The arrival of a fetch proves less: it may have
    been sent before, over a connection that was slow. (Fetches of the metadata log have no sessions, KIP-595.)
    """

    def __init__(self, context: Context, quorum: Quorum) -> None:
        self._context, self._quorum = context, quorum

    def fetch(self, request: Any, respond: Respond) -> None:
        """Answer with batches; with a snapshot or a point of divergence; or wait for something new."""
        quorum, partition = self._quorum, request.topics[0].partitions[0]
        if quorum.is_foreign(request.cluster_id):
            respond({"error_code": ErrorCode.inconsistent_cluster_id, "responses": []})
            return
        leader, epoch = quorum.leader, partition.current_leader_epoch
        if leader is None or epoch != quorum.epoch:
            quorum.respond(respond, self._answer(self._epoch_error(epoch)))
            return
        now_ms, offset = self._context.clock.now_ms, partition.fetch_offset
        follower = leader.follower(request.replica_id, partition.replica_directory_id)
        follower.delayed_fetch = None
        follower.last_fetch_ms = now_ms
        follower.acknowledge_round(request.session_id, leader.round)
        refused = self._divergence(offset, partition.last_fetched_epoch)
        if refused is not None:
            self._answer_follower(follower, respond, refused)
            quorum.serve_reads()
            return
        follower.end_offset = max(follower.end_offset, offset)
        if offset >= quorum.log.end_offset:
            follower.last_caught_up_ms = now_ms
        quorum.advance_leader()
        quorum.voter_changes.try_addition()
        if quorum.leader is not leader:
            quorum.respond(respond, self._answer(ErrorCode.not_leader_or_follower))
            return
        known = partition.high_watermark
        if known == NO_HIGH_WATERMARK:
            known = follower.sent_high_watermark
        has_more = offset < quorum.log.end_offset or known < min(quorum.high_watermark, offset)
        is_confirming = bool(leader.reads) and follower.acknowledged_round < leader.round
        if has_more or is_confirming or request.max_wait_ms <= 0:
            self._answer_records(follower, offset, respond)
        else:
            self._delay(leader, follower, request, respond)

    def _epoch_error(self, epoch: LeaderEpoch) -> ErrorCode:
        """The error for a fetch in another epoch than this node's, or of a node that does not lead."""
        if self._quorum.leader is None:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.fenced_leader_epoch if epoch < self._quorum.epoch else ErrorCode.unknown_leader_epoch

    def _delay(self, leader: LeaderState, follower: Follower, request: Any, respond: Respond) -> None:
        node_id: NodeId = request.replica_id
        offset: Offset = request.topics[0].partitions[0].fetch_offset
        timer = (self, "delayed fetch", node_id)

        def answer() -> None:
            self._context.timers.disarm(timer)
            if follower.delayed_fetch is answer:
                follower.delayed_fetch = None
            if self._quorum.leader is leader:
                self._answer_records(follower, offset, respond)
            else:
                self._quorum.respond(respond, self._answer(ErrorCode.not_leader_or_follower))

        follower.delayed_fetch = answer
        self._context.after(timer, min(request.max_wait_ms, WAIT_MS_MAX), answer)

    def _divergence(self, offset: Offset, last_epoch: LeaderEpoch) -> dict[str, Any] | None:
        """The answer to a fetch whose log is not a prefix of this one: a snapshot, or where the logs diverge (KIP-595)."""
        log = self._quorum.log
        if (offset == 0 and not log.snapshot) or log.epoch_before(offset) == last_epoch:
            return None
        epoch, end_offset = log.end_offset_for_epoch(last_epoch)
        if log.snapshot and (epoch < 0 or offset <= log.start_offset):
            return {"snapshot_id": {"end_offset": log.snapshot_id.end_offset, "epoch": log.snapshot_id.epoch}}
        return {"diverging_epoch": {"epoch": epoch, "end_offset": end_offset}}

    def _answer_records(self, follower: Follower, offset: Offset, respond: Respond) -> None:
        self._answer_follower(follower, respond, {"records": self._quorum.log.read(offset, PIECE_BYTES)})

    def _answer_follower(self, follower: Follower, respond: Respond, more: dict[str, Any]) -> None:
        follower.sent_high_watermark = self._quorum.high_watermark
        self._quorum.respond(respond, self._answer(ErrorCode.none, more))

    def _answer(self, code: ErrorCode, more: dict[str, Any] | None = None) -> dict[str, Any]:
        quorum = self._quorum
        leader = quorum.leader
        partition = {
            "partition_index": 0,
            "error_code": code,
            "high_watermark": quorum.high_watermark,
            "last_stable_offset": quorum.high_watermark,
            "log_start_offset": quorum.log.start_offset,
            "current_leader": {"leader_id": quorum.leader_id, "leader_epoch": quorum.epoch},
            "aborted_transactions": None,
            "records": b"",
            **(more or {}),
        }
        return {
            "error_code": ErrorCode.none,
            # the next fetch returns it: that one was sent after this answer
            "session_id": 0 if leader is None else leader.round & ROUND_MASK,
            "responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
            "node_endpoints": [] if code is ErrorCode.none else quorum.leader_endpoints(),
        }

    def fetch_snapshot(self, request: Any, respond: Respond) -> None:
        """Answer with a piece of a snapshot."""
        quorum, requested = self._quorum, request.topics[0].partitions[0]
        piece, size_bytes = b"", len(quorum.log.snapshot)
        if quorum.leader is None or requested.current_leader_epoch != quorum.epoch:
            code = self._epoch_error(requested.current_leader_epoch)
        else:
            code, piece, size_bytes = quorum.snapshots.piece(request)
            follower = quorum.leader.follower(request.replica_id, requested.replica_directory_id)
            follower.last_fetch_ms = self._context.clock.now_ms
        partition = {
            "index": 0,
            "error_code": code,
            "snapshot_id": {"end_offset": requested.snapshot_id.end_offset, "epoch": requested.snapshot_id.epoch},
            "current_leader": {"leader_id": quorum.leader_id, "leader_epoch": quorum.epoch},
            "size": size_bytes,
            "position": requested.position,
            "unaligned_records": piece,
        }
        fields = {
            "error_code": ErrorCode.none,
            "topics": [{"name": METADATA_TOPIC, "partitions": [partition]}],
            "node_endpoints": [] if code is ErrorCode.none else quorum.leader_endpoints(),
        }
        quorum.respond(respond, fields)
