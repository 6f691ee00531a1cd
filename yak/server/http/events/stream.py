"""One listener's HTTP answer: missed events and a snapshot through Hypercorn, then the pump writes to the socket."""

from dataclasses import dataclass
from typing import Any, Final

import trio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.server.http.answers import until_gone
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import in_thread
from yak.server.http.context import Context, cluster_view
from yak.server.http.events.listeners import EventRing, Listener, Subscription, gap
from yak.server.http.events.pump import PIECE_BYTES_MAX, Pump
from yak.server.http.fair_share import fair_share
from yak.server.http.problems import Problem, large_json_bytes
from yak.server.http.replica_rows import all_rows
from yak.server.http.rights import is_allowed
from yak.server.http.timed_stream import STREAM, TimedStream
from yak.views.replicas import PartitionFilter

_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""The latter disables nginx's buffering."""
RIGHTS_SECONDS: Final = 1.0
"""How often the rights of a listener are checked again."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A listener's request. `cursor` is the id of the last event that it has."""

    subscription: Subscription
    cursor: str | None = None
    has_snapshot: bool = False
    duration_ms: int | None = None


def event_pump(context: Context) -> Pump:
    """The pump of a broker; events are queued from its first use on."""
    ring = EventRing(f"{context.broker.node_id}-{context.started_ms:x}", context.limits.events_buffered_max)
    pump = Pump(context.shell, context.broker, ring, context.part(fair_share))
    context.broker.metadata_loader.on_image = pump.gathering.note_image
    context.shell.observers.append(pump.gathering.note_notice)
    return pump


class EventStream(Response):
    """Server-sent events until the listener disconnects, is too slow, its time is over, or it may not see the cluster."""

    media_type = "text/event-stream"

    def __init__(self, context: Context, request: StreamRequest) -> None:
        """Raises Problem: 400 `bad-cursor`, 503 `too-many-listeners`."""
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._context = context
        self._request = request
        self._caller = CALLER.get()
        self._pump = pump = context.part(event_pump)
        if pump.listeners >= context.limits.event_listeners_max:
            most = context.limits.event_listeners_max
            raise Problem(
                503, "too-many-listeners", f"this broker has the maximum of {most} event streams", "use another broker"
            )
        self._follows = None if request.cursor is None else pump.ring.after(request.cursor)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        stream = scope["state"][STREAM]
        assert isinstance(stream, TimedStream)
        listener: Listener | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_gone, receive, nursery.cancel_scope)
            if self._request.duration_ms is not None:
                nursery.cancel_scope.deadline = trio.current_time() + self._request.duration_ms / 1000
            listener = Listener(stream.send_now, await self._catch_up(send))
            await self._listen(listener)
            nursery.cancel_scope.cancel()
        # without its end, the answer of a listener that has not got all of its chunks is visibly truncated
        if listener is None or (listener.is_whole and not listener.ended.is_set()):
            await send(_body(b"", more=False))

    async def _catch_up(self, send: Send) -> int:
        """Send the events that the listener missed; returns the number of the next event."""
        ring, clock = self._pump.ring, self._context.shell.clock
        await self._pump.gathering.digest()
        # without a cursor, the events that waited for a listener are no news
        position = ring.next if self._request.cursor is None else self._follows
        # after the opening, the listener misses no event
        opening = f": events of {ring.boot}\nretry: 1000\n\n".encode()
        if position is None or position < ring.first:
            position = ring.first
            opening += gap(
                ring, position, clock.wall_ms(), "the event id is from before a restart, or its events were dropped"
            )
        await send(_body(opening))
        if self._request.has_snapshot:
            position = ring.next
            await send(_body(await self._snapshot(ring)))
        while position < ring.next and self._may_listen():
            if position < ring.first:
                position = ring.first
                await send(_body(gap(ring, position, clock.wall_ms(), "events were dropped before they were sent")))
                continue
            piece, position = ring.collect(position, ring.next, self._request.subscription.wish, PIECE_BYTES_MAX)
            if piece:
                await send(_body(piece))
        return position

    async def _snapshot(self, ring: EventRing) -> bytes:
        event_id = ring.event_id(ring.next - 1)
        rows = await all_rows(self._context, PartitionFilter(self._request.subscription.wish.topic))
        content: dict[str, Any] = {
            "kind": "snapshot",
            "time_ms": self._context.shell.clock.wall_ms(),
            "node_id": self._context.broker.node_id,
            "cluster": self._context.part(cluster_view).present(),
            "partitions": rows,
        }
        data = await in_thread(self._context, large_json_bytes, content)
        return f"id: {event_id}\nevent: snapshot\ndata: ".encode() + data + b"\n"

    async def _listen(self, listener: Listener) -> None:
        """Let the pump send until the listener ends, or an ACL takes its right away."""
        subscription = self._request.subscription
        self._pump.join(subscription, listener)
        try:
            while not listener.ended.is_set() and self._may_listen():
                with trio.move_on_after(RIGHTS_SECONDS):
                    await listener.ended.wait()
        finally:
            self._pump.leave(subscription, listener)

    def _may_listen(self) -> bool:
        access = Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
        return is_allowed(self._context.broker, self._caller, *access)


def _body(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}
