"""The metadata store in memory and in a real Redis behind one face, and brokers that call it."""

import json
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

import redis as redis_py

from yak.cluster.image import Image, PartitionInfo
from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.server import redis_scripts
from yak.server.redis_client import ReplyError
from yak.server.redis_store import key_prefix, outcome_of, record_of, script_parts
from yak.sim.store import SimStore


class Backend(Protocol):
    """A store, and what a test does to it behind the scripts' back."""

    def call(self, request: StoreRequest) -> StoreOutcome:
        """Run a script."""

    def records(self) -> list[TailedRecord]:
        """The whole log, after the snapshot if it begins with one."""

    def pass_time(self, ms: int) -> None:
        """Let the store's clock move on."""

    def high_watermarks(self) -> dict[str, str]:
        """What was reported: `<topic id>:<partition>` to `<leader epoch>:<high watermark>`."""

    def log_end_offsets(self) -> dict[str, dict[str, Any]]:
        """What was reported: `<topic id>:<partition>` to the leader epoch `le` and the offsets `leo` by node."""

    def lose_last(self, count: int) -> None:
        """Roll back at least the newest records."""

    def flush_all(self) -> None:
        """Lose everything."""


class MemoryBackend:
    """`yak.sim.store`."""

    def __init__(self) -> None:
        self.store = SimStore()
        self.now_ms = 1_000_000

    def call(self, request: StoreRequest) -> StoreOutcome:
        return self.store.call(request, self.now_ms)

    def records(self) -> list[TailedRecord]:
        return self.store.records_after(0, 100_000)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    def high_watermarks(self) -> dict[str, str]:
        held = self.store.state.high_watermarks
        return {f"{topic}:{number}": f"{epoch}:{value}" for (topic, number), (epoch, value) in held.items()}

    def log_end_offsets(self) -> dict[str, dict[str, Any]]:
        held = self.store.state.log_end_offsets
        return {f"{topic}:{number}": {"le": epoch, "leo": ends} for (topic, number), (epoch, ends) in held.items()}

    def lose_last(self, count: int) -> None:
        self.store.lose_last(count)

    def flush_all(self) -> None:
        self.store.flush_all()


class RedisBackend:
    """The Lua scripts, each test in a namespace of its own."""

    def __init__(self, client: "redis_py.Redis", *, keep_dumps: bool = True) -> None:
        self.client = client
        self.prefix = key_prefix(uuid.uuid4().hex)
        self.keep_dumps = keep_dumps
        self.dumps: dict[int, dict[bytes, bytes]] = {}

    def call(self, request: StoreRequest) -> StoreOutcome:
        sha, source = redis_scripts.script(request.script)
        parts = script_parts(self.prefix, request)
        try:
            reply = self.client.evalsha(sha, *parts)
        except redis_py.exceptions.NoScriptError:
            reply = self.client.eval(source, *parts)
        except redis_py.exceptions.ResponseError as error:
            return outcome_of(ReplyError(str(error)))
        outcome = outcome_of([part.decode() for part in reply])
        if self.keep_dumps:
            self.dumps[outcome.offset] = {key: self.client.dump(key) for key in self._keys()}
        return outcome

    def records(self) -> list[TailedRecord]:
        entries = self.client.xrange(f"{self.prefix}log")
        flat = self.client.hgetall(f"{self.prefix}snapshot")
        found = {name.decode(): value.decode() for name, value in flat.items()}
        head = []
        if found and entries and not entries[0][0].startswith(b"1-"):
            payload = json.loads(found["payload"])
            head = [TailedRecord(int(found["offset"]), found["h"], "Snapshot", int(found["t"]), payload)]
            entries = [entry for entry in entries if int(entry[0].partition(b"-")[0]) > head[0].offset]
        return head + [
            record_of([id_.decode(), [part.decode() for pair in fields.items() for part in pair]])
            for id_, fields in entries
        ]

    def pass_time(self, ms: int) -> None:
        # Its clock is the machine's: what it wrote down is made older instead.
        for key in self.client.scan_iter(match=self._pattern("b:"), count=10_000):
            at_ms = int(self.client.hget(key, "fast_fenced_ms") or 0)
            if at_ms:
                self.client.hset(key, "fast_fenced_ms", at_ms - ms)

    def high_watermarks(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.client.hgetall(f"{self.prefix}hw").items()}

    def log_end_offsets(self) -> dict[str, dict[str, Any]]:
        return {k.decode(): json.loads(v) for k, v in self.client.hgetall(f"{self.prefix}leo").items()}

    def lose_last(self, count: int) -> None:
        target = max(offset for offset in self.dumps if offset <= max(self.dumps) - count)
        self.flush_all()
        for key, value in self.dumps[target].items():
            self.client.restore(key, 0, value)

    def flush_all(self) -> None:
        for key in self._keys():
            self.client.delete(key)

    def _keys(self) -> list[bytes]:
        return sorted(self.client.scan_iter(match=self._pattern(""), count=10_000))

    def _pattern(self, kind: str) -> str:
        return self.prefix.replace("{", "\\{") + kind + "*"


class Caller:
    """One broker's calls, with the history it knows."""

    def __init__(self, backend: Backend, node_id: int = 1) -> None:
        self.backend = backend
        self.who: dict[str, Any] = {"cluster_id": "", "incarnation_id": "", "node_id": node_id, "broker_epoch": 0}
        self.controller_epoch = 0
        self.image = Image()

    def __call__(self, script: str, **arguments: Any) -> StoreOutcome:
        return self.backend.call(self.request(script, **arguments))

    def request(self, script: str, **arguments: Any) -> StoreRequest:
        envelope = self.who | {"controller_epoch": self.controller_epoch}
        return StoreRequest(script, envelope | arguments, self.image.offset, self.image.chain_hash)

    @property
    def member(self) -> str:
        """This boot as a member of an ISR."""
        return f"{self.who['node_id']}@{self.who['broker_epoch']}"

    @property
    def target(self) -> dict[str, int]:
        """This boot as the target of a controller's call."""
        return {"target_id": self.who["node_id"], "target_epoch": self.who["broker_epoch"]}

    def other_view(self) -> "Caller":
        """Another caller that passes for the same boot."""
        other = Caller(self.backend)
        other.who |= self.who
        return other

    def catch_up(self) -> "Caller":
        fresh = [record for record in self.backend.records() if record.offset > self.image.offset]
        self.image = self.image.apply_all(fresh)[0]
        return self

    def join(self, *, active: bool = True, **more: Any) -> "Caller":
        """Make the cluster or find it, and register; `active`: take the office too and let oneself in."""
        made = self("bootstrap", new_cluster_id="cluster-a", new_incarnation_id="incarnation-a")
        self.who |= {name: made.value[name] for name in ("cluster_id", "incarnation_id")}
        self.register(**more)
        if active:
            self.take_office()
            assert self.unfence(self).code == "OK"
        return self.catch_up()

    def register(
        self,
        boot: str = "boot-1",
        directory: str | None = None,
        *,
        lossy: bool = False,
        rack: str | None = None,
        role: str = "leader",
        last_epoch: int | None = None,
        **more: Any,
    ) -> StoreOutcome:
        """Register, by default with a disk that knows of the boot before."""
        node_id = self.who["node_id"]
        arguments = {
            "boot_id": f"{node_id}-{boot}",
            "directories": directory or f"dir-{node_id}",
            "host": "localhost",
            "port": 9092,
            "rack": rack,
            "role": role,
            "lossy": lossy,
            "last_epoch": self.who["broker_epoch"] if last_epoch is None else last_epoch,
        }
        outcome = self("register", **arguments, **more)
        if outcome.code == "OK":
            self.who["broker_epoch"] = outcome.value["broker_epoch"]
        return outcome

    def take_office(self, **claims: Any) -> int:
        lease = self("acquire_lease", **claims)
        assert lease.code == "OK", lease
        self.controller_epoch = lease.value["controller_epoch"]
        return self.controller_epoch

    def beat(self) -> StoreOutcome:
        """A heartbeat of a broker that has all on disk that it knows."""
        return self("heartbeat", persisted=self.catch_up().image.offset)

    def unfence(self, other: "Caller") -> StoreOutcome:
        return self("unfence", **other.target)

    def fence(self, other: "Caller", **more: Any) -> StoreOutcome:
        return self("fence", **other.target, **more)

    def restart(self, boot: str, controller: "Caller", **more: Any) -> "Caller":
        """Another boot of this broker, let in by the controller."""
        assert self.register(boot, **more).code == "OK"
        self.beat()
        assert controller.unfence(self).code == "OK"
        return self.catch_up()

    def create(
        self,
        name: str = "a",
        topic_id: str = "",
        replicas: Sequence[str] = ("1",),
        configs: dict[str, str] | None = None,
        **more: Any,
    ) -> StoreOutcome:
        arguments = {
            "name": name,
            "topic_id": topic_id or topic_id_of(name),
            "total": len(replicas),
            "configs": configs or {},
            "partitions": [{"partition": n, "replicas": r} for n, r in enumerate(replicas)],
        }
        return self("create_topic", **(arguments | more))

    def alter(self, kind: str, name: str, changes: list[Any], *, replace: bool = False) -> StoreOutcome:
        return self("alter_configs", resource_type=kind, resource_name=name, changes=changes, replace=replace)

    def elect(self, leader: int, name: str = "a", *, unclean: bool = False, partition: int = 0, **more: Any) -> str:
        epoch = self.partition(name, partition).partition_epoch
        item = {"topic_id": topic_id_of(name), "partition": partition, "leader": leader}
        item |= {"partition_epoch": epoch, "unclean": unclean}
        outcome = self("elect", partitions=[item | more])
        assert outcome.code == "OK", outcome
        return outcome.value["codes"][0]

    def change_isr(self, *members: "Caller | str", partition: int = 0, **more: Any) -> dict[str, Any]:
        """Ask for an ISR of topic `a` as its leader; the one result of the call."""
        outcome = self("alter_isr", partitions=[self.isr_item(*members, partition=partition, **more)])
        assert outcome.code == "OK", outcome
        return outcome.value["results"][0]

    def isr_item(self, *members: "Caller | str", partition: int = 0, **more: Any) -> dict[str, Any]:
        now = self.partition(number=partition)
        isr = ",".join(member if isinstance(member, str) else member.member for member in members)
        item = {"topic_id": topic_id_of("a"), "partition": partition, "isr": isr, "min_isr": 1_000}
        item |= {"leader_epoch": now.leader_epoch, "partition_epoch": now.partition_epoch, "nonce": uuid.uuid4().hex}
        return item | more

    def reassign(self, replicas: str | None, *, partition: int = 0, **more: Any) -> str:
        """Ask for other replicas of a partition of topic `a`; its code."""
        item = {"topic_id": topic_id_of("a"), "partition": partition, "replicas": replicas}
        epoch = self.partition(number=partition).partition_epoch if partition == 0 else 0
        outcome = self("alter_replicas", partitions=[item | {"partition_epoch": epoch} | more])
        assert outcome.code == "OK", outcome
        return outcome.value["codes"][0]

    def partition(self, name: str = "a", number: int = 0) -> PartitionInfo:
        return self.catch_up().image.topics[name].partitions[number]


def topic_id_of(name: str) -> str:
    """The id that `Caller.create` gives a topic."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def brokers(backend: Backend, count: int, **more: Any) -> list[Caller]:
    """Brokers 1 and up, all active; the first is the controller."""
    one = Caller(backend).join()
    one.beat()
    others = [Caller(backend, node_id).join(active=False, **more) for node_id in range(2, count + 1)]
    for other in others:
        assert other.beat().code == "OK"
        assert one.unfence(other).code == "OK"
    return [caller.catch_up() for caller in (one, *others)]


def kinds(backend: Backend) -> list[str]:
    """The kinds of the log's records."""
    return [record.kind for record in backend.records()]
