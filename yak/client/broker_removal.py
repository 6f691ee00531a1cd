"""Moves everything that a broker holds to the other brokers, and unregisters it once it has stopped.

Each round reads what is left to do from the cluster, so a removal that was interrupted goes on where it was.
`yak.cluster.broker_removal` plans the moves.
"""

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final

from yak.client.leadership import Reassignment, list_reassignments, reassign
from yak.client.members import ANSWER_SECONDS, ROLE, list_members, own_configs
from yak.client.metadata import Broker
from yak.client.replica_offsets import ClusterReplicas, read_metadata
from yak.client.unregister import unregister_broker
from yak.cluster.broker_removal import RemainingBroker, RemovalPlan, plan_removal
from yak.errors import Unreachable, WaitTimeout, YakError
from yak.ids import NodeId, TopicPartition
from yak.view.formats import numbered
from yak.view.partition_replicas import NO_LEADER, PartitionReplicas

POLL_SECONDS: Final = 0.2
STUCK_SECONDS: Final = 30.0
"""How long one and the same obstacle may last: a broker that restarts is back before."""
TARGET_AWAY_SECONDS: Final = 10.0
"""How long a broker that takes partitions may be away before another one takes them: one that restarts is back before."""
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class RemainingReplicas:
    """What the cluster says about the broker. `held` are the replicas of partitions that nothing moves away yet, or that
    move to a broker which is away.

    `controller` is the broker that said so, and that takes the moves.
    """

    found: ClusterReplicas
    controller: Broker
    partitions: tuple[PartitionReplicas, ...]
    held: Mapping[TopicPartition, tuple[NodeId, ...]]
    moves: Mapping[TopicPartition, Reassignment]
    is_live: bool

    @property
    def obstacle(self) -> str:
        """Why the moves under way cannot end now; empty when nothing is in their way."""
        leaderless = [each.name for each in self.partitions if each.leader == NO_LEADER]
        if leaderless:
            return f"{_some(leaderless)} has no leader: yak isr --offline"
        away = {
            node: each.name
            for each in self.partitions
            if (move := self.moves.get(TopicPartition(each.topic, each.partition))) is not None
            for node in each.replicas
            if node not in move.removing and node not in self.found.brokers
        }
        return "; ".join(
            f"broker {node}, a replica of {name} after the move, does not run" for node, name in sorted(away.items())
        )


class Removal:
    """The removal of one broker; `servers` are addresses of the cluster. Every method raises YakError.

    `say` gets a sentence about the progress.
    """

    def __init__(self, servers: str, node_id: NodeId, *, timeout_s: float, say: Callable[[str], None]) -> None:
        self.node_id = node_id
        self.moved = 0
        self._servers, self._timeout_s, self._say = servers, timeout_s, say
        self._obstacle, self._since = "", 0.0
        self._reported = -1
        self._away_since: dict[NodeId, float] = {}

    def holdings(self) -> RemainingReplicas:
        """What the broker holds now. Raises Unreachable."""
        first = read_metadata(self._servers, timeout_s=self._timeout_s)
        others = {node: broker for node, broker in first.brokers.items() if node != self.node_id}
        if others:
            self._servers = ",".join(broker.address for broker in others.values())
        # One broker answers both, the moves first: otherwise a move that just ended would appear as replicas that nothing
        # moves. The removed broker may be that one: it is the controller until it stops.
        controller = first.brokers.get(first.controller_id) or next(iter(first.brokers.values()))
        moves = list_reassignments(controller, timeout_s=self._timeout_s)
        found = read_metadata(controller.address, timeout_s=self._timeout_s)
        partitions = tuple(
            each for each in found.partitions if self.node_id in each.replicas or each.leader == self.node_id
        )
        held = {}
        away = self._long_away(moves, found.brokers)
        for each in partitions:
            key = TopicPartition(each.topic, each.partition)
            removing = moves[key].removing if key in moves else ()
            aimed_at = tuple(node for node in each.replicas if node not in removing)
            gone = next((node for node in aimed_at if node in away), None)
            if gone is not None and self.node_id in removing:  # the plan replaces the removed broker again
                aimed_at = tuple(self.node_id if node == gone else node for node in aimed_at)
            if self.node_id in aimed_at:
                held[key] = aimed_at
        mine = {key: moves[key] for each in partitions if (key := TopicPartition(each.topic, each.partition)) in moves}
        return RemainingReplicas(found, controller, partitions, held, mine, self.node_id in found.brokers)

    def _long_away(self, moves: Mapping[TopicPartition, Reassignment], live: Container[NodeId]) -> set[NodeId]:
        """The brokers that take partitions and have not been live for a while."""
        now = time.monotonic()
        away = {node for move in moves.values() for node in move.adding if node not in live}
        self._away_since = {node: self._away_since.get(node, now) for node in away}
        return {node for node, since in self._away_since.items() if now - since >= TARGET_AWAY_SECONDS}

    def plan(self, holdings: RemainingReplicas) -> RemovalPlan:
        """Where its replicas go. Raises YakError (`last-broker`, `too-few-brokers`)."""
        brokers = self._remaining(holdings.found)
        if not brokers:
            raise YakError(
                "last-broker",
                f"broker {self.node_id} cannot be removed: no other broker runs",
                why="its replicas need another broker",
                try_=("yak brokers list", "yak node add"),
            )
        plan = plan_removal(holdings.held, self.node_id, brokers)
        if plan.too_few:  # nothing is moved then, not even what could be
            factor = max(len(holdings.held[each]) for each in plan.too_few)
            others = numbered("broker", sorted(each.node_id for each in brokers))
            names = _some([f"{each.topic}-{each.partition}" for each in plan.too_few])
            raise YakError(
                "too-few-brokers",
                f"broker {self.node_id} cannot be removed: too few brokers are left for {names}",
                why=f"a replication factor of {factor} needs more than {others}; nothing was moved",
                try_=("yak node add          a broker that takes its place", "yak isr"),
            )
        return plan

    def drain(self) -> None:
        """Move everything away, and wait until the broker holds nothing and leads nothing.

        Topics that are created meanwhile are moved too. Raises YakError (`node-remove-waits` when one obstacle lasts).
        """
        while True:
            try:
                holdings = self.holdings()
                problem = self._move(holdings)
            except Unreachable as error:
                problem = f"{error.message}: {error.why}"
            else:
                self._report_left(len(holdings.partitions))
                if not holdings.partitions:
                    return
            self._watch(problem)
            time.sleep(POLL_SECONDS)

    def is_live(self) -> bool:
        """Whether the cluster lists the broker as live."""
        return self.holdings().is_live

    def unregister(self) -> bool:
        """Unregister the broker; False while it is alive, or counts as alive."""
        address = next(iter(self._servers.split(",")))
        try:
            unregister_broker(address, self.node_id, timeout_s=self._timeout_s)
        except YakError as error:
            if error.code != "broker-alive":
                raise
            return False
        return True

    def finish(self) -> None:
        """Unregister the broker once it has stopped, and move what it was given meanwhile. Waits for its end without a
        time limit; a cluster that does not answer is retried until `drain` has waited long enough for it."""
        is_unsure = False
        while True:
            self.drain()
            try:
                if not self.is_live() and self.unregister():
                    return
            except YakError as error:
                if is_unsure and error.code == "unknown-broker":
                    return
                if not isinstance(error, Unreachable) and error.code != "timed-out":
                    raise
                is_unsure = True  # the request may have been carried out
            time.sleep(POLL_SECONDS)

    def _move(self, holdings: RemainingReplicas) -> str:
        """Begin the moves that are missing; return why the moves cannot end now, or an empty string."""
        if not holdings.held:
            return holdings.obstacle
        try:
            plan = self.plan(holdings)
        except YakError as error:  # a broker that restarts is back soon
            return holdings.obstacle or f"{error.message}: {error.why}"
        failed = reassign(holdings.controller, plan.targets, timeout_s=self._timeout_s, keeps_factor=True)
        self.moved += len(plan.targets) - len(failed)
        reasons = [f"{each.topic}-{each.partition}: {reason}" for each, reason in failed.items()]
        return _some(reasons, "; ") if reasons else holdings.obstacle

    def _watch(self, problem: str) -> None:
        if problem != self._obstacle:
            self._obstacle, self._since = problem, time.monotonic()
        elif problem and time.monotonic() - self._since > max(STUCK_SECONDS, self._timeout_s):
            raise WaitTimeout(
                "node-remove-waits",
                f"broker {self.node_id} still holds partitions, and cannot be removed now",
                why=f"{problem}; the moves stay in progress",
                try_=(f"yak node remove {self.node_id}          go on, once that is repaired", "yak isr"),
            )

    def _report_left(self, left: int) -> None:
        if left != self._reported and (left or self._reported > 0):
            held = f"holds {left} partition{'' if left == 1 else 's'}" if left else "holds nothing"
            self._say(f"broker {self.node_id} {held}")
        self._reported = left

    def _remaining(self, found: ClusterReplicas) -> list[RemainingBroker]:
        patience_s = min(ANSWER_SECONDS, self._timeout_s)
        members = list_members(found.brokers, (), self._servers.split(","), timeout_s=patience_s)
        remaining = []
        for node_id, broker in found.brokers.items():
            configs = None if node_id == self.node_id else own_configs(broker, (ROLE,), patience_s)
            if configs is not None:
                remaining.append(RemainingBroker(node_id, members[node_id].rack, configs.get(ROLE) or None))
        return remaining


def _some(names: list[str], separator: str = ", ") -> str:
    return separator.join(names[:_NAMED_MAX]) + (" …" if len(names) > _NAMED_MAX else "")
