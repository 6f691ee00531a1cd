"""YAK as one broker: with its embedded Redis, both fresh, as `yak up` starts them, or as a quorum of its own."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from versus.brokers import Watched, free_port, stop_process, tail

from yak.attempts import attempts
from yak.local.broker_process import BrokerSpec, StartingBroker
from yak.local.processes import stop
from yak.local.redis_server import EmbeddedRedis
from yak.local.spawn import yak_argv

START_SECONDS, STOP_SECONDS = 60.0, 30.0


@dataclass(slots=True)
class YakBroker(Watched):
    """One `yak serve` and the Redis it keeps its metadata in."""

    folder: Path
    name: str = "yak"
    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    configs: tuple[str, ...] = ()
    """`name=value` pairs, beside the defaults."""
    redis: EmbeddedRedis | None = None
    broker: StartingBroker | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def prepare(self) -> None:
        """Nothing but a folder: YAK formats its data directory when it starts."""
        self.folder.mkdir(parents=True)

    def start(self) -> None:
        if self.redis is None:
            self.redis = EmbeddedRedis(str(self.folder / "redis"))
            self.redis.start()
        spec = BrokerSpec(1, self.host, self.port, str(self.folder / "data"), self.redis.url, self.configs)
        log, ready = str(self.folder / "broker.log"), str(self.folder / "ready.json")
        self.broker = StartingBroker(spec, log_path=log, ready_file=ready)

    def pids(self) -> list[int]:
        assert self.broker is not None
        assert self.redis is not None
        return [self.broker.process.pid, self.redis.pid]

    def log_tail(self) -> str:
        return tail(self.folder / "broker.log")

    def stop(self) -> None:
        if self.broker is not None:
            stop(self.broker.process, patience_seconds=STOP_SECONDS)
        if self.redis is not None:
            self.redis.stop()
        for _ in attempts(1.0, 0.0):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of a `yak serve` without Redis and HTTP. Raises RuntimeError when it does not start."""
    folder.mkdir()
    ready = folder / "ready"
    own = ("--metadata", "raft", "--no-http", "--data-dir", str(folder / "data"), "--ready-file", str(ready))
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(yak_argv("serve", *own, *options), stderr=log)
    try:
        for _ in attempts(START_SECONDS, 0.05):
            if ready.exists() or child.poll() is not None:
                break
        if not ready.exists():
            raise RuntimeError(f"the broker does not start:\n{tail(folder / 'log')}")
        yield json.loads(ready.read_text())["address"], psutil.Process(child.pid)
    finally:
        stop_process(child)
