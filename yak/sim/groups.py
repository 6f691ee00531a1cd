"""Consumer groups of a simulated cluster: members join, crash, leave and rejoin, and must be healthy in the end (L3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.ids import Offset
from yak.sim.group_history import GroupHistory
from yak.sim.group_member import ClassicMember, ConsumerMember, GroupMember
from yak.sim.group_wire import OFFSET_FETCH, CoordinatorLink, Place, committed_offsets, fetch_error, fetch_request
from yak.sim.history import Key

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from yak.sim.deliveries import Deliveries
    from yak.sim.recorder import ReadRecord, Recorder
    from yak.sim.routing import View
    from yak.sim.seeded_random import SeededRandom

SESSIONS_MS = (1_500, 3_000, 6_000)
COMMIT_US = (200_000, 700_000, 2_000_000)
PAUSE_US, HURRY_US = 1_000_000, 50_000
"""Members' pauses between two fetches, the shorter one after the faults.

A fetch ends with a segment, and a log of a few hundred tiny ones must be read in L3's time limit.
"""
COMMITTED_FETCH_US = 500_000
"""How often an administrator fetches the committed offsets, in the end."""


class SimGroup:
    """One group of either protocol."""

    def __init__(
        self,
        group_id: str,
        view: View,
        rng: SeededRandom,
        deliveries: Deliveries,
        history: GroupHistory,
        topics: tuple[str, ...],
        *,
        kind: type[GroupMember],
    ) -> None:
        self.group_id = group_id
        self.view = view
        self.history = history
        self.topics = topics
        self.recorder: Recorder = deliveries.recorder
        self.read: ReadRecord = deliveries.read_by_another
        """What a member's read of a record is reported to."""
        self.session_ms = rng.choice(SESSIONS_MS)
        self.rebalance_ms = rng.choice((1_500, 3_000))
        # a member that learns of a rebalance after its time-out never gets in
        self.heartbeat_us = min(self.session_ms, self.rebalance_ms) * 1000 // 3
        self.commit_us = rng.choice(COMMIT_US)
        self.dealt: dict[int, list[Place]] = {}
        """Assignments that classic leaders computed, by generation; some were never written."""
        self.deliveries = deliveries
        self._rng = rng
        self._tokens = 0
        self.fetch_pause_us = PAUSE_US
        self._pause_us = rng.choice((1_000_000, 4_000_000, 12_000_000))
        self._is_stopped = False
        self._found: dict[Place, Offset] | None = None
        is_static = rng.chance(30)
        self.members: list[GroupMember] = [
            kind(self, number, rng.fork(f"member {number}"), f"{group_id}-i{number}" if is_static else None)
            for number in range(rng.between(1, 3))
        ]

    def count(self, what: str) -> None:
        self.deliveries.count(what)

    def next_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def partitions(self) -> list[Place]:
        """The partitions of its topics that its members know."""
        return sorted(place for place in self.view.leaders if place[0] in self.topics)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The topic name in an assignment of KIP-848."""
        return next((name for name in self.topics if self.view.topic_ids.get(name) == topic_id), None)

    # --------------------------------------------------------------------------------------------------- lifecycle

    def start(self) -> None:
        for member in self.members:
            self._later(self._rng.between(0, 1_000_000), member.start)
        self._later(self._rng.between(1_000, self._pause_us), self._trouble)

    def _later(self, delay_us: int, then: Any) -> None:
        self.view.cluster.world.after(delay_us, then)

    def _trouble(self) -> None:
        if self._is_stopped:
            return
        member = self._rng.choice(self.members)
        if member.is_running:
            if self._rng.chance(60):
                member.crash()
            else:
                member.leave()
            self._later(self._rng.between(1_000, 3_000 * self.session_ms // 2), member.start)
        self._later(self._rng.between(1_000, self._pause_us), self._trouble)

    def end_faults(self) -> None:
        """Stop all crashes, start all members, and shorten their pauses."""
        self._is_stopped = True
        self.fetch_pause_us = HURRY_US
        for member in self.members:
            member.start()
            member.hurry()
        self._fetch_committed()

    # ----------------------------------------------------------------------------------------------------- the end

    def trouble(self, ends: dict[Place, Offset]) -> str | None:
        """The first problem after the faults: unsettled members, lag, or commits that differ from the members'."""
        owners: dict[Place, GroupMember] = {}
        for member in self.members:
            if not member.is_settled:
                return f"{member.process} of {self.group_id} is not settled"
            for place in member.owned:
                if place in owners:
                    return f"{place} of {self.group_id} has two owners"
                owners[place] = member
        for place, end in ends.items():
            if place not in owners:
                return f"no member of {self.group_id} has {place}"
            if owners[place].committed(place) < end:
                return f"{self.group_id} committed {owners[place].committed(place)} of {place}, which ends at {end}"
        found = self._found
        if found is None or any(found.get(place, -1) < end for place, end in ends.items()):
            return f"what {self.group_id} committed was not found yet: {found}"
        return None

    def _fetch_committed(self) -> None:
        """Fetch the committed offsets again and again, as an administrator does."""
        partitions = self.partitions()
        requested_at = self.recorder.now
        link = CoordinatorLink(self.view, self._rng.fork("look-up"), self.group_id)

        def answered(answer: Any | None) -> None:
            is_deposed = not self.history.leads(self.group_id, link.node_id)
            link.close()
            if answer is not None and fetch_error(answer) == ErrorCode.none and not is_deposed:
                self._found = committed_offsets(answer)
                self.history.fetched(self.group_id, requested_at, self._found, "an administrator")
            self._later(COMMITTED_FETCH_US, self._fetch_committed)

        self.view.refresh(lambda: None)
        if partitions:
            link.send(OFFSET_FETCH, fetch_request(self.group_id, partitions), answered)
        else:
            self._later(COMMITTED_FETCH_US, self._fetch_committed)


class Groups:
    """All groups of a run; half of the runs have none."""

    def __init__(
        self,
        view: View,
        rng: SeededRandom,
        deliveries: Deliveries,
        topics: list[str],
        leaves_out: Callable[[str], bool],
    ) -> None:
        self.history = GroupHistory(view.cluster, deliveries)
        self._cluster = view.cluster
        self._deliveries = deliveries
        self.groups: list[SimGroup] = []
        for number in range(rng.choice((0, 0, 0, 0, 1, 1, 1, 2))):
            some = tuple(sorted({rng.choice(topics), rng.choice(topics)} if rng.chance(25) else {rng.choice(topics)}))
            is_classic = rng.chance(60)
            group_id = f"g{number}{'c' if is_classic else 'n'}"
            there = tuple(name for name in some if not leaves_out(name))
            kind = ClassicMember if is_classic else ConsumerMember
            group = SimGroup(group_id, view, rng.fork(group_id), deliveries, self.history, there, kind=kind)
            if there and not leaves_out(group_id):
                self.groups.append(group)

    def start(self) -> None:
        for group in self.groups:
            group.start()

    def end_faults(self) -> None:
        for group in self.groups:
            group.end_faults()

    def trouble(self) -> str | None:
        """L3: every group that is not forfeited is stable, and has read and committed everything."""
        state, committed = self._cluster.store.state, self._cluster.history.committed
        for group in self.groups:
            if not self.history.promises(group.group_id):
                continue
            ends: dict[Place, Offset] = {}
            for topic_id, partition in state.partitions:
                place, chain = (state.topics[topic_id]["name"], partition), committed.get(Key(topic_id, partition))
                # an empty partition has no offset to commit
                if place[0] in group.topics and chain is not None and chain.end and self._deliveries.promises(*place):
                    ends[place] = chain.end
            found = group.trouble(ends)
            if found is not None:
                return f"(L3) {found}"
        return None
