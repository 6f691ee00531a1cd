"""A broker that takes requests one at a time: for tests of single APIs and for manual trials.

rig = Rig()
rig.create_topic("orders", partitions=2)
answer = rig.ask(3, 12, topics=None, ...)          # kio's fields of Metadata v12
later = rig.begin(1, 12, ...)                       # a fetch that waits
rig.run_for(500); later.answer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yak.cluster.settings import ClusterSettings
from yak.sim.cluster import Cluster
from yak.sim.node import DATA_DIRECTORY
from yak.sim.request_fields import Fields, build, create_fields, fetch_fields, produce_fields
from yak.sim.routing import Connection, Done
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch
from yak.sim.world import World

EVENTS_MAX = 50_000


__all__ = ["Pending", "Rig", "build", "fetch_fields", "produce_fields"]


class Pending:
    """A pending request: `answer` is the response body once it arrived, `is_lost` says that the connection was lost."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.is_done = False

    @property
    def is_lost(self) -> bool:
        """Whether no response will come."""
        return self.is_done and self.answer is None

    def take(self, answer: Any | None) -> None:
        """The response arrived, or the connection was lost."""
        self.answer = answer
        self.is_done = True


class Client:
    """A connection to one broker, which is opened again after a loss."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster, self._node_id = cluster, node_id
        self._connection = Connection(cluster, node_id)

    @property
    def connection_id(self) -> int | None:
        """The broker's id of the connection; None while there is none."""
        return self._connection.connection_id

    def send(self, api_key: int, version: int, fields: Fields, done: Done) -> None:
        """Send one request; `done` gets the response body, or None after a lost connection or a timeout."""
        if not self._connection.is_open:
            self._connection = Connection(self._cluster, self._node_id)
        self._connection.send(api_key, version, fields, done)

    def close(self) -> None:
        self._connection.close()


class Rig:
    """One simulated broker, ready to serve, and any number of clients on a network without faults."""

    def __init__(
        self, *, seed: int = 1, settings: dict[str, str] | None = None, directories: tuple[str, ...] = (DATA_DIRECTORY,)
    ) -> None:
        self.world = World()
        self._cluster = Cluster(
            self.world,
            SeededRandom(seed),
            size=1,
            settings=settings or {},
            cluster_settings=ClusterSettings(),
            roles=("leader",),
            racks=(None,),
            directories=directories,
        )
        self.store, self.node = self._cluster.store, self._cluster.nodes[0]
        self.node.after_step = lambda: None  # no check reads the history
        self._clients: list[Client] = []
        self.node.start()
        self.run_until_ready()
        self.client = self.new_client()

    def new_client(self) -> Client:
        """Another client, connected to the broker."""
        client = Client(self._cluster, self.node.node_id)
        self._clients.append(client)
        self.world.run(lambda: client.connection_id is not None, events_max=EVENTS_MAX)
        return client

    def begin(self, api_key: int, version: int, *, client: Client | None = None, **fields: Any) -> Pending:
        """Send a request with kio's fields of that version; dicts become kio's structures."""
        pending = Pending()
        (client or self.client).send(api_key, version, fields, pending.take)
        return pending

    def ask(self, api_key: int, version: int, *, client: Client | None = None, **fields: Any) -> Any:
        """Send a request and run the world until its response; None if the connection was lost."""
        pending = self.begin(api_key, version, client=client, **fields)
        self.world.run(lambda: pending.is_done, events_max=EVENTS_MAX)
        return pending.answer

    def run_for(self, milliseconds: int) -> None:
        self.world.run_for(milliseconds * 1000, events_max=EVENTS_MAX)

    def run_until_ready(self) -> None:
        self.world.run(lambda: self.node.is_ready, events_max=EVENTS_MAX)

    def restart(self, *, power_loss: bool = False, orderly: bool = False) -> None:
        """End the broker and start it again on the same disk."""
        if orderly:
            self.node.stop()
            self.world.run(lambda: self.node.broker is None, events_max=EVENTS_MAX)
        elif power_loss:
            self.node.crash()
        else:
            self.node.kill()
        for client in self._clients:
            client.close()
        self.node.start()
        self.run_until_ready()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; config names with underscores for dots."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        answer = self.ask(19, 5, **create_fields(name, named, partitions))
        assert answer.topics[0].error_code == 0, answer

    def produce(
        self, topic: str, values: Sequence[bytes | None], *, partition: int = 0, acks: int = -1, **batch: Any
    ) -> Any:
        """Send one batch; returns the response of its partition."""
        records = record_batch(values, batch.pop("timestamp_ms", self.world.now_ms), **batch)
        return self.produce_raw(topic, records, partition=partition, acks=acks)

    def produce_raw(self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> Any:
        """Send any bytes as records; returns the response of the partition."""
        answer = self.ask(0, 9, **produce_fields(topic, records, partition=partition, acks=acks))
        return None if answer is None else answer.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, max_bytes: int = 1 << 20
    ) -> Any:
        fields = fetch_fields(topic, offset, partition=partition, max_wait_ms=max_wait_ms, max_bytes=max_bytes)
        return self.ask(1, 12, **fields).responses[0].partitions[0]
