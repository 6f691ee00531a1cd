"""packaging/docker without a container engine: its start script as a process, with the variables of real callers."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.unit.commands.test_kafka_environment import TESTCONTAINERS_JAVA
from tests.unit.security import identities
from yak.local import ports, redis_child

FOLDER = Path(__file__).resolve().parents[2] / "packaging" / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
BROKERS = ("yak-1", "yak-2", "yak-3")
WAIT_STRATEGIES = (
    r".*\[KafkaServer id=\d+\] started.*",  # testcontainers-python and -java for cp-kafka
    r".*Kafka Server started.*",  # testcontainers-python with KRaft
    r".*Transitioning from RECOVERY to RUNNING.*",  # testcontainers-java and -go
)


class Containers:
    """Processes in the place of containers: a folder each, nothing of this test's environment but PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[str]] = {}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "yak").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m yak.commands "$@"\n')
        (programs / "yak").chmod(0o755)
        self._path = f"{programs}:{os.environ['PATH']}"

    def environment(self, name: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Of one container."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        own = {"PATH": self._path, "HOME": str(folder), "YAK_DATA_DIR": str(folder / "data")}
        return {**own, "YAK_READY_FILE": str(folder / "ready.json"), "YAK_HTTP_PORT": "0", **variables}

    def start(self, name: str, variables: Mapping[str, str], *command: str) -> None:
        """Start one container; without a command, the image's."""
        with (self._folder / f"{name}.log").open("a") as log:
            self._running[name] = subprocess.Popen(
                command or [str(FOLDER / "run")],
                env=self.environment(name, variables),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def wait(self, name: str, pattern: str) -> None:
        """Wait for a line of the log, as testcontainers does; fails if the process ends before."""
        deadline = time.monotonic() + 60
        while not any(re.match(pattern, line) for line in self.log(name).splitlines()):
            assert self._running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.05)

    def ended(self, name: str) -> int:
        """The exit code of a container that ends by itself."""
        return self._running[name].wait(30)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def is_healthy(self, name: str, variables: Mapping[str, str]) -> bool:
        """What the image's health check says."""
        environment = self.environment(name, variables)
        return (
            subprocess.run([str(FOLDER / "health")], env=environment, capture_output=True, timeout=20).returncode == 0
        )

    def close(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):  # a shell's children too: none outlives its container
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    running = Containers(tmp_path)
    try:
        yield running
    finally:
        running.close()


def send_and_read(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    assert [record.value() for record in consumer.consume(1, timeout=60)] == [b"hello"]
    consumer.close()


def described(bootstrap: str) -> Any:
    """The cluster as a client sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_cluster(request_timeout=30).result(40)


def test_testcontainers_script_starts_a_broker_that_a_client_can_use(containers, tmp_path):
    outside, broker, controller = (ports.find_lasting("127.0.0.1") for _ in range(3))
    listeners = f"PLAINTEXT://0.0.0.0:{outside},BROKER://0.0.0.0:{broker},CONTROLLER://0.0.0.0:{controller}"
    variables = {
        **{name: value for name, value in TESTCONTAINERS_JAVA.items() if name != "KAFKA_ADVERTISED_LISTENERS"},
        "KAFKA_LISTENERS": listeners,
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{controller}",
    }
    # The container waits for the script that testcontainers copies once it knows the published port.
    script = tmp_path / "testcontainers_start.sh"
    containers.start("tc", variables, "sh", "-c", f"while [ ! -f {script} ]; do sleep 0.1; done; {script}")
    assert not containers.is_healthy("tc", variables)
    ready = script.with_suffix(".new")
    advertised = f"PLAINTEXT://localhost:{outside},BROKER://{socket.gethostname()}:{broker}"
    ready.write_text(f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\n{FOLDER / 'run'} \n")
    ready.chmod(0o777)
    ready.rename(script)
    for pattern in WAIT_STRATEGIES:
        containers.wait("tc", pattern)
    assert containers.is_healthy("tc", variables)
    send_and_read(f"localhost:{outside}", "orders")
    cluster = described(f"localhost:{outside}")
    assert cluster.cluster_id == TESTCONTAINERS_JAVA["CLUSTER_ID"]
    assert [(node.host, node.port) for node in cluster.nodes] == [("localhost", outside)]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_health_check_knows_the_address_and_the_protocol_of_http(containers, tmp_path, host):
    certificate = identities.make(tmp_path / "certs").broker
    https = {"KAFKA_YAK_HTTP_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_KEYSTORE_LOCATION": certificate}
    for name, more in (("http", {}), ("https", https)):
        variables = {"YAK_METADATA": "raft", "KAFKA_LISTENERS": f"PLAINTEXT://{host}:0", **more}
        containers.start(name, variables)
        containers.wait(name, WAIT_STRATEGIES[1])
        assert containers.is_healthy(name, variables)


def test_three_combined_nodes_of_kafkas_compose_file_form_one_cluster(containers):
    """The variables of apache/kafka's docker/examples/docker-compose-files/cluster/combined/plaintext."""
    inside, control, outside = ([ports.find_lasting("127.0.0.1") for _ in range(3)] for _ in range(3))
    for node in (1, 2, 3):
        at = node - 1
        variables = {
            "KAFKA_NODE_ID": str(node),
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(f"{each + 1}@127.0.0.1:{control[each]}" for each in range(3)),
            "KAFKA_LISTENERS": f"PLAINTEXT://:{inside[at]},CONTROLLER://:{control[at]},PLAINTEXT_HOST://:{outside[at]}",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": (
                f"PLAINTEXT://127.0.0.1:{inside[at]},PLAINTEXT_HOST://localhost:{outside[at]}"
            ),
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        }
        containers.start(f"kafka-{node}", variables)
    for node in (1, 2, 3):
        containers.wait(f"kafka-{node}", WAIT_STRATEGIES[1])
    bootstrap = f"localhost:{outside[0]}"
    send_and_read(bootstrap, "orders")
    cluster = described(bootstrap)
    assert cluster.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert sorted(node.port for node in cluster.nodes) == sorted(outside)


def test_variable_that_makes_no_sense_ends_with_one_message_and_exit_code_2(containers):
    containers.start("wrong", {"KAFKA_NUM_PARTITONS": "3"})
    assert containers.ended("wrong") == 2
    assert containers.log("wrong").splitlines() == [
        "error[kafka-environment]: KAFKA_NUM_PARTITONS: there is no config num.partitons",
        "  why:  closest: num.partitions",
        "  try:  KAFKA_NUM_PARTITIONS=3",
    ]


def test_arguments_and_a_mounted_file_set_configs_below_the_variables(containers, tmp_path):
    mounted = tmp_path / "server.properties"
    mounted.write_text("num.partitions=5\nlog.retention.ms=1000\n")
    variables = {"YAK_PROPERTIES_FILE": str(mounted), "KAFKA_NUM_PARTITIONS": "6"}
    port = ports.find_lasting("127.0.0.1")
    command = [str(FOLDER / "run"), f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port}"]
    containers.start("mounted", variables, *command)
    containers.wait("mounted", WAIT_STRATEGIES[0])
    yak = [
        sys.executable, "-P", "-m", "yak.commands", "brokers", "config", "1", "-b", f"localhost:{port}", "-o", "json",
    ]  # fmt: skip
    shown = json.loads(subprocess.run(yak, check=True, capture_output=True, text=True).stdout)
    configs = {each["name"]: each["value"] for each in shown}
    assert (configs["num.partitions"], configs["log.retention.ms"]) == ("6", "1000")


# ------------------------------------------------------------------------------------------------------ the compose file


def moved(text: str, moves: Mapping[str, str]) -> str:
    """A value of the compose file on this machine: its host names and ports replaced."""
    for old, new in moves.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    return text


def test_compose_brokers_with_their_own_variables_form_a_replicated_cluster(containers, tmp_path):
    services = COMPOSE["services"]
    store = ports.find_lasting("127.0.0.1")
    server, *arguments = services["redis"]["command"]
    assert server == "valkey-server"
    (tmp_path / "redis").mkdir()
    flags = ("--port", str(store), "--bind", "127.0.0.1", "--dir", str(tmp_path / "redis"))
    containers.start("redis", {}, redis_child.find_server(), *arguments, *flags)
    moves = {f"{name}:19092": f"127.0.0.1:{ports.find_lasting('127.0.0.1')}" for name in BROKERS}
    moves |= {str(port): str(ports.find_lasting("127.0.0.1")) for port in (9092, 9093, 9094, 8080, 8081, 8082)}
    for name in BROKERS:
        variables = {key: moved(value, moves) for key, value in services[name]["environment"].items() if key != "<<"}
        inside = moves[f"{name}:19092"].rpartition(":")[2]
        variables["KAFKA_LISTENERS"] = variables["KAFKA_LISTENERS"].replace(":19092", f":{inside}")
        variables["YAK_REDIS_URL"] = variables["YAK_REDIS_URL"].replace("redis:6379", f"127.0.0.1:{store}")
        containers.start(name, variables)
    for name in BROKERS:
        containers.wait(name, WAIT_STRATEGIES[0])
        assert f":{moves[services[name]['environment']['YAK_HTTP_PORT']]}" in containers.log(name)
        assert "metadata-store-unsafe" not in containers.log(name)
    send_and_read(f"localhost:{moves['9092']}", "orders")
    metadata = AdminClient({"bootstrap.servers": f"localhost:{moves['9094']}"}).list_topics(timeout=30)
    assert {len(each.replicas) for each in metadata.topics["orders"].partitions.values()} == {3}
    assert {str(node.port) for node in metadata.brokers.values()} == {moves[port] for port in ("9092", "9093", "9094")}


def test_compose_file_publishes_what_its_brokers_serve_and_mounts_what_is_there():
    services = COMPOSE["services"]
    for number, name in enumerate(BROKERS):
        broker = services[name]
        kafka, http = 9092 + number, 8080 + number
        assert broker["ports"] == [f"127.0.0.1:{kafka}:{kafka}", f"127.0.0.1:{http}:{http}"]
        assert broker["environment"]["YAK_HTTP_PORT"] == str(http)
        assert f"EXTERNAL://localhost:{kafka}" in broker["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert broker["read_only"] is True
    mounts = [text for service in services.values() for text in service.get("volumes", ())]
    named = [text for text in mounts if not text.startswith(".")]
    assert {text.partition(":")[0] for text in named} == set(COMPOSE["volumes"])
    assert [text for text in mounts if text.startswith(".") and not (FOLDER / text.partition(":")[0]).is_file()] == []
    assert {name for name, each in services.items() if each.get("profiles") == ["monitoring"]} == {
        "prometheus",
        "grafana",
    }
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert scraped[0]["targets"] == [f"{name}:{8080 + number}" for number, name in enumerate(BROKERS)]


def test_dockerfile_has_another_user_than_root_a_health_check_and_the_scripts():
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER appuser"]
    assert 'CMD ["/etc/kafka/docker/run"]' in lines
    assert any(line.startswith("HEALTHCHECK ") and "/etc/kafka/docker/health" in line for line in lines)
    for name in ("run", "health"):
        assert (FOLDER / name).stat().st_mode & 0o111 == 0o111
        shell = (FOLDER / name).read_text().splitlines()[0].removeprefix("#!")
        subprocess.run([shutil.which(shell) or shell, "-n", str(FOLDER / name)], check=True)
