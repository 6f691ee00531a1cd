"""The coordinator and the topic's leaders are killed, again and again, while a group consumes and commits.

Every commit that was acknowledged is there afterwards, the group goes on, and no record that was acknowledged to its
producer is missed.
"""

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.group_processes import PYTHON_KINDS, Group, Place
from support.loads import SteadyLoad
from support.raw import RawClient
from support.waiting import wait_until

from yak.errors import ErrorCode
from yak.local.cluster import LocalCluster, UpSettings

PARTITIONS = 6
OFFSETS = "__consumer_offsets"
CONFIGS = (
    "default.replication.factor=3", "min.insync.replicas=2", "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.session.timeout.ms=6000", "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=1", "offsets.topic.num.partitions=5", "replica.lag.time.max.ms=3000",
)  # fmt: skip


class Cluster:
    """Three brokers, and what a test asks them."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalCluster(str(folder))
        self.bootstrap = self.local.up(UpSettings(port=0, brokers=3, leaders=3, configs=CONFIGS)).status.bootstrap

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str) -> None:
        admin = self.admin()  # its futures live as long as it does
        admin.create_topics([NewTopic(topic, PARTITIONS, 3, config={"retention.ms": "-1"})])[topic].result(30)

    def ports(self) -> dict[int, int]:
        """The ports of those that run."""
        running = [each for each in self.local.status().brokers if each.state == "running"]
        return {each.node_id: int(each.address.rpartition(":")[2]) for each in running}

    def _ask(self, api_key: int, version: int, **fields: object) -> object:
        for port in self.ports().values():
            with RawClient(port) as raw:
                return raw.ask(api_key, version, **fields)
        raise AssertionError("no broker runs")

    def coordinator(self, group: str) -> int:
        """The node that coordinates the group; waits for one that runs."""

        def found() -> int | None:
            answer = self._ask(10, 3, key=group, key_type=0)
            return answer.node_id if answer.error_code == 0 and answer.node_id in self.ports() else None

        return wait_until(found, "the group has a coordinator that runs")

    def leader(self, topic: str, partition: int) -> int:
        """Who leads a partition; waits for one that runs."""

        def found() -> int | None:
            known = self.admin().list_topics(topic, 10).topics[topic].partitions[partition]
            return known.leader if known.leader in self.ports() else None

        return wait_until(found, "the partition has a leader that runs")

    def committed(self, group: str) -> dict[Place, int]:
        """What the coordinator says is committed; asks again where a client would."""

        def ask() -> dict[Place, int] | None:
            admin = self.admin()
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            try:
                found = asked[group].result(20).topic_partitions
            except KafkaException:
                return None
            return {(each.topic, each.partition): each.offset for each in found}

        return wait_until(ask, "the offsets are told")

    def kill_and_restart(self, node_id: int, meanwhile: Callable[[], None]) -> None:
        """SIGKILL, then something, then the node comes back and is in sync again."""
        self.local.kill(node_id)
        meanwhile()
        self.local.restart(node_id)
        wait_until(self._all_in_sync, "all replicas are in sync again")

    def _all_in_sync(self) -> bool:
        topics = self.admin().list_topics(timeout=10).topics.values()
        return all(len(each.isrs) == 3 for topic in topics for each in topic.partitions.values())

    def assert_no_bugs(self) -> None:
        """Nobody logged a traceback or a bug."""
        for name, path in self.local.log_paths().items():
            text = Path(path).read_text("utf-8", "replace")
            for word in (
                "Traceback",
                " request-failed ",
                " truncated-below-high-watermark",
                " coordinator-log-unreadable",
            ):
                assert word not in text, f"{name}: {text[max(0, text.index(word) - 500) :][:3000]}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("kills") / "cluster")
    try:
        yield made
        made.assert_no_bugs()
    finally:
        made.local.discard()


def assert_kept(acknowledged: dict[Place, int], told: dict[Place, int]) -> None:
    """Nothing that was acknowledged is gone or went back."""
    lost = {place: (offset, told.get(place)) for place, offset in acknowledged.items() if told.get(place, -1) < offset}
    assert not lost, f"acknowledged and told now: {lost}"


def test_groups_survive_the_death_of_their_coordinators(cluster, unique_topic):
    """A group of each client; each one's coordinator is killed in turn, which is a coordinator or a leader to the others."""
    cluster.create(unique_topic)
    load = SteadyLoad(cluster.bootstrap, unique_topic, partitions=PARTITIONS, pause_seconds=0.005)
    with load, contextlib.ExitStack() as stack:
        groups = {
            kind: stack.enter_context(Group(cluster.bootstrap, f"g-{kind}-{unique_topic}", unique_topic))
            for kind in PYTHON_KINDS
        }
        for kind, group in groups.items():
            for _ in range(2):
                group.start(kind, session_ms=20_000)
        for group in groups.values():
            group.wait_shared(PARTITIONS, *group.members)
            group.wait_progress(20, *group.members)
        before = {kind: [member.rebalances() for member in group.members] for kind, group in groups.items()}

        def meanwhile() -> None:
            for group in groups.values():
                assert_kept(group.committed(), cluster.committed(group.name))
                group.wait_progress(20, *group.members)

        for group in groups.values():
            cluster.kill_and_restart(cluster.coordinator(group.name), meanwhile)
        load.stop()
        assert load.failed == []
        for kind, group in groups.items():
            if kind != "aiokafka":
                # a member that the log knows need not join anew when its coordinator moves; aiokafka does so by itself
                assert [member.rebalances() for member in group.members] == before[kind], kind
            group.wait_seen(load, unique_topic)
            assert_kept(group.committed(), cluster.committed(group.name))
            group.check()


def test_a_group_of_all_survives_deaths_in_the_middle_of_its_rebalances(cluster, unique_topic):
    cluster.create(unique_topic)
    name = f"g-{unique_topic}"
    load = SteadyLoad(cluster.bootstrap, unique_topic, partitions=PARTITIONS, pause_seconds=0.005)
    with load, Group(cluster.bootstrap, name, unique_topic) as group:
        members = [group.start(kind) for kind in PYTHON_KINDS]
        group.wait_shared(PARTITIONS, *members)

        def one_comes() -> None:
            members.append(group.start("confluent-kafka"))
            group.wait_progress(20, *members)

        def one_dies() -> None:
            members.pop(0).kill()
            group.wait_progress(20, *members)

        cluster.kill_and_restart(cluster.coordinator(name), one_comes)
        cluster.kill_and_restart(cluster.leader(unique_topic, 0), one_dies)
        assert_kept(group.committed(), cluster.committed(name))
        group.wait_shared(PARTITIONS, *members)
        load.stop()
        assert load.failed == []
        group.wait_seen(load, unique_topic)
        assert_kept(group.committed(), cluster.committed(name))
        group.check()


def sizes(members):
    return [len(member.holds()) for member in members]


def test_a_group_of_the_consumer_protocol_survives_its_coordinators(cluster, unique_topic):
    """Each broker that coordinates it is killed; once a member dies with the coordinator."""
    cluster.create(unique_topic)
    name = f"g-{unique_topic}"
    load = SteadyLoad(cluster.bootstrap, unique_topic, partitions=PARTITIONS, pause_seconds=0.005)
    with load, Group(cluster.bootstrap, name, unique_topic) as group:
        members = [group.start("confluent-kafka", protocol="consumer") for _ in range(3)]
        group.wait_shared(PARTITIONS, *members)
        # all of them are held before the last one moves to its final member, and one of none while it moves
        wait_until(lambda: sizes(members) == [2, 2, 2], "the partitions are shared evenly", 30)
        before = [member.rebalances() for member in members]
        cluster.kill_and_restart(cluster.coordinator(name), lambda: group.wait_progress(20, *members))
        assert [member.rebalances() for member in members] == before, "nobody has to join anew"

        def one_dies() -> None:
            members.pop().kill()
            group.wait_shared(PARTITIONS, *members)
            group.wait_progress(20, *members)

        cluster.kill_and_restart(cluster.coordinator(name), one_dies)
        assert_kept(group.committed(), cluster.committed(name))
        load.stop()
        assert load.failed == []
        group.wait_seen(load, unique_topic)
        assert_kept(group.committed(), cluster.committed(name))
        group.check()


def move_coordinator(cluster: Cluster, group: str) -> None:
    """Elect another leader for the group's partition of the offsets topic; the old coordinator and its connections stay."""
    old = cluster.coordinator(group)
    ports = cluster.ports()
    partitions = [
        {"partition_index": number, "replicas": [node % 3 + 1 for node in (old, old + 1, old + 2)]}
        for number, known in cluster.admin().list_topics(OFFSETS, 10).topics[OFFSETS].partitions.items()
        if known.leader == old
    ]
    numbers = [each["partition_index"] for each in partitions]
    timeout = dt.timedelta(seconds=10)
    with RawClient(ports[old]) as raw:
        changed = raw.ask(45, 0, topics=[{"name": OFFSETS, "partitions": partitions}], timeout=timeout)
        assert changed.error_code == 0, changed
        raw.ask(43, 2, election_type=0, topic_partitions=[{"topic": OFFSETS, "partitions": numbers}], timeout=timeout)

        def has_resigned() -> bool:
            asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
            return raw.ask(9, 9, groups=[asked], require_stable=False).groups[0].error_code == ErrorCode.not_coordinator

        wait_until(has_resigned, "the old coordinator has resigned")
    wait_until(lambda: cluster.coordinator(group) != old, "a new coordinator")


def test_librdkafka_with_coordinator_moved_before_offset_fetch_reads_from_committed_offsets(cluster, unique_topic):
    cluster.create(unique_topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(PARTITIONS * 2):
        producer.produce(unique_topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    group = f"g-{unique_topic}"
    # No heartbeat is answered with NOT_COORDINATOR before the OffsetFetch is.
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    patient = {"session.timeout.ms": 300_000, "heartbeat.interval.ms": 100_000, "log_level": 0}
    consumer = Consumer(config | patient)

    def assigned(handle: Consumer, partitions: list[TopicPartition]) -> None:
        committed = [TopicPartition(unique_topic, each.partition, 1) for each in partitions]
        handle.commit(offsets=committed, asynchronous=False)
        move_coordinator(cluster, group)
        handle.assign(partitions)

    try:
        consumer.subscribe([unique_topic], on_assign=assigned)
        found: list[bytes] = []

        def reads() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= PARTITIONS

        wait_until(reads, "the records behind the committed offsets")
        assert sorted(map(int, found)) == list(range(PARTITIONS, PARTITIONS * 2))
    finally:
        consumer.close()
