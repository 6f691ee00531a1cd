"""`yak chaos run` with Java's transactional client, which speaks transaction protocol 2 (KIP-890); librdkafka speaks 1."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.java_client import JVM_FLAGS, SOURCE, Consumer, Jvms, Producer

from yak.client.admin import Admin
from yak.client.groups.group_brokers import GroupBrokers
from yak.client.transactions import Transaction, describe_transactions, list_transactions
from yak.local.chaos.cluster import ChaosCluster
from yak.local.chaos.nemesis import InjectedFault
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.report import ChaosReport
from yak.local.chaos.run import ChaosRun, ChaosSettings
from yak.local.chaos.schedule import parse_faults

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.thorough,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fault proxy needs Linux's /proc"),
]
SECONDS = 240.0
SEED = 77
FAULTS = "kill,pause,cut,clients"


class Watcher:
    """Prints a run for the test's report, and reads the transactions when all has settled."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self._cluster: ChaosCluster | None = None

    def phase(self, name: str, seconds: float | None = None) -> None:
        print(name)
        if name == "compare the replicas" and self._cluster is not None:
            with GroupBrokers(Admin(self._cluster.bootstrap), "transaction") as brokers:
                names = [each.transactional_id for each in list_transactions(brokers)[0]]
                found = describe_transactions(brokers, names).values()
                self.transactions = [each for each in found if isinstance(each, Transaction)]

    def fault(self, found: InjectedFault) -> None:
        print(found.as_json())

    def note(self, words: str) -> None:
        print(words)

    def tick(self, _recorder: Recorder, cluster: ChaosCluster | None, _injected: Sequence[InjectedFault]) -> None:
        self._cluster = cluster


@pytest.fixture(scope="module")
def command(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if shutil.which("javac") is None:
        pytest.skip("javac is not on PATH: the Java client is compiled")
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", f"{libs}/*", "-d", str(folder), str(SOURCE)], check=True)
    return ["java", *JVM_FLAGS, "-cp", f"{folder}:{libs}/*", SOURCE.stem]


@pytest.fixture
def jvms(command: list[str], tmp_path: Path) -> Iterator[Jvms]:
    made = Jvms(command, tmp_path)
    yield made
    for jvm in made.all:
        jvm.kill()


@pytest.fixture
def run(jvms: Jvms, tmp_path: Path) -> Callable[[float, str], tuple[ChaosReport, Watcher]]:
    def run(seconds: float, faults: str) -> tuple[ChaosReport, Watcher]:
        kinds = parse_faults(faults, own_processes=True)
        watcher = Watcher()
        settings = ChaosSettings(SEED, seconds, kinds, data_dir=str(tmp_path / "run"))
        report = ChaosRun(settings, watcher, library=jvms.library).run()
        print(report.as_json())
        return report, watcher

    return run


def test_java_transactions_under_faults_keep_every_promise(jvms: Jvms, run: Any) -> None:
    report, watcher = run(SECONDS, FAULTS)
    assert report.holds, report.as_json()
    found = report.history_report
    assert not report.is_void
    assert min(found.committed, found.aborted, found.processed) > SECONDS
    assert {each.planned.kind for each in report.injected} == set(FAULTS.split(","))
    assert [jvm.process.poll() for jvm in jvms.all if not jvm.is_killed] == [None] * 4, "a JVM ended by itself"
    assert len(jvms.all) > 4, "no Java client was killed"
    assert not any("did not return" in note for note in report.notes)
    # With protocol 1 only InitProducerId begins an epoch, with protocol 2 the end of each transaction too.
    assert sum(each.producer_epoch for each in watcher.transactions) > found.committed


def test_java_consumer_that_reads_uncommitted_is_found(jvms: Jvms, run: Any) -> None:
    class Uncommitted(Consumer):
        def __init__(self, jvm: Any, config: dict[str, Any]) -> None:
            super().__init__(jvm, config | {"isolation.level": "read_uncommitted"})

    jvms.consumer = Uncommitted
    report, _ = run(20.0, "none")
    assert {"aborted-read"} <= set(report.history_report.by_kind), report.as_json()


def test_java_producer_that_commits_what_it_aborts_is_found(jvms: Jvms, run: Any) -> None:
    class Committing(Producer):
        abort_transaction = Producer.commit_transaction

    jvms.producer = Committing
    report, _ = run(20.0, "none")
    assert {"aborted-read"} == set(report.history_report.by_kind), report.as_json()
