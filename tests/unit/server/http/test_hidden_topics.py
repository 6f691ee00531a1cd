"""Answers about topics that the caller may not use: the same for topics that exist and for those that do not."""

import json
from dataclasses import replace
from typing import Any

import pytest
import trio
from starlette.requests import Request

from tests.unit.server.http.fake_context import context_of, image_of
from tests.unit.server.http.rig import Acls, make_request
from yak.acls.bindings import Operation, ResourceType
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem
from yak.server.http.routes.metadata_topics import get_topic_by_name
from yak.server.http.routes.produce import produce
from yak.server.http.routes.stream import stream
from yak.server.http.routes.topics import show_topic

ANN = Caller("User:ann", None, "10.0.0.9:4711")


def request(query: str, body: object = None, last_event_id: str = "") -> Request:
    headers = {"last-event-id": last_event_id} if last_event_id else {}
    return make_request(query, headers, b"" if body is None else json.dumps(body).encode())


def answer_of(handler: Any, asked: Request, *allowed: tuple[Operation, ResourceType, str]) -> Any:
    """The answer as JSON: of a denied request the refusal."""

    def leader(*_request: object) -> None:
        raise AssertionError("nothing is asked of a broker")

    context = context_of(
        image_of({"secret": [2, 2], "open": [2]}, http_port=8080), leader, authorization=Acls(*allowed)
    )

    async def main() -> Any:
        CALLER.set(ANN)
        if allowed:
            return json.loads((await handler(context, asked)).body)
        with pytest.raises(Problem) as refused:
            await handler(context, asked)
        assert refused.value.status == 403
        assert context.shell.rate_limit.lines[0][2]["result"] == "denied"
        return refused.value.as_json()

    return trio.run(main)


@pytest.mark.parametrize(
    ("handler", "query", "body"),
    [
        (stream, "topics=TOPIC", None),
        (stream, "topics=TOPIC&from=earliest", None),
        (produce, "", {"topic": "TOPIC", "payload": 1}),
        (produce, "", {"topic": "TOPIC", "partition": 77, "payload": 1}),
        (produce, "", {"topic": "TOPIC", "payload_text": "x" * 2_000_000}),
        (produce, "redirect=true", {"topic": "TOPIC", "partition": 0, "payload": 1}),
    ],
)
def test_http_answer_about_a_denied_topic_does_not_depend_on_its_existence(handler, query, body) -> None:
    def of(topic: str) -> Any:
        named = None if body is None else {**body, "topic": topic}
        answer = answer_of(handler, request(query.replace("TOPIC", topic), named))
        return json.loads(json.dumps(answer).replace(topic, "TOPIC"))

    found = of("secret")
    assert found == of("nosuch")
    assert found["error"] == "not-allowed"


def test_stream_that_is_resumed_on_a_denied_topic_says_nothing_of_it() -> None:
    """The id of its first event would have the topic's id, and its number of partitions."""
    found = answer_of(stream, request("topics=secret", last_event_id=f"secret@{'A' * 22}:0=0,1=0"))
    assert found["message"] == "User:ann may not READ topic 'secret'"


def test_produce_redirects_by_the_topics_that_the_caller_may_write() -> None:
    rows = [{"topic": name, "payload": 1} for name in ("secret", "open", "nosuch")]
    found = answer_of(produce, request("redirect=true", rows), (Operation.WRITE, ResourceType.TOPIC, "open"))
    assert found["leader"] == 2


@pytest.mark.parametrize("handler", [show_topic, get_topic_by_name])
@pytest.mark.parametrize(
    ("operation", "configs"), [(Operation.DESCRIBE, None), (Operation.DESCRIBE_CONFIGS, {"n": "1"})]
)
def test_configs_of_a_topic_need_the_right_to_describe_configs(handler, operation, configs) -> None:
    image = image_of({"open": [-1]})
    image.topics["open"] = replace(image.topics["open"], configs={"n": "1"})
    context = context_of(image, None, authorization=Acls((operation, ResourceType.TOPIC, "open")))

    async def main() -> Any:
        CALLER.set(ANN)
        return json.loads((await handler(context, make_request(path_params={"name": "open"}))).body)

    assert trio.run(main)["configs"] == configs
