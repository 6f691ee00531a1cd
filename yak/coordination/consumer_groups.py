"""Consumer groups (KIP-848) of this broker: it appends their records, runs their timers, and converts groups.

`yak.groups.consumer` makes the decisions and replays the records. A classic group is upgraded when a member joins it
with a ConsumerGroupHeartbeat, and downgraded when the last such member leaves. Its members keep consuming meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from yak.config.group_configs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, group_config_value
from yak.coordination.runtime import Then
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup, ClassicState, Join, Sync
from yak.groups.classic.records import StoredGroup, group_record
from yak.groups.consumer.checks import parse_heartbeat
from yak.groups.consumer.description import described
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.heartbeat import Decision
from yak.groups.consumer.member import JOIN_EPOCH
from yak.groups.consumer.records import decode, encode
from yak.groups.consumer.settings import ConsumerGroupSettings, MigrationPolicy
from yak.groups.consumer.subscriptions import DecisionInputs
from yak.groups.consumer.topics import TopicsView
from yak.groups.consumer.upgrade import ClassicGroup as ClassicPlan
from yak.groups.consumer.upgrade import upgraded
from yak.groups.group import Group
from yak.groups.record import Record

if TYPE_CHECKING:
    from yak.config.broker_configs import BrokerConfig
    from yak.coordination.group_coordinator import GroupCoordinator, GroupsPartition

RETRY_MS: Final = 1_000
"""How long `on_time` waits before it retries a failed write."""


def settings_of(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerGroupSettings:
    """Kafka's `group.consumer.*` configs, for a group with these configs of its own."""
    return ConsumerGroupSettings(
        session_timeout_ms=group_config_value(SESSION_TIMEOUT, overrides, config.static),
        heartbeat_interval_ms=group_config_value(HEARTBEAT_INTERVAL, overrides, config.static),
        assignment_interval_ms=int(overrides.get(ASSIGNMENT_INTERVAL) or config.group_consumer_assignment_interval_ms),
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
        classic_max_size=config.group_max_size,
    )


class ConsumerGroups:
    """The coordinator's operations on consumer groups."""

    def __init__(self, context: Context, coordinator: GroupCoordinator) -> None:
        self._context = context
        self._coordinator = coordinator
        self._config = context.config
        self._settings = settings_of(self._config, {})

    def _world(self, group_id: str, sees: Callable[[str], bool] | None = None) -> DecisionInputs:
        """The topics that a client `sees`, all without it, the configs in force of a group, and the time."""
        context = self._context
        return DecisionInputs(TopicsView(context.image, sees), self._settings_of(group_id), context.clock.now_ms)

    def _settings_of(self, group_id: str) -> ConsumerGroupSettings:
        config, overrides = self._context.config, self._context.image.group_configs.get(group_id)
        if overrides:
            return settings_of(config, overrides)
        if self._config is not config:  # a dynamic config changed
            self._config, self._settings = config, settings_of(config, {})
        return self._settings

    # ------------------------------------------------------------------------------------------------------- requests

    def heartbeat(
        self,
        coordinated: GroupsPartition,
        request: Any,
        *,
        client_id: str,
        client_host: str,
        api_version: int,
        then: Then,
        sees: Callable[[str], bool],
    ) -> dict[str, Any]:
        """Answer a ConsumerGroupHeartbeat; send the answer only if `then` is called with NONE. Raises PeerError.

        Regular expressions match topics that the client `sees` (GroupMetadataManager.filterTopicDescribeAuthorizedTopics).
        """
        group_id, world = request.group_id, self._world(request.group_id, sees)
        heartbeat = parse_heartbeat(
            request,
            api_version,
            world.settings,
            client_id=client_id,
            client_host=client_host,
            new_member_id=str(self._coordinator.new_uuid()),
        )
        is_joining = heartbeat.epoch == JOIN_EPOCH
        group = coordinated.shard.groups.get(group_id)
        if not is_joining and (group is None or group.consumer is None):
            reason = "not found" if group is None else "is not a consumer group"
            # The group may have gone back to the classic protocol: a member rejoins after this error, not after Kafka's.
            was_member = group is not None and group.protocol_type == CONSUMER_PROTOCOL
            code = ErrorCode.unknown_member_id if was_member else ErrorCode.group_id_not_found
            raise PeerError(code, f"Group {group_id} {reason}.")
        group = group or coordinated.shard.ensure(group_id)
        try:
            consumer, upgrade = group.consumer or ConsumerGroup(group_id), list[Record]()
            if group.consumer is None and group.has_members:
                # Written with the decision: a heartbeat that is refused leaves the classic group as it is.
                upgrade = self._upgrade(group, consumer)
            decision = consumer.heartbeat(heartbeat, world)
            self._carry_out(coordinated, group, consumer, decision, then, upgrade)
        finally:
            coordinated.shard.drop_if_void(group)
        return decision.answer

    def join_classic(self, coordinated: GroupsPartition, group: Group, request: Join, then: Then) -> dict[str, Any]:
        """Answer a JoinGroup to a consumer group; `then` as for `heartbeat`. Raises PeerError."""
        assert group.consumer is not None
        new_member_id = self._coordinator.new_member_id(request.instance_id or request.client_id)
        decision = group.consumer.join_classic(request, new_member_id, self._world(group.group_id))
        self._carry_out(coordinated, group, group.consumer, decision, then)
        return decision.answer

    def sync_classic(self, group: Group, request: Sync) -> dict[str, Any]:
        """Answer a SyncGroup to a consumer group. Raises PeerError."""
        assert group.consumer is not None
        answer = group.consumer.sync_classic(request, self._world(group.group_id))
        self._schedule(group.consumer)
        return answer

    def heartbeat_classic(self, group: Group, request: Any) -> ErrorCode:
        """Answer a Heartbeat to a consumer group. Raises PeerError."""
        assert group.consumer is not None
        code = group.consumer.heartbeat_classic(
            request.member_id,
            getattr(request, "group_instance_id", None),
            request.generation_id,
            self._world(group.group_id),
        )
        self._schedule(group.consumer)
        return code

    def leave_classic(
        self, coordinated: GroupsPartition, group: Group, leaving: list[tuple[str, str | None, str | None]], then: Then
    ) -> list[dict[str, Any]]:
        """Answer a LeaveGroup to a consumer group, for each member; `then` as for `heartbeat`."""
        assert group.consumer is not None
        identities = [(member_id, instance_id) for member_id, instance_id, _reason in leaving]
        decision = group.consumer.leave_classic(identities, self._world(group.group_id))
        self._carry_out(coordinated, group, group.consumer, decision, then)
        answers: list[dict[str, Any]] = decision.answer["members"]
        return answers

    def describe(self, consumer: ConsumerGroup) -> dict[str, Any]:
        """The fields of ConsumerGroupDescribe for a group."""
        world = self._world(consumer.group_id)
        return described(consumer.state, world.topics, world.settings.assignors[0])

    # ------------------------------------------------------------------------------------------------------- decisions

    @changes_state
    def _carry_out(
        self,
        coordinated: GroupsPartition,
        group: Group,
        consumer: ConsumerGroup,
        decision: Decision,
        then: Then,
        upgrade: Sequence[Record] = (),
    ) -> None:
        """Append a decision's changes and replay them. Without changes, `then` waits for the commit of earlier ones.

        `upgrade` are records that `consumer`, the successor of a classic group with members, has replayed already.
        """
        world = self._world(consumer.group_id)
        if not decision.changes and not upgrade:
            consumer.accepted(decision, world)
            self._schedule(consumer)
            self._coordinator.when_committed(coordinated, group.group_id, then)
            return
        # the tombstone of a classic group goes into the same batch
        records = [] if group.consumer is consumer else group.forgetting_classic()
        records += [*upgrade, *map(encode, decision.changes)]
        classic = None
        if decision.downgrade is not None:
            classic = self._classic_of(decision.downgrade, decision.answer.get("leader") or None)
            records.append(group_record(classic, None, self._context.clock.wall_ms))

        def replay() -> None:
            if group.consumer is not consumer:
                if upgrade:
                    self._context.notice(
                        "info", "group-upgraded", group=group.group_id, members=len(group.members.members)
                    )
                self._coordinator.put_classic(group, ErrorCode.rebalance_in_progress)
                group.consumer = consumer
            for change in decision.changes:
                consumer.replay(change)
            self._context.notice("debug", "group-state-changed", group=group.group_id)
            if classic is not None:
                self._coordinator.put_classic(group, ErrorCode.unknown_member_id, classic)
                self._context.notice("info", "group-downgraded", group=group.group_id, members=len(classic.members))
                classic.arm(world.now_ms)
                return
            if consumer.state.is_deleted:
                self._coordinator.put_classic(group, ErrorCode.unknown_member_id)
                return
            consumer.accepted(decision, world)
            self._schedule(consumer)

        self._coordinator.append(coordinated, group, records, replay, then)

    def _schedule(self, consumer: ConsumerGroup) -> None:
        due_ms = consumer.next_due()
        if due_ms is not None:
            self._coordinator.schedule(consumer, due_ms)

    def on_time(self, consumer: ConsumerGroup) -> None:
        """Fence the members whose session or rebalance timed out."""
        try:
            coordinated = self._coordinator.runtime.find(consumer.group_id)
        except PeerError:
            return
        group = coordinated.shard.groups.get(consumer.group_id)
        if group is None or group.consumer is not consumer:
            return
        world = self._world(consumer.group_id)
        decision = consumer.on_time(world)
        codes: list[ErrorCode] = []
        if decision.changes:
            self._context.notice("info", "group-members-expired", group=consumer.group_id, epoch=consumer.state.epoch)
            self._carry_out(coordinated, group, consumer, decision, codes.append)
        due_ms = consumer.next_due()
        if group.consumer is consumer and due_ms is not None:
            wait_ms = RETRY_MS if codes and codes[0] != ErrorCode.none else 1
            self._coordinator.schedule(consumer, max(due_ms, world.now_ms + wait_ms))

    def loaded(self, group: Group) -> None:
        """Start a full session for every member of a group that was read from the log."""
        consumer = group.consumer
        if consumer is None:
            return
        if consumer.state.is_deleted:
            group.consumer = None
            return
        consumer.loaded(self._world(consumer.group_id))
        self._schedule(consumer)

    # ------------------------------------------------------------------------------------------ upgrade and downgrade

    def _upgrade(self, group: Group, consumer: ConsumerGroup) -> list[Record]:
        """Make `consumer` the successor of a classic group with members; returns its records.

        Raises PeerError if the group does not allow it.
        """
        classic = group.members
        members = tuple(classic.members.values())
        plan = ClassicPlan(
            group.group_id,
            classic.generation,
            classic.protocol_type or "",
            classic.protocol,
            members,
            is_rebalancing=classic.state is not ClassicState.STABLE,
        )
        world = self._world(group.group_id)
        records = upgraded(plan, world.topics, world.settings)
        for record in records:
            consumer.replay(decode(record))
        consumer.loaded(world)
        return records

    def _classic_of(self, plan: ClassicPlan, leader: str | None) -> ClassicGroup:
        """The classic group of a downgrade. Without a leader it rebalances, also at a coordinator that loads its record."""
        classic = self._coordinator.make_group(plan.group_id)
        members = tuple(plan.members)
        wall_ms = self._context.clock.wall_ms
        stored = StoredGroup(plan.protocol_type, plan.generation, plan.protocol_name, leader, wall_ms, members)
        classic.restore(stored)
        return classic

    def make_room(self, coordinated: GroupsPartition, group: Group) -> None:
        """Turn an empty consumer group into a classic one, which a classic member joins. Raises PeerError."""
        consumer = group.consumer
        assert consumer is not None
        assert not consumer.state.members
        codes: list[ErrorCode] = []

        def replay() -> None:
            self._coordinator.put_classic(group, ErrorCode.unknown_member_id)

        self._coordinator.append(coordinated, group, consumer.tombstones(), replay, codes.append)
        if group.consumer is consumer:  # nothing was written
            raise PeerError(codes[0])
