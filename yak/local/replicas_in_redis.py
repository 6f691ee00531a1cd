"""The state of each replica, read directly from the metadata store, for when no broker answers.

Epochs and ISR are the store's own: the store compares and sets them. High watermarks and log end offsets are the
leaders' last reports, sent about once a second; they are stale after a leader dies.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from yak.client.metadata import Broker
from yak.client.replica_offsets import MIN_ISR, ClusterReplicas
from yak.cluster.payload import parse_isr, parse_nodes
from yak.cluster.records import BrokerState
from yak.errors import YakError
from yak.ids import NodeId, Offset, TopicPartition
from yak.local.metadata_log import RedisSource
from yak.view.partition_replicas import NO_LEADER, PartitionReplicas

PREFIX: Final = "{y}:"
CLUSTER_KEY: Final = f"{PREFIX}cluster"
PAGE_KEYS: Final = 500
_TRIES: Final = (
    "yak isr --from-redis --redis-url redis://HOST:PORT/0",
    "yak isr --from-redis --data-dir DIR   that of yak up",
)


def read_cluster(url: str, *, timeout_s: float, topic: str | None = None) -> ClusterReplicas:
    """All partitions, or those of one topic.

    Raises Unreachable when the store does not answer, YakError when it holds no cluster.
    """
    source = RedisSource(url, timeout_s, _TRIES)
    with source.connect() as client:
        return _read(client, source.name, topic)


def _read(client: Any, name: str, topic: str | None) -> ClusterReplicas:
    cluster = client.hgetall(CLUSTER_KEY)
    if not cluster:
        raise YakError(
            "no-cluster-in-store",
            f"there is no cluster in the metadata store at {name}",
            why=f"it has no key {CLUSTER_KEY}",
            try_=("yak isr --from-redis --redis-url redis://HOST:PORT/0",),
        )
    if cluster.get("state") == "MOVED":
        raise YakError(
            "no-cluster-in-store",
            f"the metadata of the cluster at {name} were moved to a quorum of its brokers",
            why="yak cluster migrate moved them; this store keeps the cluster's id alone",
            try_=("yak isr", "yak quorum describe"),
        )
    known: dict[str, str] = dict(sorted(client.hgetall(f"{PREFIX}tn").items()))
    ids = {name: each for name, each in known.items() if topic in (None, name)}
    topics = dict(zip(ids, _hashes(client, [f"{PREFIX}t:{each}" for each in ids.values()]), strict=True))
    made = [(each, number) for each in ids for number in range(int(topics[each].get("made", 0)))]
    hashes = _hashes(client, [f"{PREFIX}p:{ids[each]}:{number}" for each, number in made])
    marks, ends = client.hgetall(f"{PREFIX}hw"), client.hgetall(f"{PREFIX}leo")
    configs = client.hgetall(f"{PREFIX}configs")
    brokers = _brokers(client)
    started_with = {node: min_isr for node, (_, _, min_isr) in brokers.items()}
    away = {node: state.lower() for node, (_, state, _) in brokers.items() if state != BrokerState.ACTIVE}
    partitions = tuple(
        _partition(
            TopicPartition(each, number),
            fields,
            marks.get(f"{ids[each]}:{number}"),
            ends.get(f"{ids[each]}:{number}"),
            configs=configs,
            started_with=started_with,
            away=away,
        )
        for (each, number), fields in zip(made, hashes, strict=True)
        if fields
    )
    return ClusterReplicas(
        cluster.get("cluster_id", ""),
        int(cluster.get("ctl_id", -1)),
        {node: broker for node, (broker, _, _) in brokers.items()},
        partitions,
        tuple(known),
        {node: state for node, state in away.items() if state != "stopping"},
    )


def _hashes(client: Any, keys: list[str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for start in range(0, len(keys), PAGE_KEYS):
        with client.pipeline(transaction=False) as pipe:
            for key in keys[start : start + PAGE_KEYS]:
                pipe.hgetall(key)
            found += pipe.execute()
    return found


def _brokers(client: Any) -> dict[NodeId, tuple[Broker, str, int]]:
    """Each broker, its state, and the min.insync.replicas that it was started with."""
    nodes = sorted(int(node) for node in client.smembers(f"{PREFIX}brokers"))
    hashes = _hashes(client, [f"{PREFIX}b:{node}" for node in nodes])
    return {
        node: (
            Broker(node, each.get("host", ""), int(each.get("port", 0))),
            each.get("state", ""),
            int(each.get("min_isr", 1)),
        )
        for node, each in zip(nodes, hashes, strict=True)
        if each
    }


def _min_isr(configs: Mapping[str, str], topic: str, leader: NodeId, started_with: Mapping[NodeId, int]) -> int:
    """The store's rule (`yak.metadata_store.checks.min_isr`), without the number of replicas."""
    for name in (f"topic:{topic}", f"broker:{leader}", "broker:"):
        value = json.loads(configs.get(name, "{}")).get(MIN_ISR)
        if value is not None:
            return int(value)
    return started_with.get(leader, 1)


def _partition(
    place: TopicPartition,
    fields: Mapping[str, str],
    mark: str | None,
    ends: str | None,
    *,
    configs: Mapping[str, str],
    started_with: Mapping[NodeId, int],
    away: Mapping[NodeId, str],
) -> PartitionReplicas:
    replicas = parse_nodes(fields["replicas"])
    leader = int(fields.get("leader", NO_LEADER))
    return PartitionReplicas(
        topic=place.topic,
        partition=place.partition,
        leader=leader,
        leader_epoch=int(fields.get("leader_epoch", 0)),
        partition_epoch=int(fields.get("partition_epoch", 0)),
        replicas=replicas,
        isr=tuple(member.node_id for member in parse_isr(fields.get("isr", ""))),
        high_watermark=None if mark is None else int(mark.partition(":")[2]),
        log_end_offsets=_reported_ends(replicas, ends),
        min_isr=_min_isr(configs, place.topic, leader, started_with),
        away={node: away[node] for node in replicas if node in away},
    )


def _reported_ends(replicas: Iterable[NodeId], text: str | None) -> dict[NodeId, Offset | None]:
    """Parse `{"le":3,"leo":{"1":100}}` into log end offsets by replica; an end of -1 is unknown."""
    reported = json.loads(text).get("leo") if text else None
    known = reported if isinstance(reported, dict) else {}
    ends = {node: known.get(str(node)) for node in replicas}
    return {node: int(end) if end is not None and int(end) >= 0 else None for node, end in ends.items()}
