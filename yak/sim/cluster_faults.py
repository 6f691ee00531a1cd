"""Faults of one broker or a cluster: brokers, machines, disks, connections and the store; each class is on or off by the seed.

Faults overlap. The guarantees bound them: the last sound replica of an unflushed topic never loses its disk, unless the
topic guarantees nothing then; that partition is *forfeited* (`yak.sim.history`). All faults end before the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import parse_isr
from yak.cluster.placement import MACHINE
from yak.errors import FailStop, StartRefused
from yak.ids import NodeId, Offset
from yak.sim.cluster import CLIENTS, Cluster, first_voters
from yak.sim.cluster_admin import CHURN
from yak.sim.cluster_disks import Disks
from yak.sim.cluster_draws import UNCLEAN
from yak.sim.cluster_losses import Losses
from yak.sim.connection_faults import ConnectionFaults
from yak.sim.deliveries import Violation
from yak.sim.disk import Death, ProcessEnded
from yak.sim.history import Chain, Copy, Key, NewBatch, Watcher
from yak.sim.node import SimNode
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec, names_in
from yak.sim.store_line import STORE
from yak.storage.names import CLEANED_SUFFIX, LOG_SUFFIX

if TYPE_CHECKING:
    from yak.sim.topic_plan import TopicPlan

CLASSES = names_in("""
    kill; kill inside; power; stop; pause; cut brokers; cut clients; cut store; break; flutter; lost calls;
    slow way; outage; slow store; disk; slow disk; wipe; rot; misread
""")
MISDIRECTED, LOST_TAIL, POWER_AFTER_TRUNCATION, BUG = "misdirected", "lost tail", "power after truncation", "bug"
LOST_HISTORY, MACHINE_DEATH, CLOCK, STRAND = "lost history", "machine", "clock", "strand"
OLDER_DISK, UNREGISTER, KILL_AFTER = "older disk", "unregister", "kill after"
COLD_CACHE, LAST_ANSWERS = "cold cache", "last answers lost"
ALONE = names_in("""
    power; power; power; power; power; power; kill; kill; kill inside; stop; stop; pause; clock; bug; bug;
    last answers lost; last answers lost; last answers lost; cut clients; break; break; slow way;
    disk; disk; disk; disk; disk; slow disk; cold cache;
    outage; outage; slow store; cut store; flutter; lost calls; lost history
""")
"""The classes with one broker, as often as they are drawn."""
LATER_CLASSES: Mapping[str, int | None] = {
    MISDIRECTED: None,
    LOST_TAIL: 15,
    POWER_AFTER_TRUNCATION: None,
    BUG: 50,
    LOST_HISTORY: 20,
    MACHINE_DEATH: 60,
    CLOCK: None,
    STRAND: 80,
    OLDER_DISK: 15,
    UNREGISTER: 15,
    KILL_AFTER: 30,
}
"""Classes that were added later, each drawn by a random source of its own, so that a seed's other draws stay the same:
in this percentage of the seeds, or as often as one of `CLASSES`.
"""
ALL_CLASSES = (*CLASSES, *LATER_CLASSES)
LONGEST_US = 9_000_000
LONGEST_ALONE_US = 3_000_000
"""With one broker: no other takes its place."""
STRANDED_US = (2_000_000, LONGEST_US)
"""A stranded leader is away so long: another leads before."""
STRANDED_MS = 12_000
"""A leader whose ISR has others after so long is not killed: `replica.lag.time.max.ms` is at most 10 s."""
_LOSES_DISKS = frozenset(
    {"power", POWER_AFTER_TRUNCATION, "disk", "wipe", "rot", "misread", MISDIRECTED, LOST_TAIL, OLDER_DISK, UNREGISTER}
)
"""Nothing is promised if a broker loses its copy of the metadata while the store has lost it too."""
RESTORED_MS = 120_000
"""So long after a loss at the latest, an operator can restore the store."""
_NOT_OF_VOTERS = ("wipe", "misread", LOST_HISTORY)
"""Not where brokers vote: faults of a voter's disk, which `yak.sim.quorum` simulates, and Redis' loss of the metadata."""
_OF_REDIS = ("cut store", "flutter", "lost calls", "outage", "slow store")
_LEFT_OUT: dict[str, tuple[str, ...]] = {"redis": (), "raft": _NOT_OF_VOTERS + _OF_REDIS, "both": _NOT_OF_VOTERS}
CLOCK_AHEAD_MS = (-3_000_000, -2_000, 2_000, 3_000_000)
"""A clock that is an hour behind would refuse the clients' records (`message.timestamp.after.max.ms`)."""
SKEW = "skew"
"""Skewed clocks: not a single fault, but a condition from the start on."""
STRIKES_MAX = (4, 8, 14)
WRITES_BEFORE_DEATH = (3, 30, 300)
RENAMES_OF_A_SWAP = 12
TRIES_MAX = 8
"""How often a disk fault that is not possible yet is tried again."""


def classes_with(brokers: int, metadata: str) -> tuple[str, ...]:
    """The classes of faults of so many brokers whose metadata are there."""
    if brokers == 1:
        return tuple(dict.fromkeys(ALONE))
    return tuple(name for name in ALL_CLASSES if name not in _LEFT_OUT[metadata])


class ClusterFaults(Watcher):
    """Draws faults until their number is reached. `plans` has each topic's guarantees, by name.

    `spec` may name the only classes that occur, in place of the seed's draw, and single faults by number. Each fault
    has a random source of its own, so that leaving one out changes the others little.

    It is notified before the checks, which skip forfeited partitions.
    """

    def __init__(
        self, cluster: Cluster, rng: SeededRandom, plans: Callable[[str], TopicPlan | None], spec: Spec
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._schedule = self._rng = rng
        self._spec = spec
        self.struck_count = 0
        self.losses = Losses(cluster, plans, self.counts)
        # some seeds mix many classes, others repeat the same few
        percent = rng.choice((12, 50))
        is_alone = len(cluster.nodes) == 1
        self._longest_us = LONGEST_ALONE_US if is_alone else LONGEST_US
        self._classes = [name for name in (ALONE if is_alone else CLASSES) if rng.chance(percent)] or ["kill"]
        possible = {MACHINE_DEATH: _has_machines(cluster), STRAND: plans(UNCLEAN) is not None}
        for name, own_percent in LATER_CLASSES.items():
            own_rng = SeededRandom(f"{spec.seed}:{len(cluster.nodes)}:{name}")
            if possible.get(name, not is_alone) and own_rng.chance(own_percent or percent):
                self._classes.append(name)
        self._left = rng.between(1, max(STRIKES_MAX) if is_alone else rng.choice(STRIKES_MAX))
        if left_out := _LEFT_OUT[spec.metadata]:
            self._classes = [name for name in self._classes if name not in left_out] or ["kill"]
        if spec.faults is not None:
            self._classes, self._left = list(spec.faults), max(STRIKES_MAX) if spec.faults else 0
        self._pause_us = 400_000 if is_alone else rng.choice((200_000, 800_000, 2_500_000))
        self._under_way = 0
        self._disks = Disks(cluster, self.losses, self.counts)
        self._ways = ConnectionFaults(cluster, self._for_a_while)
        self._busy: dict[int, None] = {}
        self._has_stranded = False
        self._armed: set[str] = set()
        """Classes by which, for a while, brokers end soon after a change."""
        self._truncated: dict[tuple[Key, NodeId], None] = {}
        self.unregister: Callable[[NodeId], None] = lambda _node_id: None
        """An operator requests that a broker is unregistered."""
        self._at_registration: dict[NodeId, Callable[[], None]] = {}
        cluster.network.is_rough = rng.chance(50)
        late_percent = rng.choice((0, 50, 90))
        for node in cluster.nodes:
            node.store_line.late_percent = late_percent
            node.on_ended_inside = partial(self._ended_inside, node)
            node.on_fail_stop = partial(self._fail_stopped, node)
            node.on_disks_lost = partial(self._disks_lost, node)
            node.on_frozen = partial(self._frozen, node)
            node.disk.on_rename = partial(self._renames, node)
            node.on_refused = lambda refused, node=node: self._refused(node, refused)  # type: ignore[misc]
        if rng.chance(30) and not spec.leaves_out(SKEW):
            self._classes.append(SKEW)
            for node in cluster.nodes:
                self._skew(node)

    @property
    def are_over(self) -> bool:
        """Whether no more faults will occur and all have ended."""
        return self._left <= 0 and not self._under_way and all(node.broker for node in self._cluster.nodes)

    def start(self) -> None:
        self._cluster.world.say(f"faults: {', '.join(self._classes)}")
        self._next()

    def _next(self) -> None:
        if self._left > 0:
            self._cluster.world.after(self._schedule.between(1_000, self._pause_us), self._strike)
        else:
            self._repair()

    def _strike(self) -> None:
        self._left -= 1
        self.struck_count += 1
        self._rng = self._schedule.fork(f"fault {self.struck_count}")
        name = self._rng.choice([name for name in self._classes if name != SKEW] or ["kill"])
        ways, rng = self._ways, self._rng
        strikes: dict[str, Callable[[], bool]] = {
            "kill": lambda: self._to_victim(self._kill),
            "kill inside": lambda: self._to_victim(self._kill_inside),
            "power": self._power_loss,
            POWER_AFTER_TRUNCATION: lambda: self._arm(POWER_AFTER_TRUNCATION),
            KILL_AFTER: lambda: self._arm(KILL_AFTER),
            "stop": lambda: self._to_victim(self._stop),
            "pause": lambda: self._to_victim(self._pause),
            "cut brokers": lambda: ways.cut(rng, ways.brokers(), ways.brokers()),
            "cut clients": lambda: ways.cut(rng, [CLIENTS], ways.brokers()),
            "cut store": lambda: ways.cut(rng, [STORE], ways.brokers()),
            "break": lambda: ways.break_some(rng),
            "flutter": lambda: ways.flutter(rng),
            "lost calls": lambda: ways.lost_calls(rng),
            "slow way": lambda: ways.slow_way(rng),
            "outage": ways.outage,
            "slow store": lambda: ways.slow_store(rng),
            "disk": lambda: self._to_victim(self._fail_disk),
            "slow disk": self._slow_disk,
            "wipe": lambda: self._to_victim(self._wipe),
            OLDER_DISK: lambda: self._to_victim(self._take_older_disk),
            UNREGISTER: lambda: self._to_victim(self._unregister),
            "rot": lambda: self._disks.rot(rng),
            "misread": lambda: self._to_victim(lambda node: self._disks.misread(node, rng)),
            MISDIRECTED: lambda: self._disks.misdirect(rng),
            LOST_TAIL: lambda: self._to_victim(self._lose_tail),
            BUG: lambda: self._to_victim(self._plant_bug),
            LOST_HISTORY: self._lose_history,
            MACHINE_DEATH: lambda: self._to_victim(self._kill_machine),
            CLOCK: lambda: self._to_victim(self._move_clock),
            STRAND: self._strand,
            COLD_CACHE: self._cool_cache,
            LAST_ANSWERS: lambda: self._to_victim(self._lose_answers),
        }
        spared = self._cluster.store.has_lost_history and name in _LOSES_DISKS
        if self._spec.strikes(self.struck_count) and not spared:
            self._cluster.world.say(f"fault {self.struck_count}: {name}")
            if strikes[name]():
                self.counts[name] += 1
        self._next()

    def _for_a_while(self, end: Callable[[], None]) -> None:
        spans = [self._longest_us // part for part in (200, 20, 4, 1)]
        self._later(self._rng.between(1_000, self._rng.choice(spans)), end)

    def _later(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something later; the faults are not over before."""
        self._under_way += 1

        def act() -> None:
            self._under_way -= 1
            action()

        self._cluster.world.after(delay_us, act)

    # -------------------------------------------------------------------------------------------------- the store

    def _lose_history(self) -> bool:
        """The store is emptied or rolled back; an operator brings its data back, or restores it once all brokers have offered
        their images.

        It loses records that each broker knows. Otherwise a broker that lacks them would go on with the rest, and two
        histories are not restored without a loss.
        """
        cluster, store = self._cluster, self._cluster.store
        if store.has_lost_history or not store.up or not all(map(self._has_its_registration, cluster.nodes)):
            return False
        known = min(node.broker.image.offset for node in cluster.nodes if node.broker is not None)
        count = None if self._rng.chance(50) else store.state.cluster["mo"] - known + self._rng.between(1, 5)
        whole = store.saved() if self._rng.chance(50) else None
        cluster.stop_store()
        store.lose_history(count)
        cluster.start_store()
        self._under_way += 1
        lost_ms = cluster.world.now_ms
        number = self.struck_count

        def restore() -> None:
            if whole is not None:
                self._under_way -= 1
                cluster.stop_store()
                store.bring_back(whole)
                cluster.start_store()
                self.counts["stores brought back"] += 1
            elif cluster.restore_store(f"restored-{number}"):
                self._under_way -= 1
                self.counts["stores restored"] += 1
            elif cluster.world.now_ms - lost_ms > RESTORED_MS:
                raise Violation(f"the store cannot be restored {RESTORED_MS} ms after it lost its history")
            else:
                cluster.world.after(500_000, restore)

        cluster.world.after(500_000, restore)
        return True

    def _has_its_registration(self, node: SimNode) -> bool:
        """Whether a broker runs with its registration on its disk."""
        registered = self._cluster.store.state.brokers.get(node.node_id)
        if node.broker is None or registered is None or node.node_id in self._busy:
            return False
        known = node.broker.image.brokers.get(node.node_id)
        return known is not None and known.broker_epoch == registered["broker_epoch"]

    # ------------------------------------------------------------------------------------------------- processes

    def _running(self) -> list[SimNode]:
        nodes = self._cluster.nodes
        return [node for node in nodes if node.broker and not node.is_paused and node.node_id not in self._busy]

    def _victim(self) -> SimNode | None:
        running = self._running()
        if not running:
            return None
        controller = self._cluster.store.state.cluster.get("ctl_id")
        for node in running:
            if node.node_id == controller and self._rng.chance(30):
                return node
        return self._rng.choice(running)

    def _to_victim(self, strike: Callable[[SimNode], bool]) -> bool:
        node = self._victim()
        return node is not None and strike(node)

    def _kill(self, victim: SimNode) -> bool:
        killed = self._victims(victim, all_percent=10)
        for each in killed:
            self._kill_now(each)
        return bool(killed)

    def _victims(self, victim: SimNode, *, all_percent: int) -> list[SimNode]:
        """This broker or all that run, as far as they may be killed."""
        nodes = self._running() if self._rng.chance(all_percent) else [victim]
        return [each for each in nodes if self.losses.may_restart(each)]

    def _kill_now(self, node: SimNode) -> None:
        node.kill()
        self._restart_later(node)

    def _lose_answers(self, node: SimNode) -> bool:
        """Requests arrive and their answers do not, until the broker ends: clients repeat what it has stored."""
        cluster, end = self._cluster, self._rng.choice((self._kill, self._stop, self._lose_power))
        cluster.cut(node.party, CLIENTS, both=False)

        def end_broker() -> None:
            cluster.network.break_connections(node.party, CLIENTS, 100)
            if node in self._running():
                end(node)
            cluster.reconnect(node.party, CLIENTS, both=False)

        self._later(self._rng.between(2_000, 40_000), end_broker)
        return True

    def _kill_machine(self, victim: SimNode) -> bool:
        """All brokers of a machine end at once, each killed or by a power loss, and return one by one."""
        if not _has_machines(self._cluster):
            return False
        loses_power = self._rng.chance(50) and not self._cluster.store.has_lost_history
        struck = False
        for each in [node for node in self._running() if node.rack == victim.rack]:
            if loses_power and self._lose_power(each):
                struck = True
            elif self.losses.may_restart(each):
                struck = True
                self._kill_now(each)
        return struck

    def _strand(self) -> bool:
        """The leader of a topic that allows unclean elections loses its followers, and is killed once the ISR is it alone."""
        state, cluster = self._cluster.store.state, self._cluster
        place = next((each for each in state.partitions if state.topics[each[0]]["name"] == UNCLEAN), None)
        leader = None if place is None else state.partitions[place]["leader"]
        node = next((each for each in self._running() if each.node_id == leader), None)
        if place is None or node is None or self._has_stranded:
            return False
        others = [each.party for each in cluster.nodes if each is not node]
        began_ms, starts = cluster.world.now_ms, node.starts_count
        for other in others:
            cluster.cut(node.party, other)
        self._under_way += 1
        self._has_stranded = True

        def check() -> None:
            row = cluster.store.state.partitions.get(place)
            is_alone = row is not None and [each.node_id for each in parse_isr(row["isr"])] == [node.node_id]
            if not is_alone and cluster.world.now_ms - began_ms < STRANDED_MS:
                cluster.world.after(100_000, check)
                return
            for other in others:
                cluster.reconnect(node.party, other)
            self._under_way -= 1
            self._has_stranded = False
            if is_alone and node in self._running() and node.starts_count == starts and self.losses.may_restart(node):
                node.kill()
                self._disks.failed.pop(node.node_id, None)
                self._later(self._rng.between(*STRANDED_US), lambda: self._restart(node))

        cluster.world.after(100_000, check)
        return True

    def _kill_inside(self, victim: SimNode) -> bool:
        """A process ends inside one of its next disk writes, perhaps with its machine."""
        self._end_inside(victim, self._rng.choice(WRITES_BEFORE_DEATH))
        return True

    def _end_inside(self, node: SimNode, writes_max: int) -> None:
        node.disk.end_inside(Death(self._rng, self._rng.below(writes_max)))
        self._for_a_while(lambda: node.disk.end_inside(None))

    def _ended_inside(self, node: SimNode) -> None:
        self.counts["killed inside a write"] += 1
        if node.node_id in self._busy or not self._rng.chance(50) or not self._lose_power(node):
            self._end(node)

    def _end(self, node: SimNode) -> None:
        """A service manager restarts a process that ended, unless it was stopped."""
        node.kill()
        if node.node_id in self._busy:
            node.on_stopped()
        else:
            self._restart_later(node)

    def _plant_bug(self, node: SimNode) -> bool:
        if not node.bugs.plant(self._rng):
            return False
        self._for_a_while(node.bugs.withdraw)
        return True

    def _fail_stopped(self, node: SimNode, failure: FailStop) -> None:
        node.bugs.stopped(failure)
        self._cluster.world.say(f"broker {node.node_id} stops for a bug in {failure.what}")
        self.counts["fail-stops"] += 1
        self._end(node)

    def _disks_lost(self, node: SimNode) -> None:
        self.counts["halts for the last directory"] += 1
        node.after_step()  # the step may have answered with a high watermark that it advanced
        self._end(node)

    def _power_loss(self) -> bool:
        nodes = self._running()
        if not nodes:
            return False
        if not self._rng.chance(30):
            nodes = [self._rng.choice(nodes)]
        struck = False
        kills_the_rest = self._rng.chance(50)
        for node in nodes:
            if self._lose_power(node):
                struck = True
            elif kills_the_rest and self.losses.may_restart(node):
                self._kill_now(node)
        return struck

    def _arm(self, name: str) -> bool:
        """For a while, brokers lose power or are killed soon after a change."""
        if name in self._armed:
            return False
        self._armed.add(name)

        def end() -> None:
            self._armed.discard(name)
            self._truncated.clear()

        self._later(self._rng.between(LONGEST_US // 4, LONGEST_US), end)
        return True

    def cut(self, copy: Copy, before: Chain, high_watermark: Offset) -> None:  # noqa: ARG002
        """The copy's broker may lose power soon, or soon after the copy's next append."""
        self._changed(copy.node, "a truncation")
        if POWER_AFTER_TRUNCATION in self._armed:
            if self._rng.chance(20):
                self._lose_power_soon(copy.node)
            else:
                self._truncated[copy.key, copy.node.node_id] = None

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """The copy's broker may lose power, if it truncated the copy before."""
        if self._truncated and (copy.key, copy.node.node_id) in self._truncated:
            del self._truncated[copy.key, copy.node.node_id]
            self._lose_power_soon(copy.node)
        if copy.topic_partition.topic == CHURN and len(copy.chain.batches) == len(batches):
            self._changed(copy.node, "the first append to a new log")

    def store_changed(self, request: Any, outcome: Any) -> None:  # noqa: ARG002
        """A change of replicas or of an ISR may have removed the last sound member of an ISR.

        That is a loss by faults when it comes of a reassignment, of damage that a replica found in its log, or of a leader
        that has ended since: what it knew then was true then.
        """
        script, arguments = request.script, request.arguments
        if script == "register" and (replace := self._at_registration.pop(arguments["node_id"], None)) is not None:
            # the broker does not know yet that it is registered
            self._later(self._rng.between(0, 5_000), replace)
        elif script == "unregister":
            self.losses.unregistered(arguments["target_id"])
        is_lawful = script in ("alter_replicas", "leave_isr") or (script == "alter_isr" and self._has_ended(arguments))
        moved = arguments["partitions"] if is_lawful else ()
        self.losses.forfeit_the_unsound({(each["topic_id"], each["partition"]) for each in moved})
        if script == "elect":
            self.losses.forfeit_the_unclean(arguments["partitions"])
            for each in arguments["partitions"]:
                if each["unclean"]:
                    self._changed(self._cluster.node(each["leader"]), "an unclean election")

    def _has_ended(self, arguments: dict[str, Any]) -> bool:
        """Whether the incarnation of a broker that called is gone: the call was executed late."""
        broker = self._cluster.node(arguments["node_id"]).broker
        return broker is None or broker.metadata.lifecycle.broker_epoch != arguments["broker_epoch"]

    def _lose_power_soon(self, node: SimNode) -> None:
        def lose_power() -> None:
            if node in self._running() and self._lose_power(node):
                self.counts["power losses after a truncation"] += 1

        self._soon(lose_power)

    def _soon(self, action: Callable[[], None]) -> None:
        self._later(self._rng.between(0, self._rng.choice((500, 50_000, 2_000_000))), action)

    def _changed(self, node: SimNode, what: str) -> None:
        """A broker changed what a restart reads in another way: it may be killed soon."""
        if KILL_AFTER in self._armed and self._rng.chance(50):

            def kill() -> None:
                if node in self._running() and self.losses.may_restart(node):
                    self._kill_now(node)
                    self.counts[f"kills after {what}"] += 1

            self._soon(kill)

    def _renames(self, node: SimNode, path: str) -> None:
        """The process may end within a swap of compacted segments."""
        if KILL_AFTER in self._armed and path.endswith(f"{LOG_SUFFIX}{CLEANED_SUFFIX}") and self._rng.chance(30):
            node.disk.end_inside(Death(self._rng, self._rng.below(RENAMES_OF_A_SWAP)))
            self.counts["kills within a swap"] += 1

    def _lose_power(self, node: SimNode) -> bool:
        if self._cluster.store.has_lost_history:
            return False
        if self.losses.has_rotten(node):
            # a partial write and a flipped bit are indistinguishable: together they exceed one disk's loss
            return False
        loses = any(not self.losses.is_flushed(path) for path in node.disk.unsynced_logs())
        if (loses and not self.losses.may_lose(node, wiped=False)) or not self.losses.may_lose_power(node):
            return False
        node.crash()
        self._restart_later(node)
        return True

    def _wipe(self, node: SimNode) -> bool:
        if not self.losses.may_lose(node, wiped=True):
            return False
        node.kill()
        self._empty(node)
        self._restart_later(node)
        return True

    def _empty(self, node: SimNode) -> None:
        node.wipe()
        self.losses.replaced(node.node_id)

    def _may_be_replaced(self, node: SimNode) -> bool:
        """Whether a broker may lose its whole disk: a voter would forget its votes (`yak.sim.quorum` replaces voters)."""
        size = len(self._cluster.nodes)
        return self._spec.metadata == "redis" or first_voters(size).get(node.node_id) is None

    def _take_older_disk(self, node: SimNode) -> bool:
        """A broker is killed, and returns with its disk of an earlier time, which lacks metadata that it has reported.

        Half of the time it first returns with its newest disk, and ends right after its registration.
        """
        if not self._may_be_replaced(node) or self.losses.has_rotten(node):
            return False
        store = self._cluster.store
        saved, incarnation, end = node.disk.saved(), store.state.cluster["incarnation"], store.state.cluster["mo"]
        registers_first = self._rng.chance(50)

        def is_announced() -> bool:
            is_same = not store.has_lost_history and store.state.cluster["incarnation"] == incarnation
            return is_same and node in self._running() and self._cluster.reported[node.node_id] > end

        def replace() -> None:
            if is_announced() and self.losses.may_lose(node, wiped=True):
                node.kill()
                node.take_disk(saved)
                self.losses.replaced(node.node_id)
                self.counts["disks of an earlier time"] += 1
                self._restart_later(node)

        def strike(tries: int) -> None:
            if is_announced() and registers_first and self.losses.may_restart(node):
                self._at_registration[node.node_id] = replace
                self._kill_now(node)
            elif is_announced() and not registers_first:
                replace()
            elif tries:
                self._for_a_while(lambda: strike(tries - 1))

        self._for_a_while(lambda: strike(TRIES_MAX))
        return True

    def _unregister(self, node: SimNode) -> bool:
        """A broker is killed and unregistered, and returns later, perhaps with an empty disk."""
        may_be_emptied = self._may_be_replaced(node)
        if not self.losses.may_restart(node) or not (may_be_emptied or len(self._cluster.nodes) > 2):
            return False
        node.kill()
        self._disks.failed.pop(node.node_id, None)
        is_emptied = may_be_emptied and self._rng.chance(50)

        def work(tries: int, *, is_requested: bool = False) -> None:
            row = self._cluster.store.state.brokers.get(node.node_id)
            if row is None or not (tries or is_requested):
                if row is None and is_emptied:
                    self._empty(node)
                self._restart_later(node)
                return
            is_down = row["state"] in ("FENCED", "CLOSED")
            if is_requested or (is_down and self.losses.may_lose(node, wiped=True)):
                is_requested = True
                self.unregister(node.node_id)
            self._later(500_000, lambda: work(tries - 1, is_requested=is_requested))

        work(TRIES_MAX)
        return True

    def _frozen(self, node: SimNode, code: str) -> None:
        """An operator moves the copy of the metadata away, whose position the store has trimmed (docs/operations.md)."""

        def forget() -> None:
            if node in self._running():
                node.kill()
                node.forget_metadata()
                self._restart_later(node)

        if code == "TRIMMED" and node.node_id in self._cluster.history.replaced:
            self._later(300_000, forget)

    def _stop(self, node: SimNode) -> bool:
        self._busy[node.node_id] = None
        self._under_way += 1

        def stopped() -> None:
            self._under_way -= 1
            node.on_stopped = lambda: None
            self._busy.pop(node.node_id, None)
            self._restart_later(node)

        node.on_stopped = stopped
        node.stop()
        return True

    def _pause(self, node: SimNode) -> bool:
        node.pause()

        def resume() -> None:
            if node.is_paused:
                node.resume()

        self._for_a_while(resume)
        return True

    def _restart_later(self, node: SimNode) -> None:
        self._disks.failed.pop(node.node_id, None)
        self._for_a_while(lambda: self._restart(node))

    def _restart(self, node: SimNode) -> None:
        if SKEW in self._classes:
            self._skew(node)
        if len(node.directories) > 1 and self._left > 0 and self._rng.chance(5):
            self._disks.fail_start(node, self._rng)
        if "kill inside" in self._classes and self._rng.chance(20):
            self._end_inside(node, min(WRITES_BEFORE_DEATH))
        try:
            node.start()
        except ProcessEnded:
            self.counts["killed inside a start"] += 1
            self._kill_now(node)
        except StartRefused as refused:
            if refused.code != "data-dir-failed":
                raise
            self._cluster.world.say(f"the start is refused: {refused}")
            node.disk.kill()
            self._restart_later(node)

    def _refused(self, node: SimNode, refused: Any) -> None:
        """The shell ends the process with this error; an operator restarts it."""
        self._cluster.world.say(f"broker {node.node_id} is refused: {refused.code}: {refused.why}")
        self.counts[f"refused: {refused.code}"] += 1
        self._cluster.world.after(0, lambda: None if node.broker is None else self._kill_now(node))

    def _move_clock(self, node: SimNode) -> bool:
        node.move_clock(self._rng.choice(CLOCK_AHEAD_MS) - node.skew_ms)
        return True

    def _skew(self, node: SimNode) -> None:
        node.skew_ms = self._rng.choice((0, self._rng.between(-3_600_000, 3_600_000)))
        node.ahead_ms = 0

    # ---------------------------------------------------------------------------------------------------- disks

    def _fail_disk(self, node: SimNode) -> bool:
        return self.losses.may_go_offline(node) and self._disks.fail(node, self._rng)

    def _lose_tail(self, victim: SimNode) -> bool:
        """Brokers are killed, and the disk of one of them loses the end of a log that it had synced; they return together."""
        killed = self._victims(victim, all_percent=60)
        copies = self._disks.may_lose_tail(killed)
        if not copies:
            return False
        for each in killed:
            each.kill()
        struck = self._disks.lose_tail(copies, self._rng)
        for each in killed:
            self._restart_later(each)
        return struck

    def _slow_disk(self) -> bool:
        node = self._rng.choice(self._cluster.nodes)
        kind = self._rng.choice(("flush", "read", "checkpoint", "image", "truncate", "recompress", "delete"))
        node.jobs.delays_us = {kind: self._rng.between(100_000, 2_000_000)}

        self._for_a_while(lambda: setattr(node.jobs, "delays_us", {}))
        return True

    def _cool_cache(self) -> bool:
        """From now on reads come from the device, unless a later one of these faults warms the page cache again."""
        self._rng.choice(self._cluster.nodes).disk.cached_bytes = self._rng.choice((0, 0, 100, 400, None))
        return True

    def _repair(self) -> None:
        """Restart one broker after the other, since a failed directory works again only after a restart."""
        self._disks.mark_damaged()
        for node_id in list(self._disks.failed):
            node = self._cluster.node(node_id)
            if any(each.broker is None or each.is_paused for each in self._cluster.nodes):
                break
            if node_id in self._busy or not self._disks.may_repair(node):
                continue
            node.kill()
            self._disks.repair(node)
            self._restart_later(node)
            break
        if self._disks.failed:
            self._later(100_000, self._repair)


def _has_machines(cluster: Cluster) -> bool:
    """Whether brokers of the cluster share machines (`draw_machines`)."""
    return (cluster.nodes[0].rack or "").startswith(MACHINE)
