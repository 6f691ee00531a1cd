"""Kafka's command line tools: those that YAK can serve work, the others end with Kafka's error (docs/programs.md)."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clusters import running_cluster
from yak.local.cluster import UpSettings

pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(900)]
TOOLS = "org.apache.kafka.tools."
SECONDS = 180
"""At the most, for a tool: beside other tests a JVM needs a minute for its start."""


class Tool(NamedTuple):
    """One call of a tool: its script, class and words (`@` for the brokers), and what it prints."""

    script: str
    java_class: str
    words: str
    says: str
    """A regular expression; an empty one means that nothing may be printed."""
    typed: str = ""
    is_exit_checked: bool = True


CONSUMER_GROUPS = f"{TOOLS}consumer.group.ConsumerGroupCommand"
REASSIGN = f"{TOOLS}reassign.ReassignPartitionsCommand"
CONFIGS = f"{TOOLS}ConfigCommand"
WORKING = [
    Tool("kafka-topics", f"{TOOLS}TopicCommand", "@ --create --topic made --partitions 2", "Created topic made"),
    Tool("kafka-topics", f"{TOOLS}TopicCommand", "@ --describe --topic orders", r"PartitionCount: 2.*Isr: 1,2,3"),
    Tool("kafka-console-producer", f"{TOOLS}ConsoleProducer", "@ --topic typed", "", typed="one\ntwo\n"),
    Tool(
        "kafka-console-consumer",
        f"{TOOLS}consumer.ConsoleConsumer",
        "@ --topic orders --from-beginning --max-messages 3 --timeout-ms 30000",
        r"paid\npaid\npaid",
    ),
    Tool("kafka-consumer-groups", CONSUMER_GROUPS, "@ --describe --group g", r"g +orders +0 +\d"),
    Tool(
        "kafka-consumer-groups",
        CONSUMER_GROUPS,
        "@ --group g --topic orders --reset-offsets --to-earliest --execute",
        r"g +orders +0 +0",
    ),
    Tool("kafka-groups", f"{TOOLS}GroupsCommand", "@ --list", r"g +Classic +consumer"),
    Tool("kafka-share-groups", f"{TOOLS}consumer.group.ShareGroupCommand", "@ --list", ""),
    Tool("kafka-streams-groups", f"{TOOLS}streams.StreamsGroupCommand", "@ --list", ""),
    Tool("kafka-get-offsets", f"{TOOLS}GetOffsetShell", "@ --topic orders", r"orders:0:\d+\n.*orders:1:\d+"),
    Tool(
        "kafka-delete-records",
        f"{TOOLS}DeleteRecordsCommand",
        "@ --offset-json-file {folder}/deleted.json",
        "low_watermark: 1",
    ),
    Tool("kafka-configs", CONFIGS, "@ --describe --topic orders --all", "retention.ms=604800000"),
    Tool(
        "kafka-configs",
        CONFIGS,
        "@ --alter --entity-type brokers --entity-name 1 --add-config message.max.bytes=2000000",
        "Completed updating config for broker 1",
    ),
    Tool(
        "kafka-configs",
        CONFIGS,
        "@ --alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000",
        "Completed updating config for group g",
    ),
    Tool(
        "kafka-configs",
        CONFIGS,
        "@ --alter --entity-type users --entity-name u --add-config producer_byte_rate=1000",
        "Completed updating config for user u",
    ),
    Tool("kafka-configs", CONFIGS, "@ --describe --entity-type users", "producer_byte_rate=1000"),
    Tool(
        "kafka-configs",
        CONFIGS,
        "@ --alter --entity-type ips --entity-default --add-config connection_creation_rate=1000",
        "Completed updating default config for ips",
    ),
    Tool("kafka-broker-api-versions", f"{TOOLS}BrokerApiVersionsCommand", "@", r"Produce\(0\).*EndTxn\(26\)"),
    Tool("kafka-client-metrics", f"{TOOLS}ClientMetricsCommand", "@ --list", ""),
    Tool("kafka-cluster", f"{TOOLS}ClusterTool", "cluster-id @", r"Cluster ID: [\w-]{22}"),
    Tool("kafka-cluster", f"{TOOLS}ClusterTool", "list-endpoints @", r"3 +127.0.0.1 .*unfenced"),
    Tool("kafka-features", f"{TOOLS}FeatureCommand", "@ describe", r"transaction.version.*FinalizedVersionLevel: 2"),
    Tool(
        "kafka-features",
        f"{TOOLS}FeatureCommand",
        "@ upgrade --feature group.version=1 --dry-run",
        "group.version can be upgraded to 1",
    ),
    Tool(
        "kafka-leader-election",
        f"{TOOLS}LeaderElectionCommand",
        "@ --election-type preferred --all-topic-partitions",
        "",
    ),
    Tool("kafka-log-dirs", f"{TOOLS}LogDirsCommand", "@ --describe --topic-list orders", '"partition":"orders-0"'),
    Tool("kafka-metadata-quorum", f"{TOOLS}MetadataQuorumCommand", "@ describe --status", r"LeaderId: +[123]"),
    Tool("kafka-reassign-partitions", REASSIGN, "@ --reassignment-json-file {folder}/moved.json --execute", "orders-1"),
    Tool("kafka-reassign-partitions", REASSIGN, "@ --list", "eassignment"),
    Tool(
        "kafka-producer-perf-test",
        f"{TOOLS}ProducerPerformance",
        "@ --topic load --num-records 1000 --record-size 100 --throughput -1",
        "1000 records sent",
    ),
    Tool(
        "kafka-consumer-perf-test",
        f"{TOOLS}ConsumerPerformance",
        "@ --topic orders --num-records 3 --timeout 30000",
        "data.consumed.in.nMsg",
    ),
    Tool(
        "kafka-e2e-latency",
        f"{TOOLS}EndToEndLatency",
        "@ --topic latency --num-records 20 --producer-acks all --record-size 100",
        "Avg latency",
    ),
    Tool("kafka-verifiable-producer", f"{TOOLS}VerifiableProducer", "@ --topic verified --max-messages 3", '"acked":3'),
    Tool("kafka-transactions", f"{TOOLS}TransactionsCommand", "@ list", r"payments\s+[123]\s+\d+\s+CompleteCommit"),
    Tool(
        "kafka-transactions", f"{TOOLS}TransactionsCommand", "@ describe --transactional-id payments", "CompleteCommit"
    ),
    Tool("kafka-transactions", f"{TOOLS}TransactionsCommand", "@ find-hanging --topic orders", "StartOffset"),
    Tool(
        "kafka-streams-application-reset",
        f"{TOOLS}StreamsResetter",
        "@ --application-id app --input-topics orders --dry-run",
        r"Topic: orders Partition: 0 Offset: \d",
    ),
    Tool("kafka-dump-log", f"{TOOLS}DumpLogSegments", "--files {log} --print-data-log", r"offset: \d.*payload: paid"),
    Tool(
        "kafka-dump-log",
        f"{TOOLS}DumpLogSegments",
        "--files {offsets} --offsets-decoder",
        r'"group":"g","topic":"orders"',
    ),
]
REFUSED = [
    Tool(
        "kafka-console-share-consumer",
        f"{TOOLS}consumer.ConsoleShareConsumer",
        "@ --topic orders --timeout-ms 3000",
        "does not support SHARE_GROUP_HEARTBEAT",
        is_exit_checked=False,
    ),
    Tool(
        "kafka-share-groups",
        f"{TOOLS}consumer.group.ShareGroupCommand",
        "@ --describe --group missing",
        "does not support SHARE_GROUP_DESCRIBE",
        is_exit_checked=False,
    ),
    Tool(
        "kafka-streams-groups",
        f"{TOOLS}streams.StreamsGroupCommand",
        "@ --describe --group missing",
        "does not support STREAMS_GROUP_DESCRIBE",
    ),
    Tool(
        "kafka-share-consumer-perf-test",
        f"{TOOLS}ShareConsumerPerformance",
        "@ --topic orders --num-records 3 --timeout 3000",
        "does not support SHARE_GROUP_HEARTBEAT",
    ),
    Tool(
        "kafka-features",
        f"{TOOLS}FeatureCommand",
        "@ downgrade --feature transaction.version=1",
        "Could not downgrade transaction.version to 1",
    ),
    Tool("kafka-acls", f"{TOOLS}AclCommand", "@ --list", "SecurityDisabledException"),
    Tool(
        "kafka-client-metrics",
        f"{TOOLS}ClientMetricsCommand",
        "@ --alter --name m --metrics x --interval 5000",
        "does not collect client metrics",
    ),
    Tool(
        "kafka-delegation-tokens",
        f"{TOOLS}DelegationTokenCommand",
        "@ --describe --command-config {folder}/empty.properties",
        "UnsupportedByAuthenticationException",
    ),
]


class Bench(NamedTuple):
    """The cluster with its topic, group and transaction, and the words that the tools' lines leave open."""

    bootstrap: str
    command: list[str]
    folder: Path
    log: Path
    offsets: Path
    """A segment of `__consumer_offsets` with commits."""

    def call(self, tool: Tool) -> list[str]:
        """The command line of a tool."""
        places = {"folder": self.folder, "log": self.log, "offsets": self.offsets, "bootstrap": self.bootstrap}
        words = tool.words.format(**places).split()
        at = [part for word in words for part in (["--bootstrap-server", self.bootstrap] if word == "@" else [word])]
        return [*self.command, tool.java_class, *at]

    def run(self, tool: Tool) -> subprocess.CompletedProcess[str]:
        """Run a tool."""
        return subprocess.run(
            self.call(tool), input=tool.typed, capture_output=True, text=True, timeout=SECONDS, check=False
        )


@pytest.fixture(scope="module")
def bench(newest_java: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("tools")
    with running_cluster(folder / "cluster", UpSettings(port=0, brokers=3, no_http=True)) as cluster:
        bootstrap = cluster.status().bootstrap
        _fill(bootstrap)
        (folder / "empty.properties").touch()
        deleted = {"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}
        (folder / "deleted.json").write_text(json.dumps(deleted))
        moved = {"partitions": [{"topic": "orders", "partition": 1, "replicas": [3, 2, 1]}], "version": 1}
        (folder / "moved.json").write_text(json.dumps(moved))
        log = next((folder / "cluster").rglob("orders-0/00000000000000000000.log"))
        segments = (folder / "cluster").rglob("__consumer_offsets-*/00000000000000000000.log")
        offsets = next(path for path in segments if path.stat().st_size)
        yield Bench(bootstrap, newest_java, folder, log, offsets)


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 2, 3), NewTopic("verified", 1, 3)]).values():
        made.result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(8):
        producer.produce("orders", b"paid", partition=number % 2)
    producer.commit_transaction(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 30
    while not consumer.consume(1, 1):
        assert time.monotonic() < deadline
    consumer.commit(offsets=[Wire("orders", 0, 2), Wire("orders", 1, 2)], asynchronous=False)
    consumer.close()


def _name(tool: Tool) -> str:
    return f"{tool.script} {tool.words}".replace(" @", "").replace("@ ", "")


@pytest.mark.parametrize("tool", WORKING, ids=_name)
def test_tool_works(bench, tool):
    done = bench.run(tool)
    assert done.returncode == 0, done.stdout + done.stderr
    if tool.says:
        assert re.search(tool.says, done.stdout, re.DOTALL), done.stdout + done.stderr
    else:
        assert not done.stdout.strip(">\n")


@pytest.mark.parametrize("tool", REFUSED, ids=_name)
def test_tool_that_needs_what_yak_lacks_ends_with_kafkas_error(bench, tool):
    done = bench.run(tool)
    assert tool.says in done.stdout + done.stderr
    assert done.returncode != 0 or not tool.is_exit_checked


ENDLESS = [
    Tool(
        "kafka-verifiable-consumer",
        f"{TOOLS}VerifiableConsumer",
        "@ --topic orders --group-id verified --reset-policy earliest",
        "offsets_committed",
    ),
    Tool(
        "kafka-verifiable-share-consumer",
        f"{TOOLS}VerifiableShareConsumer",
        "@ --topic orders --group-id verified-shares",
        "does not support SHARE_GROUP_HEARTBEAT",
    ),
    Tool(
        "kafka-replica-verification",
        f"{TOOLS}ReplicaVerificationTool",
        "--broker-list {bootstrap} --topics-include orders --report-interval-ms 1000",
        "max lag is 0 for partition orders-",
    ),
]


@pytest.mark.parametrize("tool", ENDLESS, ids=_name)
def test_tool_that_runs_until_it_is_ended(bench, tool, tmp_path, wait_until):
    output = tmp_path / "output"
    with output.open("w") as file:
        running = subprocess.Popen(bench.call(tool), stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: tool.says in output.read_text(), SECONDS, output.read_text)
        finally:
            running.kill()
            running.wait()


def test_reassignment_moves_a_replica_to_another_directory_of_its_broker(
    newest_java: list[str],
    make_broker: Callable[..., Any],
    redis_databases: Any,
    tmp_path: Path,
    wait_until: Callable[..., None],
) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "broker", url)
        broker.data_dir = ",".join(map(str, directories))
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        (target,) = [each for each in directories if not (each / "orders-0").exists()]
        moved = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [str(target)]}
        (tmp_path / "moved.json").write_text(json.dumps({"partitions": [moved], "version": 1}))
        command = [*newest_java, REASSIGN, "--bootstrap-server", broker.bootstrap]
        command += ["--reassignment-json-file", str(tmp_path / "moved.json")]

        def said(word: str) -> str:
            done = subprocess.run([*command, word], capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert f"log directory to {target} for replica orders-0 with broker 1" in said("--execute")
        verified = "Reassignment of replica orders-0-1 completed successfully"
        wait_until(lambda: verified in said("--verify"), SECONDS, broker.log)
        assert (target / "orders-0").is_dir()


def test_kafka_acls_adds_lists_and_removes_acls(newest_java, make_broker, redis_databases, tmp_path):
    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "broker", url)
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        broker.start(authorizer_class_name=authorizer, super_users="User:ANONYMOUS")

        def said(*words: str) -> str:
            command = [*newest_java, f"{TOOLS}AclCommand", "--bootstrap-server", broker.bootstrap, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        said("--add", "--allow-principal", "User:ann", "--producer", "--topic", "orders-", "--idempotent",
             "--resource-pattern-type", "prefixed")  # fmt: skip
        said("--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.7", "--operation", "All", "--cluster")
        said("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders-1", "--group", "*")
        found = said("--list")
        for pattern, operation in (
            ("TOPIC, name=orders-, patternType=PREFIXED", "principal=User:ann, host=*, operation=CREATE"),
            ("CLUSTER, name=kafka-cluster, patternType=LITERAL", "host=10.0.0.7, operation=ALL, permissionType=DENY"),
            ("GROUP, name=*, patternType=LITERAL", "principal=User:bob, host=*, operation=READ"),
        ):
            assert pattern in found
            assert operation in found
        matching = said("--list", "--topic", "orders-1", "--resource-pattern-type", "match")
        assert "User:ann" in matching
        assert "User:bob" in matching
        said("--remove", "--topic", "orders-", "--resource-pattern-type", "prefixed", "--force")
        assert "User:ann" not in said("--list", "--topic", "orders-1", "--resource-pattern-type", "match")
