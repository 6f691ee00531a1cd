"""`/api/cluster`: brokers, controller, Redis, and counts of healthy and unhealthy partitions."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.server.http.answers import answer
from yak.server.http.context import Context, cluster_view
from yak.server.http.route import Answer, Route
from yak.server.http.schemas import BOOLEAN, NODE_ID, NUMBER, OFFSET, TEXT, TEXT_OR_NULL, listing, record

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
CLUSTER: Final = record(
    {
        "cluster_id": TEXT,
        "told_by": NODE_ID,
        "controller_id": {"type": ["integer", "null"]},
        "controller_epoch": NUMBER,
        "metadata_offset": OFFSET,
        "metadata_time_ms": OFFSET,
        "incarnation": NUMBER,
        "redis": record({"state": {"enum": ["connected", "lost", "frozen"]}, "lost_ms": {"type": ["integer", "null"]}}),
        "brokers": listing(_BROKER),
        "topics": OFFSET,
        "partitions": OFFSET,
        "under_replicated": OFFSET,
        "unavailable": OFFSET,
        "reassigning": OFFSET,
    }
)


async def cluster(context: Context, _request: Request) -> Response:
    """The cluster as this broker knows it."""
    return answer(context.part(cluster_view).look())


ROUTES: Final = (
    Route(
        "GET",
        "/api/cluster",
        cluster,
        "Brokers, controller, Redis and partition counts",
        "Administration",
        answers={200: Answer("the cluster as this broker knows it", CLUSTER)},
    ),
)
