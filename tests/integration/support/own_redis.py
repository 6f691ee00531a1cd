"""A Redis of one test or file alone, which may be stopped, killed, emptied and put back to an older copy of itself."""

import os
import shutil
import signal
from pathlib import Path

import redis
from support.held_port import HeldPort

from yak.local import redis_child
from yak.local.processes import kill
from yak.local.redis_child import RunningRedis


class OwnRedis:
    """The server, at one address for its whole life."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "redis"
        self._log = str(folder / "redis.log")
        self._held = HeldPort()
        self.running: RunningRedis = redis_child.start(str(self.folder), self._held.number, self._log)

    @property
    def url(self) -> str:
        """redis://127.0.0.1:PORT/0."""
        return self.running.url

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        kill(self.running.process)

    def start(self) -> None:
        """Start again on what it stored."""
        self.running = redis_child.start(str(self.folder), self._held.number, self._log)

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.running.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.running.process.pid, signal.SIGCONT)

    def empty(self) -> None:
        """Delete every key."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def copy_to(self, path: Path) -> None:
        """Copy its files; it should not run."""
        shutil.copytree(self.folder, path)

    def put_back(self, path: Path) -> None:
        """Kill it and start on an older copy of its data."""
        self.kill()
        shutil.rmtree(self.folder)
        shutil.copytree(path, self.folder)
        self.start()

    def client(self) -> redis.Redis:
        """A client that reads texts."""
        return redis.Redis.from_url(self.url, decode_responses=True)

    def incarnation(self) -> int:
        """The incarnation of the cluster that it holds; 0 while it waits for a restore."""
        with self.client() as client:
            found = client.hgetall("{y}:cluster")
        return int(found["incarnation"]) if found.get("state") == "LIVE" else 0
