"""The faults of a run: each has a number, a time, and a random source of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yak.quorum.control_records import ControlType, read_control
from yak.quorum.voters import Voter, VoterSet
from yak.sim.disk import Death
from yak.sim.network import Network, Way
from yak.sim.quorum.administrator import Administrator
from yak.sim.quorum.draws import Draws
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import names_in
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.ids import NodeId
    from yak.sim.quorum.node import QuorumNode
    from yak.sim.spec import Spec

CLASSES: Final = names_in("""
    kill; kill-in-write; power; power-all; pause; cut; isolate; slow-link; reset; slow-disk; lose-disk;
    change-voters; stop; split-vote; clock; move
""")
_OF_PROCESSES: Final = names_in("kill; kill-in-write; pause; stop; split-vote; move")
"""They strike a node whose process runs."""
_WEIGHTS: Final = {
    "kill": 3,
    "power": 3,
    "pause": 3,
    "cut": 3,
    "isolate": 3,
    "reset": 3,
    "change-voters": 4,
    "split-vote": 2,
}


class Faults:
    """Injects a seed's faults, and removes all of them in the end."""

    def __init__(
        self,
        world: World,
        network: Network,
        rng: SeededRandom,
        nodes: dict[NodeId, QuorumNode],
        administrator: Administrator,
        draws: Draws,
        spec: Spec,
    ) -> None:
        self._world, self._network, self._rng, self._nodes = world, network, rng, nodes
        self._administrator, self._draws, self._spec = administrator, draws, spec
        self.counts = dict.fromkeys(("connections reset", *CLASSES), 0)
        self._cuts: list[list[Way]] = []
        """The directions that are blocked, by fault."""
        self.strikes = 0
        self.are_ended = False
        self._moves = 0
        self.burst: Callable[[QuorumNode, int], None] = lambda _node, _count: None
        """Sends commands to a node, which append even when no other node reaches it."""

    def schedule(self) -> None:
        classes = self._spec.faults
        if classes is None:
            # some seeds have many faults of a few kinds, others a few of many
            classes = CLASSES if self._rng.chance(50) else tuple(self._rng.choice(CLASSES) for _ in range(4))
        drawn = [name for name in CLASSES if name in classes for _ in range(_WEIGHTS.get(name, 1))]
        for number in range(1, self._draws.faults_count + 1):
            rng = self._rng.fork(f"fault {number}")
            at_us = 50_000 + rng.between(0, self._draws.faults_ms * 1000)
            name = rng.choice(drawn) if drawn else ""
            if name and self._spec.strikes(number):
                self.strikes = number
                self._world.after(at_us, lambda name=name, rng=rng: self._strike(name, rng))  # type: ignore[misc]

    def _strike(self, name: str, rng: SeededRandom) -> None:
        if self.are_ended:
            return
        node = self._victim(rng)
        strike: Callable[[QuorumNode, SeededRandom], bool | None] = getattr(self, "_" + name.replace("-", "_"))
        self._world.say(f"fault: {name} of n{node.node_id}")
        if (node.quorum is not None or name not in _OF_PROCESSES) and strike(node, rng) is not False:
            self.counts[name] += 1

    def _victim(self, rng: SeededRandom) -> QuorumNode:
        """Every second fault strikes the leader, if there is one."""
        leads = [node for node in self._nodes.values() if node.quorum is not None and node.quorum.leader is not None]
        return rng.choice(leads) if leads and rng.chance(50) else rng.choice(list(self._nodes.values()))

    def end(self) -> None:
        """End every fault. All nodes run afterwards."""
        self.are_ended = True
        for ways in list(self._cuts):
            self._reconnect(ways)
        self._slow_down(self._all_ways(), 0)
        for node in self._nodes.values():
            node.slow_us, node.on_vote = 0, None
            node.resume()
            node.disk.end_inside(None)
        if self._moves:
            self._configure_present_addresses()
        for node in self._nodes.values():
            self._start(node)

    def _configure_present_addresses(self) -> None:
        """Observers find a voter that has moved by their configuration."""
        voters = [replace(voter, port=self._nodes[voter.node_id].port) for voter in self._draws.voters.voters]
        for node in self._nodes.values():
            if node.quorum is not None and node.quorum.voters.get(node.node_id) is None:
                node.kill()
            node.configured = VoterSet.of(voters)

    # ---------------------------------------------------------------------------------------------------- processes

    def _back_later(self, node: QuorumNode, rng: SeededRandom) -> None:
        delay_us = rng.choice((5_000, 100_000, 1_000_000, 3_000_000)) + rng.between(0, 50_000)
        self._world.after(delay_us, lambda: self._start(node))

    def _start(self, node: QuorumNode) -> None:
        if node.quorum is None:
            node.start()

    def _kill(self, node: QuorumNode, rng: SeededRandom) -> None:
        node.kill()
        self._back_later(node, rng)

    def _kill_in_write(self, node: QuorumNode, rng: SeededRandom) -> None:
        """The process ends within one of its next writes."""
        node.disk.end_inside(Death(rng, rng.between(0, 6)))
        self._back_later(node, rng)

    def _power(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        if not node.is_powered:
            return False
        node.lose_power(rng)
        self._back_later(node, rng)
        return None

    def _power_all(self, node: QuorumNode, rng: SeededRandom) -> None:  # noqa: ARG002
        for each in self._nodes.values():
            if each.is_powered:
                each.lose_power(rng)
                self._back_later(each, rng)

    def _pause(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        if node.is_paused:
            return False
        node.pause()
        incarnation = node.incarnation

        def resume() -> None:
            if node.incarnation == incarnation:
                node.resume()

        self._world.after(self._length_us(rng), resume)
        return None

    def _split_vote(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        """The node ends in an election with several candidates, and a voter ends as soon as it has voted."""
        others = [other for other in self._nodes.values() if other is not node and other.quorum is not None]
        if len(others) < 2:
            return False
        self._slow_down(self._all_ways(), rng.choice((5_000, 40_000)))
        self._world.after(rng.between(300_000, 1_500_000), lambda: self._slow_down(self._all_ways(), 0))
        voter = rng.choice(others)

        def end() -> None:
            if voter.quorum is not None and not self.are_ended:
                if rng.chance(50):
                    voter.kill()
                else:
                    voter.lose_power(rng)
                self._world.after(rng.between(500, 20_000), lambda: self._start(voter))

        voter.on_vote = lambda: self._world.after(rng.between(10, 4_000), end)
        self._kill(node, rng)
        return None

    def _stop(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        if node.is_paused:
            return False
        node.stop()
        self._back_later(node, rng)
        return None

    def _length_us(self, rng: SeededRandom) -> int:
        """How long a node or a link is out: nothing notices it, or the others elect another leader meanwhile."""
        percent = rng.choice((2, 50, 140, 180, 250))
        return self._draws.fetch_timeout_ms * percent * 10 + rng.between(0, 200_000)

    # ---------------------------------------------------------------------------------------------------- network

    def _others(self, node: QuorumNode) -> list[str]:
        return [other.party for other in self._nodes.values() if other is not node]

    def _all_ways(self) -> list[Way]:
        return [(node.party, other) for node in self._nodes.values() for other in self._others(node)]

    def _slow_down(self, ways: Sequence[Way], delay_us: int) -> None:
        for way in ways:
            self._network.slow_down(*way, delay_us)

    def _cut_ways(self, ways: list[Way], rng: SeededRandom) -> None:
        self._cuts.append(ways)
        for way in ways:
            self._network.cut(*way)
        self._world.after(self._length_us(rng), lambda: self._reconnect(ways))

    def _reconnect(self, ways: list[Way]) -> None:
        if any(each is ways for each in self._cuts):
            self._cuts = [each for each in self._cuts if each is not ways]
            for way in ways:
                self._network.reconnect(*way)

    def _cut(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        others = self._others(node)
        if not others:
            return False
        other = rng.choice(others)
        both = [(node.party, other), (other, node.party)]
        self._cut_ways(rng.choice((both, both[:1], both[1:])), rng)
        return None

    def _isolate(self, node: QuorumNode, rng: SeededRandom) -> None:
        directions = rng.choice((("in", "out"), ("in",), ("out",)))
        ways = [(node.party, other) for other in self._others(node) if "out" in directions]
        ways += [(other, node.party) for other in self._others(node) if "in" in directions]
        if node.quorum is not None and node.quorum.leader is not None and rng.chance(50):
            self._world.after(rng.between(0, 50_000), lambda: self.burst(node, rng.between(1, 12)))
        self._cut_ways(ways, rng)

    def _slow_link(self, node: QuorumNode, rng: SeededRandom) -> None:
        for other in self._others(node):
            if rng.chance(60):
                self._network.slow_down(node.party, other, rng.choice((5_000, 100_000, 600_000)))

    def _reset(self, node: QuorumNode, rng: SeededRandom) -> None:
        times = rng.between(1, 5)

        def strike() -> None:
            for other in self._others(node):
                self.counts["connections reset"] += self._network.break_connections(node.party, other, 60)

        for number in range(times):
            self._world.after(number * rng.between(1_000, 200_000), strike)

    # ---------------------------------------------------------------------------------------------------- machines

    def _slow_disk(self, node: QuorumNode, rng: SeededRandom) -> None:
        node.slow_us = rng.choice((20_000, 200_000, 800_000))

        def recover() -> None:
            node.slow_us = 0

        self._world.after(rng.between(200_000, 3_000_000), recover)

    def _clock(self, node: QuorumNode, rng: SeededRandom) -> None:
        node.wall_ahead_ms = rng.choice((-100_000_000, -5_000, 0, 5_000, 100_000_000))

    def _lose_disk(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        """Only while the others can do without: a majority of the voters keeps its disk, and knows the lost directory."""
        voter = self._voter_that_all_know(node)
        if voter is None or self._administrator.is_changing or self._administrator.lost is not None or self._moves:
            return False
        if node.quorum is not None:
            node.kill()
        node.replace_disk()
        self._back_later(node, rng)
        self._administrator.replace(voter)
        return None

    def _voter_that_all_know(self, node: QuorumNode) -> Voter | None:
        """The node as a voter, if every node's durable log has the same three or more voters, with all directory ids.

        Not if it is the only configured voter: with an empty disk it would elect itself, and begin another history.
        """
        if len(self._draws.voters.voters) == 1:
            return None
        known = set()
        for each in self._nodes.values():
            if each.quorum is None:
                return None
            voters = _durable_voters(each)
            if voters is None:
                return None
            known.add(voters)
        if len(known) != 1:
            return None
        voters = known.pop()
        has_ids = all(voter.directory_id is not None for voter in voters.voters)
        voter = voters.get(node.node_id)
        is_current = voter is not None and voter.directory_id == node.directory_id
        return voter if has_ids and is_current and len(voters.voters) >= 3 else None

    def _change_voters(self, node: QuorumNode, rng: SeededRandom) -> bool | None:  # noqa: ARG002
        if self._administrator.is_changing or self._administrator.lost is not None:
            return False
        self._administrator.change_something()
        return None

    def _move(self, node: QuorumNode, rng: SeededRandom) -> bool | None:
        """The node starts again with another port, which it reports by UpdateRaftVoter. Once in a run.

        Until then the other voters do not reach it: with two voters, they might need each other for an election.
        """
        is_busy = self._moves or self._administrator.is_changing or self._administrator.lost is not None
        if is_busy or not self._administrator.may_do_without(node):
            return False
        self._moves += 1
        node.kill()
        node.port += 1_000
        self._back_later(node, rng)
        return None


def _durable_voters(node: QuorumNode) -> VoterSet | None:
    """The newest voters in the durable part of a node's log; None if all of them are in the configuration only."""
    quorum = node.quorum
    assert quorum is not None
    log = quorum.log
    for entry in reversed(log.entries(log.snapshot_id.end_offset, log.flushed_offset)):
        if entry.is_control:
            for kind, value in read_control(entry.batch):
                if kind == ControlType.KRAFT_VOTERS:
                    return VoterSet.decode(value)
    # the voters of a snapshot are older than those in the log
    return quorum.committed_voters if log.snapshot else None
