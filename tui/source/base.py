"""The interface between the screens and a cluster: requests, events, and control of local processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from yak.errors import YakError

if TYPE_CHECKING:
    from yak.tui.source.local_control import LocalClusterControl
    from yak.tui.state.picture import Picture

Event = dict[str, Any]
"""An event of `/api/events`, as JSON. The source adds three kinds:

- `{"kind": "link", "node_id", "state": "up"|"down", "why", "time_ms"}`: the connection to one broker changed;
- `{"kind": "lost", "why", "retry_ms", "time_ms"}`: no broker answers;
- `source`: the source itself has something new to show.
"""

UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What reading an answer raises that lacks a field, or has another type in it: that of another version, or program."""


def unreadable(what: str, error: Exception) -> YakError:
    """The error for an answer that raised one of `UNREADABLE`."""
    why = f"a field is missing or has another type ({type(error).__name__}: {error})"
    return YakError("bad-answer", f"{what} cannot be read", why=why[:300], try_=("yak help bad-answer",))


P = ParamSpec("P")
T = TypeVar("T")


class ClusterSource(Protocol):
    """One cluster."""

    title: str
    """The context's name, or the address."""
    local: "LocalClusterControl | None"
    """None if the brokers do not run on this machine, under `yak up`."""

    @property
    def bootstrap(self) -> str:
        """The addresses that Kafka clients connect to first."""

    @property
    def lacks(self) -> Collection[str]:
        """The names of the screens that it has nothing for."""

    @property
    def progress(self) -> str:
        """The step in progress before the cluster is up; empty once it is."""

    async def ask(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON answer of any broker that answers.

        The requests are those of YAK's HTTP service, whatever the cluster speaks.

        Raises YakError with the broker's own error.
        """

    def follow(self) -> AsyncIterator[Event]:
        """Events of all brokers, for as long as the caller iterates. Reconnects by itself."""

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(bootstrap_servers, ...)` in a thread, for librdkafka. Raises what it raises."""

    async def close(self) -> None:
        """Close all connections."""


_COMPLETED_MAX: Final = 20
"""The most incomplete topics requested in one round."""
_COMPLETE_TRIES: Final = 8


async def complete_topics(source: ClusterSource, picture: "Picture", now_ms: Callable[[], int]) -> None:
    """Request the partitions of topics that events only name. A later call retries what no broker knew yet.

    Raises one of `UNREADABLE`.
    """
    wanted = dict(picture.incomplete)
    picture.incomplete.clear()
    try:
        for topic, tries in list(wanted.items())[:_COMPLETED_MAX]:
            del wanted[topic]
            try:
                rows = await source.ask("GET", "/api/isr", params={"topic": topic})
            except YakError:
                if tries < _COMPLETE_TRIES:
                    wanted[topic] = tries + 1
            else:
                picture.take({"kind": "partitions", "time_ms": now_ms(), "partitions": rows})
    finally:
        picture.incomplete.update({**wanted, **picture.incomplete})


_AT_ONCE: Final = 4


async def gather_few(requests: Iterable[Awaitable[T]]) -> list[T]:
    """The answers, as `asyncio.gather` returns them, with four requests under way: brokers have clients to serve."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(request: Awaitable[T]) -> T:
        async with gate:
            return await request

    return await asyncio.gather(*map(one, requests))
