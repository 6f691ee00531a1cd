"""Controls the processes of a `yak up` cluster on this machine. Everything blocks: call it in a thread."""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from yak.errors import YakError
from yak.local.cluster import LocalCluster
from yak.local.status import ClusterStatus

USUAL_DIR: Final = "yak-data"
_SAME_HOST: Final = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "[::]", "::")  # noqa: S104 - compared, not bound


class LocalClusterControl:
    """The brokers and the Redis server of one data directory. Every method raises YakError."""

    def __init__(self, data_dir: str) -> None:
        self._cluster = LocalCluster(data_dir)
        self.data_dir = self._cluster.data_dir

    def look(self) -> ClusterStatus:
        """Brokers with role, pid and state, and whether Redis runs (None: it is not ours)."""
        return self._cluster.status()

    def redis_pid(self) -> int | None:
        """The process of our Redis server; None if it does not run, or is not ours."""
        return self._cluster.redis_pid()

    def status(self) -> Mapping[int, str]:
        """By node: running, starting, paused, stopped, dead."""
        return {broker.node_id: broker.state for broker in self.look().brokers}

    def kill(self, node_id: int) -> None:
        """`kill -9`, also for a paused broker."""
        self._cluster.kill(node_id)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: pause the broker."""
        self._cluster.pause(node_id)

    def resume(self, node_id: int) -> None:
        """SIGCONT: resume the broker."""
        self._cluster.resume(node_id)

    def restart(self, node_id: int) -> None:
        """Stop the broker in order if it runs, then start it on its existing data and port."""
        self._cluster.restart(node_id)

    def add(self) -> int:
        """Start one more broker, empty, as a follower; returns its node id."""
        return self._cluster.add().node_id

    def stop_redis(self) -> None:
        """`kill -9` the metadata store."""
        self._cluster.stop_redis()

    def start_redis(self) -> None:
        """Start the metadata store on its existing data."""
        self._cluster.start_redis()

    def command(self, words: str) -> str:
        """`yak WORDS` with the options that select this cluster."""
        import shlex

        is_usual = self.data_dir == os.path.abspath(USUAL_DIR)
        return f"yak {words}" + ("" if is_usual else f" --data-dir {shlex.quote(self.data_dir)}")


def find_local(bootstrap: str, data_dirs: Iterable[str] = (USUAL_DIR,)) -> LocalClusterControl | None:
    """Control of the first of these directories whose running brokers have these addresses; None if there is none."""
    asked = {_plain(address) for address in bootstrap.split(",") if address}
    for data_dir in data_dirs:
        control = LocalClusterControl(data_dir)
        try:
            brokers = control.look().brokers
        except YakError:
            continue  # not ours: the file was not written by this version of yak
        alive = {_plain(each.address) for each in brokers if each.pid is not None}
        if asked & alive:
            return control
    return None


def _plain(address: str) -> str:
    """An address with one name for this machine."""
    host, _, port = address.strip().rpartition(":")
    return f"{'here' if host in _SAME_HOST else host}:{port}"
