"""Faults of a run with one broker, all drawn from the seed.

They are power loss, kills, controlled shutdowns, lost connections, failing and slow disks, cold caches, store outages,
and a store that lost its history. The disk's rules are the fault model: a kill keeps everything written, a power loss
keeps synced data and a random part of the rest. All faults end before the run, so that every run can be checked to
the last record.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

from yak.cluster.broker_lifecycle import LifecycleState
from yak.errors import FailStop, StartRefused
from yak.sim.clients import Channels
from yak.sim.node import SimNode
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec
from yak.sim.store import SimStore
from yak.sim.world import World

FAULTS_MAX = 6
CLASSES = ("power", "kill", "stop", "outage", "regression", "disk", "slow disk", "cut", "cold cache")
BUG = "bug"
"""Drawn for `BUG_PERCENT` of seeds by a random source of its own, so that a seed's other draws stay the same."""
BUG_PERCENT, BUG_WEIGHT = 50, 15
DISK_OPERATIONS = ("append", "append", "sync", "sync", "sync", "write_file", "open", "rename", "read", "truncate")
START_OPERATIONS = ("read", "open", "truncate", "write_file")
SLOW_JOB_US = 3_000_000


class Faults:
    """Draws faults one after the other until their number is reached. `victims` are prefixes of topics' folders.

    `channels` are the clients' connections. `spec` may name the only classes that occur, and single faults by number.
    Each fault has a random source of its own, so that leaving one out changes the others little.
    """

    def __init__(
        self,
        world: World,
        node: SimNode,
        store: SimStore,
        rng: SeededRandom,
        channels: Channels,
        *,
        victims: tuple[str, ...],
        spec: Spec,
    ) -> None:
        self._world = world
        self._node = node
        self._store = store
        self._schedule = self._rng = rng
        self._spec = spec
        self.struck_count = 0
        self._victims = victims
        self._channels = channels
        self._left = rng.between(0, FAULTS_MAX)
        self._is_busy = False
        self.counts: Counter[str] = Counter()
        table: dict[str, tuple[int, str, Callable[[], None]]] = {
            "power": (35, "power losses", lambda: self._end_by(self._crash)),
            "kill": (15, "kills", lambda: self._end_by(self._kill_now)),
            "stop": (10, "orderly stops", lambda: self._end_by(self._stop_now)),
            "outage": (15, "store outages", self._store_outage),
            "regression": (5, "stores that lost their history", self._store_regression),
            "disk": (20, "disks that may fail", self._failing_disk),
            "slow disk": (8, "slow disks", self._slow_disk),
            "cut": (10, "connections cut", self._cut),
            "cold cache": (4, "cold caches", self._cold_cache),
        }
        assert tuple(table) == CLASSES
        has_bugs = spec.faults is None and SeededRandom(f"{spec.seed}:1:{BUG}").chance(BUG_PERCENT)
        table[BUG] = (BUG_WEIGHT, BUG, self._plant_bug)
        chosen = (*CLASSES, BUG) if has_bugs else CLASSES if spec.faults is None else spec.faults
        self._table = [table[name] for name in (*CLASSES, BUG) if name in chosen]
        if spec.faults is not None:
            self._left = FAULTS_MAX if self._table else 0
        node.on_disks_lost = self._disks_lost
        node.on_fail_stop = self._fail_stopped

    @property
    def are_over(self) -> bool:
        """Whether no more faults will occur and the broker is ready."""
        return self._left <= 0 and not self._is_busy and self._node.is_ready

    def start(self) -> None:
        self._is_busy = False
        if self._left > 0:
            self._world.after(self._schedule.between(5_000, 400_000), self._strike)

    def _strike(self) -> None:
        if self._node.broker is None:
            self._world.after(50_000, self._strike)
            return
        self._left -= 1
        self.struck_count += 1
        self._rng = self._schedule.fork(f"fault {self.struck_count}")
        if not self._spec.strikes(self.struck_count):
            self.start()
            return
        self._is_busy = True
        drawn = self._rng.below(sum(weight for weight, _what, _fault in self._table))
        for weight, what, fault in self._table:
            drawn -= weight
            if drawn < 0:
                self.counts[what] += 1
                fault()
                return

    # ------------------------------------------------------------------------------------------------ the broker

    def _end_by(self, end: Callable[[], None]) -> None:
        """End this incarnation. In half the cases all in-flight batches are stored first, and no response arrives.

        The next incarnation must recognise each of these batches.
        """
        if self._rng.chance(50):
            self.counts["last answers lost"] += 1
            self._channels.lose_answers()
            self._world.after(self._rng.between(2_000, 40_000), end)
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
        self._world.after(self._rng.between(1_000, 300_000), self._restart)

    def _restart(self) -> None:
        node = self._node
        # never in the first directory: it has the metadata copy, without which the broker does not start
        if len(node.directories) > 1 and self._rng.chance(5):
            node.disk.fail_next(self._rng.choice(START_OPERATIONS), path_contains=f"{node.directories[-1]}/")
            self.counts["disks that fail at the start"] += 1
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

    def _plant_bug(self) -> None:
        """An unexpected exception in the broker's own code (`yak.sim.planted_bugs`)."""
        node, starts = self._node, self._node.starts_count
        node.bugs.plant(self._rng)

        def withdraw() -> None:
            if node.broker is not None and node.starts_count == starts:
                node.bugs.withdraw()
                self.start()

        self._world.after(self._rng.between(5_000, 1_000_000), withdraw)

    def _fail_stopped(self, failure: FailStop) -> None:
        """The shell ends the process, and a service manager restarts it."""
        self._node.bugs.stopped(failure)
        self._world.say(f"the broker stops for a bug in {failure.what}")
        self.counts["fail-stops"] += 1
        self._kill_now()

    def _cut(self) -> None:
        """Connections are lost, some of them repeatedly: clients retry their requests."""
        cuts = self._rng.between(1, 8)

        def cut() -> None:
            nonlocal cuts
            self._channels.cut(self._rng.choice((20, 50, 100)))
            cuts -= 1
            if cuts:
                self._world.after(self._rng.between(500, 60_000), cut)
            else:
                self.start()

        cut()

    # ------------------------------------------------------------------------------------------------- the disk

    def _failing_disk(self) -> None:
        """One call fails; whatever the outcome, an operator repairs the disk and restarts the broker."""
        operation = self._rng.choice(DISK_OPERATIONS)
        number = errno.ENOSPC if operation != "sync" and self._rng.chance(50) else errno.EIO
        self._node.disk.fail_next(operation, number, path_contains=f"/{self._rng.choice(self._victims)}")
        self._end_later()

    def _disks_lost(self) -> None:
        """The shell ends the process, and a service manager restarts it."""
        self.counts["halts for the last directory"] += 1
        self._node.kill()
        self._restart_later()

    def _end_later(self) -> None:
        starts = self._node.starts_count

        def end() -> None:
            if self._node.broker is None or self._node.starts_count != starts:
                return  # the process ended by itself
            if self._rng.chance(25):
                self._stop_now()
            elif self._rng.chance(50):
                self._kill_now()
            else:
                self._crash()

        self._world.after(self._rng.between(50_000, 600_000), end)

    def _slow_disk(self) -> None:
        kind = self._rng.choice(("flush", "read", "checkpoint", "recompress", "image", "delete"))
        self._node.jobs.delays_us = {kind: self._rng.between(200_000, SLOW_JOB_US)}

        def end() -> None:
            self._node.jobs.delays_us = {}
            self.start()

        self._world.after(self._rng.between(50_000, 1_000_000), end)

    def _cold_cache(self) -> None:
        self._node.disk.cached_bytes = self._rng.choice((0, 100, 400))

        stays = self._rng.chance(50)

        def end() -> None:
            if not stays:
                self._node.disk.cached_bytes = None
            self.start()

        self._world.after(self._rng.between(50_000, 1_000_000), end)

    # ------------------------------------------------------------------------------------------------ the store

    def _store_outage(self) -> None:
        self._node.store_goes_down()
        self._world.after(self._rng.between(1_000, 3_000_000), self._end_outage)

    def _end_outage(self) -> None:
        self._node.store_comes_up()
        self.start()

    def _store_regression(self) -> None:
        """The store comes back without its newest records, or empty; later an operator brings its data back, or restores it
        from the broker's image."""
        node, store = self._node, self._store
        node.store_goes_down()
        whole = store.saved()
        if self._rng.chance(30):
            store.flush_all()
        else:
            store.lose_last(self._rng.between(1, 5))
        store.restart()
        node.store_comes_up()

        def bring_back() -> None:
            # a broker that had none of the lost records went on with the shorter history: that one counts now
            moved_on = node.broker is not None and node.broker.metadata.lifecycle.state is LifecycleState.ACTIVE
            if store.served.offers and restores_by_hand:
                plan = store.plan_restore(f"restored-{number}", self._world.now_ms)
                store.call(store.restore_request(plan), self._world.now_ms)
                self.counts["stores restored"] += 1
                node.store_goes_down()
            else:
                node.store_goes_down()
                if not moved_on:
                    store.bring_back(whole)
            self._end_outage()

        restores_by_hand, number = self._rng.chance(50), self.struck_count
        self._world.after(self._rng.between(100_000, 4_000_000), bring_back)
