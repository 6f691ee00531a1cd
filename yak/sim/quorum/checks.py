"""The invariants of the quorum, checked after every step of a node.

Raft's five properties (Ongaro's thesis, figure 3.2), KRaft's rules for votes and voters, and what clients may rely on.
Each is a class whose docstring states it; a violation names the class.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from yak.ids import LeaderEpoch, NodeId, Offset
from yak.ports.metadata_store import StoreOutcome
from yak.protocol.versions import FETCH
from yak.quorum.control_records import ControlType, read_control
from yak.quorum.quorum import Quorum
from yak.quorum.raft_log import NO_SNAPSHOT, Entry, SnapshotId
from yak.quorum.state_machine import read_snapshot
from yak.quorum.transport import VOTE, Address
from yak.quorum.voters import VoterSet
from yak.sim.deliveries import Violation
from yak.sim.quorum.reference import Reference, digest, whole_digest

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState
    from yak.sim.quorum.node import QuorumNode

Replica = tuple[NodeId, uuid.UUID]
_NO_NODE = -1
_CACHED: Final = 128
"""Decoded voters: the same snapshots and batches are read after each change of a log."""


class QuorumViolation(Violation):
    """An invariant of the quorum is violated."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(f"{check}: {text}")
        self.check = check


@dataclass(slots=True)
class Mirror:
    """What the checks know of one replica's log, also while its process is down."""

    start_offset: Offset = 0
    """Below it there is only the snapshot."""
    end_offset: Offset = 0
    flushed_offset: Offset = 0
    epochs: dict[Offset, LeaderEpoch] = field(default_factory=dict)
    last: Entry | None = None
    snapshot_id: SnapshotId = NO_SNAPSHOT
    high_watermark: Offset = 0
    applied_offset: Offset = 0
    led_epoch: LeaderEpoch = -1
    """The epoch in which this incarnation leads; -1 if it does not."""
    checked: tuple[object, ...] = ()
    """What the checks compared last (`_state_of`)."""

    def has_durably(self, offset: Offset, epoch: LeaderEpoch) -> bool:
        """Whether a power loss leaves the entry there."""
        return offset < self.snapshot_id.end_offset or (
            offset < self.flushed_offset and self.epochs.get(offset) == epoch
        )


class Check:
    """One invariant."""

    def __init__(self, checks: Checks) -> None:
        self.checks = checks

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """`node` took a step; `before` is what is known from its last one."""

    def fail(self, text: str) -> NoReturn:
        raise QuorumViolation(type(self).__name__, text)


class ElectionSafety(Check):
    """An epoch has at most one leader."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self.leaders: dict[LeaderEpoch, Replica] = {}

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:  # noqa: ARG002
        if quorum.leader is None:
            return
        replica = (node.node_id, node.directory_id)
        first = self.leaders.setdefault(quorum.leader.epoch, replica)
        if first != replica:
            self.fail(f"node {node.node_id} leads epoch {quorum.leader.epoch}, which node {first[0]} has led")


class LeaderAppendOnly(Check):
    """A leader only appends to its log."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """The last entry of the last step is still there."""
        if quorum.leader is None or quorum.leader.epoch != before.led_epoch or before.last is None:
            return
        found = quorum.log.entries(before.end_offset - 1, before.end_offset)
        if found != [before.last]:
            self.fail(f"leader {node.node_id} of epoch {before.led_epoch} lost record {before.end_offset - 1}")


class LogMatching(Check):
    """Two logs that have an entry of the same offset and epoch are the same up to there."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self._seen: dict[tuple[Offset, LeaderEpoch], tuple[bytes, LeaderEpoch | None]] = {}

    def appended(self, node: QuorumNode, entry: Entry, epoch_before: LeaderEpoch | None) -> None:
        """A log got an entry behind one of `epoch_before` (None: unknown)."""
        key = (entry.base_offset, entry.epoch)
        first = self._seen.get(key)
        if first is None or (first[1] is None and epoch_before is not None):
            self._seen[key] = entry.batch, epoch_before
        if first is None:
            return
        differs = first[1] is not None and epoch_before is not None and first[1] != epoch_before
        if differs or first[0] != entry.batch:
            self.fail(f"record {entry.base_offset} of epoch {entry.epoch} differs on node {node.node_id}")


class LeaderCompleteness(Check):
    """A leader's log has every entry that was committed in an earlier epoch."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare a new leader's log with everything committed so far."""
        if quorum.leader is None or quorum.leader.epoch == before.led_epoch:
            return
        mirror, reference = self.checks.mirror(node), self.checks.reference
        for offset in range(mirror.snapshot_id.end_offset, reference.end_offset):
            if mirror.epochs.get(offset) != reference.entries[offset].epoch < quorum.leader.epoch:
                self.fail(f"leader {node.node_id} of epoch {quorum.leader.epoch} lacks committed record {offset}")


class StateMachineSafety(Check):
    """All nodes commit the same entries, and have the same state after the same offset."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare what became committed and applied with what was first committed."""
        reference, log = self.checks.reference, quorum.log
        if quorum.high_watermark > before.high_watermark:
            start = max(before.high_watermark, log.snapshot_id.end_offset)
            for entry in log.entries(start, quorum.high_watermark):
                if entry.base_offset >= reference.end_offset:
                    if before.led_epoch < 0 and quorum.leader is None:
                        self.fail(f"node {node.node_id}, a follower, is the first that commits {entry.base_offset}")
                    self._commit(node, quorum, entry)
                elif reference.entries[entry.base_offset].batch != entry.batch:
                    self.fail(f"node {node.node_id} committed another record {entry.base_offset}")
        if quorum.high_watermark > reference.end_offset:
            self.fail(f"node {node.node_id} has high watermark {quorum.high_watermark}, which no leader committed")
        if quorum.applied_offset > quorum.high_watermark:
            self.fail(f"node {node.node_id} applied record {quorum.applied_offset - 1}, which is not committed")
        if quorum.applied_offset != before.applied_offset or self.checks.is_final:
            state = digest(quorum.machine.state)
            if state != reference.digest_at[quorum.applied_offset]:
                self.fail(f"node {node.node_id} has another state after record {quorum.applied_offset - 1}")

    def _commit(self, node: QuorumNode, quorum: Quorum, entry: Entry) -> None:
        reference = self.checks.reference
        if entry.base_offset != reference.end_offset:
            self.fail(f"node {node.node_id} committed record {entry.base_offset} before {reference.end_offset}")
        self.checks.counts["records committed"] += 1
        self.checks.committed_is_durable.committed(quorum, entry)
        operation = reference.commit(entry)
        if operation is not None and reference.operations[operation][0] != entry.base_offset:
            self.fail(f"operation {operation} was executed twice")


class CommittedIsDurable(Check):
    """What the leader commits is on the disks of a majority of the voters in force, by node id and directory id.

    A disk that was lost counts with what it had: its acknowledgement may have been on its way.
    """

    def committed(self, quorum: Quorum, entry: Entry) -> None:
        voters = quorum.voters
        durable = [
            voter.node_id
            for voter in voters.voters
            if any(
                mirror.has_durably(entry.base_offset, entry.epoch)
                for (node_id, directory_id), mirror in (*self.checks.mirrors.items(), *self.checks.lost.items())
                if voter.node_id == node_id and voter.directory_id in (None, directory_id)
            )
        ]
        if len(durable) < voters.majority:
            self.fail(f"record {entry.base_offset} is committed, and durable on {durable} of {voters.node_ids} only")


class FetchIsDurable(Check):
    """A fetch leaves only when everything that it acknowledges is on the disk, and every truncation before it."""

    def fetches(self, node: QuorumNode) -> None:
        """Look for bytes that a power loss would take away or bring back."""
        for path, content in node.disk.contents().items():
            if path.endswith(".log") and (content.cut or content.synced < len(content.data)):
                self.fail(f"node {node.node_id} fetches, and {path} is not synced")


class CommitOfOwnEpoch(Check):
    """A leader commits entries of earlier epochs only together with one of its own (Raft 5.4.2)."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Look at the last entry that a leader committed in this step."""
        leader = quorum.leader
        if leader is None or quorum.high_watermark == before.high_watermark:
            return
        last = quorum.log.entries(quorum.high_watermark - 1, quorum.high_watermark)
        if last and last[0].epoch != leader.epoch:
            self.fail(f"leader {node.node_id} of epoch {leader.epoch} committed up to epoch {last[0].epoch}")


class CommittedStays(Check):
    """A replica that has a committed entry on its disk never loses it, unless to a snapshot that covers it."""

    def removed(self, node: QuorumNode, removed: dict[Offset, LeaderEpoch]) -> None:
        """A log lost entries that no snapshot covers."""
        reference = self.checks.reference
        for offset, epoch in removed.items():
            if offset < reference.end_offset and reference.entries[offset].epoch == epoch:
                self.fail(f"node {node.node_id} lost committed record {offset}")


class HighWatermarkMonotonic(Check):
    """The high watermark and the applied offset never decrease while a process runs."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare them with those after the last step."""
        if quorum.high_watermark < before.high_watermark or quorum.applied_offset < before.applied_offset:
            self.fail(
                f"node {node.node_id}: from {before.high_watermark} and {before.applied_offset}"
                f" to {quorum.high_watermark} and {quorum.applied_offset}"
            )


class SingleVote(Check):
    """A replica votes for at most one candidate in an epoch, also across restarts and power losses."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self._votes: dict[tuple[Replica, LeaderEpoch], Replica] = {}

    def voted(self, node: QuorumNode, epoch: LeaderEpoch, candidate: Replica) -> None:
        """A node granted its vote, or requested votes as a candidate."""
        key = (node.node_id, node.directory_id), epoch
        first = self._votes.setdefault(key, candidate)
        if first != candidate:
            self.fail(f"node {node.node_id} voted for {candidate[0]} in epoch {epoch}, and before for {first[0]}")

    def started(self, node: QuorumNode, quorum: Quorum) -> None:
        """A restart: the newest vote of this replica is not forgotten."""
        replica, state = (node.node_id, node.directory_id), quorum._election.state  # noqa: SLF001
        epoch = max((epoch for voter, epoch in self._votes if voter == replica), default=-1)
        if epoch < 0 or state.leader_epoch > epoch:
            return
        if state.leader_epoch < epoch or state.voted_id != self._votes[replica, epoch][0]:
            self.fail(f"node {node.node_id} has forgotten its vote in epoch {epoch}")


class VoteForNewLog(Check):
    """A vote goes to a candidate whose log is at least as new as the voter's: by the last epoch, then by the end."""

    def granted(self, node: QuorumNode, vote: Any, own: tuple[LeaderEpoch, Offset]) -> None:
        """A node granted a vote or a pre-vote; `own` was its log's end at the request."""
        if (vote.last_offset_epoch, vote.last_offset) < own:
            self.fail(
                f"node {node.node_id} with a log up to {own} voted for {vote.replica_id}"
                f" with {(vote.last_offset_epoch, vote.last_offset)}"
            )


class VoteIsDurable(Check):
    """A vote leaves a node only after it is on its disk."""

    def voted(self, node: QuorumNode, epoch: LeaderEpoch, candidate: Replica) -> None:
        """Read the file as a power loss would leave it."""
        content = node.disk.contents().get("/data/quorum-state")
        fields = {} if content is None else json.loads(bytes(content.data[: content.synced]) or b"{}")
        written = fields.get("leaderEpoch", 0), fields.get("votedId", _NO_NODE)
        if written[0] < epoch or (written[0] == epoch and written[1] != candidate[0]):
            self.fail(f"node {node.node_id} voted for {candidate[0]} in epoch {epoch}; its disk has {written}")


class VoteOfThisDirectory(Check):
    """A voter that lost its disk, and its votes with it, votes for no candidate that means the lost one (KIP-853)."""

    def granted(self, node: QuorumNode, directory_id: uuid.UUID | None) -> None:
        """A node granted a vote that was requested of a directory."""
        if directory_id not in (None, node.directory_id):
            self.fail(f"node {node.node_id} with directory {node.directory_id} voted for {directory_id}")


class OneVoterChange(Check):
    """At most one change of the voters is uncommitted, and it adds, removes or updates one voter."""

    def appended(self, node: QuorumNode, quorum: Quorum) -> None:
        """A leader appended new voters: count those that are not committed."""
        committed, changes = quorum.high_watermark, self.checks.voters_by_offset(quorum)
        uncommitted = [offset for offset, _voters in changes if offset >= committed]
        if len(uncommitted) > 1:
            self.fail(f"leader {node.node_id} has {len(uncommitted)} uncommitted changes of the voters")
        if len(changes) > 1:
            (_, old), (_, new) = changes[-2:]
            differing = {voter.node_id for voter in set(old.voters) ^ set(new.voters)}
            if len(differing) > 1:
                self.fail(f"leader {node.node_id} changes voters {sorted(differing)} at once")


class VotersInForce(Check):
    """A node uses the newest voters of its log, committed or not (KIP-853)."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare them with those in the log, after a change of the log."""
        mirror = self.checks.mirror(node)
        if mirror.last is not before.last and quorum.voters != self.checks.voters_by_offset(quorum)[-1][1]:
            self.fail(f"node {node.node_id} uses voters {quorum.voters.node_ids}")


class SnapshotIsReplay(Check):
    """A snapshot has the state and the voters that a replay of all commands before it gives."""

    def after_step(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare a new snapshot, the node's own or the leader's."""
        snapshot_id, reference = quorum.log.snapshot_id, self.checks.reference
        if snapshot_id == before.snapshot_id:
            return
        if snapshot_id.end_offset > reference.end_offset:
            self.fail(f"node {node.node_id} has a snapshot with records that no leader committed")
        if reference.entries[snapshot_id.end_offset - 1].epoch != snapshot_id.epoch:
            self.fail(f"node {node.node_id} has a snapshot of epoch {snapshot_id.epoch}")
        machine, voters = read_snapshot(quorum.log.snapshot)
        if whole_digest(machine) != reference.whole_digest_at[snapshot_id.end_offset]:
            self.fail(f"node {node.node_id}: its snapshot at {snapshot_id.end_offset} has another state")
        if voters != reference.voters_at[snapshot_id.end_offset]:
            self.fail(f"node {node.node_id}: its snapshot at {snapshot_id.end_offset} has other voters")


class AcknowledgedIsCommitted(Check):
    """An acknowledged command is committed, so every later leader has it, and its outcome is that of the replay."""

    def acknowledged(self, operation: str, outcome: StoreOutcome) -> None:
        """A client got the outcome of a command."""
        found = self.checks.reference.operations.get(operation)
        if found is None:
            self.fail(f"operation {operation} is acknowledged, and not committed")
        if found[1] != outcome and found[1].code != outcome.code:
            self.fail(f"operation {operation} is acknowledged with {outcome}, and its replay gives {found[1]}")


class LinearizableReads(Check):
    """An answer reflects every command that was acknowledged before its request was sent."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self.acknowledged_offset = 0
        """The largest metadata offset that a client has seen."""

    def answered(self, operation: str, floor: int, outcome: StoreOutcome) -> None:
        """A client got an outcome; `floor` was the acknowledged offset when it called."""
        if outcome.code in ("REGRESSED", "FORKED"):
            self.fail(f"{operation}: the history of an earlier answer is gone ({outcome.code})")
        if outcome.chain_hash and outcome.offset < floor:
            self.fail(f"{operation}: answered from offset {outcome.offset}, after {floor} was acknowledged")
        if outcome.chain_hash:
            self.acknowledged_offset = max(self.acknowledged_offset, outcome.offset)


class RenewalsMonotonic(Check):
    """The counter of the controller's lease never decreases: a claim of the lease proves that it stood still."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self.seen = 0

    def answered(self, operation: str, floor: int, outcome: StoreOutcome) -> None:
        """A client got an outcome; `floor` was the largest counter in any answer when it called."""
        renewals: Any = outcome.value.get("lease_n")
        if renewals is not None:
            if renewals < floor:
                self.fail(f"{operation}: {renewals} renewals of the lease, after an answer with {floor}")
            self.seen = max(self.seen, renewals)


class DeposedLeaderServesNoRead(Check):
    """A leader answers no request that was sent after the election of its successor."""

    def answered(self, operation: str, epoch: LeaderEpoch, newest: LeaderEpoch) -> None:
        """The leader of `epoch` answered; `newest` was the epoch of the newest leader at the call."""
        if epoch < newest:
            self.fail(f"{operation}: answered by the leader of epoch {epoch}, after the election of epoch {newest}")


class DurableStays(Check):
    """A restart finds everything that was durable."""

    def started(self, node: QuorumNode, quorum: Quorum, before: Mirror) -> None:
        """Compare the log with what was durable when the process ended."""
        log = quorum.log
        for offset in range(max(before.start_offset, log.snapshot_id.end_offset), before.flushed_offset):
            found = log.entries(offset, offset + 1)
            if not found or found[0].epoch != before.epochs.get(offset):
                self.fail(f"node {node.node_id} starts without record {offset}, which was durable")


class LossIsRegistered(Check):
    """A broker is lossy that was unregistered, or whose disk lacks metadata that it had reported since its last loss."""

    def __init__(self, checks: Checks) -> None:
        super().__init__(checks)
        self._reported: dict[NodeId, Offset] = {}
        self._known_lost: dict[NodeId, Offset] = {}
        """What had been reported at the last registration with a loss."""
        self._boots: dict[NodeId, str] = {}
        """Of each broker that is registered; empty for one that was unregistered."""

    def executed(self, script: str, arguments: dict[str, Any], outcome: StoreOutcome, state: StoreState) -> None:
        """A command was committed."""
        if script == "register" and outcome.code == "OK":
            self._registered(arguments, is_lossy=bool(outcome.value["lossy"]))
        elif script == "unregister" and outcome.code == "OK":
            self._boots[arguments["target_id"]] = ""
            self.checks.counts["brokers unregistered"] += 1
        for node_id, broker in state.brokers.items():
            self._reported[node_id] = max(self._reported.get(node_id, 0), broker["persisted"])

    def _registered(self, arguments: dict[str, Any], *, is_lossy: bool) -> None:
        node_id, boot_id = arguments["node_id"], arguments["boot_id"]
        before, self._boots[node_id] = self._boots.get(node_id), boot_id
        newest, on_disk = self._reported.get(node_id, 0), arguments.get("persisted", 0)
        is_older = "persisted" in arguments and on_disk < newest > self._known_lost.get(node_id, 0)
        if is_lossy:
            self._known_lost[node_id] = newest
            self.checks.counts["registrations with a loss"] += 1
        elif before == "" or (is_older and before != boot_id):
            self.fail(f"broker {node_id} is registered without a loss, and has {on_disk} of {newest} on its disk")


class Checks:
    """All checks of a run, and what they share."""

    def __init__(self, voters: VoterSet) -> None:
        self.reference = Reference(voters)
        self.mirrors: dict[Replica, Mirror] = {}
        self.lost: dict[Replica, Mirror] = {}
        """What was on the disks that were lost."""
        self.is_final = False
        self.on_elected: Callable[[], None] = lambda: None
        self.election_safety = ElectionSafety(self)
        self.log_matching = LogMatching(self)
        self.committed_is_durable = CommittedIsDurable(self)
        self.committed_stays = CommittedStays(self)
        self.fetch_is_durable = FetchIsDurable(self)
        self.single_vote = SingleVote(self)
        self.vote_for_new_log = VoteForNewLog(self)
        self.vote_is_durable = VoteIsDurable(self)
        self.vote_of_this_directory = VoteOfThisDirectory(self)
        self.one_voter_change = OneVoterChange(self)
        self.acknowledged_is_committed = AcknowledgedIsCommitted(self)
        self.linearizable_reads = LinearizableReads(self)
        self.renewals_monotonic = RenewalsMonotonic(self)
        self.deposed_leader = DeposedLeaderServesNoRead(self)
        self.durable_stays = DurableStays(self)
        self._after_step: tuple[Check, ...] = (
            self.election_safety,
            LeaderAppendOnly(self),
            LeaderCompleteness(self),
            StateMachineSafety(self),
            CommitOfOwnEpoch(self),
            HighWatermarkMonotonic(self),
            VotersInForce(self),
            SnapshotIsReplay(self),
        )
        self.counts = {
            "leaders elected": 0,
            "records committed": 0,
            "records truncated": 0,
            "snapshots written": 0,
            "snapshots installed": 0,
            "voters changed": 0,
            "registrations with a loss": 0,
            "brokers unregistered": 0,
        }
        self.reference.on_command = LossIsRegistered(self).executed

    # ---------------------------------------------------------------------------------------------------- views

    def mirror(self, node: QuorumNode) -> Mirror:
        """What is known of a node's log."""
        return self.mirrors.setdefault((node.node_id, node.directory_id), Mirror())

    @property
    def newest_epoch(self) -> LeaderEpoch:
        return max(self.election_safety.leaders, default=0)

    def voters_by_offset(self, quorum: Quorum) -> list[tuple[Offset, VoterSet]]:
        """The voters of a node's snapshot, or configuration, and of the records of its log since, as (offset, voters)."""
        log = quorum.log
        found = [(-1, _voters_of_snapshot(log.snapshot) if log.snapshot else quorum.config.voters)]
        for entry in log.entries(log.snapshot_id.end_offset, log.end_offset):
            if entry.is_control:
                found += [(entry.base_offset, voters) for voters in _voters_of_batch(entry.batch)]
        return found

    # ---------------------------------------------------------------------------------------------------- events

    def stepped(self, node: QuorumNode) -> None:
        """A step of a node has ended: an event may have several, and end the process in a later one."""
        quorum = node.quorum
        if quorum is None:
            return
        mirror, state = self.mirror(node), _state_of(quorum)
        if mirror.checked == state and not self.is_final:
            return
        before = self._follow_log(node, quorum)
        for check in self._after_step:
            check.after_step(node, quorum, before)
        mirror.high_watermark, mirror.applied_offset = quorum.high_watermark, quorum.applied_offset
        if quorum.leader is not None and mirror.led_epoch != quorum.leader.epoch:
            self.counts["leaders elected"] += 1
            self.on_elected()
        mirror.led_epoch = -1 if quorum.leader is None else quorum.leader.epoch
        mirror.checked = state

    def started(self, node: QuorumNode) -> None:
        """A process begins, with what is on its disk."""
        assert node.quorum is not None
        before, log = self.mirror(node), node.quorum.log
        self.durable_stays.started(node, node.quorum, before)
        self.single_vote.started(node, node.quorum)
        mirror = Mirror(snapshot_id=log.snapshot_id)
        mirror.high_watermark = mirror.applied_offset = log.snapshot_id.end_offset
        mirror.start_offset = log.start_offset
        mirror.end_offset = mirror.flushed_offset = log.end_offset
        mirror.epochs = {entry.base_offset: entry.epoch for entry in log.entries(0, log.end_offset)}
        mirror.last = next(iter(log.entries(log.end_offset - 1, log.end_offset)), None)
        self.mirrors[node.node_id, node.directory_id] = mirror

    def disk_is_lost(self, node: QuorumNode) -> None:
        """A node's disk, and so the replica on it, is gone."""
        mirror = self.mirrors.pop((node.node_id, node.directory_id), None)
        if mirror is not None:
            self.lost[node.node_id, node.directory_id] = mirror

    def ends(self, node: QuorumNode) -> None:
        """A process ends: note what is durable. Its last step was not observed if the end came within it."""
        quorum = node.quorum
        if quorum is not None:
            self._follow_log(node, quorum)
            # it may have ended within a truncation: the log has fewer entries then than its file
            held, mirror = quorum.log.entries(0, quorum.log.end_offset), self.mirror(node)
            end_offset = held[-1].next_offset if held else quorum.log.snapshot_id.end_offset
            mirror.flushed_offset = min(mirror.flushed_offset, end_offset)

    def sends(self, node: QuorumNode, address: Address, api_key: int, fields: dict[str, Any]) -> None:  # noqa: ARG002
        """A node sends a request: a candidate votes for itself, and a fetch acknowledges the log."""
        if api_key == FETCH:
            self.fetch_is_durable.fetches(node)
        if api_key == VOTE:
            vote = fields["topics"][0]["partitions"][0]
            if not vote["pre_vote"]:
                self._voted(node, vote["replica_epoch"], (vote["replica_id"], vote["replica_directory_id"]))

    def responds(
        self, node: QuorumNode, api_key: int, request: Any, fields: dict[str, Any], log_end: tuple[LeaderEpoch, Offset]
    ) -> bool:
        """A node answers a request, which came when its log was up to `log_end`; returns whether it grants its vote."""
        if api_key == VOTE and fields["topics"]:
            vote = request.topics[0].partitions[0]
            if fields["topics"][0]["partitions"][0]["vote_granted"]:
                self.vote_for_new_log.granted(node, vote, log_end)
                if vote.pre_vote:
                    return False
                self._voted(node, vote.replica_epoch, (vote.replica_id, vote.replica_directory_id))
                self.vote_of_this_directory.granted(node, vote.voter_directory_id)
                return True
        return False

    def _voted(self, node: QuorumNode, epoch: LeaderEpoch, candidate: Replica) -> None:
        self.single_vote.voted(node, epoch, candidate)
        self.vote_is_durable.voted(node, epoch, candidate)

    # ---------------------------------------------------------------------------------------------------- internals

    def _follow_log(self, node: QuorumNode, quorum: Quorum) -> Mirror:
        """Update the mirror of a node's log; returns the fields of before, with the epochs of now."""
        mirror, log = self.mirror(node), quorum.log
        before = replace(mirror)
        if log.snapshot_id != mirror.snapshot_id:
            is_own = log.start_offset < log.snapshot_id.end_offset
            self.counts["snapshots written" if is_own else "snapshots installed"] += 1
            mirror.snapshot_id = log.snapshot_id
            # a snapshot of the leader may have replaced a tail that had diverged below its end
            for offset in [offset for offset in mirror.epochs if offset < log.start_offset]:
                del mirror.epochs[offset]
            mirror.epochs[log.snapshot_id.end_offset - 1] = log.snapshot_id.epoch
        mirror.flushed_offset = log.flushed_offset
        last = next(iter(log.entries(log.end_offset - 1, log.end_offset)), None)
        if last is not mirror.last or log.end_offset != mirror.end_offset:
            self._follow_entries(node, quorum, mirror)
            mirror.last = last
        mirror.start_offset = log.start_offset
        return before

    def _follow_entries(self, node: QuorumNode, quorum: Quorum, mirror: Mirror) -> None:
        log, end = quorum.log, mirror.end_offset
        if mirror.last is not None and log.entries(end - 1, end) != [mirror.last]:
            end = min(end, log.end_offset)
            # a process that ended within a truncation may have no entry where its file still has one
            while end > log.start_offset and [mirror.epochs.get(end - 1)] != [
                entry.epoch for entry in log.entries(end - 1, end)
            ]:
                end -= 1
        covered = log.snapshot_id.end_offset
        removed = {offset: epoch for offset, epoch in mirror.epochs.items() if offset >= max(end, covered)}
        self.counts["records truncated"] += len(removed)
        self.committed_stays.removed(node, removed)
        for offset in [offset for offset in mirror.epochs if offset >= end]:
            del mirror.epochs[offset]
        for entry in log.entries(end, log.end_offset):
            epoch_before = mirror.epochs.get(entry.base_offset - 1)
            self.log_matching.appended(node, entry, epoch_before)
            mirror.epochs[entry.base_offset] = entry.epoch
            is_change = entry.is_control and quorum.leader is not None and entry.epoch == quorum.leader.epoch
            if is_change and _voters_of_batch(entry.batch):
                self.counts["voters changed"] += 1
                self.one_voter_change.appended(node, quorum)
        mirror.end_offset = log.end_offset

    def final(self, nodes: list[QuorumNode]) -> None:
        """Compare the states of all nodes once more."""
        self.is_final = True
        for node in nodes:
            self.stepped(node)


def _state_of(quorum: Quorum) -> tuple[object, ...]:
    """All of a node that the checks of a step compare: most steps change nothing of it."""
    log, leader = quorum.log, quorum.leader
    last = log.entries(log.end_offset - 1, log.end_offset)
    offsets = (log.start_offset, log.end_offset, log.flushed_offset, quorum.high_watermark, quorum.applied_offset)
    return (log.snapshot_id, last, offsets, None if leader is None else leader.epoch)


@lru_cache(_CACHED)
def _voters_of_snapshot(data: bytes) -> VoterSet:
    return read_snapshot(data)[1]


@lru_cache(_CACHED)
def _voters_of_batch(batch: bytes) -> tuple[VoterSet, ...]:
    """The voters that a batch of control records sets."""
    return tuple(VoterSet.decode(value) for kind, value in read_control(batch) if kind == ControlType.KRAFT_VOTERS)
