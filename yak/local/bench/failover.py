"""The failover benchmark: kill the leader that is also the controller, repeatedly and under load.

One topic has a partition for each broker, each with another preferred leader. Before every kill each broker leads its
own partition again, so the controller always leads one, and is the broker that is killed. The notes of the writer and
the reader then give each partition's pauses. At the end every acknowledged record is read back.
"""

import time
import uuid
from collections.abc import Callable, Sequence

from yak.client.admin import Admin
from yak.client.elections import elect_preferred_leaders
from yak.client.metadata import Partition
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.local.bench.failover_result import (
    FailoverResult,
    FailoverSettings,
    Kill,
    delivery_of,
    gone,
    measure,
)
from yak.local.bench.fleet import Fleet
from yak.local.bench.ledger_load import HANGING, LedgerLoad, LoadProcess, read_back

TOPIC = "yak-bench-failover"
RECOVERY_SECONDS = 120.0
"""If partitions take no writes, or ISRs are incomplete, after this time, the run fails."""
ELECTION_SECONDS = 10.0
POLL_SECONDS = 0.02
REQUEST_MS = 3000


def run_failover(
    fleet: Fleet, settings: FailoverSettings, *, on_kill: Callable[[Kill], None] = lambda _kill: None
) -> FailoverResult:
    """Create the topic, run the load, end brokers, and compare. `on_kill` gets each kill when its node is back.

    Raises YakError (`bench-failover-stuck`: the cluster did not recover), or the fleet's errors.
    """
    topic = f"{TOPIC}-{uuid.uuid4().hex[:6]}"
    extra = HANGING if settings.mode == "pause" else {}
    load = LedgerLoad(fleet.bootstrap, topic, settings.partitions, settings.rate, settings.size_bytes, extra)
    drill = _Drill(fleet, settings, load, on_kill)
    drill.make_topic()
    processes = [drill.writer, drill.reader]
    try:
        for process in processes:
            process.start()
        drill.wait_for_acks_after(time.monotonic())
        kills = [drill.one_kill(number) for number in range(1, settings.kills + 1)]
        time.sleep(settings.settle_s)
        ended_s = time.monotonic()
        written, seen = drill.writer.finish(), drill.reader.finish()
    finally:
        for process in processes:
            process.end()
    for kill, following in zip(kills, [*(each.killed_s for each in kills[1:]), ended_s], strict=True):
        kill.next_s = following
        measure(kill, written, seen)
    stored = read_back(load, drill.ends())
    result = FailoverResult(settings, kills, failed=written.failed + written.unanswered)
    result.first_error = written.first_error or (f"{written.unanswered} unanswered" if written.unanswered else "")
    result.verdict = delivery_of(topic, written, stored)
    result.seen_and_gone = gone(seen, stored)
    result.client = drill.client_settings()
    return result


class _Drill:
    """The steps of one run against one cluster."""

    def __init__(
        self, fleet: Fleet, settings: FailoverSettings, load: LedgerLoad, on_kill: Callable[[Kill], None]
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._load = load
        self._on_kill = on_kill
        self._admin = Admin(load.bootstrap, timeout_ms=REQUEST_MS)
        self.writer = LoadProcess("writer", load)
        self.reader = LoadProcess("reader", load)

    def make_topic(self) -> None:
        """Create a partition for each broker in turn, each with another preferred leader."""
        nodes = sorted(self._admin.metadata().brokers)
        factor = self._settings.replication_factor
        if len(nodes) < factor:
            raise YakError("bench-brokers", f"{len(nodes)} brokers are not enough for replication factor {factor}")
        rows = [
            [nodes[(partition + at) % len(nodes)] for at in range(factor)]
            for partition in range(self._settings.partitions)
        ]
        configs = {"min.insync.replicas": str(min(2, factor)), "unclean.leader.election.enable": "false"}
        self._admin.create_topic(self._load.topic, assignment=rows, configs=configs)
        self._wait("the new topic's ISRs are not whole", lambda: self._whole(self._partitions()))

    def one_kill(self, number: int) -> Kill:
        """Prepare, end a broker, wait for the failover, bring the broker back, wait for full ISRs."""
        self.prefer_leaders()
        self.wait_for_acks_after(time.monotonic())
        time.sleep(self._settings.settle_s)
        kill = self._choose(number)
        kill.killed_s = time.monotonic()
        self._end(kill.node_id)
        self.wait_for_acks_after(kill.killed_s, leaders_not=kill.node_id)
        time.sleep(self._settings.settle_s)
        kill.back_s = time.monotonic()
        if self._settings.mode == "pause":
            self._fleet.resume(kill.node_id)
        else:
            self._fleet.restart(kill.node_id)
        self._wait(f"node {kill.node_id} is not in every ISR again", lambda: self._whole(self._partitions()))
        kill.whole_s = time.monotonic()
        self._on_kill(kill)
        return kill

    def _end(self, node_id: int) -> None:
        if self._settings.mode == "pause":
            self._fleet.pause(node_id)
        else:
            self._fleet.kill(node_id)

    def _choose(self, number: int) -> Kill:
        """Choose the controller when it leads a partition; else the first partition's leader."""
        partitions = self._partitions()
        controller = self._fleet.controller()
        leaders = {each.leader for each in partitions}
        node_id = controller if controller in leaders and controller is not None else partitions[0].leader
        led = tuple(each.number for each in partitions if each.leader == node_id)
        return Kill(number, node_id, node_id == controller, led, 0.0)

    def prefer_leaders(self) -> None:
        """Elect every partition's preferred leader; after a timeout, go on without."""
        deadline_s = time.monotonic() + ELECTION_SECONDS
        while time.monotonic() < deadline_s:
            away = [each for each in self._partitions() if each.leader != each.replicas[0]]
            if not away:
                return
            names = [TopicPartition(self._load.topic, each.number) for each in away]
            try:
                elect_preferred_leaders(self._admin.metadata(), names, timeout_s=ELECTION_SECONDS)
            except YakError:
                time.sleep(0.2)
            time.sleep(POLL_SECONDS)

    def wait_for_acks_after(self, moment_s: float, *, leaders_not: int | None = None) -> None:
        """Wait until every partition has an acknowledgement after the moment, and none is led by that node.

        Raises YakError (`bench-failover-stuck`).
        """

        def done() -> bool:
            if leaders_not is not None and any(each.leader in (leaders_not, -1) for each in self._partitions()):
                return False
            recent_s = time.monotonic() - 0.5
            return all(at > max(moment_s, recent_s) for at in self.writer.last_ack_s)

        self._wait("some partition takes no writes", done)

    def ends(self) -> dict[int, int]:
        """The high watermark of every partition. Raises YakError when a leader does not answer in time."""
        names = [TopicPartition(self._load.topic, number) for number in range(self._load.partitions)]
        deadline_s = time.monotonic() + ELECTION_SECONDS
        while True:
            try:
                return {each.partition: end for each, (_, end) in self._admin.watermarks(names).items()}
            except YakError:
                # The admin client may have stale metadata, and a new leader does not know its high watermark at first.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    def client_settings(self) -> dict[str, object]:
        """The relevant librdkafka properties of both clients."""
        from yak.local.bench.ledger_load import READER, WRITER

        return {"writer": {**WRITER, **self._load.properties}, "reader": {**READER, **self._load.properties}}

    def _partitions(self) -> Sequence[Partition]:
        try:
            found = self._admin.metadata().topics.get(self._load.topic)
        except YakError:
            return ()
        return () if found is None else found.partitions

    def _whole(self, partitions: Sequence[Partition]) -> bool:
        expected = self._settings.replication_factor
        return len(partitions) == self._load.partitions and all(
            each.leader >= 0 and len(each.isr) == expected for each in partitions
        )

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + RECOVERY_SECONDS
        while not done():
            if time.monotonic() > deadline_s:
                seen = "; ".join(f"{each.number}: leader {each.leader}, ISR {each.isr}" for each in self._partitions())
                raise YakError("bench-failover-stuck", f"{what} after {RECOVERY_SECONDS:.0f} s", why=seen)
            time.sleep(POLL_SECONDS)
