"""The faults of a test's cluster: `yak_cluster.faults`. pytest-yak has a copy, so nothing of YAK is imported here.

The words are those of Kafka's own fault proxy (KAFKA-21074), and two for replicas. A fault is on all running brokers, or
on `broker`; each broker counts calls for itself. Faults end with their test, with `clear`, and with a broker's restart.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any


class Fault:
    """One fault. As a context manager it ends with its block."""

    def __init__(self, call: Callable[..., Any], rule_id: str) -> None:
        self._call = call
        self.id = rule_id

    def __repr__(self) -> str:
        return f"<Fault {self.id}>"

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    @property
    def calls(self) -> int:
        """How many requests matched, on all running brokers."""
        return self._count("calls")

    @property
    def hits(self) -> int:
        """How many of them the fault acted on."""
        return self._count("hits")

    def clear(self) -> None:
        """End the fault."""
        self._call("clear_faults", rule_id=self.id)

    def _count(self, name: str) -> int:
        return sum(int(each[name]) for each in self._call("list_faults") if each["id"] == self.id and name in each)


class Faults:
    """Adds faults to a cluster. Every method raises YakError (`bad-fault`) with the reason for a wrong name or number."""

    def __init__(self, call: Callable[..., Any]) -> None:
        """`call` carries out a method of the cluster by its name."""
        self._call = call

    def inject_error(
        self,
        api: str,
        error: str,
        *,
        after: bool = False,
        times: int | None = None,
        on_call: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
    ) -> Fault:
        """Answer requests with an error, by Kafka's names: `inject_error("Produce", "NOT_LEADER_OR_FOLLOWER")`.

        Nothing is done of the request; with `after` all of it is done, and only the answer says the error. `times`
        requests are hit, all by default, from the `on_call`-th on (which alone is hit without `times`). With `topic`
        and `partition` only their rows of the answer get the error. A `client_id` may end in `*`.
        """
        return self._add("inject_error", broker, locals())

    def disconnect_on(
        self,
        api: str,
        *,
        after: bool = False,
        times: int | None = None,
        on_call: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
    ) -> Fault:
        """Close the connection in place of an answer; with `after` the request had its effect."""
        return self._add("disconnect_on", broker, locals())

    def delay_on(
        self,
        api: str,
        delay_ms: int,
        *,
        times: int | None = None,
        on_call: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
    ) -> Fault:
        """Answer later by so many milliseconds. Later answers of the connection wait for it, as in Kafka."""
        return self._add("delay_on", broker, locals())

    def blackhole_client(
        self, client_id: str, *, times: int | None = None, on_call: int | None = None, broker: int | None = None
    ) -> Fault:
        """Read the requests of a client id and answer none of them; when it is cleared, their connections are closed."""
        return self._add("blackhole_client", broker, locals())

    def lag_replica(self, topic: str, partition: int, broker: int, *, delay_ms: int | None = None) -> Fault:
        """Let the replica on a broker lag by `delay_ms`: it acknowledges records, and fetches the next ones, so much later.

        Without `delay_ms` it stops fetching, and leaves the ISR once records are written that it lacks.
        """
        return self._add("lag_replica", broker, locals())

    def freeze_isr(self, topic: str, partition: int | None = None) -> Fault:
        """Let leaders propose no change of the ISR of a topic's partitions, or of one. A dead broker leaves it all the same."""
        return self._add("freeze_isr", None, locals())

    def list(self, broker: int | None = None) -> list[dict[str, Any]]:
        """The faults of all running brokers, or of one, with `node_id`, `calls` and `hits`."""
        found: list[dict[str, Any]] = self._call("list_faults", broker=broker)
        return found

    def clear(self) -> None:
        """End all faults."""
        self._call("clear_faults")

    def _add(self, kind: str, broker: int | None, given: dict[str, Any]) -> Fault:
        left_out = {"self"} if kind == "lag_replica" else {"self", "broker"}
        rule = {name: value for name, value in given.items() if name not in left_out and value is not None}
        return Fault(self._call, self._call("add_fault", rule={"fault": kind, **rule}, broker=broker))
