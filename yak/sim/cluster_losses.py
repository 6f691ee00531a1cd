"""What the disks of a cluster may lose under each topic's guarantees; partitions that lose more are forfeited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, parse_isr, parse_nodes
from yak.ids import BrokerEpoch, NodeId
from yak.sim.cluster import Cluster
from yak.sim.history import Copy, Key
from yak.sim.node import IMAGE_FOLDER, SimNode
from yak.storage.names import LOG_SUFFIX, parse_partition_folder

if TYPE_CHECKING:
    from yak.sim.topic_plan import TopicPlan


class Losses:
    """Bounds disk faults. `plans` has each topic's guarantees, by name; `counts` gets the forfeited partitions."""

    def __init__(self, cluster: Cluster, plans: Callable[[str], TopicPlan | None], counts: Counter[str]) -> None:
        self._cluster = cluster
        self._plans = plans
        self._counts = counts
        self._is_alone = len(cluster.nodes) == 1
        self._powerless: dict[NodeId, BrokerEpoch] = {}
        """Brokers whose machine lost power, and the broker epoch: they will report a possible loss, whatever they lost.
        """
        self._taken: dict[tuple[Key, NodeId], BrokerEpoch] = {}
        """Copies removed by hand, and the broker epoch: until the broker registers again, the store still counts them.
        """
        self.failing: dict[NodeId, None] = {}
        """Brokers with a directory that has failed or may fail at a later call: only a restart repairs it."""
        self._made: set[tuple[str, int]] = set()
        self._stillborn: set[tuple[str, int]] = set()
        """Partitions created when all of their initial ISR had lost power, unknown to the controller."""

    def is_flushed(self, path: str) -> bool:
        """Whether a path belongs to a topic that commits only flushed records, or to the metadata copy."""
        folder = path.split("/")[2]
        if folder == IMAGE_FOLDER:
            return True
        plan = self._plans(folder.rpartition("-")[0])
        return plan is not None and plan.is_flushed

    def may_lose(self, node: SimNode, *, wiped: bool) -> bool:
        """Whether this broker's disk may lose data now; forfeits partitions that lose more than is guaranteed."""
        forfeits: list[Key] = []
        state, history = self._cluster.store.state, self._cluster.history
        for key, row in self._all_rows():
            if node.node_id not in parse_nodes(row["replicas"]):
                continue
            if key not in history.copies:
                # just created: no broker has it yet
                return False
            plan = self._plan(key)
            is_flushed = plan is not None and plan.is_flushed and not wiped
            sound = [each for each in self._sound(key, row, speaks=wiped) if each != node.node_id]
            steady = [each for each in sound if each not in self.failing]
            members = [each.node_id for each in _members(row)]
            others_lost_too = any(each != node.node_id and each not in sound for each in members)
            if self._is_guaranteed(key) and others_lost_too and key not in history.forfeited:
                # P1 covers one disk at a time: the other replica has to rejoin the ISR first
                return False
            if key in history.forfeited or steady:
                continue
            if is_flushed and len(parse_nodes(row["replicas"])) == 1:
                continue
            if self._is_guaranteed(key):
                return False
            forfeits.append(key)
        broker = state.brokers.get(node.node_id)
        for key in forfeits:
            history.forfeit(key, f"broker {node.node_id} lost its disk's tail")
            if self._is_alone:
                history.unclean.add(key)
            self._counts["partitions forfeited"] += 1
        if broker is not None:
            history.lost_until[node.node_id] = broker["broker_epoch"]
        return True

    def may_lose_power(self, node: SimNode) -> bool:
        """Whether this broker may lose power: a whole ISR may only together with all other replicas.

        Then all of them report a possible loss, and the last ISR member leads. Otherwise another replica may have more,
        and an operator decides.
        """
        state, history = self._cluster.store.state, self._cluster.history
        broker = state.brokers.get(node.node_id)
        if broker is None:
            return False
        for key, row in self._all_rows():
            members = _members(row)
            if not self._is_guaranteed(key) or node.node_id not in [each.node_id for each in members]:
                continue
            if key not in history.copies:
                # just created: live replicas outside the ISR may have more, as far as the cluster knows
                return False
            if history.rotten.get(key, node.node_id) != node.node_id:
                # as in `may_rot`
                return False
            if self._steady(key, row) - {node.node_id}:
                continue
            # until its loss is reported, it may be elected in its present epoch: earlier reports of the others then count
            # for nothing
            newest = max(broker["broker_epoch"], *(each.broker_epoch for each in members))
            others = [each for each in parse_nodes(row["replicas"]) if each != node.node_id]
            lost = any(map(history.has_lost, members))
            if lost or not all(self._says_lost(each, newest) for each in others):
                return False
        self._powerless[node.node_id] = broker["broker_epoch"]
        return True

    def _says_lost(self, node_id: NodeId, since: BrokerEpoch) -> bool:
        """Whether a broker's machine lost power after that broker epoch, and the broker reports it or will."""
        broker = self._cluster.store.state.brokers.get(node_id)
        return broker is not None and (
            broker["lossy_epoch"] > since
            or (broker["broker_epoch"] == self._powerless.get(node_id) and self._has_unflushed(node_id))
        )

    def _will_report_a_loss(self, member: IsrMember) -> bool:
        """Whether its machine lost power in that broker epoch, or in the one before and it has no new boot mark yet."""
        has_old_mark = self._cluster.node(member.node_id).has_old_boot_mark
        return has_old_mark or member.broker_epoch <= self._powerless.get(member.node_id, 0)

    def _has_unflushed(self, node_id: NodeId) -> bool:
        """Whether it has a log that does not flush every record; without one it reports no loss after a power loss."""
        paths = self._cluster.node(node_id).disk.contents()
        logs = [path for path in paths if path.endswith(LOG_SUFFIX) and parse_partition_folder(path.split("/")[2])]
        return any(not self.is_flushed(path) for path in logs)

    def may_rot(self, copy: Copy) -> bool:
        """Whether a bit of this copy may flip: no other copy is damaged, and all other electable ones are sound.

        One sound copy alone is not enough: its broker may be fenced and leave the ISR before the brokers that lost
        power do.
        """
        history, key = self._cluster.history, copy.key
        row = self._cluster.store.state.partitions.get(key)
        node_id = copy.node.node_id
        if row is None or key in history.forfeited or history.rotten.get(key, node_id) != node_id:
            return False
        others = {each.node_id for each in _members(row)} - {node_id}
        return bool(others) and others <= self._steady(key, row)

    def may_go_offline(self, node: SimNode) -> bool:
        """Whether a directory of this broker may fail: not if all other members have an unreported power loss.

        It would leave the ISR to them, and no member would be sound once they report.
        """
        for key, row in self._rows():
            members = {each.node_id for each in _members(row)}
            if node.node_id in members and len(members) > 1 and self._steady(key, row) <= {node.node_id}:
                return False
        return True

    def may_restart(self, node: SimNode) -> bool:
        """Whether this broker may restart at once: not as the only member of a guaranteed partition that reports no loss.

        Its new incarnation leaves the ISR to the others, which the store takes for alive. As far as the cluster knows, they
        may commit without it. No clean leader is left once they report their loss, and an operator decides, as in Kafka.
        """
        for key, row in self._rows():
            members = {each.node_id for each in _members(row)}
            if self._is_guaranteed(key) and len(members) > 1 and self._steady(key, row) == {node.node_id}:
                return False
        return True

    def _all_rows(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """The store's rows of all partitions."""
        return ((Key(*place), row) for place, row in self._cluster.store.state.partitions.items())

    def _rows(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """The store's rows of the partitions that brokers have, without the forfeited ones."""
        history, partitions = self._cluster.history, self._cluster.store.state.partitions
        for key in history.copies:
            row = partitions.get(key)
            if row is not None and key not in history.forfeited:
                yield key, row

    def _plan(self, key: Key) -> TopicPlan | None:
        return self._plans(self._cluster.store.state.topics[key.topic_id]["name"])

    def _is_guaranteed(self, key: Key) -> bool:
        """Whether its topic survives the loss of one disk."""
        plan = self._plan(key)
        return plan is not None and not plan.may_be_lost

    def _steady(self, key: Key, row: dict[str, Any]) -> set[int]:
        """Sound members that will not report a loss, and whose disks do not fail."""
        return set(self._sound(key, row, speaks=True)) - self.failing.keys()

    def has_sound(self, key: Key) -> bool:
        """Whether an electable replica in its present broker epoch serves, lost nothing, and has no flipped bit."""
        row = self._cluster.store.state.partitions.get(key)
        if row is None or key in self._cluster.history.forfeited:
            return True
        sound = self._sound(key, row)
        return any(each.node_id in sound and self._serves(each) for each in _members(row))

    def _serves(self, member: IsrMember) -> bool:
        node, broker = self._cluster.node(member.node_id), self._cluster.store.state.brokers[member.node_id]
        is_active = broker["state"] == "ACTIVE" and broker["broker_epoch"] == member.broker_epoch
        return is_active and node.is_listening and not node.is_paused

    def is_last(self, key: Key, node: SimNode) -> bool:
        """Whether no other member of ISR or ELR is sound and will report no loss."""
        row = self._cluster.store.state.partitions.get(key)
        return row is not None and not set(self._sound(key, row, speaks=True)) - {node.node_id}

    def took_away(self, key: Key, node_id: NodeId) -> None:
        """This stopped broker has no data of the partition any more."""
        self._taken[key, node_id] = self._cluster.store.state.cluster["mo"]

    def replaced(self, node_id: NodeId) -> None:
        """What this broker was so far counts no more."""
        self._cluster.history.replaced[node_id] = self._cluster.store.state.cluster["mo"]

    def unregistered(self, node_id: NodeId) -> None:
        """An operator took a broker away, perhaps later than intended: a call may be late."""
        state, history = self._cluster.store.state, self._cluster.history
        self.replaced(node_id)
        history.lost_until[node_id] = state.cluster["mo"]
        rows = state.partitions.items()
        self.forfeit_the_unsound({key for key, row in rows if any(each.node_id == node_id for each in _members(row))})

    def has_rotten(self, node: SimNode) -> bool:
        """Whether this broker's disk has a flipped bit that was not repaired by hand yet."""
        return node.node_id in self._cluster.history.rotten.values()

    def _sound(self, key: Key, row: dict[str, Any], *, speaks: bool = False) -> list[int]:
        """Members of ISR and ELR that lost nothing; with `speaks` also only those that will not report a loss."""
        state, history = self._cluster.store.state, self._cluster.history
        return [
            member.node_id
            for member in _members(row)
            if not history.has_lost(member)
            and not (speaks and self._will_report_a_loss(member))
            and history.rotten.get(key) != member.node_id
            and member.broker_epoch > self._taken.get((key, member.node_id), -1)
            and member.node_id in state.brokers
            and member.broker_epoch >= state.brokers[member.node_id]["lossy_epoch"]
        ]

    def forfeit_the_unsound(self, moved: Set[tuple[str, int]] = frozenset()) -> None:
        """Forfeit partitions without guarantees whose members all lost data, as a late call may cause.

        The same holds for a partition that was `moved` away from its last sound replica, by an administrator or since
        that replica read damage, when the others had lost their disks undetected. It also holds for one that got another
        replica when all members had lost power: that replica reports no loss, so an operator decides.
        """
        history, state = self._cluster.history, self._cluster.store.state
        for place in state.partitions.keys() - self._made:
            self._made.add(place)
            if not self._has_member_with_power(state.partitions[place]):
                self._stillborn.add(place)
        for key, row in self._rows():
            is_moved = key in moved
            if self._sound(key, row) and not (is_moved and self._may_another_have_more(key, row)):
                continue
            plan = self._plan(key)
            if self._is_alone and plan is not None and plan.is_flushed:
                continue
            if not self._is_guaranteed(key) or is_moved:
                history.forfeit(key, "only members that lost something are left")

    def forfeit_the_unclean(self, elections: Sequence[dict[str, Any]]) -> None:
        """Forfeit partitions whose topic allows unclean elections and that had one: what only the others had is gone."""
        state, history = self._cluster.store.state, self._cluster.history
        for each in elections:
            topic = state.topics.get(each["topic_id"])
            plan = None if topic is None else self._plans(topic["name"])
            if each["unclean"] and plan is not None and plan.allows_unclean:
                key = Key(each["topic_id"], each["partition"])
                history.forfeit(key, "a replica outside of the ISR was elected")
                history.unclean.add(key)
                self._counts["unclean elections"] += 1

    def _may_another_have_more(self, key: Key, row: dict[str, Any]) -> bool:
        """Whether all members will report a loss, and a replica that is no member will not."""
        members = _members(row)
        newest = max((each.broker_epoch for each in members), default=0)
        others = set(parse_nodes(row["replicas"])) - {each.node_id for each in members}
        return not self._sound(key, row, speaks=True) and not all(self._says_lost(each, newest) for each in others)

    def forfeit_the_never_made(self) -> None:
        """Forfeit partitions whose logs could not be created.

        With all disks failed, the partition stays offline until its topic is deleted. If some replicas failed and all
        others lost data, an operator elects the leader. The same holds if the whole initial ISR had lost power and
        another replica had not: as far as the brokers know, it could have more.
        """
        history, state = self._cluster.history, self._cluster.store.state
        for key in history.copies:
            row = state.partitions.get(key)
            if row is None:
                continue
            name = f"{state.topics[key.topic_id]['name']}-{key.partition}"
            replicas = parse_nodes(row["replicas"])
            never_made = {node_id for node_id in replicas if self._could_not_make(node_id, name)}
            sound = set(self._sound(key, row, speaks=True))
            if never_made and (len(never_made) == len(replicas) or not sound - never_made):
                history.forfeit(key, "its log could not be made")
                history.unclean.discard(key)
            elif not sound and key in self._stillborn:
                history.forfeit(key, "no broker ever led it")

    def _has_member_with_power(self, row: dict[str, Any]) -> bool:
        return any(
            not self._cluster.history.has_lost(member) and member.broker_epoch > self._powerless.get(member.node_id, 0)
            for member in parse_isr(row["isr"])
        )

    def _could_not_make(self, node_id: int, partition: str) -> bool:
        return any(
            notice.event == "log-not-created" and notice.fields["partition"] == partition
            for notice in self._cluster.node(node_id).notices
        )


def _members(row: dict[str, Any]) -> tuple[IsrMember, ...]:
    return (*parse_isr(row["isr"]), *parse_isr(row["elr"]))
