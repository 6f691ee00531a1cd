"""One consumer group: decisions that read its state, the replay that changes it, and the members' deadlines.

    decision = group.heartbeat(heartbeat, ...)    # or leave_classic, on_time, ...: nothing has changed
    append decision.changes to the log, encoded
    for change in decision.changes: group.replay(change)
    group.accepted(decision, world)               # sets the deadlines
    answer decision.answer once the records are committed

A new coordinator replays the log and calls `loaded`. `Change.group_id` says to which group a record belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import Join, Sync
from yak.groups.classic.members import listed_for_leader
from yak.groups.consumer import checks, classic_members
from yak.groups.consumer.checks import Heartbeat
from yak.groups.consumer.deadlines import DeadlineAction, Deadlines
from yak.groups.consumer.downgrade import downgraded, must_downgrade
from yak.groups.consumer.heartbeat import Decision, join_or_renew, leave_answer, leave_as_static
from yak.groups.consumer.member import STATIC_LEAVE_EPOCH, Member, MemberState
from yak.groups.consumer.member_removal import fence, take_back_all
from yak.groups.consumer.records import Change, Kind, encode
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.subscriptions import CheckedVersions, DecisionInputs, is_behind
from yak.groups.record import Record
from yak.limits import KIB

_FENCED_AT_ONCE_SIZE: Final = 128 * KIB
"""Characters of the keys of tombstones in one decision; a batch of the log takes 1 MiB by default."""


class ConsumerGroup:
    """A group of the consumer protocol. Only `replay` changes `state`; `deadlines` and `seen` are soft state."""

    def __init__(self, group_id: str) -> None:
        self.state = GroupState(group_id)
        self.seen = CheckedVersions()
        self.deadlines = Deadlines()

    @property
    def group_id(self) -> str:
        """The group id."""
        return self.state.group_id

    def heartbeat(self, heartbeat: Heartbeat, world: DecisionInputs) -> Decision:
        """Handle a ConsumerGroupHeartbeat, which also joins and leaves.

        Raises PeerError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
        UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
        """
        draft = Draft(self.state)
        if not heartbeat.is_leaving:
            answer, seen = join_or_renew(draft, heartbeat, self.seen, world)
            return self._decision(draft, answer, heartbeat.member_id, seen)
        if heartbeat.epoch == STATIC_LEAVE_EPOCH:
            return self._decision(draft, leave_as_static(draft, heartbeat), heartbeat.member_id)
        member = checks.known_member(self.state, heartbeat.member_id, heartbeat.instance_id)
        return self._without([member.member_id], world, leave_answer(heartbeat))

    def join_classic(self, request: Join, new_member_id: str, world: DecisionInputs) -> Decision:
        """Handle a JoinGroup, which is answered at once. Raises PeerError: see `classic_members.join`."""
        draft = Draft(self.state)
        answer, seen = classic_members.join(draft, request, new_member_id, self.seen, world)
        if not draft.changes or not must_downgrade(draft.state, (), world.settings) or self._is_all_classic():
            return self._decision(draft, answer, answer["member_id"], seen)
        # A static member returned with the classic protocol, and was the last consumer protocol member. It leads the group,
        # and without a rebalance it must know that, to notice topics that grow (KIP-814).
        is_stable = draft.state.epoch == self.state.epoch and draft.state.state_name == "Stable"
        is_rebalancing = not (is_stable and request.skips_assignment)
        plan = downgraded(draft.state, (), world.topics, is_rebalancing=is_rebalancing)
        answer["protocol_name"] = plan.protocol_name
        if not is_rebalancing:
            members = listed_for_leader(plan.members, plan.protocol_name)
            answer |= {"leader": answer["member_id"], "skip_assignment": True, "members": members}
        take_back_all(draft)
        return replace(self._decision(draft, answer), downgrade=plan)

    def sync_classic(self, request: Sync, world: DecisionInputs) -> dict[str, Any]:
        """The SyncGroup response. Raises PeerError: see `classic_members.sync`."""
        member = checks.known_member(self.state, request.member_id, request.instance_id)
        try:
            answer = classic_members.sync(self.state, member, request, world.topics, self._newest_epoch(world))
        except PeerError as error:
            if error.error_code is ErrorCode.rebalance_in_progress:
                self._expect_join(member, world.now_ms)
            raise
        self.deadlines.cancel(DeadlineAction.SYNC, request.member_id)
        self._arm_session(member, world)
        return answer

    def heartbeat_classic(
        self, member_id: str, instance_id: str | None, generation_id: int, world: DecisionInputs
    ) -> ErrorCode:
        """The error code of a Heartbeat response. Raises PeerError: see `classic_members.heartbeat`."""
        member = checks.known_member(self.state, member_id, instance_id)
        behind = is_behind(self.state, world.topics, self.seen)
        newest_epoch = self._newest_epoch(world)
        code = classic_members.heartbeat(self.state, member, generation_id, newest_epoch, is_behind=behind)
        self._arm_session(member, world)
        if code is ErrorCode.rebalance_in_progress:
            self._expect_join(member, world.now_ms)
        return code

    def leave_classic(self, identities: Sequence[tuple[str, str | None]], world: DecisionInputs) -> Decision:
        """Handle a LeaveGroup of (member id, instance id) pairs, which may name consumer protocol members too."""
        going, answers = classic_members.leaving(self.state, identities)
        answer = {"error_code": ErrorCode.none, "members": answers}
        return self._without(going, world, answer) if going else Decision([], answer, seen=self.seen)

    def replay(self, change: Change) -> None:
        """Apply one of the group's records, after a decision or while the log is loaded."""
        assert change.group_id == self.group_id
        self.state.replay(change)
        if change.kind is Kind.MEMBER and change.value is None:
            self.deadlines.forget(change.name)

    def accepted(self, decision: Decision, world: DecisionInputs) -> None:
        """Move the deadlines of the decision's member; the caller has replayed the records."""
        self.seen = decision.seen
        member = self.state.members.get(decision.member_id or "")
        if member is None or member.epoch == STATIC_LEAVE_EPOCH:
            return
        self._arm_session(member, world)
        self.deadlines.cancel(DeadlineAction.JOIN, member.member_id)
        if member.classic is not None:
            self.deadlines.set(DeadlineAction.SYNC, member.member_id, world.now_ms + member.rebalance_timeout_ms)
        else:
            self.deadlines.cancel(DeadlineAction.SYNC, member.member_id)
        if decision.is_reconciling:
            self._arm_rebalance(member, world.now_ms)

    def loaded(self, world: DecisionInputs) -> None:
        """The log is replayed: every session and every revocation timeout restarts now.

        A member is fenced at once whose partition another one has: the tombstones of the first were compacted away before
        this replica copied them. It would get partitions, and could commit.
        """
        for member in self.state.members.values():
            self._arm_session(member, world)
            self._arm_rebalance(member, world.now_ms)
            if any(self.state.owners.get(each) != member.member_id for each in member.held):
                self.deadlines.set(DeadlineAction.SESSION, member.member_id, world.now_ms)

    def next_due(self) -> int | None:
        """When `on_time` is due, in ms; None without deadlines."""
        return self.deadlines.next_ms()

    def on_time(self, world: DecisionInputs) -> Decision:
        """Fence members past a deadline, if any. They stay due until the changes are replayed.

        They are as many as one batch takes: after an outage of the clients all members of a large group may be late.
        """
        late: set[str] = set()
        for what, member_id, epoch in self.deadlines.over(world.now_ms):
            member = self.state.members.get(member_id)
            if member is None or (what is DeadlineAction.REBALANCE and member.epoch != epoch):
                self.deadlines.cancel(what, member_id)
            else:
                late.add(member_id)
        if not late:
            return Decision([], {}, seen=self.seen)
        tombstones_size = 3 * (len(self.group_id) + max(map(len, late)))
        return self._without(sorted(late)[: max(1, _FENCED_AT_ONCE_SIZE // tombstones_size)], world, {})

    def tombstones(self) -> list[Record]:
        """The tombstones of an empty group; the caller has checked that it is empty."""
        draft = Draft(self.state)
        take_back_all(draft)
        return [encode(change) for change in draft.changes]

    def _without(self, member_ids: list[str], world: DecisionInputs, answer: dict[str, Any]) -> Decision:
        draft = Draft(self.state)
        if must_downgrade(self.state, member_ids, world.settings):
            plan = downgraded(self.state, member_ids, world.topics, is_rebalancing=True)
            take_back_all(draft)
            return replace(self._decision(draft, answer), downgrade=plan)
        fence(draft, member_ids, world.topics)
        return self._decision(draft, answer)

    def _newest_epoch(self, world: DecisionInputs) -> int:
        """The epoch that a member would get now. The group's next one waits for `group.consumer.assignment.interval.ms`."""
        return self.state.epoch if self.seen.may_assign(world.settings, world.now_ms) else self.state.target_epoch

    def _is_all_classic(self) -> bool:
        return all(member.classic is not None for member in self.state.members.values())

    def _expect_join(self, member: Member, now_ms: int) -> None:
        self.deadlines.set_once(DeadlineAction.JOIN, member.member_id, now_ms + member.rebalance_timeout_ms)

    def _decision(
        self, draft: Draft, answer: dict[str, Any], member_id: str | None = None, seen: CheckedVersions | None = None
    ) -> Decision:
        return Decision(
            changes=draft.changes,
            answer=answer,
            member_id=member_id,
            is_reconciling=member_id is not None and draft.has_changed(Kind.CURRENT, member_id),
            seen=self.seen if seen is None else seen,
        )

    def _arm_session(self, member: Member, world: DecisionInputs) -> None:
        classic = member.classic
        timeout_ms = world.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.deadlines.set(DeadlineAction.SESSION, member.member_id, world.now_ms + timeout_ms)

    def _arm_rebalance(self, member: Member, now_ms: int) -> None:
        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.rebalance_timeout_ms
            self.deadlines.set(DeadlineAction.REBALANCE, member.member_id, at_ms, member.epoch)
        else:
            self.deadlines.cancel(DeadlineAction.REBALANCE, member.member_id)
