"""YAK: a replicated log broker that speaks the Apache Kafka protocol.

The packages, from the ground up. Imports point down only:

- `yak.ids`, `yak.errors`, `yak.limits`, `yak.config`: names for numbers, the error tree, every bound, Kafka's configs
- `yak.security`: logins (SCRAM, PLAIN, OAUTHBEARER, delegation tokens), principals, TLS contexts and certificates
- `yak.ports`: disk, random source and metadata store as the core uses them, as Protocols
- `yak.protocol`: bytes and messages: frames, headers, record batches, codec
- `yak.storage`: Kafka's files: segments, indexes, recovery, retention, producer state
- `yak.faults`: faults that tests inject: rules as values, and the rows of requests and answers that they change
- `yak.cluster`, `yak.metadata_store`, `yak.quorum`: metadata records, image and controller; the store's scripts; Raft
- `yak.core`: the context of a step, events, effects, jobs and timers
- `yak.replication`: the replicas of one partition: leader, epochs, ISR and high watermark
- `yak.lifecycle`: live brokers, and how clients and other brokers learn of a dead one
- `yak.quotas`, `yak.acls`: the quota of a client and its throttle time; ACLs, and the authorizer that decides by them
- `yak.partitions`: the replicas on this broker and their logs: created, taken offline, removed
- `yak.groups`, `yak.transactions`: members, assignments and committed offsets; states, markers and verification
- `yak.coordination`: the coordinator runtime, and the coordinators of groups and transactions on it
- `yak.broker`: the pure broker: `step(event, now_ms)` gives effects; one file for each Kafka API
- `yak.views`, `yak.view`: health, replicas and events of a broker, read only; the model of a cluster that users see
- `yak.server`: the Trio shell around the broker: sockets, threads, Redis, HTTP
- `yak.sim`: the same broker under a simulated clock, disk, network and store
- `yak.client`: the Kafka client side, over librdkafka; `yak.client.api` is the Python API
- `yak.aio`, `yak.trio`: the Python API for asyncio and Trio
- `yak.local`: clusters on this machine, with their own Redis
- `yak.testing`: a pytest plugin that gives tests such clusters
- `yak.tui`, `yak.spark`: the terminal UI; Spark jobs and data source
- `yak.commands`: the `yak` command line

`import yak` gives the Python API (docs/python.md): `yak.connect`, `yak.Producer`, `yak.Consumer`. Nothing is imported until
it is asked for, so that the commands and the broker do not pay for it.
"""

from yak.version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, which would cost more to import than everything here; type checkers know the name

if TYPE_CHECKING:
    from yak import aio, trio
    from yak.client.api.client import Client, connect, create_topic
    from yak.client.api.consumer import Consumer
    from yak.client.api.failures import SendFailed
    from yak.client.api.message import BYTES, JSON, TEXT, Message, Sent, Serde
    from yak.client.api.producer import Delivery, Producer
    from yak.errors import Unreachable, UsageError, YakError
    from yak.ids import TopicPartition

__all__ = [
    "BYTES",
    "JSON",
    "TEXT",
    "Client",
    "Consumer",
    "Delivery",
    "Message",
    "Producer",
    "SendFailed",
    "Sent",
    "Serde",
    "TopicPartition",
    "Unreachable",
    "UsageError",
    "YakError",
    "aio",
    "connect",
    "create_topic",
    "trio",
]

_HOMES = {
    "BYTES": "yak.client.api.message",
    "JSON": "yak.client.api.message",
    "TEXT": "yak.client.api.message",
    "Client": "yak.client.api.client",
    "Consumer": "yak.client.api.consumer",
    "Delivery": "yak.client.api.producer",
    "Message": "yak.client.api.message",
    "Producer": "yak.client.api.producer",
    "SendFailed": "yak.client.api.failures",
    "Sent": "yak.client.api.message",
    "Serde": "yak.client.api.message",
    "TopicPartition": "yak.ids",
    "Unreachable": "yak.errors",
    "UsageError": "yak.errors",
    "YakError": "yak.errors",
    "aio": "",
    "connect": "yak.client.api.client",
    "create_topic": "yak.client.api.client",
    "trio": "",
}
"""The module that each public name is in; none for those that are modules themselves."""


if not TYPE_CHECKING:  # or a type checker would take any name for one that is here

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for (PEP 562)."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(home), name) if home else import_module(f"{__name__}.{name}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
