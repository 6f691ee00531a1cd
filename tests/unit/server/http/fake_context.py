"""A context for handlers' parts without a broker: an image, and a broker_client whose answers a test writes."""

import uuid
from types import SimpleNamespace

from tests.unit.server.http.rig import NO_AUTHORIZER, Log
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import parse_isr
from yak.cluster.records import BrokerState
from yak.server.http.context import Context, HttpLimits
from yak.server.shell import Counters


class FakeBrokerClient:
    """`answer(api_key, fields, node_id)` is what the leader does: gives an answer or raises."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.timeouts_s = []

    async def ask(self, api_key, fields, *, node_id=None, timeout_s=0, version=None):
        self.requests.append((api_key, fields, node_id))
        self.timeouts_s.append(timeout_s)
        found = self.answer(api_key, fields, node_id)
        return await found if hasattr(found, "__await__") else found

    async def send(self, api_key, version, fields, node_id):
        self.requests.append((api_key, fields, node_id))


def image_of(topics, nodes=(1, 2), http_port=0):
    """`topics`: name -> the leader of each partition, -1 for none."""
    brokers = {
        node: BrokerInfo(node, 1, "", (), f"host{node}", 9092, None, "leader", BrokerState.ACTIVE, http_port=http_port)
        for node in nodes
    }
    made = {
        name: TopicInfo(
            name,
            uuid.uuid5(uuid.NAMESPACE_DNS, name),
            tuple(PartitionInfo(n, (1, 2), parse_isr("1@1,2@1"), (), leader, 0, 0) for n, leader in enumerate(leaders)),
        )
        for name, leaders in topics.items()
    }
    return Image(brokers=brokers, topics=made)


def context_of(image, answer, *, authorization=NO_AUTHORIZER, **limits):
    """A context on node 1."""
    config = SimpleNamespace(static={}, auto_create_topics_enable=True)
    broker = SimpleNamespace(image=image, node_id=1, config=config, authorization=authorization)
    clock = SimpleNamespace(wall_ms=lambda: 1234)
    shell = SimpleNamespace(clock=clock, rate_limit=Log(), counters=Counters())
    return Context(
        shell=shell,
        broker=broker,
        broker_client=FakeBrokerClient(answer),
        http_port=0,
        host="127.0.0.1",
        advertised_host="127.0.0.1",
        limits=HttpLimits(**limits),
    )
