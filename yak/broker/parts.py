"""The parts that the shell and the simulator each supply to a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from yak.broker.api_table import ApiTable
from yak.broker.quorum_node import QuorumParts
from yak.cluster.image import Image
from yak.cluster.image_log import ImageLog
from yak.cluster.registration import Identity
from yak.cluster.settings import ClusterSettings
from yak.config.broker_configs import BrokerConfig
from yak.core import events
from yak.lifecycle.secret_file import SecretFile
from yak.ports.random_source import RandomSource
from yak.storage.log_store import LogStore


@dataclass(slots=True, frozen=True)
class Parts:
    """The parts of a broker; the shell and the simulator each supply their own."""

    apis: ApiTable
    identity: Identity
    config: BrokerConfig
    cluster_settings: ClusterSettings
    log_store: LogStore
    image: Image
    image_log: ImageLog
    secret_file: SecretFile
    rng: RandomSource
    quorum: QuorumParts | None = None
    """The quorum whose node this broker is; None if the metadata store is outside."""
    own_users: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """SCRAM credentials, by user and mechanism, of users of this broker alone (`yak serve --users-file`)."""
    has_redis: bool = True
    """Whether the shell has a metadata store in Redis; beside a quorum as well, from which the metadata may be moved."""
    expected_followers: tuple[str, ...] = ()
    """host:port of the followers that a leader-role broker waits for before it creates replicated topics."""
    followers_timeout_ms: int = 30_000
    fetch_web: Callable[[str], events.Plan] | None = None
    """Makes the plan that fetches a document over HTTP; None where there is no web."""
    processor_ns: Callable[[], int] = int
    """The processor time of the thread that steps the broker, for quotas of request time; always 0 in the simulator."""
