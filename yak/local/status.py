"""The current status of a local cluster: the stored state, compared with the running processes.

`ClusterStatus.as_json` is the contract of `yak up --status -o json`.
"""

import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from yak.local import layout, listeners, machines
from yak.local.processes import is_paused, is_running
from yak.local.state import BrokerState, ClusterState
from yak.security.redis_url import without_password

BrokerCondition = Literal["running", "starting", "paused", "stopped", "dead"]
"""`paused`: by SIGSTOP. `stopped`: on purpose. `dead`: it should run, but its process is gone."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker. `http_address` is None while the broker serves no HTTP; `pid` is None when it does not run.

    `epoch` is the broker epoch of its last start.
    """

    node_id: int
    role: str
    pid: int | None
    address: str
    state: BrokerCondition
    http_address: str | None = None
    epoch: int | None = None
    machine: str | None = None
    """The machine that it shares with other brokers; None in a cluster with one core."""

    def __str__(self) -> str:
        """`broker 1  127.0.0.1:9092, http://127.0.0.1:8080, leader`, which leaves room for more in 80 columns."""
        http = f", {self.http_address}" if self.http_address else ""
        return f"broker {self.node_id}  {self.address}{http}, {self.role}"


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole cluster. `redis_running` is None for an external Redis server.

    With `metadata` raft there is no Redis, and `voters` are the nodes that its metadata quorum began with.
    """

    cluster_id: str | None
    data_dir: str
    redis_url: str | None
    redis_running: bool | None
    bootstrap: str
    brokers: tuple[BrokerStatus, ...]
    metadata: str = "redis"
    voters: tuple[int, ...] = ()
    moving_to: str | None = None
    """The store that an unfinished `yak cluster migrate` moves the metadata to."""
    security_protocol: str = "PLAINTEXT"
    """Of every listener."""
    ca_file: str | None = None
    """The authority that clients trust; None without TLS."""
    users_file: str | None = None
    listeners: tuple[str, ...] = ()
    """The advertised addresses of `yak up --listen`, of all brokers: `NAME://host:port`."""

    def as_json(self) -> dict[str, Any]:
        """The JSON contract for scripts: these keys stay."""
        return {
            "cluster": self.cluster_id,
            "data_dir": self.data_dir,
            "metadata": self.metadata,
            "redis": None if self.redis_url is None else without_password(self.redis_url),
            "voters": list(self.voters),
            "moving_to": self.moving_to,
            "bootstrap": self.bootstrap or None,
            "listeners": list(self.listeners),
            "security_protocol": self.security_protocol,
            "ca_file": self.ca_file,
            "brokers": [asdict(broker) for broker in self.brokers],
        }


def status_of(data_dir: str, state: ClusterState | None) -> ClusterStatus:
    """The status of a cluster from its stored state; without brokers when no cluster was ever started."""
    if state is None:
        return ClusterStatus(None, os.path.abspath(data_dir), None, None, "", ())
    redis = state.redis
    redis_running = None
    if redis.is_ours:
        redis_running = redis.process is not None and is_running(redis.process)
    brokers = tuple(
        replace(broker_status(broker), machine=machines.machine_of(state, broker.node_id)) for broker in state.brokers
    )
    return ClusterStatus(
        state.cluster_id,
        state.data_dir,
        redis.url if state.has_redis else None,
        redis_running,
        machines.bootstrap(state) or ",".join(broker.address for broker in brokers),
        brokers,
        state.metadata,
        state.voters if state.has_quorum else (),
        state.moving_to,
        state.exposed.protocol.value,
        os.path.join(layout.certs_dir(state.data_dir), "ca.pem") if state.exposed.tls else None,
        state.exposed.users_file,
        tuple(address for broker in state.brokers for address in listeners.advertised(state, broker)),
    )


def is_alive(broker: BrokerState) -> bool:
    """Whether the broker's process exists, paused or not."""
    return broker.process is not None and is_running(broker.process)


def broker_status(broker: BrokerState) -> BrokerStatus:
    """One broker's status."""
    alive = is_alive(broker)
    pid = broker.process.pid if alive and broker.process is not None else None
    condition = _condition(broker, alive)
    http_address = broker.http_address if alive and broker.is_ready else None
    return BrokerStatus(broker.node_id, broker.role, pid, broker.address, condition, http_address, broker.epoch)


def _condition(broker: BrokerState, alive: bool) -> BrokerCondition:
    if alive:
        if broker.process is not None and is_paused(broker.process):
            return "paused"
        return "running" if broker.is_ready else "starting"
    return "dead" if broker.wanted else "stopped"
