"""A classic group: its state, its members, and the rebalance that every membership change starts.

The methods here keep the group consistent; `joining`, `syncing` and `checks` define what each request may do. Pending
requests are `Ticket`s of members and are answered here. The log stores only the outcome of a rebalance. Members that
are joining are not stored; they rejoin when the coordinator moves (ClassicGroup.java, GroupMetadataManager.java).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from yak.errors import ErrorCode
from yak.fail_stop import changes_state
from yak.groups.classic.answers import joined, refused_join, refused_sync, synced
from yak.groups.classic.member import Member, Protocols, Ticket
from yak.groups.classic.records import StoredGroup
from yak.groups.classic.roster import Roster
from yak.groups.classic.states import MOVES, ClassicState
from yak.groups.classic.subscription import subscribed_topics
from yak.groups.fields import INT32_MAX

CONSUMER_PROTOCOL = "consumer"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member waits for its first JoinGroup response: it cannot heartbeat yet (Kafka's constant of this name)."""
ALL_AWAY_MS_MIN = 1_000
"""The shortest wait while all remaining members are static and away: each wait costs a scan of the members."""
MEMBERS_A_MS = 100
"""Expired sessions are searched at most once per (members / 100) ms: with ten thousand members, every 100 ms."""


@dataclass(slots=True, frozen=True)
class ClassicSettings:
    """Kafka's configs `group.initial.rebalance.delay.ms` and so on."""

    initial_rebalance_delay_ms: int = 500
    max_size: int = 2**31 - 1


class Port(Protocol):
    """The coordinator's side of a group."""

    def write(
        self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Callable[[ErrorCode], None]
    ) -> None:
        """Write the group's record; call `then(NONE)` when it is committed, else `then` with the error."""

    def schedule(self, group: ClassicGroup, due_ms: int) -> None:
        """Call `on_time` at `due_ms`, or sooner."""

    def new_member_id(self, prefix: str) -> str:
        """A member id that was never used before."""

    @property
    def now_ms(self) -> int:
        """The time of the current step."""

    @property
    def wall_ms(self) -> int:
        """The wall clock, for timestamps in the log."""

    def say(self, event: str, **fields: object) -> None:
        """Write a log event."""


class ClassicGroup(Roster):
    """One classic group. Every call gets `now_ms`, which never goes back."""

    __slots__ = (
        "generation",
        "group_id",
        "initial_left_ms",
        "is_initial",
        "join_due_ms",
        "looked_ms",
        "must_wait_longer",
        "port",
        "protocol",
        "protocol_type",
        "settings",
        "state",
        "state_ms",
        "sync_due_ms",
        "topics",
        "unsynced",
    )

    def __init__(self, group_id: str, port: Port, settings: ClassicSettings) -> None:
        super().__init__()
        self.group_id = group_id
        self.port = port
        self.settings = settings
        self.state = ClassicState.EMPTY
        self.state_ms = port.wall_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.unsynced: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self.topics: frozenset[str] | None = None
        """The topics that the members subscribe to; None when unknown."""
        self.is_initial = False
        """Whether this is the first rebalance of an empty group, which waits for more members."""
        self.initial_left_ms = 0
        self.must_wait_longer = False
        self.join_due_ms: int | None = None
        self.sync_due_ms: int | None = None
        self.looked_ms = 0
        """When `on_time` last scanned the members."""

    # --------------------------------------------------------------------------------------------------- members

    def remove(self, member: Member, error_code: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """Remove a member; its pending requests fail with the error."""
        self.answer_join(member, refused_join(member.member_id, error_code))
        self.answer_sync(member, refused_sync(error_code))
        self.unsynced.pop(member.member_id, None)
        self.discard(member)

    def replace_static(self, member: Member, member_id: str) -> None:
        """Give a returning static member a new id; requests with the old id are fenced."""
        self.answer_join(member, refused_join(member.member_id, ErrorCode.fenced_instance_id))
        self.answer_sync(member, refused_sync(ErrorCode.fenced_instance_id))
        if self.unsynced.pop(member.member_id, member) is None:
            self.unsynced[member_id] = None
        self.rename(member, member_id)

    def heard_of(self, member: Member, now_ms: int) -> None:
        """Restart a member's session."""
        member.deadline_ms = now_ms + member.session_timeout_ms
        self.port.schedule(self, member.deadline_ms)

    def takes_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether these protocols are compatible with those of the present members."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return self.knows_one_of(protocols)

    # ---------------------------------------------------------------------------------------------------- states

    def move(self, state: ClassicState) -> None:
        """Change the state; a transition outside the table is a bug of YAK."""
        assert state in MOVES[self.state], f"group {self.group_id!r} from {self.state} to {state}"
        self.state = state
        self.state_ms = self.port.wall_ms

    def prepare_rebalance(self, reason: str, now_ms: int) -> None:
        """Start a rebalance: all members must rejoin."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            for member in self.members.values():
                if self.answer_sync(member, refused_sync(ErrorCode.rebalance_in_progress)):
                    self.heard_of(member, now_ms)
        self.unsynced.clear()
        self.sync_due_ms = None
        self.is_initial = self.state is ClassicState.EMPTY
        self.move(ClassicState.PREPARING_REBALANCE)
        self.port.say("group-rebalancing", group=self.group_id, generation=self.generation, reason=reason)
        if self.is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self.initial_left_ms = max(0, self.rebalance_timeout_ms - delay_ms)
            self.must_wait_longer = False
            self._wait_for_joins(now_ms + delay_ms)
        else:
            self._wait_for_joins(now_ms + self.rebalance_timeout_ms)
        self.try_complete_join(now_ms)

    def _wait_for_joins(self, due_ms: int) -> None:
        self.join_due_ms = due_ms
        self.port.schedule(self, due_ms)

    def try_complete_join(self, now_ms: int) -> None:
        """Complete the join phase when every member has joined."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            return
        if self.is_initial and self.settings.initial_rebalance_delay_ms:
            return
        if self.have_all_joined:
            self._complete_join(now_ms)

    def _joining_is_over(self, now_ms: int) -> None:
        delay_ms = min(self.settings.initial_rebalance_delay_ms, self.initial_left_ms)
        if self.is_initial and self.must_wait_longer and delay_ms:
            self.must_wait_longer = False
            self.initial_left_ms -= delay_ms
            self._wait_for_joins(now_ms + delay_ms)
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        """Start the next generation with the joined members. Other members are removed, unless they are static."""
        for member in [each for each in self.members.values() if each.joining is None and not each.is_static]:
            self.remove(member)
        if self.members and not self._has_joined_leader():
            # All remaining members are static and away; they may rejoin.
            self._wait_for_joins(now_ms + max(self.rebalance_timeout_ms, ALL_AWAY_MS_MIN))
            return
        self.is_initial = False
        self.join_due_ms = None
        self.generation = self.generation % INT32_MAX + 1  # clients compare it for equality only
        if not self.members:
            self.protocol = self.leader_id = None
            self.topics = frozenset() if self.protocol_type == CONSUMER_PROTOCOL else None
            self.move(ClassicState.EMPTY)
            self.port.say("group-empty", group=self.group_id, generation=self.generation)
            self.port.write(self, None, _ignore)
            return
        self.protocol = self.select_protocol()
        self.topics = self._subscribed_topics()
        self.move(ClassicState.COMPLETING_REBALANCE)
        self.sync_due_ms = now_ms + self.rebalance_timeout_ms
        self.port.schedule(self, self.sync_due_ms)
        for member in self.members.values():
            self.unsynced[member.member_id] = None
            self.heard_of(member, now_ms)
            self.answer_join(member, joined(self, member))
            member.is_new = False
            member.knows_id = True

    def _has_joined_leader(self) -> bool:
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is None or leader.joining is None:
            joined = next((each for each in self.members.values() if each.joining is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol is None:
            return None
        return subscribed_topics(member.metadata_of(self.protocol) for member in self.members.values())

    def assigned(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """The leader's assignment is committed: answer every pending SyncGroup."""
        self.move(ClassicState.STABLE)
        self.port.say("group-stable", group=self.group_id, generation=self.generation, members=len(self.members))
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if self.answer_sync(member, synced(self, member)):
                self.heard_of(member, now_ms)

    def member_left(self, reason: str, now_ms: int) -> None:
        """Rebalance after members were removed."""
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason, now_ms)
        else:
            self.try_complete_join(now_ms)

    # ------------------------------------------------------------------------------------------------------ time

    def next_due(self) -> int | None:
        """When `on_time` is due next, in ms; scans all members."""
        dues = [due for due in (self.join_due_ms, self.sync_due_ms) if due is not None]
        silent = [member.deadline_ms for member in self.members.values()]
        silent.extend(self.pending.values())
        if silent:
            dues.append(max(min(silent), self.looked_ms + len(silent) // MEMBERS_A_MS))
        return min(dues, default=None)

    def on_time(self, now_ms: int) -> None:
        """Remove members whose session expired, and end join and sync phases that timed out."""
        self.looked_ms = now_ms
        for member_id in [each for each, due_ms in self.pending.items() if due_ms <= now_ms]:
            del self.pending[member_id]
        for member in [each for each in self.members.values() if each.deadline_ms <= now_ms]:
            self._silent(member, now_ms)
        if self.sync_due_ms is not None and self.sync_due_ms <= now_ms:
            self._not_synced(now_ms)
        if self.join_due_ms is not None and self.join_due_ms <= now_ms:
            self._joining_is_over(now_ms)
        else:
            self.try_complete_join(now_ms)

    def _silent(self, member: Member, now_ms: int) -> None:
        if self.members.get(member.member_id) is not member:
            return
        if not member.is_new and (member.joining is not None or member.syncing is not None):
            # its request is pending here, so its session goes on
            self.heard_of(member, now_ms)
            return
        self.port.say("group-member-expired", group=self.group_id, member=member.member_id)
        self.remove(member)
        self.member_left(f"the session of member {member.member_id} expired", now_ms)

    def _not_synced(self, now_ms: int) -> None:
        self.sync_due_ms = None
        late = [self.members[each] for each in self.unsynced if each in self.members]
        if not late or self.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        for member in late:
            self.remove(member)
        self.prepare_rebalance(f"{len(late)} members sent no SyncGroup in time", now_ms)

    @changes_state
    def ticket_lost(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        """The connection of a pending request closed: the member's session goes on until it times out.

        A dynamic member that was never told its id leaves at once, since no client can speak for it.
        """
        if member.joining is ticket:
            self.take_join(member)
            if not member.knows_id and not member.is_static:
                self.remove(member)
                self.member_left(f"the connection of new member {member.member_id} is gone", now_ms)
                return
        elif member.syncing is ticket:
            self.take_sync(member)
        else:
            return
        self.heard_of(member, now_ms)

    # ------------------------------------------------------------------------------------------- load and unload

    def restore(self, stored: StoredGroup) -> None:
        """Apply the group's record. `arm` starts the sessions."""
        self.protocol_type = stored.protocol_type or None
        for member in stored.members:
            self.add(member)
        self.generation, self.protocol, self.leader_id = stored.generation, stored.protocol, stored.leader
        self.state = ClassicState.STABLE if stored.members else ClassicState.EMPTY
        self.state_ms = stored.state_ms if stored.state_ms >= 0 else self.port.wall_ms
        if stored.members:
            self.topics = self._subscribed_topics()
        elif self.protocol_type == CONSUMER_PROTOCOL:
            self.topics = frozenset()

    def arm(self, now_ms: int) -> None:
        """Start every member's session when this coordinator becomes active."""
        for member in self.members.values():
            self.heard_of(member, now_ms)

    def die(self, error_code: ErrorCode) -> None:
        """The group is removed, or coordinated elsewhere: every pending request fails with the error."""
        for member in self.members.values():
            self.answer_join(member, refused_join(member.member_id, error_code))
            self.answer_sync(member, refused_sync(error_code))
        if self.state is not ClassicState.DEAD:
            self.move(ClassicState.DEAD)
        self.pending.clear()
        self.join_due_ms = self.sync_due_ms = None


def _ignore(_error_code: ErrorCode) -> None:
    """Ignore a failed write of an empty group: the next coordinator empties it when the stored sessions expire."""
