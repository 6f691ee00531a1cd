"""The shape of a test's cluster as a value: clusters of one shape are interchangeable; and one broker of it.

The configs here are the differences of a test's brokers from production. A test's own configs override them. A config
without effect in this version of YAK is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

BROKERS_MAX: Final = 32
AS_KAFKA: Final = "yak.as.kafka"
"""The config of the Kafka release that the brokers answer as."""
_REPLICAS: Final = 3
_SMALL: Final = 4

TEST_CONFIGS: Final[Mapping[str, str]] = {
    "num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(_SMALL),
    "transaction.state.log.num.partitions": str(_SMALL),
    "yak.fault.injection.enable": "true",
}
"""One partition by default, as in Kafka. Leaders stay where a test moved them. A paused replica leaves the ISR soon.
Deleted files go soon. A group does not wait for more members. Internal topics are small."""


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """A number of brokers, and the requested broker configs, sorted by name."""

    brokers: int = 1
    configs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, brokers: int = 1, configs: Mapping[str, object] | None = None) -> "ClusterShape":
        """From configs as a test writes them. Raises ValueError for an invalid number of brokers."""
        if isinstance(brokers, bool) or not isinstance(brokers, int) or not 1 <= brokers <= BROKERS_MAX:
            raise ValueError(f"brokers={brokers!r}: a cluster has 1 to {BROKERS_MAX}")
        return cls(brokers, tuple(sorted((name, config_text(value)) for name, value in (configs or {}).items())))

    def broker_configs(self) -> tuple[str, ...]:
        """All configs as `name=value`, for `yak serve -c`."""
        return tuple(f"{name}={value}" for name, value in {**dict(self._usual()), **dict(self.configs)}.items())

    def _usual(self) -> Iterator[tuple[str, str]]:
        from yak.config.broker_config_table import BROKER_CONFIGS

        replicas = min(self.brokers, _REPLICAS)
        replicated = {
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": "2" if replicas == _REPLICAS else "1",
        }
        for name, value in {**TEST_CONFIGS, **replicated}.items():
            known = BROKER_CONFIGS.get(name)
            if known is not None and known.has_effect:
                yield name, value


@dataclass(frozen=True, slots=True)
class Node:
    """One broker's present state. `pid` is None when it does not run; `state` is running, paused, stopped, or dead."""

    node_id: int
    address: str
    state: str
    pid: int | None

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port, the same after a restart."""
        return int(self.address.rpartition(":")[2])


def config_text(value: object) -> str:
    """A config's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
