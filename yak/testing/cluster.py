"""A test's cluster: its addresses, its leaders, and the operations on its brokers."""

import shutil
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from yak.attempts import attempts
from yak.client.replica_offsets import ClusterReplicas, read_metadata
from yak.errors import CheckFailed, Unreachable, UsageError, WaitTimeout, YakError
from yak.local import log_file, ports, processes
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.state import load
from yak.local.status import BrokerStatus
from yak.server.listening_sockets import bind
from yak.testing.faults import Faults
from yak.testing.shape import ClusterShape, Node, config_text
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import PartitionState

if TYPE_CHECKING:
    from yak.client.admin import Admin

_READ_AT_MOST_BYTES: Final = 256 * 1024


class BrokerLogs:
    """The log files of a cluster by node, and the length of each at the last `mark`."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = dict(paths)
        self._marks = dict.fromkeys(paths, 0)

    def mark(self) -> None:
        """Exclude the present content from later reads."""
        self._marks = {node_id: log_file.size(path) for node_id, path in self._paths.items()}

    def read(self, node_id: int) -> str:
        """A broker's output since the mark, at most the last 256 KiB."""
        return log_file.read_end(self._paths[node_id], self._marks[node_id], bytes_max=_READ_AT_MOST_BYTES)

    def tails(self, lines_max: int) -> dict[int, str]:
        """The last lines of each broker's output since the mark."""
        return {node_id: last_lines(self.read(node_id), lines_max) for node_id in self._paths}


def last_lines(text: str, lines_max: int) -> str:
    """The last lines of a text, after a note of how many were left out."""
    lines = text.splitlines()
    left_out = len(lines) - lines_max
    note = [f"({left_out} lines before)"] if left_out > 0 else []
    return "\n".join([*note, *lines[max(left_out, 0) :]])


_POLL_SECONDS: Final = 0.01
_ANSWER_SECONDS: Final = 2.0
_T = TypeVar("_T")

Views = dict[str, ClusterReplicas]
"""Each broker's view, by its address."""


def wait_until(addresses: Sequence[str], found: Callable[[Views], _T | str], timeout_s: float, what: str) -> _T:
    """Ask all brokers repeatedly, until `found` returns a result instead of a reason (a string).

    Raises WaitTimeout (`test-cluster`) with the last reason; `what` completes "… in 30 s".
    """
    reason = ""
    for _ in attempts(timeout_s, _POLL_SECONDS):
        try:
            answer = found({each: read_metadata(each, timeout_s=_ANSWER_SECONDS) for each in addresses})
        except YakError as error:
            reason = error.message
        else:
            if not isinstance(answer, str):
                return answer
            reason = answer
    raise WaitTimeout("test-cluster", f"{what} in {timeout_s:g} s: {reason}", why=reason)


def partition_in(view: ClusterReplicas, topic: str, partition: int) -> PartitionReplicas | str:
    """One partition as one broker sees it, or the reason why there is none."""
    for each in view.partitions:
        if (each.topic, each.partition) == (topic, partition):
            return each
    return f"there is no {topic}-{partition}"


def whole(views: Views, nodes: int) -> bool | str:
    """True when every broker knows all nodes and a controller, and every partition is in sync; else the problem."""
    for address, view in views.items():
        if len(view.brokers) < nodes or view.controller_id not in view.brokers:
            return f"{address} knows {len(view.brokers)} of {nodes} brokers, and controller {view.controller_id}"
        for each in view.partitions:
            if each.leader not in view.brokers or each.state is not PartitionState.OK:
                return f"{each.name} is {each.state.label}: leader {each.leader}, ISR {each.isr} of {each.replicas}"
    return True


def has_topic(views: Views, topic: str) -> bool | str:
    """True when every broker knows a topic with all its replicas in sync; else the problem."""
    for address, view in views.items():
        found = view.of_topic(topic)
        if not found:
            return f"{address} does not know topic {topic}"
        for each in found:
            if each.state is not PartitionState.OK:
                return f"{each.name} is {each.state.label}"
    return True


def agreed_leader(views: Views, topic: str, partition: int, running: Sequence[int]) -> int | str:
    """The running node that every broker names as the leader; else the problem."""
    leaders = set()
    for view in views.values():
        found = partition_in(view, topic, partition)
        if isinstance(found, str):
            return found
        leaders.add(int(found.leader))
    if len(leaders) > 1:
        return f"the brokers name {sorted(leaders)} as the leader of {topic}-{partition}"
    (leader,) = leaders
    return leader if leader in running else f"{topic}-{partition} is led by {leader}, which does not run"


TIMEOUT_SECONDS: Final = 30.0
_HOST: Final = "127.0.0.1"
_DYNAMIC: Final = ("broker", "default broker")
_AUTHORIZER: Final = "authorizer.class.name"
_LIST_CONFIG_RESOURCES: Final = 74, 1
_GROUP_RESOURCE: Final = 32


class Cluster:
    """Real brokers on 127.0.0.1, numbered from 1. Ports stay the same over kills and restarts.

    A method that names a node raises UsageError (`unknown-node`) for an unknown node. Every method raises YakError with
    the reason when the cluster refuses a request.
    """

    def __init__(self, shape: ClusterShape, folder: str, store_url: str) -> None:
        self.shape = shape
        self.store_url = store_url
        self.is_disturbed = False
        """Whether a broker was killed, paused or restarted."""
        self._is_ended = False
        self._local = LocalCluster(folder)
        self._logs = BrokerLogs({node: self._local.log_path(f"node-{node}") for node in range(1, shape.brokers + 1)})
        self._admin: Admin | None = None
        self._held: list[socket.socket] = []

    def __repr__(self) -> str:
        return f"<Cluster {'ended' if self._is_ended else self.bootstrap}>"

    # ---------------------------------------------------------------------------------------------- properties

    @property
    def bootstrap(self) -> str:
        """`host:port,host:port` of all brokers: `bootstrap.servers` of any client."""
        return ",".join(broker.address for broker in self._statuses())

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The present state of all brokers, by node id."""
        return tuple(map(_node, self._statuses()))

    def _statuses(self) -> Iterable[BrokerStatus]:
        found = self._local.status().brokers
        if self._is_ended and not found:  # its files are deleted, too
            raise UsageError("closed", "the cluster has ended", why="its test, or its with block, is over")
        return found

    @property
    def faults(self) -> Faults:
        """Errors, delays, disconnects and lagging replicas on demand."""
        return Faults(lambda call, **arguments: getattr(self, call)(**arguments))

    @property
    def data_dir(self) -> str:
        """The folder of its files, also for `yak up --status --data-dir`. Deleted with the cluster."""
        return self._local.data_dir

    def broker(self, node: int) -> Node:
        """One broker by its node id."""
        for each in self.brokers:
            if each.node_id == node:
                return each
        raise UsageError(
            "unknown-node",
            f"the cluster has no node {node}",
            why=f"it has {self.shape.brokers}, numbered from 1",
            try_=("@pytest.mark.yak(brokers=3)",),
        )

    def log(self, node: int) -> str:
        """A broker's log output since the test began."""
        return self._logs.read(self.broker(node).node_id)

    def log_tails(self, lines_max: int) -> dict[int, str]:
        """The last lines of each broker's log of this test."""
        return self._logs.tails(lines_max)

    # ------------------------------------------------------------------------------------------ topics and replicas

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        *,
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> str:
        """Create a topic, wait until every running broker knows it, and return its name.

        Without a replication factor it has three replicas, or as many as there are brokers.
        """
        self._client().create_topic(
            name,
            partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            configs={key: config_text(value) for key, value in (configs or {}).items()},
        )
        if self.shape.brokers > 1:
            wait_until(
                self._running_addresses(),
                lambda views: has_topic(views, name),
                timeout_s,
                f"topic {name} was not known to every broker",
            )
        return name

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_SECONDS) -> int:
        """The running node that leads a partition, as confirmed by every running broker.

        After `kill` or `pause` of the leader this waits for the new one: tens of milliseconds after a kill, about 6 s
        (the broker session timeout) after a pause. Raises WaitTimeout.
        """

        running = [each.node_id for each in self.brokers if each.state == "running"]
        return wait_until(
            self._running_addresses(),
            lambda views: agreed_leader(views, topic, partition, running),
            timeout_s,
            f"no broker was found to lead {topic}-{partition}",
        )

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The present ISR of a partition in ascending order, from its leader, else from any broker."""
        addresses = {each.node_id: each.address for each in self.brokers if each.state == "running"}
        found = partition_in(read_metadata(self._any(), timeout_s=TIMEOUT_SECONDS), topic, partition)
        if not isinstance(found, str) and found.leader in addresses:
            view = read_metadata(addresses[found.leader], timeout_s=TIMEOUT_SECONDS)
            found = partition_in(view, topic, partition)
        if isinstance(found, str):
            raise YakError("unknown-partition", found)
        return tuple(sorted(map(int, found.isr)))

    def wait_until_healthy(self, *, timeout_s: float = TIMEOUT_SECONDS) -> None:
        """Wait until every broker knows all the others, and every partition has a leader and all replicas in sync.

        Raises CheckFailed at once while a broker is killed or paused, WaitTimeout on a timeout.
        """

        self._require_all_running()
        wait_until(
            self._running_addresses(),
            lambda views: whole(views, self.shape.brokers),
            timeout_s,
            "the cluster was not healthy",
        )

    # ---------------------------------------------------------------------------------------------------- operations

    def kill(self, node: int) -> None:
        """`kill -9` a broker and wait until it is gone."""
        self.is_disturbed = True
        self._local.kill(self.broker(node).node_id)

    def failover(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_SECONDS) -> int:
        """Kill the leader of a partition (`kill -9`), wait until another replica leads it, and return its node id.

        Raises CheckFailed (`no-other-replica`) when no other replica is in sync, WaitTimeout on a timeout.
        """
        leader = self.leader_of(topic, partition, timeout_s=timeout_s)
        if self.isr(topic, partition) == (leader,):
            raise CheckFailed(
                "no-other-replica",
                f"no other replica of {topic}-{partition} than the leader, {leader}, is in sync",
                why="a failover elects a leader from the ISR",
                try_=("@pytest.mark.yak(brokers=3)", "yak_cluster.wait_until_healthy()"),
            )
        self.kill(leader)
        return self.leader_of(topic, partition, timeout_s=timeout_s)

    def pause(self, node: int) -> None:
        """Pause a broker (SIGSTOP): its connections stay open, and it answers nothing."""
        self.is_disturbed = True
        self._local.pause(self.broker(node).node_id)

    def resume(self, node: int) -> None:
        """Resume a paused broker."""
        self._local.resume(self.broker(node).node_id)

    def restart(self, node: int) -> None:
        """Start a broker on the same data and port, and wait until it answers clients.

        A running or paused broker is first stopped in order (SIGTERM). `kill` and then `restart` is a crash.
        """
        self.is_disturbed = True
        self._local.restart(self.broker(node).node_id)

    def add_fault(self, rule: Mapping[str, object], broker: int | None = None) -> str:
        """Add a rule of `yak.faults.rule` to all running brokers, or to one; returns its id. `faults` has the names."""
        from yak.client.faults import add_to_all, new_rule_id

        named = {"id": new_rule_id(), **rule}
        add_to_all(self._addresses(broker), named, timeout_s=TIMEOUT_SECONDS)
        return str(named["id"])

    def list_faults(self, broker: int | None = None) -> list[dict[str, Any]]:
        """The rules of all running brokers, or of one."""
        from yak.client.faults import list_faults

        return [
            {"node_id": node.node_id, **rule}
            for node in self.brokers
            if node.state == "running" and broker in (None, node.node_id)
            for rule in list_faults(node.address, timeout_s=TIMEOUT_SECONDS)
        ]

    def clear_faults(self, rule_id: str | None = None) -> bool:
        """Remove a rule, or all, from all running brokers; returns whether there was one."""
        from yak.client.faults import clear_faults

        gone = [clear_faults(each, rule_id, timeout_s=TIMEOUT_SECONDS) for each in self._running_addresses()]
        return any(gone)

    # --------------------------------------------------------------------------------------------- life cycle

    def start(self) -> None:
        """Start all brokers at once and wait until they answer clients and know each other."""
        if ports.CAN_HOLD:
            self._held = [bind(_HOST, 0)[0] for _ in range(self.shape.brokers)]
        self._local.up(
            UpSettings(
                port=0,
                redis_url=self.store_url,
                configs=self.shape.broker_configs(),
                brokers=self.shape.brokers,
                ports=tuple(int(held.getsockname()[1]) for held in self._held),
            )
        )
        if self.shape.brokers > 1:
            self.wait_until_healthy()

    def mark_logs(self) -> None:
        """A test begins: earlier output is not part of its report."""
        self._logs.mark()

    def make_empty(self) -> bool:
        """Delete the last test's topics; False when the cluster was disturbed, and a new one is needed."""
        if self.is_disturbed or any(each.state != "running" for each in self.brokers):
            return False
        try:
            self._end_faults()
            return self._configs_are_untouched() and self._clients_are_untouched() and self._delete_topics()
        except YakError:
            return False

    def end(self) -> None:
        """Kill all brokers, since their data is not needed any more. The files stay until `delete`."""
        self._admin, self._is_ended = None, True
        known = load(self._local.data_dir)
        for broker in known.brokers if known is not None else []:
            if broker.process is not None:
                processes.kill(broker.process)
        for held in self._held:
            held.close()
        self._held = []

    def delete(self) -> None:
        """Delete the files of an ended cluster."""
        shutil.rmtree(self._local.data_dir, ignore_errors=True)

    # ----------------------------------------------------------------------------------------------- internal

    def _configs_are_untouched(self) -> bool:
        return not any(
            config.source in _DYNAMIC
            for node in range(1, self.shape.brokers + 1)
            for config in self._client().configs("broker", str(node))
        )

    def _clients_are_untouched(self) -> bool:
        """Whether no test left a quota, a user, an ACL, or a group's config: the next test's clients may have the names."""
        from yak.acls.filters import AclFilter
        from yak.client.acls import describe_acls
        from yak.client.quotas import describe_quotas
        from yak.client.raw_connection import call_once
        from yak.client.users import user_rows

        address, configs = self._any(), dict(self.shape.configs)
        with suppress(Unreachable):  # with `as_kafka`, a Kafka that has no such API, and so nothing of a test
            if describe_quotas(address, None, timeout_s=TIMEOUT_SECONDS) or user_rows(self._client()):
                return False
            groups = {"resource_types": [_GROUP_RESOURCE]}
            what = "the groups with configs could not be listed"
            if call_once(address, _LIST_CONFIG_RESOURCES, groups, what, TIMEOUT_SECONDS).config_resources:
                return False
        return _AUTHORIZER not in configs or not describe_acls(address, AclFilter(), timeout_s=TIMEOUT_SECONDS)

    def _end_faults(self) -> None:
        """A test may have added some with `yak faults` or over HTTP. A replica that lagged returns to the ISR."""
        allows = "yak.fault.injection.enable=true" in self.shape.broker_configs()
        if allows and self.clear_faults() and self.shape.brokers > 1:
            self.wait_until_healthy()

    def _delete_topics(self) -> bool:
        topics = [name for name, each in self._client().metadata().topics.items() if not each.is_internal]
        self._client().delete_topics(topics)
        if topics and self.shape.brokers > 1:
            self.wait_until_healthy()
        return True

    def _client(self) -> "Admin":
        if self._admin is None:
            from yak.client.admin import Admin

            self._admin = Admin(self.bootstrap, timeout_ms=int(TIMEOUT_SECONDS * 1000))
        return self._admin

    def _running_addresses(self) -> list[str]:
        running = [each.address for each in self.brokers if each.state == "running"]
        if not running:
            raise CheckFailed("no-broker-runs", "no broker of the cluster runs", why=self._states())
        return running

    def _addresses(self, broker: int | None) -> list[str]:
        return self._running_addresses() if broker is None else [self.broker(broker).address]

    def _any(self) -> str:
        return self._running_addresses()[0]

    def _require_all_running(self) -> None:
        if any(each.state != "running" for each in self.brokers):
            raise CheckFailed(
                "broker-away",
                f"the cluster cannot be healthy: {self._states()}",
                why="a broker that is killed or paused does not come back by itself",
                try_=("cluster.restart(node)", "cluster.resume(node)"),
            )

    def _states(self) -> str:
        return ", ".join(f"node {each.node_id} is {each.state}" for each in self.brokers)


def _node(status: BrokerStatus) -> Node:
    return Node(status.node_id, status.address, status.state, status.pid)
