"""What goes wrong in a run: power loss, kills, orderly stops, cut connections, failing and slow disks, cold caches, store
outages, a store that lost its history; all drawn from the seed.

The disk's rules are the fault model: a kill keeps everything written, a power loss keeps what was synced and of the
rest whatever the dice say. Everything heals before the end, so that every run can be checked to the last record.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from yak.cluster.member_state import MemberState
from yak.errors import StartRefused
from yak.sim.dice import SeededDice
from yak.sim.node import SimNode
from yak.sim.spec import Spec
from yak.sim.store import SimStore
from yak.sim.world import World

FAULTS_MAX = 6
CLASSES = ("power", "kill", "stop", "outage", "regression", "disk", "slow disk", "cut", "cold cache")
DISK_OPERATIONS = ("append", "append", "sync", "sync", "sync", "write_file", "open", "rename", "read", "truncate")
START_OPERATIONS = ("read", "open", "truncate", "write_file")
SLOW_JOB_US = 3_000_000


class Faults:
    """Draws faults one after the other until their number is reached. `victims` are what the names of topics' folders begin with.

    `cut_connections` loses about so many percent of the clients' connections; after `lose_answers` no answer arrives on the
    connections that there are. `spec` may name the only classes that strike, and
    single faults by their number; each has dice of its own, so that leaving one out changes the others little.
    """

    def __init__(
        self,
        world: World,
        node: SimNode,
        store: SimStore,
        dice: SeededDice,
        *,
        victims: tuple[str, ...],
        cut_connections: Callable[[int], None],
        lose_answers: Callable[[], None],
        spec: Spec,
    ) -> None:
        self._world = world
        self._node = node
        self._store = store
        self._schedule = self._dice = dice
        self._spec = spec
        self.struck_count = 0
        self._victims = victims
        self._cut_connections = cut_connections
        self._lose_answers = lose_answers
        self._left = dice.between(0, FAULTS_MAX)
        self._is_busy = False
        self.counts: dict[str, int] = {}
        table = {
            "power": (35, self._power_loss),
            "kill": (15, self._kill),
            "stop": (10, self._orderly_stop),
            "outage": (15, self._store_outage),
            "regression": (5, self._store_regression),
            "disk": (20, self._failing_disk),
            "slow disk": (8, self._slow_disk),
            "cut": (10, self._cut),
            "cold cache": (4, self._cold_cache),
        }
        assert tuple(table) == CLASSES
        self._table = [table[name] for name in CLASSES if spec.faults is None or name in spec.faults]
        if spec.faults is not None:
            self._left = FAULTS_MAX if self._table else 0
        node.disk.observe_failure = self._disk_failed
        node.on_disks_lost = self._disks_lost

    @property
    def are_over(self) -> bool:
        """Whether nothing more will go wrong and all is up again."""
        return self._left <= 0 and not self._is_busy and self._node.is_ready

    def start(self) -> None:
        """Draw the first one."""
        self._is_busy = False
        if self._left > 0:
            self._world.after(self._schedule.between(5_000, 400_000), self._strike)

    def _strike(self) -> None:
        if self._node.broker is None:
            self._world.after(50_000, self._strike)
            return
        self._left -= 1
        self.struck_count += 1
        self._dice = self._schedule.fork(f"fault {self.struck_count}")
        if not self._spec.strikes(self.struck_count):
            self.start()
            return
        self._is_busy = True
        drawn = self._dice.below(sum(weight for weight, _fault in self._table))
        for weight, fault in self._table:
            drawn -= weight
            if drawn < 0:
                fault()
                return

    # ------------------------------------------------------------------------------------------------ the broker

    def _power_loss(self) -> None:
        self._count("power losses")
        self._end_by(self._crash)

    def _kill(self) -> None:
        self._count("kills")
        self._end_by(self._kill_now)

    def _orderly_stop(self) -> None:
        self._count("orderly stops")
        self._end_by(self._stop_now)

    def _end_by(self, end: Callable[[], None]) -> None:
        """End this life. In half the cases all that a producer has under way is stored before, and not one answer arrives:
        the next life must know each of these batches."""
        if self._dice.chance(50):
            self._count("last answers lost")
            self._lose_answers()
            self._world.after(self._dice.between(2_000, 40_000), end)
        else:
            end()

    def _crash(self) -> None:
        self._node.crash()
        self._restart_later()

    def _kill_now(self) -> None:
        self._node.kill()
        self._restart_later()

    def _stop_now(self) -> None:
        self._node.on_stopped = self._restart_later
        self._node.stop()

    def _restart_later(self) -> None:
        self._world.after(self._dice.between(1_000, 300_000), self._restart)

    def _restart(self) -> None:
        node = self._node
        # never in the first directory: it holds the copy of the metadata, without which nothing starts
        if len(node.directories) > 1 and self._dice.chance(5):
            node.disk.fail_next(self._dice.choice(START_OPERATIONS), path_contains=f"{node.directories[-1]}/")
            self._count("disks that fail at the start")
            try:
                node.start()
            except StartRefused as refused:
                self._world.say(f"the start is refused: {refused}")
                node.disk.kill()
                self._restart_later()
            else:
                self._end_later()
            return
        node.start()
        self.start()

    def _cut(self) -> None:
        """Connections are lost, some of them again and again: what was asked is asked again."""
        self._count("connections cut")
        cuts = self._dice.between(1, 8)

        def cut() -> None:
            nonlocal cuts
            self._cut_connections(self._dice.choice((20, 50, 100)))
            cuts -= 1
            if cuts:
                self._world.after(self._dice.between(500, 60_000), cut)
            else:
                self.start()

        cut()

    # ------------------------------------------------------------------------------------------------- the disk

    def _failing_disk(self) -> None:
        """One call fails; whatever came of it, somebody mends the disk and starts the broker again."""
        operation = self._dice.choice(DISK_OPERATIONS)
        number = errno.ENOSPC if operation != "sync" and self._dice.chance(50) else errno.EIO
        self._node.disk.fail_next(operation, number, path_contains=f"/{self._dice.choice(self._victims)}")
        self._count("disks that may fail")
        self._end_later()

    def _disk_failed(self, operation: str, path: str) -> None:
        self._world.say(f"{operation} fails on {path}")
        self._count(f"disk failures: {operation}")

    def _disks_lost(self) -> None:
        """The shell ends the process, and a service manager starts it again."""
        self._count("halts for the last directory")
        self._node.kill()
        self._restart_later()

    def _end_later(self) -> None:
        starts = self._node.starts_count

        def end() -> None:
            if self._node.broker is None or self._node.starts_count != starts:
                return  # it halted by itself
            if self._dice.chance(25):
                self._stop_now()
            elif self._dice.chance(50):
                self._kill_now()
            else:
                self._crash()

        self._world.after(self._dice.between(50_000, 600_000), end)

    def _slow_disk(self) -> None:
        self._count("slow disks")
        kind = self._dice.choice(("flush", "read", "checkpoint", "recompress", "image", "delete"))
        self._node.job_delays_us = {kind: self._dice.between(200_000, SLOW_JOB_US)}

        def heal() -> None:
            self._node.job_delays_us = {}
            self.start()

        self._world.after(self._dice.between(50_000, 1_000_000), heal)

    def _cold_cache(self) -> None:
        self._count("cold caches")
        self._node.disk.cached_bytes = self._dice.choice((0, 100, 400))

        stays = self._dice.chance(50)

        def heal() -> None:
            if not stays:
                self._node.disk.cached_bytes = None
            self.start()

        self._world.after(self._dice.between(50_000, 1_000_000), heal)

    # ------------------------------------------------------------------------------------------------ the store

    def _store_outage(self) -> None:
        self._count("store outages")
        self._node.store_goes_down()
        self._world.after(self._dice.between(1_000, 3_000_000), self._heal_store)

    def _heal_store(self) -> None:
        self._node.store_comes_up()
        self.start()

    def _store_regression(self) -> None:
        """The store comes back without its newest records, or empty; later somebody brings the history back."""
        node, store = self._node, self._store
        self._count("stores that lost their history")
        node.store_goes_down()
        whole = store.saved()
        if self._dice.chance(30):
            store.flush_all()
        else:
            store.lose_last(self._dice.between(1, 5))
        store.restart()
        node.store_comes_up()

        def bring_back() -> None:
            # a broker that knew none of the lost records went on with what was left: that is the history now
            moved_on = node.broker is not None and node.broker.metadata.membership.state is MemberState.ACTIVE
            node.store_goes_down()
            if not moved_on:
                store.bring_back(whole)
            self._heal_store()

        self._world.after(self._dice.between(100_000, 4_000_000), bring_back)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
