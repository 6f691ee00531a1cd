"""The delivery history of consumer groups, and the checks of each step (I13).

- A lookup returns no less than the last acknowledged commit, except the offset of a concurrent or unresolved commit.
- A generation has one assignment, and in it one owner of each partition.
- No member commits for a generation after a newer one was handed out.
- A commit is acknowledged or looked up only after the high watermark of the coordinator's partition has passed its record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from yak.core.placement import partition_of
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import NodeId, Offset
from yak.sim.deliveries import Violation
from yak.sim.history import Key
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import CommitInFlight, CommitMark, Place

if TYPE_CHECKING:
    from yak.sim.cluster import Cluster
    from yak.sim.deliveries import Deliveries


class _Group:
    """One group: its commits by partition, and the assignments of its generations."""

    def __init__(self) -> None:
        self.commits: dict[Place, list[CommitInFlight]] = {}
        self.acked: dict[Place, CommitInFlight] = {}
        """The last acknowledged commit of each partition."""
        self.newest = -1
        self.tokens: dict[int, bytes] = {}
        self.owners: dict[tuple[int, Place], str] = {}

    @property
    def is_remembered(self) -> bool:
        """Whether a commit was acknowledged. Before, a coordinator may forget the group and restart its generations."""
        return bool(self.acked)


class GroupHistory:
    """The delivery histories of all groups of a run."""

    def __init__(self, cluster: Cluster, deliveries: Deliveries) -> None:
        self._cluster = cluster
        self._deliveries = deliveries
        self._recorder = deliveries.recorder
        self._groups: dict[str, _Group] = {}
        self._appended: dict[int, tuple[Key, Offset]] = {}
        """By a commit's number, the partition that has its record, and the log end offset before the append."""

    def of(self, group: str) -> _Group:
        return self._groups.setdefault(group, _Group())

    def groups(self) -> list[str]:
        return list(self._groups)

    # --------------------------------------------------------------------------------------------------- guarantees

    def key(self, group: str) -> Key | None:
        """The `__consumer_offsets` partition of a group; None while it is not known."""
        history, state = self._cluster.history, self._cluster.store.state
        topic_id = state.topic_ids.get(OFFSETS_TOPIC)
        if topic_id is None:
            return None
        key = Key(topic_id, partition_of(group, sum(each == topic_id for each, _partition in state.partitions)))
        return key if history.copies.get(key) else None

    def promises(self, group: str) -> bool:
        """Whether the group's `__consumer_offsets` partition is not forfeited."""
        forfeited = self._cluster.history.forfeited
        return not forfeited or (key := self.key(group)) is None or key not in forfeited

    def leads(self, group: str, node_id: NodeId) -> bool:
        """Whether this broker is the group's coordinator in the store, which a broker may not know yet.

        A former coordinator shows old commits to clients that are not members, as in Kafka; no member can have joined
        there.
        """
        key = self.key(group)
        row = None if key is None else self._cluster.store.state.partitions.get(key)
        return row is None or row["leader"] == node_id

    # -------------------------------------------------------------------------------------------------- assignments

    def assigned(self, group: str, generation: int, owner: str, token: bytes, partitions: Sequence[Place]) -> None:
        """A member of a classic group got its part of a generation's assignment. `owner` survives a restart."""
        held = self.of(group)
        if not held.is_remembered or not self.promises(group):
            return
        first = held.tokens.setdefault(generation, token)
        if first != token:
            raise Violation(f"I13: generation {generation} of {group} has two assignments: {first!r} and {token!r}")
        self.owns(group, generation, owner, partitions)

    def owns(self, group: str, generation: int, owner: str, partitions: Sequence[Place]) -> None:
        """A member got these partitions as its own in a generation, or in its epoch."""
        held = self.of(group)
        if not held.is_remembered or not self.promises(group):
            return
        held.newest = max(held.newest, generation)
        for place in partitions:
            other = held.owners.setdefault((generation, place), owner)
            if other != owner:
                raise Violation(f"I13: {place} of {group} belongs to {other} and {owner} in generation {generation}")

    # ------------------------------------------------------------------------------------------------------ commits

    def commits(self, process: str, group: str, generation: int, offsets: Mapping[Place, Offset]) -> CommitInFlight:
        held = self.of(group)
        commit = self._recorder.commits(process, group, offsets)
        for place in offsets:
            held.commits.setdefault(place, []).append(commit)
        commit.is_stale = generation < held.newest
        self._deliveries.count("commits begun")
        return commit

    def committed(self, group: str, commit: CommitInFlight, outcome: Outcome, *, is_classic: bool) -> None:
        held = self.of(group)
        self._recorder.committed(commit, outcome)
        self._deliveries.count(f"commits: {outcome}")
        if outcome is not Outcome.OK or not self.promises(group):
            return
        if uncommitted := self._uncommitted(commit):
            raise Violation(
                f"I13: the commit of {commit.offsets} by {commit.process} was acknowledged, but {uncommitted}"
            )
        if is_classic and commit.is_stale:
            raise Violation(f"I13: {commit.process} committed {commit.offsets} for a generation that {group} had left")
        for place in commit.offsets:
            held.acked[place] = commit

    def appended(self, mark: CommitMark, key: Key, log_end: Offset) -> None:
        """A coordinator appended this commit to its log, which ended at `log_end` before."""
        self._deliveries.count("commits appended")
        self._appended[mark.number] = (key, log_end)

    def _uncommitted(self, commit: CommitInFlight) -> str:
        """Why the commit's record is not committed; empty when it is, and when no append of it was seen."""
        if commit.number not in self._appended:
            return ""
        key, least = self._appended[commit.number]
        history = self._cluster.history
        committed = history.committed.get(key)
        marks = [copy.high_watermark for copy in history.copies.get(key, {}).values()]
        if max(marks, default=0) > least or (committed is not None and committed.end > least):
            return ""
        return f"its record is at {least} or above, and no high watermark of {OFFSETS_TOPIC}-{key.partition} has passed that"

    def fetched(self, group: str, requested_at: float, starts: Mapping[Place, Offset], member: str) -> None:
        """A member fetched these committed offsets; -1 where there is none."""
        self._deliveries.count("commits found")
        if not self.promises(group):
            return
        for place, start in starts.items():
            if self._deliveries.promises(*place):
                self._is_enough(group, place, start, requested_at, member)
                self._was_committed(group, place, start, member)

    def _is_enough(self, group: str, place: Place, start: Offset, requested_at: float, member: str) -> None:
        last = self.of(group).acked.get(place)
        if (
            last is None
            or last.ended > requested_at
            or start >= last.offsets[place]
            or start in self.must_hold(group, place)
        ):
            return
        raise Violation(f"I13: {group} had committed {last.offsets[place]} of {place}, and {member} fetched {start}")

    def _was_committed(self, group: str, place: Place, start: Offset, member: str) -> None:
        if start < 0:
            return
        commits = self.of(group).commits.get(place, ())
        same = [each for each in commits if _may_hold(each) and each.offsets[place] == start]
        if not same:
            raise Violation(f"I13: {member} fetched {start} of {place}, which {group} did not commit")
        uncommitted = [self._uncommitted(each) for each in same]
        if all(uncommitted):
            raise Violation(f"I13: {member} fetched {start} of {place}, which {group} committed, but {uncommitted[0]}")

    def must_hold(self, group: str, place: Place) -> list[Offset]:
        """The offsets that a coordinator may have for a partition: the last acknowledged commit first, then later ones."""
        held = self.of(group)
        last = held.acked.get(place)
        if last is None or not self._deliveries.promises(*place):
            return []
        return [last.offsets[place]] + [
            other.offsets[place]
            for other in held.commits[place]
            if other is not last
            and other.outcome is not Outcome.FAIL
            and (not other.is_over or other.outcome is Outcome.INFO or other.ended >= last.invoked)
        ]


def _may_hold(commit: CommitInFlight) -> bool:
    """Whether the commit may count by now: it was not refused, and the end of its transaction was requested."""
    return commit.outcome is not Outcome.FAIL and (commit.ending is None or commit.ending.may_be_committed)
