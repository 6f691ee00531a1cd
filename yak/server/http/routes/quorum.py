"""`/api/quorum`: the metadata quorum's leader, voters and observers."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from yak.broker.apis import describe_quorum
from yak.errors import ErrorCode
from yak.protocol.topic_names import METADATA_TOPIC
from yak.server.http.answers import answer
from yak.server.http.context import Context
from yak.server.http.problems import Problem, check_error
from yak.server.http.route import Answer, Routes, Schema
from yak.server.http.schemas import NODE_ID, NODES, NUMBER, OFFSET, OFFSET_OR_NULL, TEXT, TEXT_OR_NULL, listing, record
from yak.views.quorum import ROLES, described_quorum_json, role_of, undescribed_quorum_json

_LEADER_SECONDS: Final = 2.0
"""How long the quorum's leader may take, before this broker answers with what it knows itself."""

_ROLE: Final[Schema] = {"enum": list(ROLES)}
_LEADER_ID: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
OWN_QUORUM: Final[dict[str, Schema]] = {
    "role": _ROLE,
    "leader_id": _LEADER_ID,
    "epoch": OFFSET,
    "high_watermark": OFFSET,
    "voters": NODES,
    "caught_up": OFFSET_OR_NULL,
}
"""What a broker knows of the quorum without asking the leader; how many voters are caught up only the leader knows."""
_REPLICA: Final = record(
    {
        "node_id": NODE_ID,
        "directory_id": TEXT_OR_NULL,
        "host": TEXT_OR_NULL,
        "port": {"type": ["integer", "null"]},
        "log_end_offset": OFFSET_OR_NULL,
        "lag": OFFSET_OR_NULL,
        "last_fetch_time_ms": OFFSET_OR_NULL,
        "last_caught_up_time_ms": OFFSET_OR_NULL,
    }
)
_QUORUM: Final = record(
    {"metadata": {"enum": ["raft", "redis"]}, "reported_by": NODE_ID},
    optional={
        "message": TEXT,
        "role": _ROLE,
        "leader_id": _LEADER_ID,
        "epoch": NUMBER,
        "high_watermark": OFFSET,
        "voters": listing(_REPLICA),
        "observers": listing(_REPLICA),
    },
)

ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "GET /api/quorum",
    "The metadata quorum: leader, epoch, high watermark, voters and observers",
    answers={200: Answer("as the quorum's leader knows it; without a quorum only `metadata` and `message`", _QUORUM)},
    description="Any broker answers; it asks the quorum's leader. `role` is that of the broker that answers. While no leader "
    "answers, `message` says so, and what only the leader knows is null.",
)
async def quorum(context: Context, _request: Request) -> Response:
    """The quorum as its leader describes it; what this broker knows itself while no leader answers."""
    broker = context.broker
    if broker.quorum is None:
        message = (
            "the metadata of this cluster are in Redis, not in a quorum of brokers; GET /health has the state of Redis"
        )
        return answer({"metadata": "redis", "reported_by": broker.node_id, "message": message})
    node = broker.quorum.quorum
    store = "raft" if broker.metadata_in_quorum else "redis"
    known: dict[str, Any] = {"metadata": store, "reported_by": broker.node_id, "role": role_of(node)}
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    try:
        found = await context.broker_client.ask(describe_quorum.KEY, {"topics": topics}, timeout_s=_LEADER_SECONDS)
        if found.error_code == ErrorCode.none and found.topics[0].partitions[0].error_code == ErrorCode.none:
            return answer(known | described_quorum_json(found, broker.image.brokers))
    except Problem:
        found = None  # the leader is dead, or does not answer in time
    if found is not None:
        check_error(found, "the quorum")
    message = "the quorum has no leader that answers: only this broker's own log is known"
    return answer(known | {"message": message} | undescribed_quorum_json(node))
