"""Random walks through the model, beyond a search's reach; the broker's own `Partition` can take each step too.

`Shadow` has one real partition for each replica, and compares after each step: leadership, high watermark, pending ISR
change, start of the epoch, and which followers may join the ISR.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from yak.cluster.image import PartitionInfo
from yak.cluster.payload import IsrMember
from yak.ids import TopicPartition
from yak.replication.isr import IsrProposal, may_join
from yak.replication.partition import Partition
from yak.sim.model.rules import Rules, Step
from yak.sim.model.search import Bounds
from yak.sim.model.state import NODES, State, first_state
from yak.sim.seeded_random import SeededRandom

FAR = Bounds(records=4, crashes=2, outages=1, elections=7, changes=6)
STEPS_MAX = 120
WEIGHTS = {"write": 2, "acknowledge": 6, "fetch": 6, "adopt": 4, "execute": 3, "settle": 3, "expand": 3, "elect": 3}
"""Weights of the steps; 1 for those that are not named."""


class Disagreement(AssertionError):
    """The broker's partition differs from the model."""


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The result of the walks: no violation if `violation` is empty."""

    walks: int
    steps: int
    violation: str = ""
    path: tuple[Step, ...] = ()


def walk(walks: int, *, first: int = 1, bounds: Bounds = FAR, lacks: str = "", drives: bool = False) -> WalkResult:
    """Walk at random, seed by seed, up to the first violation. `drives` also applies each step to real partitions.

    Raises Disagreement.
    """
    rules, steps = Rules(bounds.min_isr, lacks), 0
    for seed in range(first, first + walks):
        rng, state = SeededRandom(seed), first_state(bounds.left())
        shadow = Shadow(rules, state) if drives else None
        path: list[Step] = []
        for _ in range(STEPS_MAX):
            possible = [each for each in rules.steps(state) for _ in range(WEIGHTS.get(str(each[0][0]), 1))]
            if not possible:
                break
            before = state
            step, state = rng.choice(possible)
            path.append(step)
            steps += 1
            if shadow is not None:
                shadow.take(step, before, state)
            violation = rules.violation(state)
            if violation:
                return WalkResult(seed - first + 1, steps, f"seed {seed}: {violation}", tuple(path))
    return WalkResult(walks, steps)


class Shadow:
    """Real partitions that take the model's steps. The model is not tidied: history positions are partition epochs."""

    def __init__(self, rules: Rules, state: State) -> None:
        self._rules = rules
        self._partitions = [self._new(state) for _ in NODES]
        for node in NODES:
            self._become(state, node)

    def _new(self, state: State) -> Partition:  # noqa: ARG002
        log: Any = SimpleNamespace(
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
            config=SimpleNamespace(flush_messages=2**63 - 1, min_insync_replicas=self._rules.min_isr),
            assign_epoch=lambda _epoch: None,
            epochs=SimpleNamespace(truncate_from_end=lambda _end: None),
            producers=SimpleNamespace(has_transactions=False),
        )
        return Partition(TopicPartition("model", 0), uuid.UUID(int=1), log)

    def _become(self, state: State, node: int) -> None:
        view = state.brokers[node].view
        entry = state.history[view]
        info = PartitionInfo(
            partition=0,
            replicas=NODES,
            isr_members=tuple(map(IsrMember._make, entry.isr)),
            elr_members=tuple(map(IsrMember._make, entry.elr)),
            leader=entry.leader,
            leader_epoch=entry.epoch,
            partition_epoch=view,
        )
        self._partitions[node].become(node, info, may_lead=self._rules.leads(state, node))

    def take(self, step: Step, before: State, after: State) -> None:
        """Apply this step, then compare."""
        name, node = str(step[0]), int(str(step[1])) if len(step) > 1 else -1
        if node >= 0:
            partition = self._partitions[node]
            if name == "crash":
                partition = self._partitions[node] = self._new(after)
            assert partition.log is not None
            partition.log.log_end_offset = len(after.brokers[node].log)
            self._act(name, step, partition, before, after)
        for each in NODES:
            self._compare(step, after, each)

    def _act(self, name: str, step: Step, partition: Partition, before: State, after: State) -> None:
        node = partition.node_id if name != "crash" else int(str(step[1]))
        match name:
            case "crash" | "adopt" | "register":
                self._become(after, node)
            case "write":
                partition.advance_high_watermark()
            case "shrink" | "expand":
                pending = after.brokers[node].pending
                assert pending is not None
                if name == "expand" and not may_join(partition, int(str(step[2]))):
                    raise Disagreement(f"{step}: the partition adds no follower to its ISR")
                members = tuple(map(IsrMember._make, pending.members))
                partition.propose(IsrProposal(members, pending.base, self._rules.min_isr, str(pending)))
            case "settle":
                assert partition.pending_isr is not None
                partition.settle(partition.pending_isr)
                partition.advance_high_watermark()
            case "acknowledge":
                _name, _node, follower, boot, end = step
                replica = partition.replica_states[int(str(follower))]
                replica.fetched(int(str(boot)), int(str(end)), 0, len(after.brokers[node].log), 0)
                partition.advance_high_watermark()
            case "fetch":
                partition.follow_high_watermark(before.brokers[int(str(step[2]))].high_watermark)
            case "cut":
                partition.log_was_truncated()

    def _compare(self, step: Step, state: State, node: int) -> None:
        broker, partition = state.brokers[node], self._partitions[node]
        leads = self._rules.leads(state, node)
        pending = None if broker.pending is None else broker.pending.members
        proposed = None if partition.pending_isr is None else partition.pending_isr.members
        mine: dict[str, object] = {"leads": leads, "hw": broker.high_watermark}
        its: dict[str, object] = {"leads": partition.is_leader, "hw": partition.high_watermark}
        if leads:
            others = [other for other in NODES if other != node]
            mine |= {"start": broker.epoch_start, "pending": pending}
            its |= {"start": partition.epoch_start_offset, "pending": proposed}
            mine["may join"] = [
                self._rules.may_join(state, node, other) for other in others if broker.known[other][0] >= 0
            ]
            its["may join"] = [may_join(partition, other) for other in others if broker.known[other][0] >= 0]
        if mine != its:
            raise Disagreement(f"after {step}, broker {node}: the model has {mine}, the partition {its}")
