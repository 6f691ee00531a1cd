"""The stand-in for `docker` that sarama's and kafkajs's tests call."""

import os
import subprocess
from pathlib import Path

from tests.kafka.clusters import serving

DOCKER = Path(__file__).parents[2] / "clients/stand_ins/docker"


def compose(port: int, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CONTROL_PORT": str(port)}
    return subprocess.run([DOCKER, "compose", *words], env=environment, capture_output=True, text=True, check=False)


def test_compose_stop_stops_the_broker_and_returns_its_error() -> None:
    stopped = []

    def stop(node: int) -> dict[str, object]:
        if node in stopped:
            raise ValueError("is stopped")
        stopped.append(node)
        return {}

    with serving({"stop": stop}) as port:
        assert compose(port, "stop", "kafka-3").returncode == 0
        again = compose(port, "stop", "kafka-3")
    assert stopped == [3]
    assert (again.returncode, again.stderr) == (1, "ValueError: is stopped\n")


def test_compose_logs_names_an_out_of_order_sequence_as_kafka_does(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "2026-11-30T05:00:00.001Z INFO producer-refused code=out_of_order_sequence_number\n"
        "2026-11-30T05:00:02.001Z INFO producer-refused code=out_of_order_sequence_number\n"
    )
    with serving({"log": lambda node: {"path": str(tmp_path / "log")}}) as port:
        logs = compose(port, "logs", "--since", "2026-11-30T05:00:01Z", "kafka-1")
    assert logs.stdout == "2026-11-30T05:00:02.001Z INFO producer-refused code=OutOfOrderSequenceException\n"


def test_exec_runs_kafkas_script_on_the_cluster_of_the_run(tmp_path: Path) -> None:
    script = tmp_path / "bin/kafka-topics.sh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o700)
    command = "kafka-topics --zookeeper zookeeper:2181 --alter --topic a --partitions 4"
    environment = {**os.environ, "KAFKA_PATH": str(tmp_path), "BOOTSTRAP": "127.0.0.1:1"}
    words = [DOCKER, "exec", "kafka1", "bash", "-c", command]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "--bootstrap-server 127.0.0.1:1 --alter --topic a --partitions 4\n"
