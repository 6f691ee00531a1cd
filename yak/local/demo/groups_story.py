"""The groups demo: three consumers share a topic; one of them is killed, and then their coordinator.

The steps report through a `GroupsNarrator`; this file prints nothing itself.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from yak.client.admin import Admin
from yak.client.replica_offsets import read_metadata
from yak.ids import Offset
from yak.local.bench.pauses import longest_pause, worst
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.group_ledger import GroupLedger, Hold, PartitionVerdict
from yak.local.demo.group_load import GroupLoad
from yak.local.demo.group_member import COMMIT_SECONDS, HEARTBEAT_MS
from yak.local.demo.group_state import coordinator_of
from yak.local.demo.groups_result import (
    BROKERS,
    GROUP_ID,
    MEMBERS,
    MIN_ISR,
    PARTITIONS,
    TOPIC,
    GroupsDemoResult,
    GroupsDemoSettings,
    GroupsTimes,
    Handover,
    KilledCoordinator,
    KilledMember,
    MemberRow,
)
from yak.local.demo.stage import stage
from yak.local.demo.watched_group import PATIENCE_SECONDS, REQUEST_SECONDS, WatchedGroup

STEPS: Final = 6
KAFKAS_SHORTEST_SESSION_MS: Final = 6_000
"""The default `group.min.session.timeout.ms` of Kafka's and of YAK's brokers."""
JOIN_DELAY_MS: Final = 300
"""`group.initial.rebalance.delay.ms`, 500 by default: the members of this group join nearly at once."""
AFTER_SECONDS: Final = 0.7
"""Load after each kill, once the group reads again."""
READ_SECONDS: Final = 20.0
"""How long the group may take to read the rest at the end; unread records then count as lost."""
_POLL_SECONDS: Final = 0.02


class GroupsNarrator(Protocol):
    """Displays the demo."""

    def step(self, number: int, title: str) -> None:
        """A step begins."""

    def say(self, text: str) -> None:
        """A remark on the step."""

    def reading(self, acknowledged: int, read: int) -> None:
        """The load goes on."""

    def members(self, rows: Sequence[MemberRow]) -> None:
        """The members and their partitions."""

    def handovers(self, rows: Sequence[Handover]) -> None:
        """The new readers of the killed member's partitions."""


def run(settings: GroupsDemoSettings, narrator: GroupsNarrator) -> GroupsDemoResult:
    """Run the whole demo. Raises YakError when a part cannot start, a client fails or the group makes no progress."""
    with stage(settings.data_dir, keep=settings.keep) as (cluster, work):
        story = _Story(settings, narrator, cluster, work)
        try:
            return story.tell()
        finally:
            story.abandon()


def broker_configs(session_timeout_ms: int) -> tuple[str, ...]:
    """The settings of the demo's brokers."""
    configs = [
        f"default.replication.factor={BROKERS}",
        f"min.insync.replicas={MIN_ISR}",
        f"group.initial.rebalance.delay.ms={JOIN_DELAY_MS}",
    ]
    if session_timeout_ms < KAFKAS_SHORTEST_SESSION_MS:
        configs.append(f"group.min.session.timeout.ms={session_timeout_ms}")
    return tuple(configs)


def handovers(dead: Sequence[Hold], later: Sequence[Hold], committed: Mapping[int, Offset]) -> tuple[Handover, ...]:
    """The first member that read each partition of a dead member, from the assignments in `later`."""
    rows = []
    for hold in dead:
        # An assignment that a second rebalance revoked before the first read is no handover.
        after = next(each for each in later if each.partition == hold.partition and each.first_offset is not None)
        floor = committed.get(hold.partition, 0)
        read_to = hold.floor if hold.read_to is None else hold.read_to
        rows.append(Handover(hold.partition, floor, read_to, after.member, after.first_offset))
    return tuple(rows)


class _Story:
    """The steps, in order; each prepares the next ones."""

    def __init__(
        self, settings: GroupsDemoSettings, narrator: GroupsNarrator, cluster: LocalCluster, work: str
    ) -> None:
        self.settings = settings
        self.narrator = narrator
        self.cluster = cluster
        self.work = work
        self.times = GroupsTimes()
        self.load_began = 0.0
        self.load: GroupLoad | None = None
        self.group: WatchedGroup | None = None

    def tell(self) -> GroupsDemoResult:
        """Run all steps."""
        began = time.monotonic()
        bootstrap = self._start()
        load = self._send(bootstrap)
        group = self._share(bootstrap, load)
        killed_member = self._kill_member(group)
        killed_coordinator = self._kill_coordinator(bootstrap, group)
        verdicts, commits_lost = self._compare(group, load)
        self.times.total_ms = (time.monotonic() - began) * 1000.0
        if self.settings.keep:
            self.cluster.restart(killed_coordinator.node_id)
        return GroupsDemoResult(
            self.settings,
            verdicts,
            killed_member,
            killed_coordinator,
            commits_lost,
            self.times,
            bootstrap,
            self.cluster.data_dir,
        )

    def abandon(self) -> None:
        """End the processes and threads beside the cluster."""
        if self.group is not None:
            self.group.abandon()
        if self.load is not None:
            self.load.abandon()

    def _start(self) -> str:
        say, session_ms = self.narrator.say, self.settings.session_timeout_ms
        self.narrator.step(1, f"Start Redis and {BROKERS} brokers")
        up = self.cluster.up(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS, configs=broker_configs(session_ms)))
        self.times.start_ms = up.took_ms
        for broker in up.status.brokers:
            say(str(broker))
        say(f"ready in {up.took_ms:.0f} ms, Redis included")
        if session_ms < KAFKAS_SHORTEST_SESSION_MS:
            say(f"For a short demo they allow consumers a session of {_seconds(session_ms)}; by default it")
            say(f"is {_seconds(KAFKAS_SHORTEST_SESSION_MS)} at least (group.min.session.timeout.ms)")
        return up.status.bootstrap

    def _send(self, bootstrap: str) -> GroupLoad:
        say = self.narrator.say
        self.narrator.step(2, f"Send real data to a topic of {PARTITIONS} partitions")
        Admin(bootstrap).create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=BROKERS, configs={"min.insync.replicas": str(MIN_ISR)}
        )
        self.load = load = GroupLoad(bootstrap, TOPIC, PARTITIONS)
        say(f"{TOPIC}: this machine's CPU and memory, live, to partitions in turn")
        say(f"by {load.name}, acks=all")
        self.load_began = time.monotonic()
        load.start()
        return load

    def _share(self, bootstrap: str, load: GroupLoad) -> WatchedGroup:
        say = self.narrator.say
        self.narrator.step(3, f'Start {MEMBERS} consumers in the group "{GROUP_ID}"')
        say("A group shares a topic: each partition is read by one member at a time.")
        say("One broker is its coordinator: it hears the members' heartbeats, and keeps")
        say("what they commit, which is how far they have read.")
        self.group = group = WatchedGroup(
            bootstrap,
            self.settings.session_timeout_ms,
            self.work,
            lambda read: self.narrator.reading(load.acknowledged_count(), read),
        )
        began = time.monotonic()
        group.start()
        names, ledger = tuple(group.members), group.ledger
        group.wait("the members share the topic", lambda: ledger.is_shared_evenly(names, PARTITIONS))
        shared_at = max(hold.since for hold in ledger.holds)
        self.times.shared_ms = (shared_at - began) * 1000.0
        so_far = load.acknowledged_count()

        def is_caught_up() -> bool:
            # A commit that is sent during a rebalance is answered after it: an answer shows that the rebalance is over.
            commits = [ledger.first_commit_after(shared_at, name) for name in names]
            return None not in commits and sum(ledger.committed.values()) >= so_far

        group.wait("the members read and commit what was there", is_caught_up)
        group.go_on(max(self.settings.load_seconds * 0.35 - (time.monotonic() - self.load_began), 0.0))
        say(f"Each is a process of its own (librdkafka), sends a heartbeat every {HEARTBEAT_MS} ms")
        say(f"and commits every {COMMIT_SECONDS * 1000:.0f} ms. All was shared after {self.times.shared_ms:.0f} ms:")
        self.narrator.members(group.rows())
        return group

    def _kill_member(self, group: WatchedGroup) -> KilledMember:
        say = self.narrator.say
        name = tuple(group.members)[1]
        pid = group.members[name].pid
        assert pid is not None, "it has read something"
        group.wait(f"{name} has partitions", lambda: bool(group.ledger.partitions_of(name)))
        group.wait_for_uncommitted(name)
        self.narrator.step(4, f"Kill {name} in the middle of it: kill -9 {pid}")
        killed_at = time.monotonic()
        dead = group.kill(name)
        mine = tuple(hold.partition for hold in dead)
        committed = group.ask_committed(mine)
        say("Nobody is told. The coordinator misses its heartbeats, and after a session")
        say(
            f"of {_seconds(self.settings.session_timeout_ms)} has its partitions given to the others, who keep their own."
        )

        def taken() -> list[Hold]:
            return [each for each in group.ledger.given_since(killed_at) if each.partition in mine]

        def are_read() -> bool:
            return {each.partition for each in taken() if each.first_offset is not None} == set(mine)

        group.wait(f"the partitions of {name} are read again", are_read)
        found = taken()
        given_at = max((each.since for each in found), default=killed_at)
        read_at = max((each.first_read_at or given_at for each in found), default=given_at)
        self.times.taken_over_ms = (given_at - killed_at) * 1000.0
        self.times.read_again_ms = (read_at - given_at) * 1000.0
        group.go_on(AFTER_SECONDS)
        stayed = [group.ledger.read_times[each] for each in range(PARTITIONS) if each not in mine]
        pause = worst([longest_pause(sorted(times), killed_at, read_at) for times in stayed])
        self.times.others_pause_ms = None if pause is None else pause * 1000.0
        rows = handovers(dead, found, committed)
        self._say_handovers(group, rows)
        return KilledMember(name, pid, rows)

    def _say_handovers(self, group: WatchedGroup, rows: Sequence[Handover]) -> None:
        say, times = self.narrator.say, self.times
        say(f"The others had them {times.taken_over_ms:.0f} ms after the kill, and begin at the last")
        say("commit. What was read after it is read again, for nobody knows of it:")
        self.narrator.handovers(rows)
        if times.others_pause_ms is not None:
            say(f"Of the other partitions none stood still for more than {times.others_pause_ms:.0f} ms")
        self.narrator.members(group.rows())

    def _kill_coordinator(self, bootstrap: str, group: WatchedGroup) -> KilledCoordinator:
        say = self.narrator.say
        node = coordinator_of(bootstrap, GROUP_ID, timeout_seconds=PATIENCE_SECONDS)
        was_controller = read_metadata(bootstrap, timeout_s=REQUEST_SECONDS).controller_id == node
        pid = next((each.pid for each in self.cluster.status().brokers if each.node_id == node), None)
        self.narrator.step(5, f"Kill the group's coordinator too, broker {node}: kill -9 {pid}")
        killed_at = time.monotonic()
        self.cluster.kill(node)
        gone_at = time.monotonic()

        def commits() -> list[float]:
            found = [group.ledger.first_commit_after(gone_at, each.name) for each in group.living]
            return [at for at in found if at is not None]

        group.wait("every member commits again", lambda: len(commits()) == len(group.living))
        self.times.next_commit_ms = (min(commits()) - killed_at) * 1000.0
        self.times.all_commit_ms = (max(commits()) - killed_at) * 1000.0
        new_node = coordinator_of(bootstrap, GROUP_ID, timeout_seconds=PATIENCE_SECONDS)
        say(f"Broker {new_node} is the coordinator now. It has the group and its commits from")
        say("its own replica of the topic __consumer_offsets.")
        first_ms, all_ms = self.times.next_commit_ms, self.times.all_commit_ms
        say(f"First commit {first_ms:.0f} ms after the kill, by both members after {all_ms:.0f} ms")
        left = self.settings.load_seconds - (time.monotonic() - self.load_began)
        group.go_on(max(left, AFTER_SECONDS))
        rejoined, moved = group.rejoined_since(killed_at), len(group.ledger.given_since(killed_at))
        if rejoined:
            say(f"Members joined anew {rejoined} times, and {moved} partitions changed hands")
        else:
            say("Nobody had to join anew, and no partition changed hands")
        return KilledCoordinator(node, pid, was_controller, new_node, rejoined, moved)

    def _compare(self, group: WatchedGroup, load: GroupLoad) -> tuple[tuple[PartitionVerdict, ...], int]:
        self.narrator.step(6, "Let the group read to the end, and account for every message")
        acknowledged = load.finish(PATIENCE_SECONDS)
        deadline = time.monotonic() + READ_SECONDS
        while group.ledger.missing(acknowledged) and time.monotonic() < deadline:
            group.go_on(_POLL_SECONDS)
        group.leave()
        told = dict(group.ledger.committed)
        kept = group.ask_committed(range(PARTITIONS))
        ledger = GroupLedger.of(group.all_told)
        self.narrator.say(
            f"{len(acknowledged)} messages were acknowledged; the members read {sum(ledger.read_by_member.values())}"
        )
        commits_lost = sum(1 for partition, offset in told.items() if kept.get(partition, 0) < offset)
        return ledger.verdicts(acknowledged, PARTITIONS), commits_lost


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s"
