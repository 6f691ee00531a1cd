"""The faults of a test's cluster: `yak_cluster.faults`. pytest-yak has a copy, so nothing of YAK is imported here.

The names are those of Kafka's own fault proxy (KAFKA-21074), and two for replicas. A fault is on all running brokers, or
on `broker`; each broker counts calls for itself. Faults end with their test, with `clear`, and with a broker's restart.
"""

from collections.abc import Callable
from typing import Any, TypedDict, Unpack


class Fault:
    """One fault. As a context manager it ends with its block."""

    def __init__(self, call: Callable[..., Any], rule_id: str) -> None:
        self._call = call
        self.id = rule_id

    def __repr__(self) -> str:
        return f"<Fault {self.id}>"

    def __enter__(self) -> "Fault":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def calls(self) -> int:
        """How many requests matched, on all running brokers; 0 for a fault of replicas, which has no counts."""
        return self._count("calls")

    @property
    def hits(self) -> int:
        """How many of them the fault acted on; 0 for a fault of replicas."""
        return self._count("hits")

    def clear(self) -> None:
        """End the fault."""
        self._call("clear_faults", rule_id=self.id)

    def _count(self, name: str) -> int:
        return sum(int(each[name]) for each in self._call("list_faults") if each["id"] == self.id and name in each)


class Requests(TypedDict, total=False):
    """Which requests a fault hits: `times` of them (all by default), from the `on_call`-th on (alone without `times`).

    A `client_id` may end in `*`.
    """

    times: int | None
    on_call: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    broker: int | None


class Faults:
    """Adds faults to a cluster. Every method raises YakError (`bad-fault`) with the reason for a wrong name or number."""

    def __init__(self, call: Callable[..., Any]) -> None:
        """`call` carries out a method of the cluster by its name."""
        self._call = call

    def inject_error(self, api: str, error: str, *, after: bool = False, **which: Unpack[Requests]) -> Fault:
        """Answer requests with an error, by Kafka's names: `inject_error("Produce", "NOT_LEADER_OR_FOLLOWER")`.

        Nothing is done of the request; with `after` all of it is done, and only the answer says the error. With `topic`
        and `partition` only their rows of the answer get the error.
        """
        return self._add("inject_error", api=api, error=error, after=after, **which)

    def disconnect_on(self, api: str, *, after: bool = False, **which: Unpack[Requests]) -> Fault:
        """Close the connection in place of an answer; with `after` the request had its effect."""
        return self._add("disconnect_on", api=api, after=after, **which)

    def delay_on(self, api: str, delay_ms: int, **which: Unpack[Requests]) -> Fault:
        """Answer later by so many milliseconds. Later answers of the connection wait for it, as in Kafka."""
        return self._add("delay_on", api=api, delay_ms=delay_ms, **which)

    def blackhole_client(
        self, client_id: str, *, times: int | None = None, on_call: int | None = None, broker: int | None = None
    ) -> Fault:
        """Read the requests of a client id and answer none of them; when it is cleared, their connections are closed."""
        return self._add("blackhole_client", client_id=client_id, times=times, on_call=on_call, broker=broker)

    def lag_replica(self, topic: str, partition: int, broker: int, *, delay_ms: int | None = None) -> Fault:
        """Let the replica on a broker lag by `delay_ms`: it acknowledges records, and fetches the next ones, so much later.

        Without `delay_ms` it stops fetching, and leaves the ISR once records are written that it lacks.
        It does nothing while the broker leads the partition or holds no replica of it.
        """
        rule = {"topic": topic, "partition": partition, "broker": broker, "delay_ms": delay_ms}
        return self._begin("lag_replica", rule, broker)

    def freeze_isr(self, topic: str, partition: int | None = None) -> Fault:
        """Let leaders propose no change of the ISR of a topic's partitions, or of one. A dead broker leaves it all the same."""
        return self._add("freeze_isr", topic=topic, partition=partition)

    def list(self, broker: int | None = None) -> list[dict[str, Any]]:
        """The faults of all running brokers, or of one, with `node_id`; those of requests with `calls` and `hits`."""
        found: list[dict[str, Any]] = self._call("list_faults", broker=broker)
        return found

    def clear(self) -> None:
        """End all faults."""
        self._call("clear_faults")

    def _add(self, kind: str, *, broker: int | None = None, **rule: object) -> Fault:
        return self._begin(kind, rule, broker)

    def _begin(self, kind: str, rule: dict[str, Any], broker: int | None) -> Fault:
        given = {name: value for name, value in rule.items() if value is not None}
        return Fault(self._call, self._call("add_fault", rule={"fault": kind, **given}, broker=broker))
