"""`yak demo groups`: three consumers share a topic; one of them is killed, and then their coordinator."""

import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from yak.client.admin import Admin
from yak.client.groups.group_brokers import GroupBrokers, answered
from yak.client.groups.offsets import committed_offsets
from yak.client.replica_offsets import read_metadata
from yak.ids import NodeId, Offset
from yak.local.bench.ledger_load import longest_pause, worst
from yak.local.chaos.members import COOPERATIVE
from yak.local.cluster import UpSettings
from yak.local.demo.delivery import Delivery, deliveries
from yak.local.demo.group_member import COMMIT_SECONDS, HEARTBEAT_MS, MemberProcess, MemberSettings
from yak.local.demo.load import ServerMetrics
from yak.local.demo.scenario import FINISH_SECONDS, MIN_ISR, REQUEST_SECONDS, Reporter, Result, Scenario, Settings
from yak.sim.history_checker import history as history_events
from yak.sim.history_checker.history import Assign, Commit, Event, History, Outcome, Poll


@dataclass(slots=True)
class Ownership:
    """One assignment of a partition to a member, until the revocation or the member's death.

    Offsets are of the next record. `floor`: records below it are committed and must not be read in this assignment.
    """

    member: str
    partition: int
    since: float
    floor: Offset
    first_offset: Offset | None = None
    first_read_at: float | None = None
    read_to: Offset | None = None

    @property
    def uncommitted(self) -> int:
        """Records that were read and that the next reader would read again."""
        return 0 if self.read_to is None else max(self.read_to - self.floor, 0)


class GroupView:
    """The assignments, reads and commits of members, in the order in which they are noted."""

    def __init__(self) -> None:
        self.held: dict[int, list[Ownership]] = defaultdict(list)
        """The present readers by partition; two only while a member does not know yet that it lost the partition."""
        self.holds: list[Ownership] = []
        self.committed: dict[int, Offset] = {}
        self.read_by_member: Counter[str] = Counter()
        self.read_times: dict[int, list[float]] = defaultdict(list)
        self.read: dict[int, set[Offset]] = defaultdict(set)
        self.twice_committed: Counter[int] = Counter()
        self._commits: list[Commit] = []

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """The view of all events, sorted by time: events of different members arrive in no particular order."""
        view = cls()
        for event in sorted(events, key=_time_of):
            view.note(event)
        return view

    def note(self, event: Event) -> None:
        match event:
            case Assign(process=member):
                for name in (*event.dropped, *event.starts):
                    self._end(member, _number(name))
                for name in event.starts:
                    partition = _number(name)
                    hold = Ownership(member, partition, event.at, self.committed.get(partition, 0))
                    self.held[partition].append(hold)
                    self.holds.append(hold)
            case Poll():
                for run in event.runs:
                    for offset in run.offsets:
                        self._note_read(event.process, _number(run.partition), offset, event.ended)
            case Commit(outcome=Outcome.OK):
                self._commits.append(event)
                for name, offset in event.offsets.items():
                    self._note_committed(event.process, _number(name), offset)

    def note_dead(self, member: str) -> tuple[Ownership, ...]:
        """Record that a member was killed; return its assignments."""
        had = self.holds_of(member)
        for hold in had:
            self._end(member, hold.partition)
        return had

    def _note_committed(self, member: str, partition: int, offset: Offset) -> None:
        self.committed[partition] = max(offset, self.committed.get(partition, 0))
        hold = self.hold_of(member, partition)
        if hold is not None:
            hold.floor = max(offset, hold.floor)

    def _note_read(self, member: str, partition: int, offset: Offset, at: float) -> None:
        hold = self.hold_of(member, partition)
        if hold is None:  # a read without an assignment must not return committed records either
            hold = Ownership(member, partition, at, self.committed.get(partition, 0))
        if offset < hold.floor:
            self.twice_committed[partition] += 1
        if hold.first_offset is None:
            hold.first_offset, hold.first_read_at = offset, at
        hold.read_to = max(offset + 1, hold.read_to or 0)
        self.read_by_member[member] += 1
        self.read_times[partition].append(at)
        self.read[partition].add(offset)

    def _end(self, member: str, partition: int) -> None:
        self.held[partition] = [hold for hold in self.held[partition] if hold.member != member]

    # -------------------------------------------------------------------------------------------------------- queries

    def hold_of(self, member: str, partition: int) -> Ownership | None:
        """A member's present assignment of a partition."""
        return next((hold for hold in self.held[partition] if hold.member == member), None)

    def holds_of(self, member: str) -> tuple[Ownership, ...]:
        """A member's present assignments, by partition."""
        return tuple(hold for partition in sorted(self.held) for hold in self.held[partition] if hold.member == member)

    def is_shared_evenly(self, members: Sequence[str], partitions: int) -> bool:
        """Whether each partition has one of these members as its only reader, and the counts differ by at most one."""
        counts = [len(self.holds_of(member)) for member in members]
        readers = [len(self.held[partition]) for partition in range(partitions)]
        return readers == [1] * partitions and sum(counts) == partitions and max(counts) - min(counts) <= 1

    def first_commit_after(self, moment: float, member: str) -> float | None:
        """When a member's first commit that was sent after a moment was acknowledged."""
        return min(
            (each.ended for each in self._commits if each.invoked > moment and each.process == member), default=None
        )

    def assigned_since(self, moment: float) -> list[Ownership]:
        return [hold for hold in self.holds if hold.since > moment]

    def read_again(self, partition: int) -> int:
        return len(self.read_times[partition]) - len(self.read[partition])

    def read_count(self) -> int:
        """The number of reads, repeated ones included."""
        return sum(self.read_by_member.values())


def partition_counts(history: History, events: Sequence[Event], partitions: Sequence[str]) -> list[dict[str, Any]]:
    """The counts of each partition: sends are in the history already, the members' events are added to it.

    `lost`: acknowledged to the producer, and not read, or read with different content. `twice_committed`: reads of
    records that were committed before the assignment, or by the reader itself. `twice_uncommitted`: repeated reads of
    uncommitted records; allowed, and displayed. `unconfirmed`: read without an acknowledgement to the producer; allowed
    too.
    """
    view = GroupView.of(events)
    for event in events:
        history.add(event)
    for member in view.read_by_member or ("none",):  # a record that no member has read by now is lost
        ends = {name: max(view.read[_number(name)], default=-1) + 1 for name in partitions}
        history.add(history_events.Final(member, ends))
    delivered, rows = deliveries(history), []
    for name in partitions:
        found, partition = delivered.get(name, Delivery()), _number(name)
        again, twice_committed = view.read_again(partition), view.twice_committed[partition]
        readers = dict.fromkeys(hold.member for hold in view.holds if hold.partition == partition)
        rows.append(
            {
                "partition": partition,
                "readers": tuple(readers),
                "acknowledged": found.acknowledged,
                "read": len(view.read[partition]),
                "lost": found.lost,
                "twice_committed": twice_committed,
                "twice_uncommitted": max(again - twice_committed, 0),
                "unconfirmed": found.unconfirmed,
                "ok": found.lost + twice_committed == 0,
            }
        )
    return rows


def handovers(
    dead: Sequence[Ownership], later: Sequence[Ownership], committed: Mapping[int, Offset]
) -> list[dict[str, Any]]:
    """The first member that read each partition of a dead member, from the assignments in `later`.

    Offsets are of the next record; `committed` is the coordinator's own value. It is `ok` when the next reader started
    there: it skipped nothing, and read nothing that was committed. `read_again`: read, and not committed.
    """
    rows = []
    for hold in dead:
        # An assignment that a second rebalance revoked before the first read is no handover.
        after = next(each for each in later if each.partition == hold.partition and each.first_offset is not None)
        floor = committed.get(hold.partition, 0)
        read_to = hold.floor if hold.read_to is None else hold.read_to
        rows.append(
            {
                "partition": hold.partition,
                "committed": floor,
                "read_to": read_to,
                "taken_by": after.member,
                "began_at": after.first_offset,
                "read_again": max(read_to - floor, 0),
                "ok": after.first_offset == floor,
            }
        )
    return rows


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _time_of(event: Event) -> float:
    return event.at if isinstance(event, Assign) else getattr(event, "ended", 0.0)


GROUP_ID: Final = "demo"
TOPIC: Final = "server_load"
PARTITIONS: Final = 6
NAMES: Final = tuple(f"{TOPIC}-{number}" for number in range(PARTITIONS))
MEMBERS: Final = 3
BROKERS: Final = 3
RECORDS_PER_SECOND: Final = 300
KAFKAS_SHORTEST_SESSION_MS: Final = 6_000
"""The default `group.min.session.timeout.ms` of Kafka's and of YAK's brokers."""
JOIN_DELAY_MS: Final = 300
"""`group.initial.rebalance.delay.ms`, 500 by default: the members of this group join nearly at once."""
AFTER_SECONDS: Final = 0.7
"""Load after each kill, once the group reads again."""
READ_SECONDS: Final = 20.0
"""How long the group may take to read the rest at the end; unread records then count as lost."""
_COUNTS: Final = ("acknowledged", "read", "lost", "twice_committed", "twice_uncommitted")
_UNCOMMITTED_WANTED: Final = 5
_UNCOMMITTED_SECONDS: Final = 1.0
_LEAVE_SECONDS: Final = 30.0


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


class GroupsScenario(Scenario):
    """Start, load, share, kill a member, kill the coordinator, compare."""

    SUMMARY = "Consumers share a topic; one is killed, then a broker; every message counted."
    TIMES = (
        "shared_ms",  # from the start of the first member until each partition has a reader, evenly
        "taken_over_ms",  # from the kill of the member until the last of its partitions is reassigned
        "read_again_ms",  # from there to the first record of the last of them
        "others_pause_ms",  # the longest pause meanwhile of a partition that stayed with its reader
        "next_commit_ms",  # from the kill of the coordinator to the first acknowledged commit that was sent after it
        "all_commit_ms",  # the same, for the member that waited longest
    )
    ERROR = "demo-group"
    load: ServerMetrics

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.PATIENCE_SECONDS += settings.session_timeout_ms / 1000.0
        self.members: dict[str, MemberProcess] = {}
        self.view = GroupView()
        self.events: list[Event] = []
        self.counts: list[dict[str, Any]] = []
        self.killed_member: dict[str, Any] = {"partitions": []}
        self.killed_coordinator: dict[str, Any] = {}
        self.commits_lost = 0
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def steps(self) -> Sequence[Callable[[], None]]:
        return (self._start_brokers, self._send, self._share, self._kill_member, self._kill_coordinator, self._compare)

    # ----------------------------------------------------------------------------------------------------- steps

    def _start_brokers(self) -> None:
        session_ms = self.settings.session_timeout_ms
        configs = broker_configs(session_ms)
        self.say_ready(self.start(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS, configs=configs)))
        if session_ms < KAFKAS_SHORTEST_SESSION_MS:
            self.say(f"For a short demo they allow consumers a session of {_seconds(session_ms)}; by default it")
            self.say(f"is {_seconds(KAFKAS_SHORTEST_SESSION_MS)} at least (group.min.session.timeout.ms)")

    def _send(self) -> None:
        self.step(f"Send real data to a topic of {PARTITIONS} partitions")
        self.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=BROKERS)
        self.load = load = ServerMetrics(self.recorder, self.bootstrap, TOPIC, PARTITIONS, RECORDS_PER_SECOND)
        self.say(f"{TOPIC}: this machine's CPU and memory, live, to partitions in turn")
        self.say(f"by {load.name}, acks=all")
        self.start_load(load)

    def _share(self) -> None:
        self.step(f'Start {MEMBERS} consumers in the group "{GROUP_ID}"')
        self.say("A group shares a topic: each partition is read by one member at a time.")
        self.say("One broker is its coordinator: it gets the members' heartbeats, and stores")
        self.say("their committed offsets.")
        began, session_ms = time.monotonic(), self.settings.session_timeout_ms
        for name in (f"member-{number}" for number in range(1, MEMBERS + 1)):
            settings = MemberSettings(self.bootstrap, GROUP_ID, TOPIC, name, session_ms)
            self.members[name] = member = MemberProcess(settings, self._inbox.put)
            member.start()
            self.parts.append(member)
        # The first FindCoordinator waits for the creation of the offsets topic; no member should have to wait.
        self._coordinator()
        self.wait("the members start", lambda: all(member.pid is not None for member in self.members.values()))
        for member in self.members.values():
            member.join()
        names, view = tuple(self.members), self.view
        self.wait("the members share the topic", lambda: view.is_shared_evenly(names, PARTITIONS))
        shared_at = max(hold.since for hold in view.holds)
        shared_ms = self.took("shared_ms", began, shared_at)
        so_far = self.recorder.acknowledged
        # A commit that is sent during a rebalance is answered after it: an answer shows that the rebalance is over.
        self.wait(
            "the members read and commit the existing records",
            lambda: len(self._commits_after(shared_at)) == MEMBERS and sum(view.committed.values()) >= so_far,
        )
        self.poll_until(0.35)
        self.say(f"Each is a process of its own (librdkafka), sends a heartbeat every {HEARTBEAT_MS} ms")
        self.say(f"and commits every {COMMIT_SECONDS * 1000:.0f} ms. All was shared after {shared_ms:.0f} ms:")
        self._show_members()

    def _kill_member(self) -> None:
        name = tuple(self.members)[1]
        pid = self.members[name].pid
        self.wait(f"{name} has committed in its partitions", lambda: self._has_committed(name))
        self._wait_for_uncommitted(name)
        self.step(f"Kill {name} in the middle of it: kill -9 {pid}")
        killed_at = time.monotonic()
        self.members[name].kill()
        self._take_events()
        dead = self.view.note_dead(name)
        mine = {hold.partition for hold in dead}
        committed = self._committed()
        self.say("No LeaveGroup: the coordinator misses its heartbeats, and after a session")
        session = _seconds(self.settings.session_timeout_ms)
        self.say(f"of {session} has its partitions assigned to the others, which keep their own.")

        def taken() -> list[Ownership]:
            return [each for each in self.view.assigned_since(killed_at) if each.partition in mine]

        self.wait(
            f"the partitions of {name} are read again",
            lambda: {each.partition for each in taken() if each.first_offset is not None} == mine,
        )
        found = taken()
        given_at = max((each.since for each in found), default=killed_at)
        read_at = max((each.first_read_at or given_at for each in found), default=given_at)
        taken_over_ms = self.took("taken_over_ms", killed_at, given_at)
        self.took("read_again_ms", given_at, read_at)
        self.poll_for(AFTER_SECONDS)
        stayed = [self.view.read_times[each] for each in range(PARTITIONS) if each not in mine]
        pause = worst([longest_pause(sorted(times), killed_at, read_at) for times in stayed])
        rows = handovers(dead, found, committed)
        self.killed_member = {"name": name, "pid": pid, "partitions": rows}
        self.say(f"The others had them {taken_over_ms:.0f} ms after the kill, and begin at the last")
        self.say("commit. What was read after it is read again:")
        columns = ("partition", "last commit", "was read to", "goes on with", "from", "read again")
        self.reporter.table(
            [dict(zip(columns, each.values(), strict=False)) for each in rows], [each["ok"] for each in rows]
        )
        if pause is not None:
            pause_ms = self.times["others_pause_ms"] = pause * 1000.0
            self.say(f"Of the other partitions none stood still for more than {pause_ms:.0f} ms")
        self._show_members()

    def _kill_coordinator(self) -> None:
        node = self._coordinator()
        was_controller = read_metadata(self.bootstrap, timeout_s=REQUEST_SECONDS).controller_id == node
        pid = next((each.pid for each in self.cluster.status().brokers if each.node_id == node), None)
        self.step(f"Kill the group's coordinator too, broker {node}: kill -9 {pid}")
        killed_at = time.monotonic()
        self.cluster.kill(node)
        gone_at = time.monotonic()
        living = sum(not member.is_ended for member in self.members.values())
        self.wait("every member commits again", lambda: len(self._commits_after(gone_at)) == living)
        commits = self._commits_after(gone_at)
        first_ms = self.took("next_commit_ms", killed_at, min(commits))
        all_ms = self.took("all_commit_ms", killed_at, max(commits))
        new_node = self._coordinator()
        self.say(f"Broker {new_node} is the coordinator now. It has the group and its commits from")
        self.say("its own replica of the topic __consumer_offsets.")
        self.say(f"First commit {first_ms:.0f} ms after the kill, by both members after {all_ms:.0f} ms")
        self.poll_until(1.0, at_least=AFTER_SECONDS)
        # Each completed rebalance assigns partitions, possibly none.
        assigned = [each for each in self.events if isinstance(each, Assign) and not each.dropped]
        rejoined = sum(each.at > killed_at for each in assigned)
        moved = len(self.view.assigned_since(killed_at))
        self.killed_coordinator = {
            "node_id": node,
            "pid": pid,
            "was_controller": was_controller,
            "new_node_id": new_node,
            "rejoined": rejoined,
            "moved": moved,
        }
        if rejoined:
            self.say(f"Members joined again {rejoined} times, and {moved} partitions changed hands")
        else:
            self.say("No member had to join again, and no partition changed hands")

    def _compare(self) -> None:
        self.step("Let the group read to the end, and account for every message")
        self.load.finish(FINISH_SECONDS)
        history = self.recorder.history()
        sent = [
            (int(each.partition.rpartition("-")[2]), each.offset) for each in history.sends if each.offset is not None
        ]
        deadline = time.monotonic() + READ_SECONDS
        while time.monotonic() < deadline and any(offset not in self.view.read[at] for at, offset in sent):
            self.poll_for(self.POLL_SECONDS)
        living = [member for member in self.members.values() if not member.is_ended]
        for member in living:
            member.ask_to_end()
        for member in living:
            member.wait_end(_LEAVE_SECONDS)
        self._take_events()
        acknowledged, committed = dict(self.view.committed), self._committed()
        self.commits_lost = sum(committed.get(partition, 0) < offset for partition, offset in acknowledged.items())
        self.counts = partition_counts(history, self.events, NAMES)
        self.say(f"{len(sent)} messages were acknowledged; the members read {self.view.read_count()}")

    # --------------------------------------------------------------------------------------------------- result

    def result(self) -> Result:
        if self.settings.keep:
            self.cluster.restart(self.killed_coordinator["node_id"])
        found = {name: sum(each[name] for each in self.counts) for name in (*_COUNTS, "unconfirmed")}
        times, session_ms, moved = self.times, self.settings.session_timeout_ms, self.killed_member["partitions"]
        session = _seconds(session_ms)
        is_ok = all(each["ok"] for each in (*self.counts, *moved)) and self.commits_lost == 0
        holds = is_ok and found["acknowledged"] > 0 and bool(moved)
        notes = [
            f"acked {found['acknowledged']}, read {found['read']}, lost {found['lost']}, committed and read again "
            + str(found["twice_committed"]),
            f"read again because it was not committed yet: {found['twice_uncommitted']}",
            *([f"commits lost with the coordinator: {self.commits_lost}"] if self.commits_lost else []),
            self.start_note(),
            f"the dead member's partitions went to the others in {times['taken_over_ms']:.0f} ms (session {session})",
            f"from the kill of the coordinator to the next commit {times['next_commit_ms']:.0f} ms",
        ]
        fields = {
            **found,
            "commits_lost": self.commits_lost,
            "group": {
                "group_id": GROUP_ID,
                "topic": TOPIC,
                "members": MEMBERS,
                "session_timeout_ms": session_ms,
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "assignor": COOPERATIVE,
            },
            "brokers": BROKERS,
            "min_insync_replicas": MIN_ISR,
            "killed_member": self.killed_member,
            "killed_coordinator": self.killed_coordinator,
            "partitions": self.counts,
            **self.common_fields(),
        }
        rows: list[dict[str, object]] = []
        for each in self.counts:
            readers = ", ".join(reader.removeprefix("member-") for reader in each["readers"])
            counts = {name: each[name] for name in _COUNTS}
            rows.append({"partition": each["partition"], "readers": readers, **counts})
        promise = "every message was read, and no committed one twice"
        return Result(holds, promise, rows, notes, self._next_commands(), fields)

    def _next_commands(self) -> list[tuple[str, str]]:
        if self.settings.keep:
            return [
                (f"yak groups describe {GROUP_ID} -b {self.bootstrap}", ""),
                (f"yak consume {TOPIC} --from-beginning --exit -b {self.bootstrap}", ""),
                (f"yak down --data-dir {self.where}", ""),
            ]
        return [
            ("yak up -d --brokers 3", "start a cluster that stays"),
            ("yak demo groups --session-timeout 2s", "a death is noticed sooner"),
            ("yak demo groups --keep", "this again, and leave it running"),
        ]

    def condition(self) -> str:
        return "; ".join(f"{name}: {self._partitions(name)}" for name in self.members)

    # --------------------------------------------------------------------------------------------------- helpers

    def poll(self) -> None:
        """Process the members' events. Raises the YakError of a member that ended unexpectedly."""
        self._take_events()
        for member in self.members.values():
            member.check()
        if self.members:
            text = f"{self.recorder.acknowledged} acknowledged, {self.view.read_count()} read"
            self.reporter.progress(text)

    def _take_events(self) -> None:
        while True:
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            self.events.append(event)
            self.view.note(event)

    def _has_committed(self, name: str) -> bool:
        """Whether a member has partitions, and each of them a committed offset from which another can go on."""
        held, committed = self.view.holds_of(name), self.view.committed
        return bool(held) and all(committed.get(each.partition, 0) for each in held)

    def _wait_for_uncommitted(self, name: str) -> None:
        """Wait for a moment between two commits of a member, so that its death leaves records to be read again.

        The wait is short: without such a moment no record is read again, which is also fine.
        """
        deadline = time.monotonic() + _UNCOMMITTED_SECONDS
        while time.monotonic() < deadline:
            if sum(hold.uncommitted for hold in self.view.holds_of(name)) >= _UNCOMMITTED_WANTED:
                return
            self.poll_for(self.POLL_SECONDS / 4)

    def _commits_after(self, moment: float) -> list[float]:
        """When the first commit that each living member sent after a moment was acknowledged."""
        living = [member.name for member in self.members.values() if not member.is_ended]
        found = [self.view.first_commit_after(moment, name) for name in living]
        return [at for at in found if at is not None]

    def _coordinator(self) -> NodeId:
        """The broker that coordinates the group. The first request ever creates the topic of committed offsets."""
        admin = Admin(self.bootstrap, timeout_ms=round(self.PATIENCE_SECONDS * 1000))
        with GroupBrokers(admin) as brokers:
            return brokers.coordinators([GROUP_ID])[GROUP_ID].node_id

    def _committed(self) -> dict[int, Offset]:
        """The coordinator's committed offsets. They are also noted: from now on no record below them may be read."""
        sent_at = time.monotonic()
        with GroupBrokers(Admin(self.bootstrap, timeout_ms=round(REQUEST_SECONDS * 2000))) as brokers:
            found = answered(committed_offsets(brokers, [GROUP_ID])[GROUP_ID])
        named = {f"{each.topic}-{each.partition}": offset for each, offset in sorted(found.items())}
        event = Commit("the coordinator", GROUP_ID, sent_at, time.monotonic(), Outcome.OK, named)
        self.events.append(event)
        self.view.note(event)
        return {each.partition: offset for each, offset in found.items()}

    def _partitions(self, name: str) -> tuple[int, ...]:
        return tuple(hold.partition for hold in self.view.holds_of(name))

    def _show_members(self) -> None:
        rows, is_good = [], []
        for name, member in self.members.items():
            partitions = self._partitions(name)
            assigned = "killed" if member.is_ended else ", ".join(map(str, partitions)) or None
            is_good.append(not member.is_ended and bool(partitions))
            read = self.view.read_by_member[name]
            rows.append({"member": name, "pid": member.pid, "partitions": assigned, "messages read": read})
        self.reporter.table(rows, is_good)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s"
