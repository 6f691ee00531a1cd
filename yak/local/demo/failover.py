"""`yak demo failover`: under load, the broker that is leader and controller is killed."""

import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from yak.attempts import attempts
from yak.client.admin import LATEST, Admin
from yak.client.leadership import carry_out, plan_moves
from yak.client.quorum import QuorumState, describe_quorum
from yak.client.replica_offsets import read_cluster, read_metadata
from yak.errors import WaitTimeout, YakError
from yak.ids import NodeId, TopicPartition
from yak.local.chaos.readers import read_everything
from yak.local.cluster import UpSettings
from yak.local.demo.delivery import Delivery, deliveries
from yak.local.demo.load import CsvFile, Processes, ServerMetrics, write_file_list
from yak.local.demo.scenario import FINISH_SECONDS, MIN_ISR, REQUEST_SECONDS, Reporter, Result, Row, Scenario, Settings
from yak.local.failover import Failover, end_and_watch, tenths
from yak.local.supervise import LogFollower
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import PartitionState, is_whole

CSV_ROWS_PER_SECOND: Final = 500
BEGIN_SECONDS: Final = 20.0
READ_SECONDS: Final = 30.0
NOT_POWER_LOSS: Final = "kill -9 is not power loss: against that, set flush.messages=1 on a topic"


class TopicsScenario(Scenario):
    """Three clients send to a topic of one partition each; at the end every record is read back."""

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.loads: list[ServerMetrics | CsvFile | Processes] = []
        self.delivered: tuple[Delivery, ...] = ()
        self.killed_pid: int | None = None

    def make_clients(self) -> None:
        """Prepare the clients: confluent-kafka, `yak produce`, and kafka-python if it is installed."""
        path, seconds = os.path.join(self.work, "files.csv"), self.settings.load_seconds
        rows = write_file_list(path, round(CSV_ROWS_PER_SECOND * seconds))
        self.loads = [ServerMetrics(self.recorder, self.bootstrap)]
        self.loads.append(CsvFile(self.recorder, self.bootstrap, path, rows, seconds))
        if Processes.is_installed():
            self.loads.append(Processes(self.recorder, self.bootstrap))

    def say_clients(self) -> None:
        for load in self.loads:
            self.say(f"{load.topic:<15} {load.what}")
            self.say(f"{'':<15} by {load.name}")

    def wait_until_all_store(self) -> int:
        """Wait until each client has a stored record, so that the kill hits all of them; return the number of records.

        Raises WaitTimeout when a client stores nothing.
        """
        admin = Admin(self.bootstrap)
        partitions = {TopicPartition(load.topic, 0): LATEST for load in self.loads}
        for _ in attempts(BEGIN_SECONDS, 0.05):
            ends = {partition.topic: found.offset for partition, found in admin.offsets(partitions).items()}
            silent = [topic for topic, end in ends.items() if end == 0]
            if not silent:
                return sum(ends.values())
        raise WaitTimeout(
            "demo-client",
            f"nothing was stored in {', '.join(silent)} in {BEGIN_SECONDS:.0f} s",
            why="the client that sends there did not begin",
        )

    def kill_and_watch(self, node_id: NodeId) -> Failover:
        def killed(failover: Failover) -> None:
            self.killed_pid = failover.pid
            self.say(f"process {failover.pid} is gone, with every client sending")

        return end_and_watch(self.cluster, node_id, on_ended=killed)

    def note_first_ack(self, failover: Failover) -> None:
        """Note the first acknowledgement of a record that was sent after the kill."""
        first = self.recorder.first_ack_after(failover.ended_s)
        failover.timeline.first_ack_ms = None if first is None else (first - failover.began_s) * 1000.0

    def finish_clients(self) -> None:
        for load in self.loads:
            load.finish(FINISH_SECONDS)

    def _compare(self) -> None:
        self.step("Read every message back and compare")
        self.finish_clients()
        began = time.monotonic()
        partitions = [TopicPartition(load.topic, 0) for load in self.loads]
        left = read_everything(self.bootstrap, partitions, self.recorder, READ_SECONDS)
        if left:
            raise WaitTimeout(
                "demo-read-back",
                f"the end of {len(left)} partitions was not reached in {READ_SECONDS:.0f} s",
                why=", ".join(sorted(left)),
            )
        took_ms = self.took("read_back_ms", began)
        found = deliveries(self.recorder.history())
        self.delivered = tuple(found.get(f"{load.topic}-0", Delivery(load.topic)) for load in self.loads)
        self.say(f"{sum(each.read for each in self.delivered)} messages read in {took_ms:.0f} ms")

    def _states(self) -> tuple[PartitionReplicas, ...]:
        """Leaders and ISRs without offsets, which takes a single request."""
        return self._ours(read_metadata(self.bootstrap, timeout_s=REQUEST_SECONDS).partitions)

    def _ours(self, partitions: Sequence[PartitionReplicas]) -> tuple[PartitionReplicas, ...]:
        topics = {load.topic for load in self.loads}
        return tuple(each for each in partitions if each.topic in topics)

    def other_brokers(self, node_id: NodeId) -> list[NodeId]:
        return sorted(set(Admin(self.bootstrap).metadata().brokers) - {node_id})

    def topics_result(self, notes: list[str], next_commands: list[tuple[str, str]], fields: dict[str, Any]) -> Result:
        total = Delivery.total(self.delivered)
        wrong = total.out_of_order + total.moved
        counts = f"acked {total.acknowledged}, read {total.read}, lost {total.lost}, duplicated {total.duplicated}"
        names = {load.topic: load.name for load in self.loads}
        topics = [
            {"topic": each.topic, **each.counts(), "client": names[each.topic], "ok": each.holds}
            for each in self.delivered
        ]
        rows: list[Row] = []
        for each in self.delivered:
            row = {name: getattr(each, name) for name in ("topic", "acknowledged", "read", "lost", "duplicated")}
            rows.append({**row, "out_of_order": each.out_of_order + each.moved})
        return Result(
            bool(self.delivered) and all(each.holds for each in self.delivered),
            "every acknowledged message is there",
            rows,
            [f"{counts}, out of order {wrong}", self.start_note(), *notes],
            next_commands,
            {**total.counts(), **fields, "topics": topics, **self.common_fields()},
        )


REPLICAS_MAX: Final = 4
ELECTION_SECONDS: Final = 5.0
"""How long a broker with the leader role may take to become controller in place of a follower that was first."""
AFTER_SECONDS: Final = 1.0
"""Load without the broker, and load at the end."""


class FailoverScenario(TopicsScenario):
    """Start, load, kill the leader, restart it, elect it again, read back."""

    SUMMARY = "Real data, replicated; the leader killed; every acknowledged message counted."
    TIMES = (
        "longest_pause_ms",  # of any client around the kill
        "restart_ms",
        "in_sync_again_ms",  # from the restarted broker's first answer to its being in every ISR
        "handed_back_ms",
        "hand_back_pause_ms",
        "read_back_ms",
    )
    ERROR = "demo-no-failover"

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.victim: NodeId = -1
        self.new_leader: NodeId = -1
        self.failover: Failover | None = None
        self.truncated = 0

    @property
    def replication_factor(self) -> int:
        """A replica on each broker, up to four."""
        return min(self.settings.brokers, REPLICAS_MAX)

    def steps(self) -> Sequence[Callable[[], None]]:
        return (
            self._start_brokers,
            self._send,
            self._list_replicas,
            self._kill,
            self._restart,
            self._elect,
            self._compare,
        )

    def _start_brokers(self) -> None:
        status = self.start(UpSettings(port=0, brokers=self.settings.brokers, leaders=1))
        self.victim = self._controller(next(each.node_id for each in status.brokers if each.role == "leader"))
        self.say_ready(status, controller=self.victim)

    def _send(self) -> None:
        factor = self.replication_factor
        self.step(f"Send real data to topics with {factor} replicas, all led by broker {self.victim}")
        self.make_clients()
        others = self.other_brokers(self.victim)
        for load in self.loads:
            self.create_topic(load.topic, assignment=[[self.victim, *others][:factor]])
        self.say_clients()
        self.say(f"acks=all, idempotent, min.insync.replicas={MIN_ISR}: an acknowledged message is on")
        self.say("every replica in sync, and on two at least. After a lost connection they")
        self.say("look for the new leader every 5 to 20 ms (librdkafka's own waits: 100 ms)")
        self.start_load(*self.loads)
        self.poll_until(0.35)

    def _list_replicas(self) -> None:
        stored = self.wait_until_all_store()
        self.step(f"Look at the replicas ({stored} messages so far)")
        self._show_replicas()
        self.say("HW, high watermark: what all in sync have. END n: the log end on broker n")

    def _kill(self) -> None:
        self.step(f"Kill broker {self.victim}, leader of everything and controller: kill -9")
        self.failover = failover = self.kill_and_watch(self.victim)
        recorder, gone_at = self.recorder, failover.ended_s
        self.wait("writes are acknowledged again", lambda: recorder.first_ack_after(gone_at) is not None)
        self.note_first_ack(failover)
        self.poll_for(AFTER_SECONDS)
        pause_ms = self._pause_ms("longest_pause_ms", failover.began_s, time.monotonic())
        self.reporter.timeline(failover)
        self.say(f"the client that waited longest stood still for {pause_ms:.0f} ms")
        leaders = sorted({each.leader for each in self._show_replicas()})
        if -1 in leaders or self.victim in leaders:
            raise YakError(self.ERROR, "not every partition has a new leader", why=f"leaders are {leaders}")
        self.new_leader = leaders[0]

    def _restart(self) -> None:
        victim = self.victim
        self.step(f"Start broker {victim} again, on its old data")
        logs = LogFollower({"log": self.cluster.log_path(f"node-{victim}")})
        began = time.monotonic()
        again = self.cluster.restart(victim)
        answers = time.monotonic()
        self.say(f"ready in {self.took('restart_ms', began, answers):.0f} ms (pid {again.pid}), as a follower")
        self.wait(f"broker {victim} is in sync again", lambda: all(victim in each.isr for each in self._states()))
        took_ms = self.took("in_sync_again_ms", answers)
        self.truncated = count = sum(truncated_records(line) for _, line in logs.new_lines())
        self.say(
            f"cut off {count} message{'s'[: count != 1]} that no other replica had, none acknowledged"
            if count
            else "it had nothing that the new leader does not have: nothing was cut off"
        )
        self.say(f"copied what it missed, and is back in every ISR after {took_ms:.0f} ms")

    def _elect(self) -> None:
        self.step(f"Elect the preferred leaders on broker {self.victim}, with the clients still writing")
        began = time.monotonic()
        moves = plan_moves(self._states(), to=self.victim).moves
        failed = carry_out(Admin(self.bootstrap), moves, timeout_s=REQUEST_SECONDS)
        if failed:
            raise YakError(self.ERROR, "the broker was not elected again", why="; ".join(failed.values()))
        self.say(f"done in {self.took('handed_back_ms', began):.0f} ms: yak failover --all does the same")
        self.poll_until(1.0, at_least=AFTER_SECONDS)
        pause_ms = self._pause_ms("hand_back_pause_ms", began, began + AFTER_SECONDS)
        self.say(f"no client waited longer than {pause_ms:.0f} ms for an acknowledgement")
        self._show_replicas()

    def result(self) -> Result:
        assert self.failover is not None, "the steps have run"
        timeline, notes = self.failover.timeline, []
        if timeline.first_ack_ms is not None:
            first_ms = round(timeline.first_ack_ms, 1)  # the same value as in the printed timeline
            notes = [f"from the kill of the leader to the next acknowledged write {first_ms:.0f} ms"]
        commands = [
            ("yak up -d --brokers 3", "start a cluster that stays"),
            ("yak isr --watch", "see its replicas"),
            ("yak failover --controller --kill", "kill its leader"),
            ("yak demo --keep", "this again, and leave it running"),
        ]
        if self.settings.keep:
            cluster_commands = ("yak isr --watch", "yak failover --controller --kill", "yak down")
            commands = [(f"{command} --data-dir {self.where}", "") for command in cluster_commands]
        fields = {
            "brokers": self.settings.brokers,
            "replication_factor": self.replication_factor,
            "min_insync_replicas": MIN_ISR,
            "killed_node": self.failover.node_id,
            "killed_pid": self.failover.pid,
            "was_controller": self.failover.was_controller,
            "new_leader": self.new_leader,
            "timeline": timeline.as_json(),
            "records_truncated": self.truncated,
        }
        return self.topics_result([*notes, NOT_POWER_LOSS], commands, fields)

    def condition(self) -> str:
        return "; ".join(f"{each.name}: leader {each.leader}, ISR {each.isr}" for each in self._states())

    def _controller(self, leader: NodeId) -> NodeId:
        """The controller, after a broker with the leader role had time to replace a follower that was faster."""
        deadline = time.monotonic() + ELECTION_SECONDS
        while True:
            found = read_metadata(self.bootstrap, timeout_s=REQUEST_SECONDS).controller_id
            if found == leader or (found > 0 and time.monotonic() > deadline):
                return found
            if time.monotonic() > deadline + ELECTION_SECONDS:
                raise WaitTimeout("no-controller", "no broker was elected controller")
            time.sleep(self.POLL_SECONDS)

    def _pause_ms(self, name: str, began: float, ended: float) -> float:
        pause_ms = self.times[name] = self.recorder.acks().longest_pause(began, ended) * 1000.0
        return pause_ms

    def _show_replicas(self) -> tuple[PartitionReplicas, ...]:
        """One row per partition with the log end on each broker; it is narrower than the table of `yak isr`."""
        found = self._ours(read_cluster(self.bootstrap, timeout_s=REQUEST_SECONDS).partitions)
        nodes = sorted({node for each in found for node in each.replicas})
        rows = [
            {
                "partition": each.name,
                "leader": each.leader,
                "epoch": each.leader_epoch,
                "in sync": f"{','.join(map(str, each.isr))} of {len(each.replicas)}",
                "hw": each.high_watermark,
                **{f"end {node}": each.log_end_offsets.get(node) for node in nodes},
            }
            for each in found
        ]
        self.reporter.table(rows, [each.state is PartitionState.OK for each in found])
        return found


def truncated_records(line: str) -> int:
    """The number of records that a broker's log line reports as truncated; 0 for any other line."""
    parts = line.split()
    if "log-truncated" not in parts:
        return 0
    fields = dict(word.split("=", 1) for word in parts if "=" in word)
    return max(int(fields.get("from_offset", 0)) - int(fields.get("to_offset", 0)), 0)


NODE: Final = 1


class RestartScenario(TopicsScenario):
    """Start, load, kill, restart, finish, read back."""

    SUMMARY = "Real data, real clients, one kill -9, and every acknowledged message counted."
    TIMES = ("restart_ms", "kill_to_first_ack_ms", "read_back_ms")
    ERROR = "demo-client"
    killed_at = 0.0

    def steps(self) -> Sequence[Callable[[], None]]:
        return (self._start_broker, self._send, self._kill, self._restart, self._finish, self._compare)

    def _start_broker(self) -> None:
        status = self.start(UpSettings(port=0))
        self.say(f"metadata in {status.redis_url}")
        self.say_ready(status)

    def _send(self) -> None:
        self.step("Send real data from independent clients")
        self.make_clients()
        for load in self.loads:
            self.create_topic(load.topic, min_isr=1, partitions=1, replication_factor=1)
        self.say_clients()
        self.start_load(*self.loads)
        self.poll_until(0.4)

    def _kill(self) -> None:
        stored = self.wait_until_all_store()
        self.killed_pid = self.cluster.status().brokers[0].pid
        self.step(f"Kill the broker in the middle of it: kill -{int(signal.SIGKILL)} {self.killed_pid}")
        self.killed_at = time.monotonic()
        self.cluster.kill(NODE)  # outside of an assertion, which PYTHONOPTIMIZE would remove
        self.say(f"gone, with {stored} messages stored and every client still sending")

    def _restart(self) -> None:
        self.step("Start it again on the same data")
        began = time.monotonic()
        again = self.cluster.restart(NODE)
        took_ms = self.took("restart_ms", began)
        self.say(f"ready in {took_ms:.0f} ms (pid {again.pid}); the clients go on by themselves")

    def _finish(self) -> None:
        self.step("Let the clients finish")
        # Even on a slow machine, part of the load comes after the restart.
        self.poll_until(1.0, at_least=self.settings.load_seconds * 0.3)
        self.finish_clients()
        self.say(f"{self.recorder.acknowledged} messages acknowledged by the broker")
        first = self.recorder.first_ack_after(self.killed_at)
        if first is not None:
            took_ms = self.took("kill_to_first_ack_ms", self.killed_at, first)
            self.say(f"from the kill to the first acknowledgement after it: {took_ms:.0f} ms")

    def result(self) -> Result:
        restart_ms, first_ms = self.times["restart_ms"], self.times["kill_to_first_ack_ms"]
        first = "" if first_ms is None else f"; from the kill to the next ack {first_ms:.0f} ms"
        notes = [f"restart after the kill {restart_ms:.0f} ms{first}", NOT_POWER_LOSS]
        commands = [
            ("yak up -d", "start a cluster that stays"),
            ('yak produce -m "hello"', "store a message"),
            ("yak consume --from-beginning --exit", "read it back"),
            ("yak demo restart --keep", "this again, and leave it running"),
        ]
        if self.settings.keep:
            commands = [
                (f"yak consume server_metrics --from-beginning --exit -b {self.bootstrap}", ""),
                (f"yak up --status --data-dir {self.where}", ""),
                (f"yak down --data-dir {self.where}", ""),
            ]
        return self.topics_result(notes, commands, {"killed_pid": self.killed_pid})


BROKERS: Final = 3
TOPIC_AFTER: Final = "made-by-the-new-leader"
_ELECTED: Final = re.compile(r"^(\S+) +\S+ +quorum-leader-elected .*\bepoch=(\d+)")


class ElectionScenario(TopicsScenario):
    """Start, load, kill the quorum's leader, change the metadata, restart it, read back."""

    SUMMARY = "Brokers without Redis; the leader of their metadata quorum killed; every acknowledged message counted."
    TIMES = ("election_ms", "topic_created_ms", "restart_ms", "read_back_ms")
    ERROR = "demo-no-election"

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.before: QuorumState | None = None
        self.after: QuorumState | None = None
        self.failover: Failover | None = None
        self.pauses: dict[str, float] = {}

    def steps(self) -> Sequence[Callable[[], None]]:
        return (self._start_brokers, self._list, self._send, self._kill, self._change, self._restart, self._compare)

    @property
    def victim(self) -> NodeId:
        """The quorum's first leader."""
        assert self.before is not None, "the steps have run"
        return self.before.leader_id

    def _start_brokers(self) -> None:
        self.say_ready(self.start(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS, metadata="raft")))

    def _list(self) -> None:
        self.step("Look at the metadata quorum: all brokers are voters")
        self.before = self._show_quorum()
        self.say("a change of the metadata is committed when two of the three have it on disk")

    def _send(self) -> None:
        self.step(f"Send real data to topics of which broker {self.victim} has all, one, or no leader")
        self.make_clients()
        other, third = self.other_brokers(self.victim)
        placements = {
            "server_metrics": ([other, third], f"no replica on broker {self.victim}"),
            "files": ([self.victim, other, third], f"led by broker {self.victim}"),
            "processes": ([third, other, self.victim], f"broker {self.victim} follows"),
        }
        for load in self.loads:
            replicas, said = placements[load.topic]
            self.create_topic(load.topic, assignment=[replicas])
            self.say(f"{load.topic:<15} replicas {','.join(map(str, replicas))}: {said}")
        self.start_load(*self.loads)
        self.poll_until(0.35)

    def _kill(self) -> None:
        stored = self.wait_until_all_store()
        self.step(f"Kill broker {self.victim}, the quorum's leader: kill -9 ({stored} messages so far)")
        logs = LogFollower({name: path for name, path in self.cluster.log_paths().items() if name.startswith("node-")})
        self.failover = failover = self.kill_and_watch(self.victim)
        killed_at = time.time() - (time.monotonic() - failover.began_s)
        self.wait("the quorum has another leader", lambda: self._quorum().leader_id != self.victim)
        self.after = after = self._quorum()
        elected = [at for _, line in logs.new_lines() if (at := elected_at(line, after.epoch)) is not None]
        if not elected:
            raise YakError(self.ERROR, "no broker logged its election", why=self.condition())
        took_ms = self.times["election_ms"] = max(0.0, (min(elected) - killed_at) * 1000.0)
        self.say(f"broker {after.leader_id} was elected in epoch {after.epoch}, {took_ms:.0f} ms after the kill")
        self.poll_for(AFTER_SECONDS)
        self.note_first_ack(failover)
        self.reporter.timeline(failover)
        self._note_pauses(failover.began_s)
        self._show_quorum()

    def _note_pauses(self, killed_s: float) -> None:
        """The longest waits for an acknowledgement around the kill, of the clients that report each one at once."""
        by_partition = self.recorder.acks().by_partition
        for load in self.loads:
            times = by_partition.get(f"{load.topic}-0", [])
            around = [later - earlier for earlier, later in itertools.pairwise(times) if later >= killed_s]
            before = [later - earlier for earlier, later in itertools.pairwise(times) if later < killed_s]
            if not around or not before:
                continue
            pause_ms, usual_ms = max(around) * 1000.0, max(before) * 1000.0
            self.pauses[load.topic] = pause_ms
            self.say(
                f"{load.topic:<15} waited {pause_ms:.0f} ms at most for an acknowledgement, before {usual_ms:.0f} ms"
            )

    def _change(self) -> None:
        self.step("Change the metadata: create a topic with the new leader")
        began = time.monotonic()
        self.create_topic(TOPIC_AFTER, partitions=1, replication_factor=2)
        self.say(f"created in {self.took('topic_created_ms', began):.0f} ms, with two of three voters")

    def _restart(self) -> None:
        victim = self.victim
        self.step(f"Start broker {victim} again, on its old data")
        began = time.monotonic()
        again = self.cluster.restart(victim)
        self.say(f"ready in {self.took('restart_ms', began):.0f} ms (pid {again.pid}), as a follower in the quorum")
        self.wait(f"broker {victim} is in sync again", lambda: all(map(is_whole, self._states())))
        self.poll_until(1.0)
        self._show_quorum()

    def result(self) -> Result:
        assert self.after is not None, "the steps have run"
        assert self.failover is not None
        election_ms = self.times["election_ms"] or 0.0
        notes = [
            f"broker {self.after.leader_id} replaced the quorum's leader in {election_ms:.0f} ms, epoch {self.after.epoch}"
        ]
        if "server_metrics" in self.pauses:
            pause_ms = self.pauses["server_metrics"]
            notes.append(f"the client of the topic without a replica there never waited longer than {pause_ms:.0f} ms")
        commands = [
            ("yak up -d --brokers 3 --metadata raft", "start a cluster that stays"),
            ("yak quorum describe --replication", "see its voters"),
            ("yak node kill 1", "kill one of them"),
            ("yak demo election --keep", "this again, and leave it running"),
        ]
        if self.settings.keep:
            cluster_commands = ("yak up --status", "yak metadata log", "yak down")
            commands = [(f"{command} --data-dir {self.where}", "") for command in cluster_commands]
            commands.insert(0, (f"yak quorum describe --replication -b {self.bootstrap}", ""))
        fields = {
            "brokers": BROKERS,
            "killed_node": self.victim,
            "killed_pid": self.killed_pid,
            "new_leader": self.after.leader_id,
            "epoch_before": self.before.epoch if self.before is not None else None,
            "epoch": self.after.epoch,
            "longest_pause_ms": {topic: tenths(pause) for topic, pause in self.pauses.items()},
            "timeline": self.failover.timeline.as_json(),
        }
        return self.topics_result([*notes, NOT_POWER_LOSS], commands, fields)

    def condition(self) -> str:
        try:
            found = self._quorum()
        except YakError as error:
            return error.message
        return f"node {found.leader_id} leads the quorum in epoch {found.epoch}"

    def _quorum(self) -> QuorumState:
        running = next(each for each in self.cluster.status().brokers if each.state == "running")
        return describe_quorum(running.address, timeout_s=REQUEST_SECONDS)

    def _show_quorum(self) -> QuorumState:
        found = self._quorum()
        rows = [
            {
                "node": voter.node_id,
                "status": found.status_of(voter),
                "epoch": found.epoch,
                "log end": voter.log_end_offset,
                "lag": voter.lag,
                "fetched": None if voter.fetched_ms_ago is None else f"{voter.fetched_ms_ago} ms ago",
            }
            for voter in found.voters
        ]
        self.reporter.table(rows, [voter.node_id in found.running_voters() for voter in found.voters])
        return found


def elected_at(line: str, epoch: int) -> float | None:
    """When a broker logged its election in this epoch, in seconds since 1970; None for any other line."""
    found = _ELECTED.match(line)
    if found is None or int(found[2]) != epoch:
        return None
    return datetime.fromisoformat(found[1]).timestamp()
