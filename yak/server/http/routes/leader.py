"""`GET /metadata/leader`: the controller, and with `topic` and `partition` that partition's leader."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from yak.cluster.image import BrokerInfo
from yak.server.http.answers import answer
from yak.server.http.bodies import query_integer, query_text
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.record_json import INT32_MAX
from yak.server.http.route import Answer, Parameter, Route
from yak.server.http.schemas import NOT_EMPTY, NUMBER, PARTITION, TEXT, TEXT_OR_NULL, or_null, record
from yak.server.http.topic_partitions import check_partition, find_topic, http_address


async def get_leader(context: Context, request: Request) -> Response:
    """The controller and leader in this broker's metadata; null if there is none."""
    name = query_text(request, "topic")
    image = context.broker.image
    controller = _broker(image.brokers.get(image.controller_id))
    if controller is not None:
        controller["epoch"] = image.controller_epoch
    found: dict[str, Any] = {"controller": controller}
    if name is not None:
        partition = query_integer(request, "partition", maximum=INT32_MAX)
        topic = find_topic(context, name)
        check_partition(topic, partition)
        info = topic.partitions[partition]
        leader = _broker(image.brokers.get(info.leader))
        if leader is not None:
            leader["epoch"] = info.leader_epoch
        found |= {"topic": name, "partition": partition, "leader": leader}
    elif query_text(request, "partition") is not None:
        raise Problem(400, "bad-parameter", "partition is given without its topic", "add &topic=NAME")
    return answer(found)


def _broker(info: BrokerInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    return {"node_id": info.node_id, "host": info.host, "port": info.port, "http": http_address(info)}


_BROKER: Final = or_null(
    record({"node_id": NUMBER, "host": TEXT, "port": NUMBER, "http": TEXT_OR_NULL, "epoch": NUMBER})
)
_LEADER: Final = record({"controller": _BROKER}, optional={"topic": TEXT, "partition": NUMBER, "leader": _BROKER})

ROUTES: Final = (
    Route(
        "GET",
        "/metadata/leader",
        get_leader,
        "The controller, and a partition's leader",
        "Data",
        parameters=(
            Parameter("topic", NOT_EMPTY, "the partition's topic"),
            Parameter("partition", PARTITION, "with topic"),
        ),
        answers={200: Answer("null without a leader", _LEADER)},
        description="`epoch` is the controller epoch, or the leader epoch.",
    ),
)
