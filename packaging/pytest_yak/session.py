"""The clusters of a test run, which the executable of yak-broker-bin starts and ends (`yak.testing.remote`).

This process imports nothing but the standard library and pytest.
"""

import contextlib
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from pytest_yak.errors import YakError
from pytest_yak.faults import Faults
from pytest_yak.shape import ClusterShape, Node, config_text

__all__ = ["Cluster", "Node", "Session", "YakError"]

_TIMEOUT_SECONDS = 30.0


class Cluster:
    """Real brokers on 127.0.0.1, numbered from 1. Every method raises YakError when the cluster refuses."""

    def __init__(self, session: "Session", number: int, bootstrap: str, data_dir: str) -> None:
        self._session = session
        self.number = number
        self.bootstrap = bootstrap
        self.data_dir = data_dir

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap}>"

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The present state of all brokers, by node id."""
        return tuple(Node(**each) for each in self._session.call("brokers", cluster=self.number))

    @property
    def faults(self) -> Faults:
        """Errors, delays, disconnects and lagging replicas on demand."""
        return Faults(self._call)

    def broker(self, node: int) -> Node:
        """One broker by its node id."""
        for each in self.brokers:
            if each.node_id == node:
                return each
        raise YakError("unknown-node", f"the cluster has no node {node}")

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        *,
        timeout_s: float = _TIMEOUT_SECONDS,
    ) -> str:
        """Create a topic, wait until every running broker knows it, and return its name."""
        given = {key: config_text(value) for key, value in (configs or {}).items()}
        self._call(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=given,
            timeout_s=timeout_s,
        )
        return name

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = _TIMEOUT_SECONDS) -> int:
        """The running node that leads a partition, as confirmed by every running broker."""
        return int(self._call("leader_of", topic=topic, partition=partition, timeout_s=timeout_s))

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The present ISR of a partition in ascending order."""
        return tuple(self._call("isr", topic=topic, partition=partition))

    def wait_until_healthy(self, *, timeout_s: float = _TIMEOUT_SECONDS) -> None:
        """Wait until every partition has a leader and all replicas in sync."""
        self._call("wait_until_healthy", timeout_s=timeout_s)

    def kill(self, node: int) -> None:
        """`kill -9` a broker and wait until it is gone."""
        self._call("kill", node=node)

    def failover(self, topic: str, partition: int = 0, *, timeout_s: float = _TIMEOUT_SECONDS) -> int:
        """Kill the leader of a partition, wait until another replica leads it, and return its node id."""
        return int(self._call("failover", topic=topic, partition=partition, timeout_s=timeout_s))

    def pause(self, node: int) -> None:
        """Pause a broker (SIGSTOP): its connections stay open, and it answers nothing."""
        self._call("pause", node=node)

    def resume(self, node: int) -> None:
        """Resume a paused broker."""
        self._call("resume", node=node)

    def restart(self, node: int) -> None:
        """Start a broker on the same data and port, and wait until it answers clients."""
        self._call("restart", node=node)

    def log(self, node: int) -> str:
        """A broker's log output since the test began."""
        return str(self._call("log", node=node))

    def log_tails(self, lines_max: int) -> dict[int, str]:
        """The last lines of each broker's log of this test."""
        return {int(node): text for node, text in self._call("log_tails", lines_max=lines_max).items()}

    def _call(self, call: str, **arguments: object) -> Any:
        return self._session.call(call, cluster=self.number, arguments=arguments)


class Session:
    """All clusters of one process. Not thread-safe."""

    def __init__(self) -> None:
        self._lender: subprocess.Popen[str] | None = None
        self._unread = 0
        """Requests without their answer: a timeout of a test may have ended the call while it waited."""

    def lend(self, shape: ClusterShape, *, fresh: bool = False) -> Cluster:
        """A healthy, empty cluster. Raises YakError with the broker's reason when a broker does not start."""
        found = self.call("lend", brokers=shape.brokers, configs=dict(shape.configs), fresh=fresh)
        return Cluster(self, found["cluster"], found["bootstrap"], found["data_dir"])

    def give_back(self, cluster: Cluster, *, fresh: bool = False) -> None:
        """Return a cluster after a test."""
        self.call("give_back", cluster=cluster.number, fresh=fresh)

    def close(self) -> None:
        """End all clusters."""
        if self._lender is not None:
            assert self._lender.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._lender.stdin.close()
            self._lender.wait()
            self._lender, self._unread = None, 0

    def call(self, call: str, **request: object) -> Any:
        """One request to the executable. Raises YakError."""
        if self._lender is None:
            self._lender = _start()
        lender = self._lender
        assert lender.stdin is not None
        assert lender.stdout is not None
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            lender.stdin.write(json.dumps({"call": call, **request}) + "\n")
            self._unread += 1
            lender.stdin.flush()
            while self._unread and (answer := lender.stdout.readline()):
                self._unread -= 1
        if not answer:
            raise YakError("lender-ended", f"yak ended with code {lender.wait()}", why="its output is above")
        found = json.loads(answer)
        if "error" in found:
            error = found["error"]
            raise YakError(error["code"], error["message"], why=error["why"], try_=tuple(error["try"]))
        return found["result"]


def _start() -> "subprocess.Popen[str]":
    from yak_broker_bin import find_yak_bin

    return subprocess.Popen(
        [find_yak_bin(), "-P", "-m", "yak.testing.remote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
