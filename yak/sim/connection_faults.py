"""Network and store faults: blocked, broken and slow connections; a store that is down or slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yak.sim.cluster import CLIENTS, Cluster
from yak.sim.node import SimNode
from yak.sim.seeded_random import SeededRandom


class ConnectionFaults:
    """The faults of the connections. `for_a_while` calls the given function some time later."""

    def __init__(self, cluster: Cluster, for_a_while: Callable[[Callable[[], None]], None]) -> None:
        self._cluster = cluster
        self._for_a_while = for_a_while

    def brokers(self) -> list[str]:
        """All brokers, by their names in the network."""
        return [node.party for node in self._cluster.nodes]

    def cut(self, rng: SeededRandom, some: Sequence[str], others: Sequence[str]) -> bool:
        """Block traffic between one of `some` and one or all of `others`, in both directions or one."""
        one = rng.choice(some)
        if rng.chance(25):
            targets = [party for party in others if party != one]
        else:
            targets = [rng.choice([party for party in others if party != one])]
        both, reverse = rng.chance(60), rng.chance(50)
        pairs = [(other, one) if reverse else (one, other) for other in targets]
        for a, b in pairs:
            self._cluster.cut(a, b, both=both)

        def reconnect() -> None:
            for a, b in pairs:
                self._cluster.reconnect(a, b, both=both)

        self._for_a_while(reconnect)
        return True

    def _two(self, rng: SeededRandom) -> tuple[str, str]:
        """A broker, and another one or the clients."""
        one = rng.choice(self.brokers())
        return one, rng.choice([party for party in (*self.brokers(), CLIENTS) if party != one])

    def break_some(self, rng: SeededRandom) -> bool:
        one, other = self._two(rng)
        broken = self._cluster.network.break_connections(one, other, rng.choice((30, 100)))
        self._cluster.world.say(f"{broken} connections between {one} and {other} break")
        if rng.chance(20):
            self._cluster.world.say(f"the store's connection of {one} breaks")
            self._cluster.node(int(one[1:])).store_line.lose("simulated: reset")
        return True

    def flutter(self, rng: SeededRandom) -> bool:
        """A broker loses its connection to the store again and again: calls are sent twice, and arrive late."""
        node, times = rng.choice(self._cluster.nodes), rng.between(3, 15)

        def lose() -> None:
            nonlocal times
            node.store_line.lose("simulated: flutter")
            times -= 1
            if times:
                self._cluster.world.after(rng.between(1_000, 150_000), lose)

        self._cluster.world.say(f"the store's connection of {node.party} flutters")
        lose()
        return True

    def lost_calls(self, rng: SeededRandom) -> bool:
        """Connections to the store break during calls, so that brokers do not know whether a call was executed."""
        nodes = self._cluster.nodes if rng.chance(50) else [rng.choice(self._cluster.nodes)]
        percent = rng.choice((30, 70))
        self._cluster.world.say(f"the store's connections break in {percent} of 100 calls")
        return self._trouble_lines(nodes, "break_percent", percent)

    def slow_way(self, rng: SeededRandom) -> bool:
        """Slow down one direction between two parties."""
        one, other = self._two(rng)
        delay_us = rng.choice((20_000, 200_000, 1_500_000))
        self._cluster.world.say(f"slow: {one} -> {other}, {delay_us // 1000} ms")
        self._cluster.network.slow_down(one, other, delay_us)
        self._for_a_while(lambda: self._cluster.network.slow_down(one, other, 0))
        return True

    def outage(self) -> bool:
        if not self._cluster.store.up:
            return False
        self._cluster.stop_store()
        self._for_a_while(self._cluster.start_store)
        return True

    def slow_store(self, rng: SeededRandom) -> bool:
        """The store is slow for one broker, or for all."""
        slow_us = rng.choice((30_000, 300_000, 2_000_000))
        nodes = self._cluster.nodes if rng.chance(50) else [rng.choice(self._cluster.nodes)]
        self._cluster.world.say(f"the store is slow, up to {slow_us // 1000} ms")
        return self._trouble_lines(nodes, "slow_us", slow_us)

    def _trouble_lines(self, nodes: Sequence[SimNode], trouble: str, size: int) -> bool:
        """Give the brokers' connections to the store this trouble for a while."""
        for node in nodes:
            setattr(node.store_line, trouble, size)

        def end() -> None:
            for node in nodes:
                setattr(node.store_line, trouble, 0)

        self._for_a_while(end)
        return True
