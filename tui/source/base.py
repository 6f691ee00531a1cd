"""The interface between the screens and a cluster: requests, events, and control of local processes."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from yak.local.status import ClusterStatus

Event = dict[str, Any]
"""An event of `/api/events`, as JSON. The source adds three kinds:

- `{"kind": "link", "node_id", "state": "up"|"down", "why", "time_ms"}`: the connection to one broker changed;
- `{"kind": "lost", "why", "retry_ms", "time_ms"}`: no broker answers;
- `source`: the source itself has something new to show.
"""

P = ParamSpec("P")
T = TypeVar("T")


class LocalControl(Protocol):
    """Control of the processes of a `yak up` cluster. All methods block (call them in a thread) and raise YakError."""

    data_dir: str

    def look(self) -> ClusterStatus:
        """Brokers with role, pid and state, and whether Redis runs (None: it is not ours)."""

    def redis_pid(self) -> int | None:
        """The process of our Redis server; None if it does not run, or is not ours."""

    def command(self, words: str) -> str:
        """`yak WORDS` with the options that select this cluster."""

    def status(self) -> Mapping[int, str]:
        """By node: running, starting, paused, stopped, dead."""

    def kill(self, node_id: int) -> None:
        """`kill -9`."""

    def pause(self, node_id: int) -> None:
        """SIGSTOP: pause the broker."""

    def resume(self, node_id: int) -> None:
        """SIGCONT: resume the broker."""

    def restart(self, node_id: int) -> None:
        """Stop the broker in order if it runs, then start it."""

    def add(self) -> int:
        """Start one more broker; returns its node id."""

    def stop_redis(self) -> None:
        """`kill -9` the metadata store."""

    def start_redis(self) -> None:
        """Start the metadata store on its existing data."""


class ClusterSource(Protocol):
    """One cluster."""

    title: str
    """The context's name, or the address."""
    local: LocalControl | None
    """None if the brokers do not run on this machine, under `yak up`."""

    @property
    def bootstrap(self) -> str:
        """The addresses that Kafka clients connect to first."""

    @property
    def progress(self) -> str:
        """The step in progress before the cluster is up; empty once it is."""

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        node_id: int | None = None,
    ) -> Any:
        """The JSON answer of any broker that answers, or of a given one.

        Raises YakError with the broker's own error.
        """

    def follow(self) -> AsyncIterator[Event]:
        """Events of all brokers, for as long as the caller iterates. Reconnects by itself."""

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(bootstrap_servers, ...)` in a thread, for librdkafka. Raises what it raises."""

    async def close(self) -> None:
        """Close all connections."""
