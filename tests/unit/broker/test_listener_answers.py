"""Answers give the address of the listener that was asked (KIP-103, KRaftMetadataCache)."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, produce_fields
from tests.unit.broker.replicated import add_broker, set_partition
from yak.config.listeners import Listener, SecurityProtocol
from yak.sim.wire import record_batch

_INTERNAL = Listener("INTERNAL", SecurityProtocol.PLAINTEXT, "inside-2", 1)
_EXTERNAL = Listener("EXTERNAL", SecurityProtocol.PLAINTEXT, "outside-2", 2)


@pytest.fixture
def rig() -> Rig:
    """Broker 1 has PLAINTEXT, INTERNAL and EXTERNAL, broker 2 has not PLAINTEXT; broker 2 leads."""
    rig = Rig()
    rig.create_topic("orders")
    add_broker(rig, 2)
    context = rig.node.broker.context
    own, other = context.image.brokers[1], context.image.brokers[2]
    plain = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, own.host, own.port)
    mine = tuple(replace(each, host=each.host.replace("2", "1")) for each in (_INTERNAL, _EXTERNAL))
    brokers = {1: replace(own, endpoints=(plain, *mine)), 2: replace(other, endpoints=(_INTERNAL, _EXTERNAL))}
    context.image = replace(context.image, brokers=brokers)
    set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    return rig


def through(rig: Rig, listener: Listener) -> None:
    for connection in rig.node.broker.connections.values():
        connection.listener = listener


def metadata(rig: Rig):
    wanted = [{"name": "orders"}]
    return rig.ask(3, 12, topics=wanted, allow_auto_topic_creation=False)


@pytest.mark.parametrize(("listener", "word", "port"), [(_INTERNAL, "inside", 1), (_EXTERNAL, "outside", 2)])
def test_each_listener_names_its_own_addresses(rig, listener, word, port):
    metadata(rig)
    through(rig, listener)
    answer = metadata(rig)
    assert [(each.host, each.port) for each in answer.brokers] == [(f"{word}-1", port), (f"{word}-2", port)]
    assert answer.topics[0].partitions[0].leader_id == 2
    cluster = rig.ask(60, 1)
    assert [(each.host, each.port) for each in cluster.brokers] == [(f"{word}-1", port), (f"{word}-2", port)]
    fields = produce_fields("orders", record_batch([b"x"], rig.world.now_ms))
    hinted = rig.ask(0, 12, **fields)
    assert [(each.host, each.port) for each in hinted.node_endpoints] == [(f"{word}-2", port)]


def test_broker_without_the_listener_is_left_out_and_does_not_lead_there(rig):
    answer = metadata(rig)
    assert [each.node_id for each in answer.brokers] == [1]
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.listener_not_found, -1)
    assert list(partition.offline_replicas) == [2]
    cluster = rig.ask(60, 1)
    assert [each.broker_id for each in cluster.brokers] == [1]


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)])
def test_metadata_before_version_6_calls_a_leader_without_the_listener_not_available(rig, version, code):
    answer = rig.ask(3, version, topics=[{"name": "orders"}])
    assert [partition.error_code for partition in answer.topics[0].partitions] == [code]


def test_registration_without_endpoints_is_the_listener_plaintext():
    rig = Rig()
    (own,) = rig.node.broker.image.brokers.values()
    assert own.endpoints == ()
    assert own.endpoint("PLAINTEXT") == Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, own.host, own.port)
    assert own.endpoint("EXTERNAL") is None
