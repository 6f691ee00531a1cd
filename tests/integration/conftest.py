"""A real Redis and real `yak serve` processes for the tests in this folder.

`redis_server` is one server for the whole session; each broker gets a database of its own in it, emptied first. Every
process is on 127.0.0.1 with a port of its own and is killed by its pid at the end, whatever the test did.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import redis

from yak.local import ports, redis_child
from yak.local.broker_process import BrokerSpec, ReadyBroker, StartingBroker
from yak.local.processes import ProcessId, is_running, kill, stop
from yak.local.redis_child import RunningRedis
from yak.local.spawn import yak_argv
from yak.local.state import STATE_FILE, load

if TYPE_CHECKING:
    from support.doc_page import Reader

ROOT = Path(__file__).resolve().parents[2]
# What several files here share lies in support/; tests and benchmarks are no packages, so their folders are named.
sys.path += [str(Path(__file__).parent), str(ROOT / "benchmarks")]

REDIS_DATABASES = 16
_names = itertools.count(1)


class BrokerHarness:
    """One broker process that a test starts, kills and starts again on the same data and port."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.data_dir = folder / "data"
        self.log_path = folder / "broker.log"
        self.redis_url = redis_url
        self._ready_file = folder / "ready.json"
        self._spec: BrokerSpec | None = None
        self._ready: ReadyBroker | None = None

    def start(self, *, node_id: int = 1, port: int = 0, http_port: int | None = None, **configs: object) -> Self:
        """Start and wait until ready. Configs are Kafka's names with `_` for `.`: `log_segment_bytes=4096`.

        It answers HTTP only when it gets a port for it; 0 is any.
        """
        pairs = tuple(f"{name.replace('_', '.')}={_config_text(value)}" for name, value in configs.items())
        data_dir = str(self.data_dir)
        # a client that connects again to a dead broker may be given an ephemeral port of that number, and connect to itself
        port = port or ports.find_lasting("127.0.0.1")
        self._spec = BrokerSpec(node_id, "127.0.0.1", port, data_dir, self.redis_url, pairs, http_port=http_port)
        return self._launch()

    def restart(self, **configs: object) -> Self:
        """Stop if it runs (SIGTERM), then start on the same data and port; configs given are added."""
        assert self._spec is not None, "start the broker first"
        if self.is_running:
            self.stop()
        extra = tuple(f"{name.replace('_', '.')}={_config_text(value)}" for name, value in configs.items())
        self._spec = replace(self._spec, configs=self._spec.configs + extra)
        return self._launch()

    def kill9(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert kill(self.process), "the broker was gone already"

    def stop(self) -> None:
        """SIGTERM, and wait; fails the test if it does not end in a minute."""
        assert stop(self.process, patience_seconds=60.0), f"no end after SIGTERM:\n{self.log()}"

    def close(self) -> None:
        """Kill what is left."""
        if self._ready is not None:
            kill(self._ready.process)

    @property
    def process(self) -> ProcessId:
        """The broker's process, of its last start."""
        assert self._ready is not None, "start the broker first"
        return self._ready.process

    @property
    def pid(self) -> int:
        """The broker's pid."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process of the last start still runs."""
        return self._ready is not None and is_running(self._ready.process)

    @property
    def bootstrap(self) -> str:
        """host:port for clients; the same after a restart."""
        assert self._ready is not None, "start the broker first"
        return self._ready.address

    @property
    def port(self) -> int:
        """The port clients connect to."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        """Where it answers HTTP."""
        assert self._ready is not None, "start the broker first"
        assert self._ready.http_port, "it was started without HTTP"
        return self._ready.http_port

    @property
    def http_url(self) -> str:
        """http://127.0.0.1:PORT, without a slash."""
        return f"http://127.0.0.1:{self.http_port}"

    def log(self) -> str:
        """All that the broker printed, over all starts."""
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def _launch(self) -> Self:
        assert self._spec is not None
        starting = StartingBroker(self._spec, log_path=str(self.log_path), ready_file=str(self._ready_file))
        try:
            self._ready = starting.wait_ready(30.0)
        except BaseException:
            starting.abandon()
            raise
        self._spec = replace(self._spec, port=self.port)
        return self


class RedisDatabases:
    """The numbered databases of one Redis server, lent to one broker at a time and emptied before."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url.rstrip("/").removesuffix("/0")
        self._free = list(range(REDIS_DATABASES))

    @contextlib.contextmanager
    def borrow(self) -> Iterator[str]:
        """The URL of an empty database that nobody else has."""
        number = self._free.pop(0)
        url = f"{self._server_url}/{number}"
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        try:
            yield url
        finally:
            self._free.append(number)


@dataclass(frozen=True, slots=True)
class Ran:
    """How one `yak` command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


class Started(subprocess.Popen[str]):
    """A process that is killed when its `with` block fails: that of the standard library would wait for its end."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)


class YakCommands:
    """Runs the real `yak` as a process in a folder, free of the developer's own settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "REDIS_", "BROKER_"))}
        self._environment = {**kept, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "NO_COLOR": "1"}
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, timeout: float = 60.0, **environment: str) -> Ran:
        """Run `yak` and wait for its end; `environment` is added to its variables."""
        child = self.start(*arguments, **environment)
        out, err = child.communicate(timeout=timeout)
        return Ran(child.returncode, out, err)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `yak` and return; stdout and stderr are pipes. What still runs at the end of the test is killed."""
        child = Started(
            yak_argv(*arguments),
            cwd=self.folder,
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(child)
        return child

    def close(self) -> None:
        """Kill what was started and still runs, and every process of a local cluster below the folder."""
        for child in self._started:
            if child.poll() is None:
                child.kill()
                child.wait()
        for path in self.folder.rglob(STATE_FILE):
            known = load(str(path.parent))
            for process in [known.redis.process, *(each.process for each in known.brokers)] if known else []:
                if process is not None:
                    kill(process)


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRedis]:
    """One real Redis for the session, as `yak up` starts it."""
    folder = tmp_path_factory.mktemp("redis")
    server = redis_child.start(str(folder), ports.find_free("127.0.0.1"), str(folder / "redis.log"))
    try:
        yield server
    finally:
        kill(server.process)


@pytest.fixture(scope="session")
def redis_databases(redis_server: RunningRedis) -> RedisDatabases:
    """Lends empty databases of the session's Redis: `with redis_databases.borrow() as url`."""
    return RedisDatabases(redis_server.url)


@pytest.fixture
def broker(tmp_path: Path, redis_databases: RedisDatabases) -> Iterator[BrokerHarness]:
    """A broker that is not started yet: `broker.start(log_segment_bytes=4096)`."""
    with redis_databases.borrow() as url:
        harness = BrokerHarness(tmp_path / "broker", url)
        try:
            yield harness
        finally:
            harness.close()


@pytest.fixture
def make_broker() -> Iterator[Callable[[Path, str], BrokerHarness]]:
    """Makes a broker on any Redis: `make_broker(tmp_path / "b", url)`; all are killed at the end of the test."""
    made: list[BrokerHarness] = []

    def make(folder: Path, redis_url: str) -> BrokerHarness:
        made.append(BrokerHarness(folder, redis_url))
        return made[-1]

    try:
        yield make
    finally:
        for harness in made:
            harness.close()


@pytest.fixture(scope="session")
def borrowed_broker(
    tmp_path_factory: pytest.TempPathFactory, redis_databases: RedisDatabases
) -> Callable[[], contextlib.AbstractContextManager[BrokerHarness]]:
    """A broker that is not started yet, on a database of its own, for as long as a block: `with borrowed_broker() as b`."""

    @contextlib.contextmanager
    def borrow() -> Iterator[BrokerHarness]:
        with redis_databases.borrow() as url:
            harness = BrokerHarness(tmp_path_factory.mktemp("broker"), url)
            try:
                yield harness
            finally:
                harness.close()

    return borrow


@pytest.fixture(scope="module")
def module_broker(
    borrowed_broker: Callable[[], contextlib.AbstractContextManager[BrokerHarness]],
) -> Iterator[BrokerHarness]:
    """One started broker with default configs for all tests of a module that only add their own topics."""
    with borrowed_broker() as harness:
        yield harness.start()


@pytest.fixture
def yak(tmp_path: Path) -> Iterator[YakCommands]:
    """The real `yak` command in an empty folder: `yak.run("up", "-d").code`."""
    commands = YakCommands(tmp_path)
    try:
        yield commands
    finally:
        commands.close()


@pytest.fixture
def unique_topic() -> str:
    """A topic name that no other test of this run has; for a second one add a suffix to it."""
    return f"topic-{os.getpid()}-{next(_names)}"


@pytest.fixture(scope="session")
def libs() -> Path:
    """The folder with Kafka's jars; the test is skipped where Java, Maven or Maven Central is missing."""
    from versus.kafka_jars import KAFKA_VERSION, Missing, java_version, kafka_jars

    try:
        java_version()
        return kafka_jars(ROOT / "build/kafka", KAFKA_VERSION)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java(libs: Path) -> list[str]:
    """The command line up to the class."""
    from versus.kafka_jars import SHORT_JVM_FLAGS

    return ["java", *SHORT_JVM_FLAGS, "-cp", f"{libs}/*"]


@pytest.fixture
def reader(tmp_path: Path) -> "Iterator[Reader]":
    """Runs the blocks of a page in an empty folder."""
    from support.doc_page import Reader

    made = Reader(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def made_data(module_broker: BrokerHarness) -> Path:
    """The data directory of node 1 of some cluster with the records of one topic, cleanly stopped."""
    from support.client_kinds import Confluent, Message

    client = Confluent(module_broker.bootstrap)
    client.create_topic("kept", configs={"retention.ms": "-1"})
    client.produce("kept", [Message(b"x")] * 3)
    module_broker.stop()
    return Path(module_broker.data_dir)


@pytest.fixture
def data(made_data: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made_data, tmp_path / "data")
    return tmp_path / "data"
