"""Requests that HTTP sends to another broker need the caller's rights, since that broker trusts this one."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.server.http.rig import NO_AUTHORIZER, Acls, Log
from tests.unit.server.http.test_broker_client import make_broker_client
from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis import NAMES
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem
from yak.server.http.rights import check_rights

ANN = Caller("User:ann", None, "10.0.0.9:4711")


def broker_that_allows(*allowed: tuple[Operation, ResourceType, str]) -> Any:
    return SimpleNamespace(authorization=Acls(*allowed))


TOPICS = {"topics": [{"name": "a", "topic": "a"}, {"name": "b", "topic": "b"}]}


@pytest.mark.parametrize(
    ("api_key", "fields", "operation", "kind"),
    [
        (0, {"topic_data": [{"name": "a"}, {"name": "b"}]}, Operation.WRITE, ResourceType.TOPIC),
        (1, TOPICS, Operation.READ, ResourceType.TOPIC),
        (2, TOPICS, Operation.DESCRIBE, ResourceType.TOPIC),
        (9, {"groups": [{"group_id": "a"}, {"group_id": "b"}]}, Operation.DESCRIBE, ResourceType.GROUP),
        (15, {"groups": ["a", "b"]}, Operation.DESCRIBE, ResourceType.GROUP),
        (69, {"group_ids": ["a", "b"]}, Operation.DESCRIBE, ResourceType.GROUP),
    ],
)
def test_each_resource_that_a_request_names_is_checked(api_key, fields, operation, kind) -> None:
    check_rights(broker_that_allows((operation, kind, "a"), (operation, kind, "b")), Log(), ANN, api_key, fields)
    log, broker = Log(), broker_that_allows((operation, kind, "a"))
    with pytest.raises(Problem, match=f"User:ann may not {operation.name} {kind.name.lower()} 'b'"):
        check_rights(broker, log, ANN, api_key, fields)
    assert broker.authorization.denied == [(operation, kind)], "it is in the metric"
    ((level, event, logged),) = log.lines
    assert (level, event, logged["result"], logged["principal"]) == ("warning", "audit", "denied", "User:ann")
    assert (logged["host"], logged["api"]) == ("10.0.0.9", NAMES[api_key])
    assert logged["resources"] == f"{operation.name} {kind.name} b"


@pytest.mark.parametrize(
    ("api_key", "operation"),
    [(16, Operation.DESCRIBE), (35, Operation.DESCRIBE), (22, Operation.IDEMPOTENT_WRITE), (43, Operation.ALTER),
     (45, Operation.ALTER), (20, Operation.ALTER)],
)  # fmt: skip
def test_a_request_about_the_cluster_and_any_other_needs_the_cluster(api_key, operation) -> None:
    check_rights(broker_that_allows((operation, ResourceType.CLUSTER, "kafka-cluster")), Log(), ANN, api_key, {})
    with pytest.raises(Problem) as refused:
        check_rights(broker_that_allows(), Log(), ANN, api_key, {})
    assert (refused.value.status, refused.value.error) == (403, "not-allowed")


def test_without_acls_nothing_is_checked() -> None:
    check_rights(SimpleNamespace(authorization=NO_AUTHORIZER), Log(), ANN, 0, {})


async def test_client_of_other_brokers_sends_nothing_that_the_caller_may_not() -> None:
    client, core, others = make_broker_client()
    client._broker.authorization = broker_that_allows().authorization
    CALLER.set(ANN)
    with pytest.raises(Problem, match="may not ALTER cluster"):
        await client.ask(3, {"topics": None}, node_id=2)
    await client.ask(3, {"topics": None})  # this broker's own handler checks it
    assert (len(core.frames), len(others.frames)) == (1, 0)
