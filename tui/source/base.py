"""All that the screens know of the world: one cluster, asked and listened to."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from yak.local.status import ClusterStatus

Event = dict[str, Any]
"""What `/api/events` tells, as JSON. Beside those there is `link`: `{"kind": "link", "node_id", "state": "up"|"down", "why", "time_ms"}`, of
the connection to one broker, `lost`: `{"kind": "lost", "why", "retry_ms", "time_ms"}` when no broker answers, and `source`, when the source
itself has something new to show."""

P = ParamSpec("P")
T = TypeVar("T")


class LocalControl(Protocol):
    """What can be done to the processes of a cluster of `yak up`. All block: call them in a thread. All raise YakError."""

    data_dir: str

    def look(self) -> ClusterStatus:
        """Brokers with role, pid and state, and whether Redis runs (None: it is not ours)."""

    def redis_pid(self) -> int | None:
        """The process of our Redis server; None when it does not run, or is not ours."""

    def command(self, words: str) -> str:
        """`yak up WORDS` with what tells it which cluster is meant."""

    def status(self) -> Mapping[int, str]:
        """By node: running, starting, paused, stopped, dead."""

    def kill(self, node_id: int) -> None:
        """`kill -9`."""

    def pause(self, node_id: int) -> None:
        """SIGSTOP: it hangs, and does not know it."""

    def resume(self, node_id: int) -> None:
        """SIGCONT."""

    def restart(self, node_id: int) -> None:
        """Stop it in order if it runs, and start it."""

    def add(self) -> int:
        """Start one more broker; its node id."""

    def stop_redis(self) -> None:
        """`kill -9` the metadata store."""

    def start_redis(self) -> None:
        """Start the metadata store on its old data."""


class ClusterSource(Protocol):
    """One cluster."""

    title: str
    """The context's name, or the address."""
    local: LocalControl | None
    """None when the brokers are not ours to kill."""

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect to first."""

    @property
    def progress(self) -> str:
        """What is being waited for before there is a cluster at all; empty when there is one."""

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        node_id: int | None = None,
    ) -> Any:
        """JSON over HTTP, from any broker that answers, or from one. Raises YakError: what was wrong, in the broker's words."""

    def follow(self) -> AsyncIterator[Event]:
        """What happens, from all brokers, for as long as it is listened to; it connects again by itself."""

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(bootstrap_servers, ...)` in a thread: what librdkafka does. Raises what it raises."""

    async def close(self) -> None:
        """End it."""
