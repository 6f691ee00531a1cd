"""`/api/cluster`: brokers, controller, metadata store, and counts of partitions; `/metadata/leader`: who leads what."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from yak.cluster.image import BrokerInfo
from yak.protocol.record_fields import INT32_MAX
from yak.server.http.answers import answer
from yak.server.http.bodies import query_integer, query_text
from yak.server.http.context import Context, cluster_view
from yak.server.http.problems import bad_parameter
from yak.server.http.route import Answer, Parameter, Routes, Schema
from yak.server.http.routes.quorum import OWN_QUORUM
from yak.server.http.schemas import (
    BOOLEAN,
    NODE_ID,
    NOT_EMPTY,
    NUMBER,
    OFFSET,
    PARTITION,
    STATE_COUNTS,
    TEXT,
    TEXT_OR_NULL,
    listing,
    or_null,
    record,
)
from yak.server.http.topic_partitions import check_partition, find_topic
from yak.views.cluster import http_address

_BROKER: Final = record(
    {
        "node_id": NODE_ID,
        "role": TEXT,
        "state": {"enum": ["ACTIVE", "FENCED", "STOPPING", "CLOSED"]},
        "broker_epoch": NUMBER,
        "rack": TEXT_OR_NULL,
        "host": TEXT,
        "port": NUMBER,
        "http_address": TEXT_OR_NULL,
        "is_controller": BOOLEAN,
        "leaders": OFFSET,
        "replicas": OFFSET,
        "replicas_in_sync": OFFSET,
    }
)
_STORE: Final[dict[str, Schema]] = {
    "state": {"enum": ["connected", "lost", "frozen"]},
    "lost_ms": {"type": ["integer", "null"]},
}
CLUSTER: Final = record(
    {
        "cluster_id": TEXT,
        "reported_by": NODE_ID,
        "controller_id": {"type": ["integer", "null"]},
        "controller_epoch": NUMBER,
        "metadata_offset": OFFSET,
        "metadata_time_ms": OFFSET,
        "incarnation": NUMBER,
        "redis": or_null(record(_STORE)),
        "quorum": or_null(record({**_STORE, **OWN_QUORUM})),
        "brokers": listing(_BROKER),
        "topics": OFFSET,
        "partitions": OFFSET,
        **STATE_COUNTS,
        "reassigning": OFFSET,
    }
)


def _address(context: Context, info: BrokerInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    http = http_address(info, context.scheme)
    return {"node_id": info.node_id, "host": info.host, "port": info.port, "http": http}


_LEADING_BROKER: Final = or_null(
    record({"node_id": NUMBER, "host": TEXT, "port": NUMBER, "http": TEXT_OR_NULL, "epoch": NUMBER})
)
_LEADER: Final = record(
    {"controller": _LEADING_BROKER}, optional={"topic": TEXT, "partition": NUMBER, "leader": _LEADING_BROKER}
)
_ADMINISTRATION: Final = Routes("Administration")
_DATA: Final = Routes("Data")


@_ADMINISTRATION.add(
    "GET /api/cluster",
    "Brokers, controller, metadata store and partition counts",
    answers={200: Answer("the cluster as this broker knows it; `redis` or `quorum` is null", CLUSTER)},
)
async def cluster(context: Context, _request: Request) -> Response:
    """The cluster as this broker knows it."""
    return answer(context.part(cluster_view).present())


@_DATA.add(
    "GET /metadata/leader",
    "The controller, and a partition's leader",
    parameters=(
        Parameter("topic", NOT_EMPTY, "the partition's topic"),
        Parameter("partition", PARTITION, "with topic"),
    ),
    answers={200: Answer("null without a leader", _LEADER)},
    description="`epoch` is the controller epoch, or the leader epoch.",
)
async def get_leader(context: Context, request: Request) -> Response:
    """The controller and leader in this broker's metadata; null if there is none."""
    name = query_text(request, "topic")
    image = context.broker.image
    controller = _address(context, image.brokers.get(image.controller_id))
    if controller is not None:
        controller["epoch"] = image.controller_epoch
    found: dict[str, Any] = {"controller": controller}
    if name is not None:
        partition = query_integer(request, "partition", maximum=INT32_MAX)
        topic = find_topic(context, name)
        check_partition(topic, partition)
        info = topic.partitions[partition]
        leader = _address(context, image.brokers.get(info.leader))
        if leader is not None:
            leader["epoch"] = info.leader_epoch
        found |= {"topic": name, "partition": partition, "leader": leader}
    elif query_text(request, "partition") is not None:
        raise bad_parameter("partition is given without its topic", "add &topic=NAME")
    return answer(found)


ROUTES: Final = (*_ADMINISTRATION, *_DATA)
