"""A classic group: its state, its members, and the rebalance that every change of them begins.

The methods here keep the group whole; what each request may do to it is in `joining`, `syncing` and `checks`. Requests that wait are
`Ticket`s of members, answered here. Only the outcome of a rebalance is remembered in the log; who is about to join is not, and
joins anew when the coordinator moves (ClassicGroup.java, GroupMetadataManager.java).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from yak.errors import ErrorCode
from yak.groups.classic.member import Member, Protocols, Ticket
from yak.groups.classic.records import StoredGroup
from yak.groups.classic.states import MOVES, ClassicState
from yak.groups.classic.subscription import subscribed_topics

CONSUMER_PROTOCOL = "consumer"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that never had an answer may wait for one: it cannot heartbeat yet (Kafka's constant of this name)."""
ALL_AWAY_MS_MIN = 1_000
"""How long static members who are all away are waited for at the least, whatever they ask for: each wait costs a look."""
NO_GENERATION = -1


@dataclass(slots=True, frozen=True)
class ClassicSettings:
    """Kafka's configs `group.initial.rebalance.delay.ms` and so on."""

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000


class Port(Protocol):
    """What a group asks of its coordinator."""

    def write(
        self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Callable[[ErrorCode], None]
    ) -> None:
        """Write the group's record; `then(NONE)` when it is committed, or with the reason why it is not."""

    def schedule(self, group: ClassicGroup, due_ms: int) -> None:
        """Call `on_time` at `due_ms`, or sooner."""

    def new_member_id(self, prefix: str) -> str:
        """An id that nobody had before."""

    @property
    def now_ms(self) -> int:
        """The time of the step under way."""

    def say(self, event: str, **fields: object) -> None:
        """A line for the log."""


class ClassicGroup:
    """One group. `now_ms` is given to every call and never goes back."""

    __slots__ = (
        "_static",
        "generation",
        "group_id",
        "initial_left_ms",
        "is_initial",
        "join_due_ms",
        "leader_id",
        "members",
        "must_wait_longer",
        "pending",
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

    def __init__(self, group_id: str, port: Port, settings: ClassicSettings, now_ms: int) -> None:
        self.group_id = group_id
        self.port = port
        self.settings = settings
        self.state = ClassicState.EMPTY
        self.state_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        """Member id by instance id."""
        self.pending: dict[str, int] = {}
        """Ids that were given out and not joined with yet, each with the time when it is forgotten."""
        self.unsynced: dict[str, None] = {}
        """Members that have joined this generation and did not ask for their assignment yet."""
        self.topics: frozenset[str] | None = None
        """What its members subscribed to, where that is known."""
        self.is_initial = False
        """Whether the rebalance under way is the first of a group that had no members: it waits for more of them."""
        self.initial_left_ms = 0
        self.must_wait_longer = False
        self.join_due_ms: int | None = None
        self.sync_due_ms: int | None = None

    # --------------------------------------------------------------------------------------------------- members

    def static_member(self, instance_id: str) -> Member | None:
        """The member that has this instance id."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def add(self, member: Member) -> None:
        """Take a member in."""
        if not self.members:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member: Member, error_code: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """Let a member go; what of its waits is answered with the error."""
        answer_join(member, refused_join(member.member_id, error_code))
        answer_sync(member, error_code)
        del self.members[member.member_id]
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]
        self.unsynced.pop(member.member_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, member: Member, member_id: str) -> None:
        """Give a static member that came back a new id; whoever uses the old one is fenced."""
        answer_join(member, refused_join(member.member_id, ErrorCode.fenced_instance_id))
        answer_sync(member, ErrorCode.fenced_instance_id)
        assert member.instance_id is not None
        # its place in the order of the members is kept
        self.members = {(member_id if held is member else known_id): held for known_id, held in self.members.items()}
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        if self.unsynced.pop(member.member_id, member) is None:
            self.unsynced[member_id] = None
        member.member_id = member_id
        self._static[member.instance_id] = member_id

    def heard_of(self, member: Member, now_ms: int) -> None:
        """A member spoke: its session begins anew."""
        member.deadline_ms = now_ms + member.session_timeout_ms
        self.port.schedule(self, member.deadline_ms)

    def common_protocols(self) -> frozenset[str]:
        """The strategies that every member knows."""
        counts = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        return frozenset(name for name, count in counts.items() if count == len(self.members))

    def takes_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these could agree with those that are there."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self.common_protocols()
        return any(name in common for name, _metadata in protocols)

    def select_protocol(self) -> str:
        """The strategy that most members like best, of those that all know."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ---------------------------------------------------------------------------------------------------- states

    def move(self, state: ClassicState, now_ms: int) -> None:
        """Take another state; one that the table does not allow is our bug."""
        assert state in MOVES[self.state], f"group {self.group_id!r} from {self.state} to {state}"
        self.state = state
        self.state_ms = now_ms

    def prepare_rebalance(self, reason: str, now_ms: int) -> None:
        """Ask all members to join anew."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            for member in self.members.values():
                if answer_sync(member, ErrorCode.rebalance_in_progress):
                    self.heard_of(member, now_ms)
        self.unsynced.clear()
        self.sync_due_ms = None
        self.is_initial = self.state is ClassicState.EMPTY
        self.move(ClassicState.PREPARING_REBALANCE, now_ms)
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
        """End the joining if nobody is waited for any more."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            return
        if self.is_initial and self.settings.initial_rebalance_delay_ms:
            return
        if not self.pending and all(member.joining is not None for member in self.members.values()):
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
        """Go on with those that have joined; of those that have not, only static members keep their place."""
        for member in [each for each in self.members.values() if each.joining is None and not each.is_static]:
            self.remove(member)
        if self.members and not self._has_joined_leader():
            # all that are left are static and away: they may come back
            self._wait_for_joins(now_ms + max(self.rebalance_timeout_ms, ALL_AWAY_MS_MIN))
            return
        self.is_initial = False
        self.join_due_ms = None
        self.generation += 1
        if not self.members:
            self.protocol = self.leader_id = None
            self.topics = frozenset() if self.protocol_type == CONSUMER_PROTOCOL else None
            self.move(ClassicState.EMPTY, now_ms)
            self.port.write(self, None, _ignore)
            return
        self.protocol = self.select_protocol()
        self.topics = self._subscribed_topics()
        self.move(ClassicState.COMPLETING_REBALANCE, now_ms)
        self.sync_due_ms = now_ms + self.rebalance_timeout_ms
        self.port.schedule(self, self.sync_due_ms)
        for member in self.members.values():
            self.unsynced[member.member_id] = None
            self.heard_of(member, now_ms)
            answer_join(member, self.joined(member))
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
        """The leader's assignment is committed: tell every member that asked."""
        self.move(ClassicState.STABLE, now_ms)
        self.port.say("group-stable", group=self.group_id, generation=self.generation, members=len(self.members))
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                self.heard_of(member, now_ms)
                answer_sync(member, ErrorCode.none, self)

    def member_left(self, reason: str, now_ms: int) -> None:
        """After a member was removed: those that stay share anew."""
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason, now_ms)
        else:
            self.try_complete_join(now_ms)

    # ------------------------------------------------------------------------------------------------------ time

    def next_due(self) -> int | None:
        """When `on_time` is wanted next, in ms; looks at every member."""
        dues = [member.deadline_ms for member in self.members.values()]
        dues.extend(self.pending.values())
        dues.extend(due for due in (self.join_due_ms, self.sync_due_ms) if due is not None)
        return min(dues, default=None)

    def on_time(self, now_ms: int) -> None:
        """Give up who was not heard of, and end what was waited for long enough."""
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
            # it waits for us
            self.heard_of(member, now_ms)
            return
        self.port.say("group-member-silent", group=self.group_id, member=member.member_id)
        self.remove(member)
        self.member_left(f"member {member.member_id} was not heard of", now_ms)

    def _not_synced(self, now_ms: int) -> None:
        self.sync_due_ms = None
        late = [self.members[each] for each in self.unsynced if each in self.members]
        if not late or self.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        for member in late:
            self.remove(member)
        self.prepare_rebalance(f"{len(late)} members did not ask for their assignment", now_ms)

    def ticket_lost(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        """The connection of a waiting request is gone: its member is waited for as any that is silent.

        One that was never answered does not know its id, so that nobody will ever speak for it: it leaves at once.
        """
        if member.joining is ticket:
            member.joining = None
            if not member.knows_id and not member.is_static:
                self.remove(member)
                self.member_left(f"the connection of new member {member.member_id} is gone", now_ms)
                return
        elif member.syncing is ticket:
            member.syncing = None
        else:
            return
        self.heard_of(member, now_ms)

    # --------------------------------------------------------------------------------------------- come and gone

    def restore(self, stored: StoredGroup, now_ms: int) -> None:
        """Take what the log says of it; every member's session begins now."""
        self.protocol_type = stored.protocol_type or None
        self.generation, self.protocol, self.leader_id = stored.generation, stored.protocol, stored.leader
        self.members = {member.member_id: member for member in stored.members}
        self._static = {each.instance_id: each.member_id for each in stored.members if each.instance_id is not None}
        self.state = ClassicState.STABLE if stored.members else ClassicState.EMPTY
        self.state_ms = stored.state_ms if stored.state_ms >= 0 else now_ms
        if stored.members:
            self.topics = self._subscribed_topics()
        elif self.protocol_type == CONSUMER_PROTOCOL:
            self.topics = frozenset()

    def arm(self, now_ms: int) -> None:
        """Begin every member's session: this coordinator listens from now on."""
        for member in self.members.values():
            self.heard_of(member, now_ms)

    def die(self, error_code: ErrorCode, now_ms: int) -> None:
        """It is gone, or coordinated elsewhere: whoever waits is told."""
        for member in self.members.values():
            answer_join(member, refused_join(member.member_id, error_code))
            answer_sync(member, error_code)
        if self.state is not ClassicState.DEAD:
            self.move(ClassicState.DEAD, now_ms)
        self.pending.clear()
        self.join_due_ms = self.sync_due_ms = None

    def joined(self, member: Member, *, skip_assignment: bool = False, leader_id: str | None = None) -> dict[str, Any]:
        """The answer to a member that is in this generation; the leader is told who the others are."""
        leader = self.leader_id if leader_id is None else leader_id
        is_leader = leader == member.member_id
        return {
            "error_code": ErrorCode.none,
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": leader or "",
            "skip_assignment": skip_assignment,
            "member_id": member.member_id,
            "members": [
                {
                    "member_id": each.member_id,
                    "group_instance_id": each.instance_id,
                    "metadata": each.metadata_of(self.protocol),
                }
                for each in self.members.values()
            ]
            if is_leader
            else [],
        }


def refused_join(member_id: str, error_code: ErrorCode) -> dict[str, Any]:
    """The answer to a join that failed."""
    return {
        "error_code": error_code,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def answer_join(member: Member, fields: dict[str, Any]) -> None:
    """Answer a member's waiting join, if there is one."""
    ticket, member.joining = member.joining, None
    if ticket is not None:
        ticket.reply(fields)


def answer_sync(member: Member, error_code: ErrorCode, group: ClassicGroup | None = None) -> bool:
    """Answer a member's waiting sync, with its assignment where `group` is given. Returns whether there was one."""
    ticket, member.syncing = member.syncing, None
    if ticket is None:
        return False
    ticket.reply(synced(group, member) if group is not None else refused_sync(error_code))
    return True


def synced(group: ClassicGroup, member: Member) -> dict[str, Any]:
    """The answer to a sync: what the member is to consume."""
    return {
        "error_code": ErrorCode.none,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def refused_sync(error_code: ErrorCode) -> dict[str, Any]:
    """The answer to a sync that failed."""
    return {"error_code": error_code, "protocol_type": None, "protocol_name": None, "assignment": b""}


def _ignore(_error_code: ErrorCode) -> None:
    """An empty group whose record was not written is found empty by the next coordinator all the same, by its sessions."""
