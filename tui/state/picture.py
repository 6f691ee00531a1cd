"""The present state of the cluster, built from the events of all its brokers. Pure: times come with the events.

    picture.take(event)          # a snapshot, a change, progress, rates, links
    picture.version              # increases when there is something to draw

A newer epoch always wins, so the order in which the brokers' events arrive does not matter.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, NamedTuple
from uuid import UUID

from yak.tui.state.activity import Activity
from yak.tui.state.elections import Elections
from yak.view.broker_state import SeenState
from yak.view.partition_state import Replicated, Replication

RATES_MAX: Final = 300
"""Samples of the rates, one per second."""
_SAMPLE_MS: Final = 950
_NO_ID: Final = str(UUID(int=0))
"""Of topics of brokers without HTTP, whose ids are unknown."""
_DELETED_MAX: Final = 1_000
_EPOCHS_MAX: Final = 16
MIN_ISR: Final = "min.insync.replicas"
UNKNOWN_STORE: Final = "unknown"
"""The state of the metadata store before the first snapshot, and for brokers without HTTP."""


class Rates(NamedTuple):
    """Rates per second of one broker or topic; None where the cluster does not report one."""

    messages_in: float | None = 0.0
    messages_out: float | None = 0.0
    bytes_in: float | None = 0.0
    bytes_out: float | None = 0.0

    @classmethod
    def of(cls, said: dict[str, Any]) -> "Rates":
        return cls(*(said[f"{name}_per_second"] for name in cls._fields))

    def plus(self, other: "Rates") -> "Rates":
        """The sum of both; None where one of them is unknown."""
        return Rates(
            *(None if one is None or each is None else one + each for one, each in zip(self, other, strict=True))
        )


@dataclass(slots=True)
class Broker:
    """One broker. `registered` is its state for the cluster, `link` that of our connection to it; memory and disk are
    None until it reports them.
    """

    node_id: int
    role: str = "leader"
    registered: SeenState = SeenState.ACTIVE
    broker_epoch: int = -1
    rack: str | None = None
    host: str = ""
    port: int = 0
    http_address: str | None = None
    link: str = "unknown"
    link_why: str = ""
    last_event_ms: int | None = None
    rates: Rates = field(default_factory=Rates)
    topic_rates: dict[str, Rates] = field(default_factory=dict)
    has_other_topics: bool = False
    """Whether further topics have traffic: it reports the rates of those with the most bytes."""
    in_history: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_MAX))
    memory_bytes: int | None = None
    cpu_share: float | None = None
    disk_free_bytes: int | None = None
    disk_size_bytes: int | None = None

    @property
    def state(self) -> SeenState:
        """The state of its registration, or SILENT."""
        return self.registered.seen(answers=self.link != "down")

    @property
    def is_up(self) -> bool:
        """Whether it is active, and answers."""
        return self.state is SeenState.ACTIVE

    @property
    def is_dead(self) -> bool:
        """Whether it is fenced or stopped."""
        return self.registered not in (SeenState.ACTIVE, SeenState.STOPPING)


@dataclass(slots=True, frozen=True)
class Quorum:
    """The metadata quorum. `leader_id` and `caught_up`, the number of voters that have all of the log, may be unknown."""

    epoch: int
    leader_id: int | None
    voters: int
    caught_up: int | None


@dataclass(slots=True)
class Partition(Replicated):
    """One partition. `log_end_offsets` maps replicas to log end offsets as reported by the leader; None if unknown."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int = 1
    high_watermark: int | None = None
    log_end_offsets: dict[int, int | None] = field(default_factory=dict)
    moved_ms: int = 0
    rate_in: float = 0.0
    """Records per second, measured by the high watermark."""
    seen_high_watermarks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=12))
    first_writes_ms: dict[int, int] = field(default_factory=dict)
    """By leader epoch: when the high watermark first advanced in it. Only the newest epochs stay."""
    since_ms: int | None = None
    """When a replica left the ISR; None if all are in sync."""
    topic_id: str = ""
    """Empty where the source does not say it."""
    brokers: Mapping[int, Broker] = field(default_factory=dict, repr=False, compare=False)
    """All brokers of the cluster, by id."""

    def is_dead(self, node: int | None) -> bool:
        """Whether that broker is dead. It stays the leader, or in the ISR, while the metadata cannot change."""
        broker = None if node is None else self.brokers.get(node)
        return broker is not None and broker.is_dead

    @property
    def replication(self) -> Replication:
        """What decides its state: a dead leader is none."""
        found = Replication.of(self, self.min_isr)
        return found._replace(is_offline=True) if self.is_dead(self.leader) else found

    def wrote(self, leader_epoch: int, time_ms: int) -> None:
        """Note that the high watermark advanced; the first time in each epoch counts."""
        self.first_writes_ms.setdefault(leader_epoch, time_ms)
        while len(self.first_writes_ms) > _EPOCHS_MAX:
            del self.first_writes_ms[min(self.first_writes_ms)]


class Picture:
    """One cluster."""

    def __init__(self) -> None:
        self.version = 0
        self._identity: tuple[str, int | None] | None = None
        """The cluster's id, and the incarnation of its metadata, of the last snapshot."""
        self.controller_id: int | None = None
        self.controller_epoch = 0
        self.store_state = UNKNOWN_STORE
        """Of the metadata store: Redis, or the quorum of brokers."""
        self.store_lost_since_ms: int | None = None
        self._quorum_nodes: dict[int, dict[str, Any]] = {}
        """Node id -> what that broker says of the metadata quorum."""
        self.brokers: dict[int, Broker] = {}
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.topics: dict[str, list[Partition]] = {}
        """The same partitions by topic, ordered by partition."""
        self.topics_version = 0
        """Increases when a topic or a partition is added or removed."""
        self._deleted_ids: dict[str, None] = {}
        """Of the topics that were deleted last: a broker that was paused may still list them."""
        self.incomplete: dict[str, int] = {}
        """Topics that were created or grew, or have another `min.insync.replicas`: their partitions are requested. The
        value counts the tries.
        """
        self.activity = Activity()
        self.elections = Elections()
        self.rate_history: deque[Rates] = deque(maxlen=RATES_MAX)
        self.isr_changes_ms: deque[int] = deque(maxlen=1_000)
        self.is_loaded = False
        self.last_event_ms: int | None = None
        """When a broker last sent anything."""
        self.lost_since_ms: int | None = None
        self.lost_why = ""
        self.retry_at_ms: int | None = None
        self._sampled_ms = 0

    def take(self, event: dict[str, Any]) -> None:
        """Apply one event. Unknown kinds appear in the activity and change nothing."""
        self.version += 1
        kind = event["kind"]
        if kind == "lost":
            self._lost(event)
            return
        if kind == "link":
            self._link(event)
            return
        if kind == "source":
            return  # the source has something new to show that is not about the cluster
        self.last_event_ms = max(self.last_event_ms or 0, event["time_ms"])
        self.lost_since_ms = self.retry_at_ms = None
        broker = self.brokers.get(event.get("node_id", -1))
        if broker is not None:
            broker.last_event_ms = event["time_ms"]
        if kind == "progress":
            for row in event["partitions"]:
                self._progress(row, event["time_ms"])
        elif kind == "rates":
            self._rates(event)
        elif kind == "snapshot":
            self._snapshot(event)
        elif kind == "partitions":  # the answer to a request for `incomplete` topics
            for row in event["partitions"]:
                self._partition(row, event["time_ms"])
        else:
            self._change(event)

    def _lost(self, event: dict[str, Any]) -> None:
        if self.lost_since_ms is None:
            self.lost_since_ms = event["time_ms"]
        self.lost_why = event["why"]
        self.retry_at_ms = event["time_ms"] + event["retry_ms"]

    def _link(self, event: dict[str, Any]) -> None:
        broker = self.brokers.setdefault(event["node_id"], Broker(event["node_id"]))
        broker.link, broker.link_why = event["state"], event.get("why", "")
        if broker.link == "down":
            broker.rates, broker.topic_rates = Rates(), {}

    def _snapshot(self, event: dict[str, Any]) -> None:
        cluster, time_ms = event["cluster"], event["time_ms"]
        self.is_loaded = True
        identity = cluster["cluster_id"], cluster.get("incarnation")
        if self._identity not in (None, identity):
            self._begin_again()
        self._identity = identity
        if cluster["controller_epoch"] >= self.controller_epoch:
            self.controller_id, self.controller_epoch = cluster["controller_id"], cluster["controller_epoch"]
        store = cluster["redis"] or cluster["quorum"]
        self.store_state, lost_ms = store["state"], store["lost_ms"]
        self.store_lost_since_ms = None if lost_ms is None else time_ms - lost_ms
        self._quorum_node(event.get("node_id", -1), cluster.get("quorum"))
        listed = {each["node_id"] for each in cluster["brokers"]}
        for each in cluster["brokers"]:
            self._broker(each)
        for gone in [node for node in self.brokers if node not in listed]:
            del self.brokers[gone]
        reported = {(row["topic"], row["partition"]) for row in event["partitions"]}
        for row in event["partitions"]:
            self._partition(row, time_ms)
        self._forget([key for key in self.partitions if key not in reported])

    def _begin_again(self) -> None:
        """Forget epochs and partitions: another cluster has these addresses now, or its metadata were restored."""
        self.controller_epoch = -1
        self._quorum_nodes.clear()
        for broker in self.brokers.values():
            broker.broker_epoch = -1
        self._forget(list(self.partitions))

    def _forget(self, keys: Iterable[tuple[str, int]]) -> None:
        gone = [self.partitions.pop(key) for key in keys]
        for topic in dict.fromkeys(each.topic for each in gone):
            left = [each for each in self.topics[topic] if (topic, each.partition) in self.partitions]
            if left:
                self.topics[topic] = left
            else:
                del self.topics[topic]
        self.topics_version += bool(gone)

    @property
    def degraded(self) -> list[Partition]:
        """The partitions that have no leader or are under-replicated: those whose state is not OK."""
        dead = {None, -1, *(node for node, each in self.brokers.items() if each.is_dead)}
        return [each for each in self.partitions.values() if len(each.isr) < len(each.replicas) or each.leader in dead]

    def _quorum_node(self, node_id: int, said: dict[str, Any] | None) -> None:
        if said is not None:
            self._quorum_nodes[node_id] = said

    @property
    def quorum(self) -> Quorum | None:
        """The metadata quorum, from the brokers that know its newest epoch; None in a cluster with Redis."""
        said = [each for node, each in self._quorum_nodes.items() if not self._is_link_down(node)]
        if not said:
            said = list(self._quorum_nodes.values())
        if not said:
            return None
        epoch = max(each["epoch"] for each in said)
        newest = [each for each in said if each["epoch"] == epoch]
        leaders = [each for each in newest if each["role"] == "leader"]
        named = [each["leader_id"] for each in newest if not self._is_link_down(each["leader_id"])]
        leader_id = next((each for each in named if each is not None), None)
        caught_up = leaders[0].get("caught_up") if leaders else None
        return Quorum(epoch, leader_id, len((leaders or newest)[0]["voters"]), caught_up)

    def _is_link_down(self, node_id: int | None) -> bool:
        broker = None if node_id is None else self.brokers.get(node_id)
        return broker is not None and broker.link == "down"

    def _broker(self, said: dict[str, Any]) -> None:
        broker = self.brokers.setdefault(said["node_id"], Broker(said["node_id"]))
        if said["broker_epoch"] < broker.broker_epoch:
            return
        broker.role, broker.registered = said["role"], SeenState(said["state"])
        broker.broker_epoch = said["broker_epoch"]
        broker.rack, broker.host, broker.port = said["rack"], said["host"], said["port"]
        broker.http_address = said["http_address"]

    def _partition(self, row: dict[str, Any], time_ms: int) -> None:
        topic_id = row.get("topic_id", "")
        if topic_id in self._deleted_ids:
            return
        key = (row["topic"], row["partition"])
        known = self.partitions.get(key)
        if known is not None and known.topic_id and topic_id not in ("", known.topic_id):
            self._forget_others(row["topic"], topic_id)  # the topic was created again
            known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = Partition(
                row["topic"], row["partition"], None, -1, -1, tuple(row["replicas"]), (), topic_id=topic_id,
                brokers=self.brokers,
            )  # fmt: skip
            of_topic = self.topics.setdefault(row["topic"], [])
            of_topic.append(known)
            if len(of_topic) > 1 and of_topic[-2].partition > known.partition:
                of_topic.sort(key=lambda each: each.partition)
            self.topics_version += 1
        if row["partition_epoch"] >= known.partition_epoch:
            known.leader, known.leader_epoch = row["leader"], row["leader_epoch"]
            known.partition_epoch = row["partition_epoch"]
            known.replicas = tuple(row["replicas"])
            self._set_isr(known, tuple(row["isr"]), time_ms)
        known.topic_id = topic_id or known.topic_id
        known.min_isr = row["min_isr"]
        if row["high_watermark"] is not None and row["leader_epoch"] >= known.leader_epoch:
            self._offsets(known, row, time_ms)

    def _forget_others(self, topic: str, topic_id: str) -> None:
        """Forget the partitions of an earlier topic of the same name."""
        self._forget(
            [(topic, each.partition) for each in self.topics.get(topic, ()) if each.topic_id not in ("", topic_id)]
        )

    def _set_isr(self, partition: Partition, isr: tuple[int, ...], time_ms: int) -> None:
        partition.isr = isr
        if not partition.replication.is_under_replicated:
            partition.since_ms = None
        elif partition.since_ms is None:
            partition.since_ms = time_ms

    def _progress(self, row: dict[str, Any], time_ms: int) -> None:
        known = self.partitions.get((row["topic"], row["partition"]))
        if known is not None and row["leader_epoch"] >= known.leader_epoch:
            self._offsets(known, row, time_ms)

    def _offsets(self, partition: Partition, row: dict[str, Any], time_ms: int) -> None:
        if partition.high_watermark is not None and row["high_watermark"] > partition.high_watermark:
            self.elections.wrote(partition.name, time_ms)
            partition.wrote(row["leader_epoch"], time_ms)
        partition.high_watermark = row["high_watermark"]
        for node, end in row["log_end_offsets"].items():
            partition.log_end_offsets[int(node)] = end
        partition.moved_ms = time_ms
        partition.seen_high_watermarks.append((time_ms, row["high_watermark"]))

    def _rates(self, event: dict[str, Any]) -> None:
        broker = self.brokers.setdefault(event["node_id"], Broker(event["node_id"]))
        broker.rates = Rates.of(event)
        broker.topic_rates = {each["topic"]: Rates.of(each) for each in event["topics"]}
        broker.has_other_topics = bool(event.get("other_topics", {}).get("count"))
        broker.in_history.append(broker.rates.messages_in or 0.0)
        self._quorum_node(event["node_id"], event.get("quorum"))
        process = event.get("process")
        if process is not None:
            broker.memory_bytes, broker.cpu_share = process["memory_bytes"], process["cpu_share"]
            broker.disk_free_bytes, broker.disk_size_bytes = process["disk_free_bytes"], process["disk_size_bytes"]
        if event["time_ms"] - self._sampled_ms >= _SAMPLE_MS:
            self._sample(event["time_ms"])

    def _sample(self, now_ms: int) -> None:
        """Add the sum of the brokers' latest rates to the history, once per second."""
        self._sampled_ms = now_ms
        self.rate_history.append(self.rates())
        for partition in self.partitions.values():
            partition.rate_in = _rate(partition.seen_high_watermarks, now_ms)

    def rates(self) -> Rates:
        return reduce(Rates.plus, (broker.rates for broker in self.brokers.values()), Rates())

    def topic_rates(self, topic: str) -> Rates:
        """The sum over the brokers. Of a topic that none of them reports apart, only the partitions' rates are known."""
        brokers = self.brokers.values()
        known = [broker.topic_rates[topic] for broker in brokers if topic in broker.topic_rates]
        if not known and any(broker.has_other_topics for broker in brokers):
            return Rates(sum(each.rate_in for each in self.topics.get(topic, ())), None, None, None)
        return reduce(Rates.plus, known, Rates())

    def _change(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        line = self.activity.take(event)
        self.elections.take(event, is_new=line is not None)
        family = kind.partition("-")[0]
        if family in ("leader", "isr", "reassignment") and "partition_epoch" in event:
            self._partition_changed(event, is_new=line is not None)
        elif family == "broker":
            self._broker_changed(event)
        elif kind == "controller-changed" and event["controller_epoch"] >= self.controller_epoch:
            self.controller_id, self.controller_epoch = event["to"], event["controller_epoch"]
        elif family == "topic" and line is not None:  # a repeated report may be about an earlier topic of the same name
            self._topic_changed(event)
        elif kind == "config-changed":
            self._config_changed(event)
        elif kind == "quorum-leader-elected" and event["node_id"] in self._quorum_nodes:
            new = {"role": "leader", "leader_id": event["leader"], "epoch": event["epoch"], "caught_up": None}
            self._quorum_nodes[event["node_id"]] |= new
        elif family == "store":
            self.store_state = {"store-lost": "lost", "store-back": "connected"}.get(kind, self.store_state)
            self.store_lost_since_ms = event["time_ms"] if kind == "store-lost" else None

    def _config_changed(self, event: dict[str, Any]) -> None:
        """Request the partitions whose `min.insync.replicas` may be another now."""
        if MIN_ISR in event["changed"]:
            is_topic = event["resource_type"] == "topic"
            for topic in [event["resource_name"]] if is_topic else list(self.topics):
                self.incomplete.setdefault(topic, 0)

    def _topic_changed(self, event: dict[str, Any]) -> None:
        topic, topic_id = event["topic"], event.get("topic_id", "")
        if topic_id == _NO_ID:
            topic_id = ""
        if event["kind"] == "topic-deleted":
            if topic_id:
                self._deleted_ids[topic_id] = None
            while len(self._deleted_ids) > _DELETED_MAX:
                del self._deleted_ids[next(iter(self._deleted_ids))]
            gone = [each.partition for each in self.topics.get(topic, ()) if each.topic_id in ("", topic_id)]
            if gone or topic not in self.topics:
                self.incomplete.pop(topic, None)
            self._forget([(topic, partition) for partition in gone])
            return
        if topic_id in self._deleted_ids:
            return
        self._forget_others(topic, topic_id)
        if len(self.topics.get(topic, ())) != event["partitions"]:
            self.incomplete.setdefault(topic, 0)

    def _partition_changed(self, event: dict[str, Any], *, is_new: bool) -> None:
        if event["kind"].startswith("isr") and is_new:
            self.isr_changes_ms.append(event["time_ms"])
        known = self.partitions.get((event["topic"], event["partition"]))
        if known is None or event["partition_epoch"] < known.partition_epoch:
            return
        known.partition_epoch = event["partition_epoch"]
        known.leader, known.leader_epoch = event["leader"], event["leader_epoch"]
        if event["kind"].startswith("isr"):
            self._set_isr(known, tuple(event["to"]), event["time_ms"])
        elif "replicas" in event:
            known.replicas = tuple(event["replicas"])
            self._set_isr(known, known.isr, event["time_ms"])

    def _broker_changed(self, event: dict[str, Any]) -> None:
        node_id = event.get("broker")
        if node_id is None:
            return
        if event["kind"] == "broker-unregistered":
            self.brokers.pop(node_id, None)
            return
        broker = self.brokers.setdefault(node_id, Broker(node_id))
        epoch = event.get("broker_epoch", broker.broker_epoch)
        if epoch < broker.broker_epoch:
            return
        if event["kind"] == "broker-dead":
            if broker.registered is SeenState.ACTIVE and epoch == broker.broker_epoch:
                broker.registered = SeenState.FENCED
            return
        broker.broker_epoch = epoch
        broker.registered = SeenState(event.get("state", broker.registered))
        if event["kind"] == "broker-registered":
            broker.role, broker.rack = event["role"], event["rack"]
            broker.host, broker.port = event["host"], event["port"]


def _rate(seen: deque[tuple[int, int]], now_ms: int) -> float:
    """Records per second over the last seconds; 0 if nothing moved for 3 s."""
    if len(seen) < 2 or now_ms - seen[-1][0] > 3_000:
        return 0.0
    first, last = seen[0], seen[-1]
    elapsed_ms = last[0] - first[0]
    return (last[1] - first[1]) * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0
