"""The rows of `yak.views.replicas`, with the offsets of partitions that other brokers lead.

A leader knows its followers' offsets, so one request to each leader is enough: `GET /api/isr?local=true`, answered
from memory, all in parallel. Offsets stay null if their leader is offline or does not answer HTTP. Long lists are built
in slices.
"""

from typing import Any, Final
from urllib.parse import urlencode

import trio

from yak.ids import NodeId
from yak.lifecycle.liveness import is_serving
from yak.server.http.context import Context
from yak.server.http.other_brokers import ask_broker
from yak.server.http.problems import Problem
from yak.views.replicas import PartitionFilter, Row, rows

_ROWS_AT_ONCE: Final = 200
"""Takes about a millisecond."""
_BY_LEADER: Final = ("leader", "state", "high_watermark", "log_end_offsets")
"""The leader alone knows whether its log is offline: then there is no leader."""
Key = tuple[str, int, int]


async def own_rows(context: Context, wanted: PartitionFilter) -> list[Row]:
    """The rows with this broker's own knowledge only."""
    found: list[Row] = []
    for each in rows(context.broker, wanted):
        found.append(each)
        if len(found) % _ROWS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    return found


async def all_rows(context: Context, wanted: PartitionFilter) -> list[Row]:
    """The rows with other leaders' offsets, each used only if reported for the row's leader epoch of the same topic."""
    found = await own_rows(context, wanted)
    own = context.broker.node_id
    leaders = sorted({each["leader"] for each in found if each["leader"] not in (None, own)})
    reported: dict[Key, Row] = {}
    async with trio.open_nursery() as nursery:
        for node_id in leaders:
            nursery.start_soon(_ask, context, node_id, wanted, reported)
    for count, each in enumerate(found):
        by_leader = reported.get((each["topic"], each["partition"], each["leader_epoch"]))
        if by_leader is not None and by_leader["topic_id"] == each["topic_id"]:
            for name in _BY_LEADER:
                each[name] = by_leader[name]
        if count % _ROWS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    return found


async def _ask(context: Context, node_id: NodeId, wanted: PartitionFilter, reported: dict[Key, Row]) -> None:
    info = context.broker.image.brokers.get(node_id)
    if info is None or not is_serving(info):
        return
    query: dict[str, Any] = {"local": "true"}
    if wanted.topic is not None:
        query["topic"] = wanted.topic
    # no other filters: the leader's image may be older or newer, and this broker's image selects the rows
    try:
        answer = await ask_broker(context, info, "GET", f"/api/isr?{urlencode(query)}")
        listed = await answer.json(context) if answer.status == 200 else []
    except (Problem, ValueError):
        return
    for each in listed:
        reported[each["topic"], each["partition"], each["leader_epoch"]] = each
