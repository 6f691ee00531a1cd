"""A running cluster: requests over HTTP, events over server-sent events, librdkafka in threads.

Brokers without HTTP, as those of Apache Kafka, and brokers that refuse the user there, are polled over the Kafka protocol.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar
from urllib.parse import quote

from yak.errors import Unreachable, YakError, first_in
from yak.tui.source.base import UNREADABLE, Event, unreadable

if TYPE_CHECKING:
    import httpx

    from yak.tui.source.kafka import KafkaAnswers, Snapshot
    from yak.tui.source.local_control import LocalClusterControl

P = ParamSpec("P")
T = TypeVar("T")

ASK_SECONDS: Final = 10.0
RETRY_MS: Final = (250, 500, 1_000, 2_000, 3_000)
"""Waits between attempts to reach a broker."""
REFRESH_SECONDS: Final = 5.0
"""How often the list of brokers is refreshed."""
SNAPSHOTS_MAX: Final = 3
"""Streams that begin before there is a snapshot: that of 30,000 partitions has 7 MB, and is nearly the same on each broker."""
QUEUE_MAX: Final = 4_096
POLL_SECONDS: Final = 1.0
"""The pause between two polls of brokers without HTTP."""
POLL_SHARE: Final = 8
"""The pause is at least this many times as long as the poll: polls of a large cluster take long."""
REFUSED: Final = ("not-allowed", "login-needed", "login-failed")
"""Errors of HTTP that another try does not change: the user may still read the cluster over the Kafka protocol."""
_NO_ANSWER: Final = "no answer in time"


class LiveSource:
    """See `ClusterSource`. `http` gives known addresses; without them the Kafka brokers name them."""

    progress = ""

    def __init__(
        self,
        bootstrap: str,
        *,
        title: str = "",
        http: Mapping[int, str] | None = None,
        local: "LocalClusterControl | None" = None,
        token: str = "",
    ) -> None:
        self.title = title or bootstrap.partition(",")[0]
        self.local = local
        self.bootstrap = bootstrap
        """The addresses that Kafka clients connect to first: those of the brokers that serve, once they are known."""
        self._addresses: dict[int, str] = dict(http or {})
        self._token = token
        self._client_made: httpx.AsyncClient | None = None
        self._up: set[int] = set()
        self._snapshot_taken = asyncio.Event()
        self._silent: set[int] = set()
        """The brokers that did not answer their last request in time: each costs `ASK_SECONDS`."""
        self._discovering = asyncio.Lock()
        self._kafka_only: KafkaAnswers | None = None
        """Once it is known that no broker answers HTTP, or not to this user."""

    @property
    def lacks(self) -> Collection[str]:
        """The metadata log, if the brokers answer no HTTP."""
        return ("metadata",) if self._kafka_only is not None else ()

    @property
    def _client(self) -> "httpx.AsyncClient":
        if self._client_made is None:
            import httpx

            from yak.client.security import in_force
            from yak.tui.source.http_login import HttpLogin

            limits = httpx.Limits(max_connections=200, max_keepalive_connections=20)
            self._client_made = httpx.AsyncClient(
                timeout=ASK_SECONDS,
                trust_env=False,
                auth=HttpLogin(self._token),
                limits=limits,
                verify=in_force().http_context() or True,
            )
        return self._client_made

    async def close(self) -> None:
        if self._client_made is not None:
            await self._client_made.aclose()
            self._client_made = None
        if self._kafka_only is not None:
            await asyncio.to_thread(self._kafka_only.close)

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _in_thread(function, self.bootstrap, *args, **kwargs)

    # requests

    async def ask(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON answer of any broker: silent ones last, connected ones first. Raises YakError."""
        if not self._addresses:
            await self._discover()
        if self._kafka_only is not None:
            self._kafka_only.servers = self.bootstrap
            return await _in_thread(self._kafka_only.ask, method, path, params or {}, body or {})
        silent = ""
        for node in sorted(self._addresses, key=lambda node: (node in self._silent, node not in self._up, node)):
            address = self._addresses[node]
            answer = await self._ask_one(method, f"{address}{path}", params, body)
            self._silent -= {node}
            if answer == _NO_ANSWER:
                self._silent |= {node}
            if not isinstance(answer, str):
                try:
                    return _read(answer)
                except _NotOfYak as error:
                    answer = str(error)
            silent = f"broker {node} at {address}: {answer}"
            if method != "GET" and not answer.startswith("no connection"):
                break  # the broker may have executed the request: another one would repeat it
        raise Unreachable("no-broker", "no broker answered", why=silent, try_=("it is retried; yak doctor",))

    async def _ask_one(
        self, method: str, url: str, params: Mapping[str, Any] | None, body: Any
    ) -> "httpx.Response | str":
        import httpx

        try:
            return await self._client.request(method, url, params=params, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return f"no connection: {_reason(error)}"
        except httpx.TimeoutException:  # it has no text
            return _NO_ANSWER
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}"

    async def _discover(self) -> None:
        """Find the brokers' HTTP addresses; without any, requests go over the Kafka protocol."""
        async with self._discovering:
            if not self._addresses and self._kafka_only is None:
                await self._find_addresses()
                if not self._addresses:
                    self._use_kafka_only()

    async def _find_addresses(self) -> None:
        from yak.tui.source.kafka import http_addresses

        self._addresses.update(await self.kafka(http_addresses))

    def _use_kafka_only(self) -> None:
        from yak.tui.source.kafka import KafkaAnswers

        self._kafka_only = KafkaAnswers(self.bootstrap)

    async def _rediscover(self) -> None:
        """Look up the HTTP addresses again: restarted brokers may use other ports."""
        with contextlib.suppress(YakError, OSError):
            await self._find_addresses()

    # events

    async def follow(self) -> AsyncIterator[Event]:
        """Events of all brokers as they arrive; `link` and `lost` report the connections."""
        events: asyncio.Queue[Event] = asyncio.Queue(QUEUE_MAX)
        listener = asyncio.create_task(self._keep_listening(events))
        try:
            while True:
                getting = asyncio.ensure_future(events.get())
                await asyncio.wait((getting, listener), return_when=asyncio.FIRST_COMPLETED)
                if listener.done():
                    getting.cancel()
                    listener.result()  # raises: a bug of ours must not pass silently
                yield await getting
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _keep_listening(self, events: asyncio.Queue[Event]) -> None:
        tasks: dict[int, asyncio.Task[None]] = {}
        looking: asyncio.Task[None] | None = None
        tries = 0
        try:
            while True:
                try:
                    if not self._addresses:
                        await self._discover()
                    if self._kafka_only is not None:
                        await self._poll(events)
                    cluster = await self.ask("GET", "/api/cluster")
                    self._learn(cluster)
                    tries = 0
                except (YakError, OSError) as error:
                    if isinstance(error, YakError) and error.code in REFUSED and not self._up:
                        self._use_kafka_only()
                        continue
                    tries += 1
                    if not self._up:
                        if looking is None or looking.done():
                            looking = asyncio.create_task(self._rediscover())
                        await _report_lost(events, error, tries)
                        continue
                new = [node for node in self._addresses if node not in tasks or tasks[node].done()]
                for node in new if self._snapshot_taken.is_set() else new[:SNAPSHOTS_MAX]:
                    tasks[node] = asyncio.create_task(self._listen(node, events))
                seconds = REFRESH_SECONDS if self._up else 0.1
                if self._snapshot_taken.is_set():
                    await asyncio.sleep(seconds)
                else:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._snapshot_taken.wait(), seconds)
        finally:
            begun = [*tasks.values(), *([looking] if looking else [])]
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)

    async def _poll(self, events: asyncio.Queue[Event]) -> NoReturn:
        before: Snapshot | None = None
        tries = 0
        while True:
            began = time.monotonic()
            try:
                after, found = await self.kafka(_read_changes, before)
            except (YakError, OSError) as error:
                tries += 1
                await _report_lost(events, error, tries)
                continue
            tries = 0
            self.bootstrap = after.bootstrap or self.bootstrap
            for event in found:
                await events.put(event)
            before = after
            await asyncio.sleep(max(POLL_SECONDS, POLL_SHARE * (time.monotonic() - began)))

    def _learn(self, cluster: Any) -> None:
        """Take the addresses of an answer of `/api/cluster`. Raises Unreachable when it is another program's."""
        if not isinstance(cluster, dict) or "brokers" not in cluster:
            raise Unreachable("bad-answer", "another program answers at a broker's address")
        try:
            reached = [each for each in cluster["brokers"] if each["http_address"]]
            addresses = {int(each["node_id"]): str(each["http_address"]) for each in reached}
            serving = [f"{each['host']}:{each['port']}" for each in cluster["brokers"] if each["state"] == "ACTIVE"]
        except UNREADABLE as error:
            found = unreadable("the list of brokers", error)
            raise Unreachable(found.code, found.message, why=found.why, try_=found.try_) from None
        self._addresses |= addresses
        if serving:
            self.bootstrap = ",".join(serving)

    async def _listen(self, node: int, events: asyncio.Queue[Event]) -> None:
        """Listen to one broker for ever. A new address is used at the next attempt.

        A stream begins with a snapshot if there is none yet, and after a broken stream or a gap. Its own events follow
        it in order, so that none is undone by an older state.
        """
        import httpx

        tries = 0
        params = {"rates": "1s"} if self._snapshot_taken.is_set() else {"rates": "1s", "snapshot": "true"}
        while True:
            why = "it ended the stream"
            try:
                url = f"{self._addresses[node]}/api/events"
                timeout = httpx.Timeout(5.0, read=30.0)
                async with self._client.stream("GET", url, params=params, timeout=timeout) as answer:
                    if answer.status_code != 200:
                        why = f"HTTP {answer.status_code}"
                        await answer.aread()
                    else:
                        tries = 0
                        self._up.add(node)
                        await events.put(_event("link", node_id=node, state="up", why=""))
                        why = await self._read_events(answer, events) or why
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: invalid JSON
                why = _reason(error)
            if node in self._up or tries == 0:
                self._up.discard(node)
                await events.put(_event("link", node_id=node, state="down", why=why))
            params["snapshot"] = "true"
            tries += 1
            await asyncio.sleep(_retry_ms(tries) / 1000)

    async def _read_events(self, answer: "httpx.Response", events: asyncio.Queue[Event]) -> str:
        """Read server-sent events to their end, or to a gap, which only a new stream repairs; the gap's message.

        Only the data lines matter: they contain the kind.
        """
        rest = b""
        async for piece in answer.aiter_raw():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if not line.startswith(b"data:"):
                    continue
                event = json.loads(line[5:])
                if event["kind"] == "gap":
                    return str(event["message"])
                await events.put(event)
                if event["kind"] == "snapshot":
                    self._snapshot_taken.set()
        return ""


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function returns. Raises YakError (`bad-answer`) for an answer of a broker that it cannot read."""
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except UNREADABLE as error:
        raise unreadable("an answer of a broker", error) from error


class _NotOfYak(Exception):
    """The answer is another program's: a port that a broker had may be used by anything."""


def _read(answer: "httpx.Response") -> Any:
    """The JSON of an answer. Raises YakError with the broker's own error if it refused, and _NotOfYak."""
    try:
        said = answer.json()
    except ValueError:
        said = None
    if answer.is_success and said is not None:
        return said
    if not isinstance(said, dict) or not all(isinstance(said.get(name), str) for name in ("error", "message")):
        raise _NotOfYak(f"HTTP {answer.status_code}, and no answer of a broker")
    raise YakError(
        said["error"],
        said["message"],
        why=f"HTTP {answer.status_code}",
        try_=(said["hint"],) if said.get("hint") else (),
    )


def _read_changes(servers: str, before: "Snapshot | None") -> "tuple[Snapshot, list[Event]]":
    """A new snapshot and its events: changes before the resulting state, in the order of brokers with HTTP."""
    from yak.tui.source.kafka import changes, link_events, rate_events, read_snapshot

    after = read_snapshot(servers, before)
    changed = [] if before is None else changes(before, after)
    return after, [*changed, after.event(), *link_events(before, after), *rate_events(before, after)]


def _event(kind: str, **fields: Any) -> Event:
    return {"kind": kind, "time_ms": int(time.time() * 1000), **fields}


async def _report_lost(events: asyncio.Queue[Event], error: BaseException, tries: int) -> None:
    """Report that no broker answers, and wait until the next attempt."""
    why = f"{error.message}: {error.why}" if isinstance(error, YakError) and error.why else str(error)
    await events.put(_event("lost", why=why, retry_ms=_retry_ms(tries)))
    await asyncio.sleep(_retry_ms(tries) / 1000)


def _reason(error: BaseException) -> str:
    """Why a connection failed. httpx says only that all attempts did; the system's error is a cause of its own."""
    found: BaseException | None = error
    while found is not None:
        found = first_in(found)
        if isinstance(found, OSError) and found.errno:
            return os.strerror(found.errno) if found.errno > 0 else found.strerror or str(found)
        found = found.__cause__ or found.__context__
    return str(error) or type(error).__name__


def _retry_ms(tries: int) -> int:
    return RETRY_MS[min(tries, len(RETRY_MS)) - 1]


def path_of(*parts: object) -> str:
    """A path from its parts, quoted: names may contain any character."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)
