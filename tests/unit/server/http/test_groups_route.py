"""`GET /api/groups/{group}` with ACLs: another broker that coordinates answers this one, which may do everything."""

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.unit.server.http.fake_context import context_of, image_of
from tests.unit.server.http.rig import Acls
from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis import consumer_group_describe, describe_groups, list_groups, list_offsets, offset_fetch
from yak.errors import ErrorCode
from yak.groups.offsets import OFFSETS_TOPIC
from yak.server.http import answers
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem
from yak.server.http.routes.groups import describe_group, groups

ANN = Caller("User:ann", None, "10.0.0.9:4711")
MAY = tuple(
    (Operation.DESCRIBE, kind, name) for kind, name in ((ResourceType.GROUP, "billing"), (ResourceType.TOPIC, "open"))
)


def places(*topics: str) -> Any:
    return SimpleNamespace(topic_partitions=[SimpleNamespace(topic_name=name, partitions=[0]) for name in topics])


def coordinator(subscribed: list[str], assigned: list[str]) -> Any:
    """What broker 2 answers this broker: a group of the consumer protocol with a member, and offsets of two topics."""

    def answer(api_key: int, fields: Any, node_id: int) -> Any:
        assert node_id == 2
        if api_key == offset_fetch.KEY:
            offset = SimpleNamespace(partition_index=0, committed_offset=7, metadata="", error_code=ErrorCode.none)
            topics = [SimpleNamespace(name=name, partitions=[offset]) for name in ("open", "secret")]
            return SimpleNamespace(groups=[SimpleNamespace(error_code=ErrorCode.none, topics=topics)])
        if api_key == list_offsets.KEY:
            found = SimpleNamespace(partition_index=0, error_code=ErrorCode.none, offset=9)
            return SimpleNamespace(
                topics=[SimpleNamespace(name=each["name"], partitions=[found]) for each in fields["topics"]]
            )
        if api_key == describe_groups.KEY:
            return SimpleNamespace(groups=[SimpleNamespace(error_code=ErrorCode.group_id_not_found)])
        assert api_key == consumer_group_describe.KEY
        member = SimpleNamespace(
            member_id="m", client_id="c", client_host="h", instance_id=None, assignment=places(*assigned),
            subscribed_topic_names=subscribed, subscribed_topic_regex=None, member_epoch=1,
            target_assignment=places(*assigned),
        )  # fmt: skip
        group = SimpleNamespace(
            error_code=ErrorCode.none, group_id="billing", group_state="Stable", assignor_name="uniform",
            group_epoch=1, members=[member],
        )  # fmt: skip
        return SimpleNamespace(groups=[group])

    return answer


def described(subscribed: list[str], assigned: list[str]) -> tuple[Any, Any]:
    """The context, and the answer or the problem."""
    image = image_of({OFFSETS_TOPIC: [2], "open": [2], "secret": [2]})
    context = context_of(image, coordinator(subscribed, assigned), authorization=Acls(*MAY))

    async def main() -> Any:
        CALLER.set(ANN)
        try:
            return json.loads((await describe_group(context, "billing")).body)
        except Problem as problem:
            return problem

    return context, trio.run(main)


def test_offsets_of_topics_that_the_caller_may_not_describe_are_left_out() -> None:
    context, found = described(["open"], ["open"])
    rows = [(row["topic"], row["committed"], row["high_watermark"]) for row in found["partitions"]]
    assert rows == [("open", 7, 9)]
    asked = [fields for key, fields, _node in context.broker_client.requests if key == list_offsets.KEY]
    assert {topic["name"] for fields in asked for topic in fields["topics"]} == {"open"}, "one topic refuses a request"


@pytest.mark.parametrize(("subscribed", "assigned"), [(["open", "secret"], ["open"]), (["open"], ["open", "secret"])])
def test_group_with_a_topic_that_the_caller_may_not_describe_is_refused(subscribed, assigned) -> None:
    context, refused = described(subscribed, assigned)
    assert (refused.status, refused.error) == (403, "topic-authorization-failed")
    assert "secret" not in refused.message
    assert context.shell.rate_limit.lines[0][2]["resources"] == "DESCRIBE TOPIC secret"


def test_request_to_a_coordinator_or_a_leader_waits_three_seconds_at_most() -> None:
    context, _found = described(["open"], ["open"])
    assert set(context.broker_client.timeouts_s) == {3.0}


async def test_log_start_and_log_end_offsets_are_read_at_the_same_time() -> None:
    both_are_requested = trio.Event()
    answer = coordinator(["open"], ["open"])
    waiting = 0

    async def answer_once_both_are_requested(fields: Any, node_id: int) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both_are_requested.set()
        await both_are_requested.wait()
        return answer(list_offsets.KEY, fields, node_id)

    def answer_later(api_key: int, fields: Any, node_id: int) -> Any:
        if api_key == list_offsets.KEY:
            return answer_once_both_are_requested(fields, node_id)
        return answer(api_key, fields, node_id)

    image = image_of({OFFSETS_TOPIC: [2], "open": [2], "secret": [2]})
    CALLER.set(ANN)
    with trio.fail_after(5):
        response = await describe_group(context_of(image, answer_later, authorization=Acls(*MAY)), "billing")
    found = json.loads(response.body)
    rows = [(row["log_start_offset"], row["high_watermark"]) for row in found["partitions"]]
    assert rows == [(9, 9)]


async def test_groups_and_their_partitions_are_rendered_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered_in: list[str] = []
    real = answers.large_json_bytes

    def render(content: Any) -> bytes:
        rendered_in.append(threading.current_thread().name)
        return real(content)

    monkeypatch.setattr(answers, "large_json_bytes", render)
    monkeypatch.setattr(answers, "LARGE_ITEMS", 0)
    answer = coordinator(["open"], ["open"])

    def answer_all(api_key: int, fields: Any, node_id: int) -> Any:
        if api_key != list_groups.KEY:
            return answer(api_key, fields, node_id)
        group = SimpleNamespace(
            group_id="billing", group_type="consumer", group_state="Stable", protocol_type="consumer"
        )
        return SimpleNamespace(error_code=ErrorCode.none, groups=[group])

    image = image_of({OFFSETS_TOPIC: [2], "open": [2], "secret": [2]})
    CALLER.set(ANN)
    context = context_of(image, answer_all, authorization=Acls(*MAY))
    assert len(json.loads((await groups(context, SimpleNamespace())).body)["groups"]) == 2
    await describe_group(context, "billing")
    assert len(rendered_in) == 2
    assert threading.current_thread().name not in rendered_in
