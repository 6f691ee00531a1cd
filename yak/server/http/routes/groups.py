"""`/api/groups`: all consumer groups; `/api/groups/{group}`: one, with members, committed offsets and lag."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.limits import GROUP_STRING_BYTES_MAX
from yak.server.http.answers import answer
from yak.server.http.bodies import refuse_unknown_query
from yak.server.http.consumer_groups import all_groups, describe_group
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.route import Answer, Parameter, Route
from yak.server.http.schemas import NODE_ID, OFFSET_OR_NULL, PARTITION, TEXT, TEXT_OR_NULL, listing, record

_PLACES: Final = {"type": ["array", "null"], "items": record({"topic": TEXT, "partition": PARTITION})}
_HEAD: Final = {
    "group": TEXT,
    "type": {"enum": ["classic", "consumer"]},
    "state": TEXT,
    "protocol_type": TEXT,
    "coordinator": NODE_ID,
}
_GROUP: Final = record(
    {
        **_HEAD,
        "assignor": TEXT_OR_NULL,
        "epoch": {"type": ["integer", "null"]},
        "members": listing(
            record(
                {
                    "member_id": TEXT,
                    "client_id": TEXT,
                    "host": TEXT,
                    "instance_id": TEXT_OR_NULL,
                    "epoch": {"type": ["integer", "null"]},
                    "topics": {"type": ["array", "null"], "items": TEXT},
                    "assignment": _PLACES,
                    "target": _PLACES,
                }
            )
        ),
        "partitions": listing(
            record(
                {
                    "topic": TEXT,
                    "partition": PARTITION,
                    "committed": OFFSET_OR_NULL,
                    "metadata": TEXT,
                    "log_start_offset": OFFSET_OR_NULL,
                    "high_watermark": OFFSET_OR_NULL,
                    "lag": OFFSET_OR_NULL,
                    "member_id": TEXT_OR_NULL,
                }
            )
        ),
        "lag": OFFSET_OR_NULL,
    }
)


async def groups(context: Context, request: Request) -> Response:
    """All groups of all brokers."""
    refuse_unknown_query(request, ())
    listed = await all_groups(context)
    return answer({"groups": listed.groups, "silent": listed.silent})


async def group(context: Context, request: Request) -> Response:
    """One group, with its lag."""
    refuse_unknown_query(request, ())
    name = request.path_params["group"]
    if len(name.encode()) > GROUP_STRING_BYTES_MAX:
        raise Problem(400, "bad-parameter", f"a group's name has at most {GROUP_STRING_BYTES_MAX} bytes")
    return answer(await describe_group(context, name))


ROUTES: Final = (
    Route(
        "GET",
        "/api/groups",
        groups,
        "All groups with state and coordinator",
        "Administration",
        answers={
            200: Answer(
                "the groups by name; `silent` lists brokers that did not answer, whose groups are missing",
                record(
                    {"groups": listing(record(_HEAD)), "silent": listing(record({"node_id": NODE_ID, "reason": TEXT}))}
                ),
            )
        },
    ),
    Route(
        "GET",
        "/api/groups/{group}",
        group,
        "One group: members, assignments, committed offsets and lag",
        "Administration",
        parameters=(Parameter("group", {"type": "string", "minLength": 1}, "its name", required=True, where="path"),),
        answers={200: Answer("the group; `lag` is the sum over partitions with a known lag", _GROUP)},
    ),
)
