"""Each broker's view of the cluster, and waiting until they agree.

A client may ask any broker, and a broker with old metadata gives stale answers. So a test gets only answers that hold
for all running brokers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from yak.client.replica_offsets import ClusterReplicas, read_metadata
from yak.errors import NothingInTime, YakError
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import PartitionState

_POLL_SECONDS: Final = 0.01
_ANSWER_SECONDS: Final = 2.0
_T = TypeVar("_T")

Views = dict[str, ClusterReplicas]
"""Each broker's view, by its address."""


def wait_until(addresses: Sequence[str], found: Callable[[Views], _T | str], timeout_s: float, what: str) -> _T:
    """Ask all brokers repeatedly, until `found` returns a result instead of a reason (a string).

    Raises NothingInTime (`test-cluster`) with the last reason; `what` completes "… in 30 s".
    """
    deadline = time.monotonic() + timeout_s
    while True:
        reason: str
        try:
            answer = found({each: read_metadata(each, timeout_s=_ANSWER_SECONDS) for each in addresses})
        except YakError as error:
            reason = error.message
        else:
            if not isinstance(answer, str):
                return answer
            reason = answer
        if time.monotonic() >= deadline:
            raise NothingInTime("test-cluster", f"{what} in {timeout_s:g} s: {reason}", why=reason)
        time.sleep(_POLL_SECONDS)


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
            if each.leader not in view.brokers or len(each.isr) < len(each.replicas):
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
