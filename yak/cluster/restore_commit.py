"""Splits a plan into the calls of the script `seed_commit`, each of a bounded size.

The last call compares the number of slices, and nothing takes effect before it. If the caller dies in between, the next
one clears the slices and writes again.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from yak.cluster.image import BrokerInfo, Image, PartitionInfo
from yak.cluster.payload import IsrMember, format_isr, format_nodes
from yak.cluster.restore import Plan
from yak.cluster.snapshot import write_snapshot
from yak.ids import BrokerEpoch

SLICE_ITEMS = 200
"""Brokers, topics or partitions in one call, which takes the store about 2 ms."""
SNAPSHOT_CHARACTERS = 128 * 1024


def commit_arguments(plan: Plan, seed_nonce: str, offers_digest: str, token: str) -> list[dict[str, object]]:
    """The calls in order. `offers_digest` names the offers that were merged; `token` is new for each attempt."""
    envelope: dict[str, object] = {"seed_nonce": seed_nonce, "token": token}
    begin: dict[str, object] = {"step": "begin", "offers_digest": offers_digest}
    writes: list[dict[str, object]] = [{"step": "write", "what": what, "items": items} for what, items in _slices(plan)]
    image = plan.image
    end: dict[str, object] = {
        "step": "end",
        "slices": len(writes),
        "incarnation": image.incarnation,
        "new_incarnation_id": image.incarnation_id,
        "offset": image.offset,
        "hash": image.chain_hash,
        "controller_epoch": image.controller_epoch,
        "next_producer_id": image.next_producer_id,
        "parents": ",".join(image.parents),
        "took_part": {str(node_id): list(position) for node_id, position in plan.took_part.items()},
        "held_for": ",".join(map(str, plan.quarantined_for)),
        "lost": len(plan.lost) + (len(plan.conflicts) if plan.accepts_loss else 0),
    }
    return [envelope | call for call in (begin, *writes, end)]


def _slices(plan: Plan) -> Iterator[tuple[str, list[Any]]]:
    image = plan.image
    yield from _sliced("brokers", [_broker(image.brokers[n], plan.acted.get(n, 0)) for n in sorted(image.brokers)])
    yield from _sliced("unregistered", list(image.unregistered))
    yield from _sliced("topics", _topics(image))
    yield from _sliced("partitions", _partitions(image))
    yield from _sliced("configs", _configs(image))
    text = json.dumps(write_snapshot(image).payload, separators=(",", ":"))
    for start in range(0, len(text), SNAPSHOT_CHARACTERS):
        yield "snapshot", [text[start : start + SNAPSHOT_CHARACTERS]]


def _sliced(what: str, items: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    for start in range(0, len(items), SLICE_ITEMS):
        yield what, list(items[start : start + SLICE_ITEMS])


def _broker(broker: BrokerInfo, acted_epoch: BrokerEpoch) -> dict[str, object]:
    return {
        "node_id": broker.node_id,
        "broker_epoch": broker.broker_epoch,
        "boot_id": broker.boot_id,
        "directories": ",".join(broker.directories),
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "role": broker.role,
        "http_port": broker.http_port,
        "state": broker.state.value,
        "lossy": 0 < acted_epoch <= broker.lossy_epoch,
        "lossy_epoch": broker.lossy_epoch,
        "acted_epoch": acted_epoch,
    }


def _topics(image: Image) -> list[dict[str, object]]:
    """Each topic with its target and present numbers of partitions; a growing one is complete all the same."""
    found = []
    for topic in image.topics.values():
        pending = image.pending.get(topic.topic_id)
        made = len(topic.partitions) if pending is None else len(pending.partitions)
        total = len(topic.partitions) if pending is None else pending.total
        found.append({"name": topic.name, "topic_id": str(topic.topic_id), "total": total, "made": made} | _WHOLE)
    for pending in image.pending.values():
        if pending.topic_id not in image.topic_names:
            made = len(pending.partitions)
            ids = {"name": pending.name, "topic_id": str(pending.topic_id)}
            found.append(ids | {"total": pending.total, "made": made, "complete": False})
    return found


_WHOLE = {"complete": True}


def _partitions(image: Image) -> list[dict[str, object]]:
    found = [_partition(str(t.topic_id), info) for t in image.topics.values() for info in t.partitions]
    for pending in image.pending.values():
        name = image.topic_names.get(pending.topic_id)
        whole = 0 if name is None else len(image.topics[name].partitions)
        made = sorted(number for number in pending.partitions if number >= whole)
        found += [_partition(str(pending.topic_id), pending.partitions[number]) for number in made]
    return found


def _partition(topic_id: str, info: PartitionInfo) -> dict[str, object]:
    return {
        "topic_id": topic_id,
        "partition": info.partition,
        "replicas": format_nodes(info.replicas),
        "adding": format_nodes(info.adding_replicas),
        "removing": format_nodes(info.removing_replicas),
        "isr": format_isr(tuple(IsrMember(*member) for member in info.isr_members)),
        "elr": format_isr(tuple(IsrMember(*member) for member in info.elr_members)),
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "partition_epoch": info.partition_epoch,
        "held": info.quarantined,
    }


def _configs(image: Image) -> list[dict[str, object]]:
    found = {f"topic:{topic.name}": topic.configs for topic in image.topics.values()}
    for pending in image.pending.values():
        found.setdefault(f"topic:{pending.name}", pending.configs)
    found |= {f"broker:{node_id}": configs for node_id, configs in image.broker_configs.items()}
    found["broker:"] = image.default_broker_configs
    found |= {f"group:{group_id}": configs for group_id, configs in image.group_configs.items()}
    return [{"name": name, "configs": dict(configs)} for name, configs in found.items() if configs]
