"""Changes of the voters (KIP-853): voters added, removed, and those that report another directory or address.

One change at a time, by a leader that has committed a record in its epoch. The new voters are in force as soon as their
record is in the log; the change is done when it is committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from yak.core.context import Context
from yak.errors import ErrorCode
from yak.ids import LeaderEpoch, Offset
from yak.quorum.leader_state import Respond
from yak.quorum.transport import UPDATE_RAFT_VOTER, Address
from yak.quorum.voters import KRAFT_VERSION, LISTENER, Voter, VoterSet

if TYPE_CHECKING:
    from yak.quorum.quorum import Quorum

_ADDITION_MS_MAX: Final = 25_000
"""A node that runs has caught up within seconds. The broker that forwards the request waits ANSWER_MS_MAX for the answer."""


@dataclass(slots=True)
class _Addition:
    """A voter to be added, once its log has everything below `target`, and it has fetched since `since_ms`."""

    voter: Voter
    target: Offset
    since_ms: int
    due_ms: int
    respond: Respond


class VoterChanges:
    """The changes of one node's term as leader, and the report of its own address to the leader."""

    def __init__(self, context: Context, quorum: Quorum) -> None:
        self._context, self._quorum = context, quorum
        self._uncommitted: Offset | None = None
        """The offset of the change that is under way."""
        self._respond: Respond | None = None
        """Answers the request for that change."""
        self._addition: _Addition | None = None
        self._reported_epoch: LeaderEpoch = -1

    def resign(self) -> None:
        """This node leads no longer: changes under way may still happen."""
        waiting, self._respond, self._uncommitted = self._respond, None, None
        addition, self._addition = self._addition, None
        self._context.timers.disarm((self, "addition"))
        for respond in (waiting, None if addition is None else addition.respond):
            if respond is not None:
                self._quorum.respond(respond, result(ErrorCode.request_timed_out, "the quorum's leader resigned"))

    def committed(self, offset: Offset) -> None:
        """A control record is committed."""
        if offset == self._uncommitted:
            respond, self._respond, self._uncommitted = self._respond, None, None
            if respond is not None:
                self._quorum.respond(respond, result(ErrorCode.none))

    # ------------------------------------------------------------------------------------------------- requests

    def add(self, request: Any, respond: Respond) -> None:
        """Add a voter when it has caught up and fetches. Answers in time, even if it has not.

        One that is behind would slow down commits. One that does not run may leave the voters without a majority.
        """
        refusal = self._refusal(request.cluster_id)
        if refusal is None and self._quorum.voters.get(request.voter_id) is not None:
            refusal = ErrorCode.duplicate_voter, f"node {request.voter_id} is a voter already"
        if refusal is None and not (request.listeners and request.voter_directory_id):
            refusal = ErrorCode.invalid_request, "the voter has no address, or no directory id"
        if refusal is not None:
            self._quorum.respond(respond, result(*refusal))
            return
        leader = self._quorum.leader
        assert leader is not None, "else it is refused"
        listener = request.listeners[0]
        voter = Voter(request.voter_id, listener.host, listener.port, request.voter_directory_id)
        now_ms = self._context.clock.now_ms
        due_ms = now_ms + min(max(0, int(request.timeout.total_seconds() * 1000)), _ADDITION_MS_MAX)
        self._addition = _Addition(voter, self._quorum.log.end_offset, now_ms, due_ms, respond)
        self._context.timers.arm((self, "addition"), due_ms, self.try_addition)
        # a fetch that waits here says nothing of its sender; the next one does
        leader.wake((voter.node_id,))
        self.try_addition()

    def try_addition(self) -> None:
        """Complete the addition that waits, if its voter has caught up, or refuse it if it is overdue."""
        addition, leader = self._addition, self._quorum.leader
        if addition is None or leader is None:
            return
        voter = addition.voter
        has_caught_up = leader.has_caught_up(voter, addition.target, addition.since_ms)
        if not has_caught_up and self._context.clock.now_ms < addition.due_ms:
            return
        self._addition = None
        self._context.timers.disarm((self, "addition"))
        if has_caught_up:
            self._change(self._quorum.voters.with_voter(voter), addition.respond)
            return
        message = f"node {voter.node_id} did not catch up in time: is it running, with this directory id?"
        self._quorum.respond(addition.respond, result(ErrorCode.request_timed_out, message))

    def remove(self, request: Any, respond: Respond) -> None:
        """Remove a voter, this node included."""
        refusal = self._refusal(request.cluster_id)
        if refusal is None and not self._quorum.voters.has(request.voter_id, request.voter_directory_id):
            refusal = ErrorCode.voter_not_found, f"node {request.voter_id} with that directory id is no voter"
        if refusal is None and len(self._quorum.voters.voters) == 1:
            refusal = ErrorCode.invalid_request, "the last voter cannot be removed"
        if refusal is not None:
            self._quorum.respond(respond, result(*refusal))
        else:
            self._change(self._quorum.voters.without(request.voter_id), respond)

    def update(self, request: Any, respond: Respond) -> None:
        """Take the directory id and the address that a voter reports of itself."""
        refusal = self._refusal(request.cluster_id)
        if refusal is None and request.current_leader_epoch not in (-1, self._quorum.epoch):
            refusal = ErrorCode.fenced_leader_epoch, ""
        if refusal is None and not self._quorum.voters.has(request.voter_id, request.voter_directory_id):
            refusal = ErrorCode.voter_not_found, ""
        if refusal is None and not request.listeners:
            refusal = ErrorCode.invalid_request, ""
        leader = {"leader_id": self._quorum.leader_id, "leader_epoch": self._quorum.epoch, "host": "", "port": 0}

        def answer(fields: dict[str, Any]) -> None:
            respond({"error_code": fields["error_code"], "current_leader": leader})

        if refusal is not None:
            self._quorum.respond(answer, result(*refusal))
            return
        listener = request.listeners[0]
        updated = Voter(request.voter_id, listener.host, listener.port, request.voter_directory_id)
        self._change(self._quorum.voters.with_voter(updated), answer)

    def _refusal(self, cluster_id: str | None) -> tuple[ErrorCode, str] | None:
        """Why the voters cannot be changed now."""
        if self._quorum.is_foreign(cluster_id):
            return ErrorCode.inconsistent_cluster_id, f"this is cluster {self._quorum.config.cluster_id}"
        if self._quorum.leader is None:
            return ErrorCode.not_leader_or_follower, f"node {self._quorum.leader_id} leads the quorum"
        if not self._quorum.is_ready_leader:
            return ErrorCode.request_timed_out, "the quorum's leader has not committed a record in its epoch yet"
        if self._uncommitted is not None or self._addition is not None:
            return ErrorCode.request_timed_out, "another change of the voters is under way"
        return None

    def _change(self, voters: VoterSet, respond: Respond) -> None:
        if self._uncommitted is not None:
            message = "another change of the voters is under way"
            self._quorum.respond(respond, result(ErrorCode.request_timed_out, message))
        elif voters == self._quorum.voters:
            self._quorum.respond(respond, result(ErrorCode.none))
        else:
            self._respond, self._uncommitted = respond, self._quorum.log.end_offset
            self._context.notice("info", "quorum-voters-changed", voters=list(voters.node_ids))
            self._quorum.append_voters(voters)

    # ------------------------------------------------------------------------------------------------- of this node

    @property
    def _own_voter(self) -> Voter | None:
        """This node as a voter, if the voters' record has another directory id or address for it."""
        config = self._quorum.config
        voter = self._quorum.voters.get(config.node_id)
        mine = Voter(config.node_id, config.host, config.port, config.directory_id)
        return None if voter is None or voter == mine or not self._quorum.is_voter else mine

    def report_to_self(self) -> None:
        """The leader takes its own directory id and address."""
        mine = self._own_voter
        if mine is not None and self._uncommitted is None:
            self._change(self._quorum.voters.with_voter(mine), lambda _fields: None)

    def report_to(self, leader: Address) -> None:
        """A voter reports its directory id and address to the leader, once in an epoch unless that is refused."""
        mine = self._own_voter
        if mine is None or self._reported_epoch == self._quorum.epoch:
            return
        self._reported_epoch = self._quorum.epoch

        def done(response: Any | None) -> None:
            if response is None or response.error_code != ErrorCode.none:
                # another change is under way, or the leader is new: again with a later fetch
                self._reported_epoch = -1

        fields = {
            "cluster_id": self._quorum.config.cluster_id,
            "current_leader_epoch": self._quorum.epoch,
            "voter_id": mine.node_id,
            "voter_directory_id": mine.directory_id,
            "listeners": [{"name": LISTENER, "host": mine.host, "port": mine.port}],
            "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": KRAFT_VERSION},
        }
        self._quorum.send(leader, UPDATE_RAFT_VOTER, fields, done)


def result(code: ErrorCode, message: str | None = None) -> dict[str, Any]:
    """The answer to a change of the voters."""
    return {"error_code": code, "error_message": message}
