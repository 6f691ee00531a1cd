"""null in every field of every body: where the description allows it, it is as good as absent; elsewhere it is a 4xx.

The fields are those that the schemas name, at every depth, so a new field or route is taken by itself.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import httpx
import jsonschema
import pytest

from yak.client.admin import Admin
from yak.server.http.consumers.bodies import ANSWER_TYPES
from yak.server.http.openapi import document, openapi_path, operation_id
from yak.server.http.route import Route
from yak.server.http.routes import ROUTES

TOPIC: Final = "asked-of"
PLACE: Final = {"topic": TOPIC, "partition": 0}
INSTANCE: Final = "/consumers/{group}/instances/{instance}"
FRESH: Final = "(fresh)"
"""Stands for a name or id that nobody has."""
BODIES: Final[dict[str, list[Any]]] = {
    "/produce": [
        {"topic": TOPIC, "payload": 1, "headers": [{"key": "a", "value": "b"}]},
        [{"topic": TOPIC, "payload_text": "a"}],
        {"topic": TOPIC, "records": [{"payload_base64": "", "headers": {"a": "b"}}]},
    ],
    "/topics": [{"name": FRESH, "configs": {"retention.ms": 60000}}],
    "/create_topic": [{"name": FRESH, "configs": {"retention.ms": 60000}}],
    "/create_partition": [{"name": TOPIC}, {"topic": TOPIC}],
    "/register_producer": [{}],
    "/register_broker": [{"brokerId": FRESH, "brokerHost": "there", "brokerPort": 9}],
    "/update_broker": [{"brokerId": 101, "brokerPort": 9, "brokerHost": "there"}, {"brokerId": 101, "rackId": "a"}],
    "/api/faults": [{"fault": "freeze_isr", "topic": TOPIC}],
    "/api/failover": [{"topic": TOPIC, "partition": 0}, {"from": 1}],
    "/consumers/{group}": [{}],
    f"{INSTANCE}/subscription": [{"topics": [TOPIC]}, {"topic_pattern": "nobody-.*"}],
    f"{INSTANCE}/assignments": [{"partitions": [PLACE]}],
    f"{INSTANCE}/offsets": [{"offsets": [{**PLACE, "offset": 0}]}, {"partitions": [PLACE]}],
    f"{INSTANCE}/positions": [
        {"offsets": [{**PLACE, "offset": 0}]},
        {"timestamps": [{**PLACE, "timestamp": "2026-01-31T12:00:00Z"}]},
    ],
    f"{INSTANCE}/positions/beginning": [{"partitions": [PLACE]}],
    f"{INSTANCE}/positions/end": [{"partitions": [PLACE]}],
}
"""Bodies that are taken, by route; FRESH is another one each time."""
_numbers = itertools.count(1000)


def routes_with_json() -> list[Route]:
    return [each for each in ROUTES if each.body is not None and "json" in each.body.media_type]


def with_null(schema: Any, value: Any) -> Iterator[Any]:
    """The value with null in each place that the schema names, one at a time, and null itself."""
    yield None
    forms = [schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())]
    if isinstance(value, dict):
        names = {name: inner for form in forms for name, inner in form.get("properties", {}).items()}
        more = next((form["additionalProperties"] for form in forms if form.get("additionalProperties")), None)
        for name, inner in {**dict.fromkeys(value, more or {}), **names}.items():
            for changed in with_null(inner, value[name]) if name in value else [None]:
                yield {**value, name: changed}
    elif isinstance(value, list):
        items = next((form["items"] for form in forms if "items" in form), {})
        for place, each in enumerate(value):
            for changed in with_null(items, each):
                yield [*value[:place], changed, *value[place + 1 :]]


def renewed(value: Any) -> Any:
    """The value with what must be new."""
    if isinstance(value, dict):
        return {
            name: (next(_numbers) if name == "brokerId" else f"new-{next(_numbers)}")
            if each == FRESH
            else renewed(each)
            for name, each in value.items()
        }
    return [renewed(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def client(borrowed_broker: Callable[[], AbstractContextManager[Any]]) -> Iterator[httpx.Client]:
    """Of one broker with a topic and an external broker."""
    with borrowed_broker() as broker:
        broker.start(
            http_port=0,
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            yak_fault_injection_enable="true",
        )
        Admin(broker.bootstrap).create_topic(TOPIC, partitions=1)
        with httpx.Client(base_url=broker.http_url, trust_env=False, timeout=30) as made:
            made.post("/register_broker", json={"brokerId": 101, "brokerHost": "h", "brokerPort": 1}).raise_for_status()
            yield made
        assert " ERROR " not in broker.log(), broker.log()[-5000:]


def path_of(client: httpx.Client, route: Route) -> str:
    """Where to ask; an instance is made anew, and reads the topic where that must be."""
    path = route.path
    if "{instance}" in path:
        group = f"g-{next(_numbers)}"
        client.post(f"/consumers/{group}", json={"name": "me"}).raise_for_status()
        path = path.replace("{group}", group).replace("{instance}", "me")
        if "/positions" in path:
            client.post(f"/consumers/{group}/instances/me/assignments", json={"partitions": [PLACE]}).raise_for_status()
    return path.replace("{group}", f"g-{next(_numbers)}")


@pytest.mark.parametrize("route", routes_with_json(), ids=operation_id)
def test_null_is_absent_or_refused(client: httpx.Client, route: Route) -> None:
    assert route.body is not None
    schema = dict(route.body.schema)
    validator = jsonschema.Draft202012Validator(schema)
    taken = [each for each in BODIES[route.path] if validator.is_valid(renewed(each))]
    assert taken, "BODIES needs a body of this route"
    wrong = []
    for body in [*taken, *itertools.chain.from_iterable(with_null(schema, each) for each in taken)]:
        sent = json.dumps(renewed(body))
        is_allowed = validator.is_valid(json.loads(sent))
        path = path_of(client, route)
        found = client.request(route.method, path, content=sent, headers={"content-type": route.body.media_type})
        if "{instance}" in route.path:
            client.delete(path[: path.index("/me") + 3]).raise_for_status()
        is_right = found.is_success if is_allowed else found.status_code in (400, 422)
        if route.path == "/api/faults" and is_allowed and json.loads(sent)["topic"] is None:
            # what a fault needs depends on its kind, which the schema does not say
            is_right = found.status_code == 400 and "bad-fault" in found.text
        if not is_right:
            wrong.append(f"{sent}, {'allowed' if is_allowed else 'forbidden'}: {found.status_code} {found.text}")
    assert wrong == [], "\n".join(wrong)


CONSUMER_ROUTES: Final = [each for each in ROUTES if each.path.startswith("/consumers")]


@pytest.mark.parametrize("accept", [*ANSWER_TYPES, "*/*", "text/html"])
def test_errors_of_consumers_come_in_a_type_that_is_declared(client: httpx.Client, accept: str) -> None:
    paths = document(ROUTES)["paths"]
    for route in CONSUMER_ROUTES:
        path = route.path.replace("{group}", "nobody").replace("{instance}", "nobody")
        for query, headers, statuses in (
            ("", {}, {404, 406, 422}),
            ("?bad=1", {}, {400, 406}),
            ("", {"origin": "https://evil.example"}, {403, 404, 406}),
        ):
            body = b"[]" if route.body is not None else b""
            found = client.request(route.method, path + query, content=body, headers={**headers, "accept": accept})
            assert found.status_code in statuses, f"{route.method} {path}: {found.text}"
            answers = paths[openapi_path(route.path)][route.method.lower()]["responses"]
            answer = answers.get(str(found.status_code)) or answers["4XX"]
            if "$ref" in answer:
                answer = document(ROUTES)["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            assert found.headers["content-type"] in answer["content"], f"{route.method} {path}: {found.text}"
            assert {"error", "message", "hint"} <= set(found.json())
