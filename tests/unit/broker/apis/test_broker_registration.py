"""Guests come in through this process alone, and are in nobody's way."""

import itertools
import uuid

import pytest
from kio.schema.errors import ErrorCode

from yak.broker.apis import IN_PROCESS, TABLE
from yak.core import events
from yak.sim.request_fields import build
from yak.sim.rig import Rig
from yak.sim.wire import read_answer, request_class, request_frame

_connections = itertools.count(-1, -1)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def ask_in_process(rig, api_key, version, **fields):
    connection_id, answers, others = next(_connections), [], rig.node.on_reply

    def take(answered_id, frame):
        if answered_id == connection_id:
            answers.append(read_answer(api_key, version, frame)[1])
        else:
            others(answered_id, frame)

    rig.node.on_reply = take
    rig.node.post(events.ConnectionOpened(connection_id, "in-process", is_in_process=True))
    body = build(request_class(api_key, version), fields)
    rig.node.receive(connection_id, [request_frame(api_key, version, 0, body)])
    rig.run_for(200)
    rig.node.on_reply = others
    return answers[0] if answers else None


def registration(rig, node_id=9, *, epoch=-1, boot=1, host="h", port=9092, protocol=0, **more):
    listener = {"name": "L", "host": host, "port": port, "security_protocol": protocol}
    fields = {
        "broker_id": node_id,
        "cluster_id": rig.node.broker.image.cluster_id,
        "incarnation_id": uuid.UUID(int=boot),
        "listeners": [listener],
        "features": [],
        "rack": "r",
        "previous_broker_epoch": epoch,
    }
    return fields | more


def register(rig, *args, **more):
    answer = ask_in_process(rig, 62, 4, **registration(rig, *args, **more))
    return ErrorCode(answer.error_code).name, answer.broker_epoch


def close(rig, node_id=9):
    return ErrorCode(rig.ask(64, 0, broker_id=node_id).error_code).name


def guest(rig, node_id=9):
    found = rig.node.broker.image.external_brokers[node_id]
    return found.broker_epoch, found.state.value, found.host, found.security_protocol


def test_a_guest_is_registered_changed_and_closed_by_kafkas_own_request(rig):
    assert register(rig) == ("none", 1)
    assert guest(rig) == (1, "ACTIVE", "h", "PLAINTEXT")
    assert register(rig) == ("none", 1), "the same once more"
    assert register(rig, epoch=1, host="g", protocol=3) == ("none", 2)
    assert guest(rig) == (2, "ACTIVE", "g", "SASL_SSL")
    assert close(rig) == "none"
    assert guest(rig) == (3, "CLOSED", "g", "SASL_SSL")
    assert close(rig) == "none", "it is closed"
    assert guest(rig)[0] == 3
    assert register(rig, boot=2) == ("none", 4)


def test_what_cannot_be_is_refused(rig):
    assert register(rig, 1) == ("duplicate_broker_registration", -1)
    assert register(rig, epoch=1) == ("broker_id_not_registered", -1)
    register(rig)
    assert register(rig, boot=2) == ("duplicate_broker_registration", -1)
    assert register(rig, epoch=7) == ("stale_broker_epoch", -1)
    assert register(rig, 10, cluster_id="another") == ("inconsistent_cluster_id", -1)
    assert register(rig, 10, listeners=[]) == ("invalid_request", -1)
    assert register(rig, 10, protocol=4) == ("invalid_request", -1)
    assert register(rig, -5) == ("invalid_request", -1)
    close(rig)
    assert register(rig) == ("duplicate_broker_registration", -1), "this registration is over"
    assert list(rig.node.broker.image.external_brokers) == [9]


def test_without_the_store_it_is_refused_and_nothing_comes_of_it(rig):
    rig.node.store_goes_down()
    rig.run_for(50)
    assert register(rig) == ("request_timed_out", -1)
    rig.node.store_comes_up()
    rig.run_for(5_000)
    assert rig.node.broker.image.external_brokers == {}


def test_no_client_can_ask_for_it(rig):
    assert rig.ask(62, 4, client=rig.new_client(), **registration(rig)) is None, "the connection is closed"
    assert rig.node.broker.image.external_brokers == {}
    assert 62 not in TABLE
    assert {key for key, _version in IN_PROCESS} == {62}
    versions = rig.ask(18, 0)
    assert 62 not in [each.api_key for each in versions.api_keys]


def test_clients_never_hear_of_a_guest(rig):
    register(rig)
    metadata = rig.ask(3, 12, topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    assert [each.node_id for each in metadata.brokers] == [1]
    described = rig.ask(
        60, 2, include_cluster_authorized_operations=False, endpoint_type=1, include_fenced_brokers=True
    )
    assert [each.broker_id for each in described.brokers] == [1]
