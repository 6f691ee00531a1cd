"""`yak demo election`: the leader of the metadata quorum is killed under load, and another voter is elected."""

import itertools
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from yak.client.admin import Admin
from yak.client.quorum_changes import QuorumState, describe_quorum
from yak.client.replica_offsets import read_metadata
from yak.errors import YakError
from yak.ids import NodeId
from yak.local.cluster import UpSettings
from yak.local.demo.scenario import REQUEST_SECONDS, Reporter, Result, Settings
from yak.local.demo.topics import NOT_POWER_LOSS, TopicsScenario
from yak.local.failover import Failover, end_and_watch
from yak.local.failover_timeline import tenths
from yak.local.supervise import LogFollower

BROKERS: Final = 3
TOPIC_AFTER: Final = "made-by-the-new-leader"
_AFTER_SECONDS: Final = 1.0
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
        """The steps."""
        return (self._start_brokers, self._look, self._send, self._kill, self._change, self._restart, self._compare)

    @property
    def victim(self) -> NodeId:
        """The quorum's first leader."""
        assert self.before is not None, "the steps have run"
        return self.before.leader_id

    def _start_brokers(self) -> None:
        self.say_ready(self.start(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS, metadata="raft")))

    def _look(self) -> None:
        self.step("Look at the metadata quorum: all brokers are voters")
        self.before = self._show_quorum()
        self.say("a change of the metadata is committed when two of the three have it on disk")

    def _send(self) -> None:
        self.step(f"Send real data to topics of which broker {self.victim} has all, one, or no leader")
        self.make_clients()
        other, third = sorted(set(self._brokers()) - {self.victim})
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
        self.go_on_to(0.35)

    def _kill(self) -> None:
        stored = self.wait_until_all_store()
        self.step(f"Kill broker {self.victim}, the quorum's leader: kill -9 ({stored} messages so far)")
        logs = LogFollower({name: path for name, path in self.cluster.log_paths().items() if name.startswith("node-")})

        def killed(failover: Failover) -> None:
            self.killed_pid = failover.pid
            self.say(f"process {failover.pid} is gone, with every client sending")

        self.failover = failover = end_and_watch(self.cluster, self.victim, on_ended=killed)
        killed_at = time.time() - (time.monotonic() - failover.began_s)
        self.wait("the quorum has another leader", lambda: self._quorum().leader_id != self.victim)
        self.after = after = self._quorum()
        elected = [at for _, line in logs.new_lines() if (at := elected_at(line, after.epoch)) is not None]
        if not elected:
            raise YakError(self.ERROR, "no broker logged its election", why=self.condition())
        took_ms = self.times["election_ms"] = max(0.0, (min(elected) - killed_at) * 1000.0)
        self.say(f"broker {after.leader_id} was elected in epoch {after.epoch}, {took_ms:.0f} ms after the kill")
        self.go_on(_AFTER_SECONDS)
        first = self.recorder.first_ack_after(failover.ended_s)
        failover.timeline.first_ack_ms = None if first is None else (first - failover.began_s) * 1000.0
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
        self.wait(f"broker {victim} is in sync again", self._is_in_sync)
        self.go_on_to(1.0)
        self._show_quorum()

    def result(self) -> Result:
        """The result."""
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
            kept = ("yak up --status", "yak metadata log", "yak down")
            commands = [(f"{command} --data-dir {self.where}", "") for command in kept]
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
        """What the quorum's leader says."""
        try:
            found = self._quorum()
        except YakError as error:
            return error.message
        return f"node {found.leader_id} leads the quorum in epoch {found.epoch}"

    def _brokers(self) -> list[NodeId]:
        return sorted(Admin(self.bootstrap).metadata().brokers)

    def _is_in_sync(self) -> bool:
        found = read_metadata(self.bootstrap, timeout_s=REQUEST_SECONDS).partitions
        topics = {load.topic for load in self.loads}
        return all(set(each.isr) == set(each.replicas) for each in found if each.topic in topics)

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
