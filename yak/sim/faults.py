"""What goes wrong in a run: power loss, kills, orderly stops, store outages, all drawn from the seed.

The disk's rules are the fault model: a kill keeps everything written, a power loss keeps what was synced and of the
rest whatever the dice say. Everything heals before the end, so that every run can be checked to the last record.
"""

from __future__ import annotations

from yak.sim.dice import SeededDice
from yak.sim.node import SimNode
from yak.sim.world import World

FAULTS_MAX = 6


class Faults:
    """Draws faults one after the other until their number is reached."""

    def __init__(self, world: World, node: SimNode, dice: SeededDice) -> None:
        self._world = world
        self._node = node
        self._dice = dice
        self._left = dice.between(0, FAULTS_MAX)
        self.counts: dict[str, int] = {}

    @property
    def are_over(self) -> bool:
        """Whether nothing more will go wrong and all is up again."""
        return self._left <= 0 and self._node.is_ready

    def start(self) -> None:
        """Draw the first one."""
        self._schedule()

    def _schedule(self) -> None:
        if self._left > 0:
            self._world.after(self._dice.between(5_000, 600_000), self._strike)

    def _strike(self) -> None:
        node = self._node
        if node.broker is None:
            self._world.after(50_000, self._strike)
            return
        self._left -= 1
        drawn = self._dice.below(10)
        if drawn < 4:
            self._count("power losses")
            node.crash()
            self._restart_later()
        elif drawn < 6:
            self._count("kills")
            node.kill()
            self._restart_later()
        elif drawn < 7:
            self._count("orderly stops")
            node.on_stopped = self._restart_later
            node.stop()
        else:
            self._count("store outages")
            node.store_goes_down()
            self._world.after(self._dice.between(1_000, 3_000_000), self._heal_store)

    def _restart_later(self) -> None:
        self._world.after(self._dice.between(1_000, 300_000), self._restart)

    def _restart(self) -> None:
        self._node.start()
        self._schedule()

    def _heal_store(self) -> None:
        self._node.store_comes_up()
        self._schedule()

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
