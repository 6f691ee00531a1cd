"""The rows of `yak.broker.views.replicas`, with the offsets of what other brokers lead asked of them, all at once.

A leader knows how far its followers are, so one request to each is enough: `GET /api/isr?local=true`, which is answered from memory.
What a leader that is gone, or that answers no HTTP, would have told stays null. Many rows are made a few at a time.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

import trio

from yak.broker.liveness import is_serving
from yak.broker.views.replicas import Row, Wanted, rows
from yak.ids import NodeId
from yak.server.http.context import Context
from yak.server.http.other_brokers import ask_broker
from yak.server.http.problems import Problem

_ROWS_AT_ONCE: Final = 200
"""About a millisecond."""
_OFFSETS: Final = ("high_watermark", "log_end_offsets")
Key = tuple[str, int, int]


async def own_rows(context: Context, wanted: Wanted) -> list[Row]:
    """Those that this broker can tell by itself."""
    return await _in_slices(rows(context.broker, wanted))


async def all_rows(context: Context, wanted: Wanted) -> list[Row]:
    """With the offsets of what others lead. An offset is told only in the leader epoch that is shown."""
    found = await own_rows(context, wanted)
    own = context.broker.node_id
    leaders = sorted({each["leader"] for each in found if each["leader"] not in (None, own)})
    told: dict[Key, Row] = {}
    async with trio.open_nursery() as nursery:
        for node_id in leaders:
            nursery.start_soon(_ask, context, node_id, wanted, told)
    for count, each in enumerate(found):
        by_leader = told.get((each["topic"], each["partition"], each["leader_epoch"]))
        if by_leader is not None:
            for name in _OFFSETS:
                each[name] = by_leader[name]
        if count % _ROWS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    return found


async def _in_slices(made: Iterator[Row]) -> list[Row]:
    found: list[Row] = []
    for each in made:
        found.append(each)
        if len(found) % _ROWS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    return found


async def _ask(context: Context, node_id: NodeId, wanted: Wanted, told: dict[Key, Row]) -> None:
    info = context.broker.image.brokers.get(node_id)
    if info is None or not is_serving(info):
        return
    query: dict[str, Any] = {"local": "true"}
    if wanted.topic is not None:
        query["topic"] = wanted.topic
    # not the other filters: its image may be a moment older or newer, and what is asked for is decided by ours
    try:
        answer = await ask_broker(info, "GET", f"/api/isr?{urlencode(query)}")
        listed = await answer.json() if answer.status == 200 else []
    except (Problem, ValueError):
        return
    for each in listed:
        told[each["topic"], each["partition"], each["leader_epoch"]] = each


def local(wanted: Wanted, node_id: NodeId) -> Wanted:
    """The same, of what one broker leads."""
    return replace(wanted, leader=node_id)
