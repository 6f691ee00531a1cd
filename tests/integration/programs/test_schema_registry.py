"""Apicurio Registry keeps its schemas in a topic: they outlive a killed broker, its own restarts, and compaction."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from versus.kafka_jars import Missing, java_version, not_fetched, run_maven

from yak.local import ports
from yak.testing.cluster import Cluster

Wait = Callable[..., None]
pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(400)]
BUILD = Path(__file__).resolve().parents[3] / "build/apicurio"
VERSION = "3.0.9"
"""It runs with Java 17; Apicurio Registry 3.3 needs Java 21."""
NAME = f"apicurio-registry-app-{VERSION}"
JOURNAL = "kafkasql-journal"
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": 1000,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 0,
}
"""Each record of the registry has a key of its own, so compaction removes only the tombstone that each start writes."""
STARTS_MAX = 8


def fetch(folder: Path) -> None:
    """Bring the registry from Maven Central, alone: its archive has all libraries. Raises Missing or Refused."""
    java_version()
    if shutil.which("mvn") is None:
        raise Missing(f"Maven (mvn) is not on PATH: it fetches Apicurio Registry {VERSION} from Maven Central")
    artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    done = run_maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    if done.returncode:
        raise not_fetched(f"Apicurio Registry {VERSION}", done.stdout + done.stderr)
    shutil.unpack_archive(folder / f"{NAME}-all.tar.gz", folder)


@pytest.fixture(scope="session")
def runner() -> Path:
    """The registry's jar, with its libraries beside it."""
    folder = BUILD / VERSION
    if not folder.exists():
        part = BUILD / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            fetch(part)
        except Missing as missing:
            pytest.skip(str(missing))
        part.rename(folder)
    return folder / f"{NAME}-runner.jar"


class Registry:
    """The registry's process. Its own database is in memory: after a start it knows what the topic holds."""

    def __init__(self, runner: Path, folder: Path, bootstrap: str, wait_until: Wait) -> None:
        self._folder, self._wait_until = folder, wait_until
        self._log = folder / "registry.log"
        self._port = ports.find_free("127.0.0.1")
        settings = {
            "java.io.tmpdir": folder,
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "apicurio.storage.kind": "kafkasql",
            "apicurio.storage.snapshot.location": folder,
            "apicurio.kafkasql.bootstrap.servers": bootstrap,
        }
        words = [f"-D{name}={value}" for name, value in settings.items()]
        self._command = ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", *words, "-jar", str(runner)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it has read its topic."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._folder)
        self._wait_until(self._is_ready, 120, self.said)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health/ready", timeout=10):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
        """Status and answer of the API that it shares with Confluent's registry."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/apis/ccompat/v7{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def register(self, subject: str, schema: str) -> tuple[int, Any]:
        return self.ask(f"/subjects/{subject}/versions", {"schema": schema})

    def all_schemas(self) -> dict[tuple[str, int], tuple[int, str]]:
        """Id and schema of each version of each subject."""
        found = {}
        for subject in self.ask("/subjects")[1]:
            for version in self.ask(f"/subjects/{subject}/versions")[1]:
                answer = self.ask(f"/subjects/{subject}/versions/{version}")[1]
                found[subject, version] = (answer["id"], answer["schema"])
        return found


@pytest.fixture
def registry(yak_cluster: Cluster, runner: Path, tmp_path: Path, wait_until: Wait) -> Iterator[Registry]:
    """A running registry, whose topic is compacted."""
    yak_cluster.create_topic(JOURNAL, configs=COMPACTED)
    found = Registry(runner, tmp_path, yak_cluster.bootstrap, wait_until)
    found.start()
    try:
        yield found
    finally:
        found.kill()


def record(*fields: dict[str, str]) -> str:
    """An Avro schema."""
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def first_offset(bootstrap: str) -> int:
    """The offset of the first record that the journal still has."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(JOURNAL, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        offset = message.offset()
        assert offset is not None
        return offset
    finally:
        consumer.close()


@pytest.mark.yak(brokers=3, configs={"log.cleaner.backoff.ms": 100})
def test_schema_registry_reads_all_back_from_its_compacted_topic_after_kills(yak_cluster, registry):
    number, note = {"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": ""}
    first, second, refused = record(number), record(number, note), record(number, {"name": "to", "type": "string"})
    assert registry.ask("/config", {"compatibility": "BACKWARD"}, "PUT")[0] == 200
    written = {
        ("orders-value", 1): (registry.register("orders-value", first)[1]["id"], first),
        ("orders-value", 2): (registry.register("orders-value", second)[1]["id"], second),
    }
    node = yak_cluster.leader_of(JOURNAL)
    yak_cluster.kill(node)
    assert registry.register("orders-value", refused)[0] == 409
    written["refunds-value", 1] = (registry.register("refunds-value", refused)[1]["id"], refused)

    starts = 0
    while first_offset(yak_cluster.bootstrap) == 0:
        assert starts < STARTS_MAX, "the journal was not compacted"
        registry.kill()
        registry.start()  # it writes a tombstone, and so makes the log dirty
        starts += 1
        assert registry.all_schemas() == written
        if starts == 1:
            yak_cluster.restart(node)
    registry.kill()
    registry.start()
    assert registry.all_schemas() == written
    assert registry.ask("/config")[1] == {"compatibilityLevel": "BACKWARD"}
    assert registry.register("orders-value", refused)[0] == 409
    assert registry.register("orders-value", second) == (200, {"id": written["orders-value", 2][0]})
