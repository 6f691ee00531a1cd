"""One seed of the quorum, from start to report."""

from __future__ import annotations

from functools import partial
from typing import Final

from yak.ids import NodeId
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.voters import VoterSet
from yak.sim.network import Network
from yak.sim.quorum.administrator import Administrator
from yak.sim.quorum.checks import Checks, QuorumViolation
from yak.sim.quorum.clients import Caller, SharedClientState, StoreClient
from yak.sim.quorum.draws import Draws
from yak.sim.quorum.faults import Faults
from yak.sim.quorum.node import CLUSTER_ID, QuorumNode
from yak.sim.seed_report import SeedReport
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec, names_in
from yak.sim.world import World

EVENTS_MAX: Final = 200_000
REPLACEMENTS_PERCENT: Final = 30
"""The share of the seeds in which brokers are unregistered, and return with disks of an earlier time."""
_CALM_US: Final = 30_000_000
"""Within this time after the last fault there is one leader, and every node has applied the same."""
_STRANGER: Final[dict[str, object]] = {"node_id": 2_000, "broker_epoch": 0}
_COMMAND: Final = StoreRequest("alloc_pid", _STRANGER)
_READ: Final = StoreRequest("verify", _STRANGER)


class QuorumRun:
    """The nodes, their clients, the operator and the faults."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.world = World()
        rng = SeededRandom(f"quorum {spec.seed}")
        self.draws = draws = Draws(rng.fork("draws"))
        self._rng = rng.fork("run")
        self.checks = Checks(draws.voters)
        self.network = Network(self.world, rng.fork("network"))
        self.counts = dict.fromkeys(
            names_in(
                "calls; calls without an answer; answers OK; answers refused; reads; liveness forfeited; leaders deposed"
            ),
            0,
        )
        self.nodes: dict[NodeId, QuorumNode] = {}
        shared = SharedClientState({})
        has_replacements = spec.random("replacements").chance(REPLACEMENTS_PERCENT)
        self.clients = []
        for node_id in range(1, len(draws.voters.voters) + draws.observers + 1):
            node = QuorumNode(self.world, self.network, draws, rng.fork(f"node {node_id}"), node_id, self.checks)
            self.nodes[node_id] = node
            caller = Caller(node.requests, self.checks, shared, self.counts)
            client_rng = rng.fork(f"client {node_id}")
            replacements = spec.random(f"replacements of {node_id}") if has_replacements else None
            client = StoreClient(
                self.world, client_rng, node, self.nodes, caller, shared, draws.faults_ms, replacements
            )
            self.clients.append(client)
        self.administrator = Administrator(
            self.network, draws.request_timeout_ms, rng.fork("operator"), self.nodes, CLUSTER_ID
        )
        self.checks.on_elected = self._read_from_deposed
        self._caller = Caller(self.administrator.requests, self.checks, shared, self.counts)
        self.faults = Faults(self.world, self.network, rng.fork("faults"), self.nodes, self.administrator, draws, spec)
        self.faults.burst = self._burst

    def _burst(self, node: QuorumNode, count: int) -> None:
        for _ in range(count):
            self._call(node, _COMMAND)

    def go(self) -> SeedReport:
        """Run to the end. Raises the first violation."""
        for node in self.nodes.values():
            self.world.after(self._rng.between(0, 30_000), partial(self._start, node))
        self.faults.schedule()
        self._run_for(self.draws.faults_ms * 1000 + self._rng.between(100_000, 1_000_000))
        self.faults.end()
        self._become_calm()
        return self.report()

    def _start(self, node: QuorumNode) -> None:
        if node.quorum is None and not node.incarnation:
            node.start()

    def _read_from_deposed(self) -> None:
        """Read from nodes that still lead after the election of another leader."""
        for node in self.nodes.values():
            quorum = node.quorum
            if quorum is None or quorum.leader is None or quorum.epoch == self.checks.newest_epoch:
                continue
            self.counts["leaders deposed"] += 1
            for _ in range(4):
                self.world.after(self._rng.between(0, 1_000_000), partial(self._call, node, _READ))

    def _call(self, node: QuorumNode, request: StoreRequest) -> None:
        self._caller.call(node, request, lambda _outcome: None)

    def _run_for(self, duration_us: int) -> None:
        self.world.run_for(duration_us, events_max=EVENTS_MAX)

    # ---------------------------------------------------------------------------------------------------- the end

    def _become_calm(self) -> None:
        """Liveness: without faults and with a majority of the voters, the quorum serves, and all nodes catch up."""
        for client in self.clients:
            client.is_over = self._rng.chance(50)
        self._run_for(self._rng.choice((10_000, 300_000, 1_500_000)))
        for client in self.clients:
            client.is_over = True
        deadline_us = self.world.now_us + _CALM_US
        if not self._becomes_calm(deadline_us):
            self._forfeit_or_fail()
            return
        self._command()
        self._disturb()
        if not self._becomes_calm(deadline_us + _CALM_US):
            raise QuorumViolation("Liveness", "the quorum does not become calm after one node's links were cut")
        self.checks.final(list(self.nodes.values()))

    def _becomes_calm(self, deadline_us: int) -> bool:
        while not (is_calm := self._is_calm()) and self.world.now_us < deadline_us:
            self._run_for(100_000)
        return is_calm

    def _leader(self) -> QuorumNode | None:
        leads = [node for node in self.nodes.values() if node.quorum is not None and node.quorum.is_ready_leader]
        return leads[0] if len(leads) == 1 else None

    def _is_calm(self) -> bool:
        leader = self._leader()
        if leader is None or leader.quorum is None or self.administrator.is_changing:
            return False
        end = leader.quorum.log.end_offset
        return all(
            node.quorum is not None
            and node.quorum.log.end_offset == end == node.quorum.applied_offset
            and node.quorum.leader_id == leader.node_id
            for node in self.nodes.values()
        )

    def _forfeit_or_fail(self) -> None:
        for node in self.nodes.values():
            assert node.quorum is not None
            if len(self._alive(node.quorum.voters)) < node.quorum.voters.majority:
                self.counts["liveness forfeited"] += 1
                return
        lines = [self._describe(node) for node in self.nodes.values()]
        raise QuorumViolation("Liveness", f"{_CALM_US / 1e6:.0f} s after the last fault: {'; '.join(lines)}")

    def _alive(self, voters: VoterSet) -> list[NodeId]:
        """The voters that still have the disks with which they became voters."""
        return [
            voter.node_id
            for voter in voters.voters
            if voter.is_same(voter.node_id, self.nodes[voter.node_id].directory_id)
        ]

    def _describe(self, node: QuorumNode) -> str:
        quorum = node.quorum
        assert quorum is not None
        return (
            f"n{node.node_id} {quorum.role} of {quorum.leader_id} in epoch {quorum.epoch}, end {quorum.log.end_offset},"
            f" committed {quorum.high_watermark}, applied {quorum.applied_offset}, voters {quorum.voters.node_ids}"
        )

    def _command(self) -> None:
        """A new command and a read succeed. The command has a later time, also of a leader whose clock is behind."""
        leader = self._leader()
        assert leader is not None
        assert leader.quorum is not None
        machine = leader.quorum.machine
        before_ms = machine.time_ms
        self._run_for(2_000)
        for request in (_COMMAND, _READ):
            outcomes: list[StoreOutcome | None] = []
            calls = 0
            for _ in range(60):
                if outcomes and outcomes[-1] is not None:
                    break
                if calls == len(outcomes) < 3:
                    # the first call may find that its connection is one to a process that has ended
                    calls += 1
                    self._caller.call(leader, request, outcomes.append)
                self._run_for(50_000)
            if not outcomes or outcomes[-1] is None:
                raise QuorumViolation("Liveness", f"{request.script} without faults is not answered")
        if machine.time_ms <= before_ms:
            raise QuorumViolation("Liveness", f"the times of commands stand still at {before_ms}")

    def _disturb(self) -> None:
        """A voter without a way to the leader does not depose it (KIP-996): the others still follow."""
        leader = self._leader()
        assert leader is not None
        assert leader.quorum is not None
        voters, epoch = leader.quorum.voters, leader.quorum.epoch
        followers = [voter.node_id for voter in voters.voters if voter.node_id != leader.node_id]
        if len(voters.voters) < 3 or not self._rng.chance(25):
            return
        victim = self._rng.choice(followers)
        if len([node_id for node_id in self._alive(voters) if node_id != victim]) < voters.majority:
            return
        self.world.say(f"n{victim} and the leader n{leader.node_id} do not reach each other")
        links = [(leader.party, f"n{victim}"), (f"n{victim}", leader.party)]
        for link in links:
            self.network.cut(*link)
        self._run_for(self.draws.fetch_timeout_ms * 2_000 + 1_000_000)
        if leader.quorum.leader is None or leader.quorum.epoch != epoch:
            raise QuorumViolation(
                "LeaderIsNotDisturbed", f"node {victim}, which alone lost leader {leader.node_id}, deposed it"
            )
        for link in links:
            self.network.reconnect(*link)
        self._run_for(500_000)

    # ---------------------------------------------------------------------------------------------------- report

    def report(self) -> SeedReport:
        requests = [node.requests for node in self.nodes.values()] + [self.administrator.requests]
        return SeedReport.of(
            self.spec,
            self.world,
            {
                **self.checks.counts,
                **self.counts,
                **self.administrator.counts,
                "requests": sum(each.sent_count for each in requests),
                "requests timed out": sum(each.timed_out_count for each in requests),
                **self.faults.counts,
            },
            strikes=self.faults.strikes,
        )

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
