"""The same cases against the metadata store in memory and in a real Redis: both must say the same."""

import json
import shutil
import tempfile
import time
import uuid

import pytest
import redis as redis_py

from yak.cluster.image import Image
from yak.cluster.snapshot import write_snapshot
from yak.local.redis_server import EmbeddedRedis
from yak.seams.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.server import redis_scripts
from yak.server.redis_client import ReplyError
from yak.server.redis_store import key_prefix, outcome_of, record_of, script_parts
from yak.sim.store import SimStore


class MemoryBackend:
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

    def lose_last(self, count: int) -> None:
        self.store.lose_last(count)

    def flush_all(self) -> None:
        self.store.flush_all()


class RedisBackend:
    def __init__(self, client: "redis_py.Redis", namespace: str) -> None:
        self.client = client
        self.prefix = key_prefix(namespace)
        self.dumps: dict[int, dict[str, tuple[int, bytes]]] = {}

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
        self.dumps[outcome.offset] = {
            key: (max(0, self.client.pttl(key)), self.client.dump(key)) for key in self._keys()
        }
        return outcome

    def records(self) -> list[TailedRecord]:
        entries = self.client.xrange(f"{self.prefix}log")
        return [
            record_of([id_.decode(), [part.decode() for pair in fields.items() for part in pair]])
            for id_, fields in entries
        ]

    def pass_time(self, ms: int) -> None:
        left_ms = self.client.pttl(f"{self.prefix}lease")
        if left_ms > 0:
            self.client.pexpire(f"{self.prefix}lease", max(1, left_ms - ms))
            time.sleep(0.01)

    def high_watermarks(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.client.hgetall(f"{self.prefix}hw").items()}

    def lose_last(self, count: int) -> None:
        target = max(offset for offset in self.dumps if offset <= max(self.dumps) - count)
        self.flush_all()
        for key, (ttl_ms, value) in self.dumps[target].items():
            self.client.restore(key, ttl_ms, value)

    def flush_all(self) -> None:
        for key in self._keys():
            self.client.delete(key)

    def _keys(self) -> list[bytes]:
        return sorted(self.client.scan_iter(match=self.prefix.replace("{", "\\{") + "*", count=10_000))


@pytest.fixture(scope="module")
def embedded():
    # Unix socket paths are short: not below pytest's long directories.
    directory = tempfile.mkdtemp(prefix="yak-")
    with EmbeddedRedis(directory) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture(params=["memory", "redis"])
def backend(request):
    if request.param == "memory":
        yield MemoryBackend()
        return
    server = request.getfixturevalue("embedded")
    client = redis_py.Redis.from_url(server.url)
    yield RedisBackend(client, uuid.uuid4().hex)
    client.close()


class Caller:
    """One broker's calls, with the history it knows."""

    def __init__(self, backend, node_id: int = 1) -> None:
        self.backend = backend
        self.who = {"cluster_id": "", "incarnation_id": "", "node_id": node_id, "broker_epoch": 0}
        self.controller_epoch = 0
        self.image = Image()

    def __call__(self, script: str, **arguments) -> StoreOutcome:
        envelope = self.who | {"controller_epoch": self.controller_epoch}
        return self.backend.call(StoreRequest(script, envelope | arguments, self.image.offset, self.image.chain_hash))

    def catch_up(self) -> "Caller":
        fresh = [record for record in self.backend.records() if record.offset > self.image.offset]
        self.image = self.image.apply_all(fresh)[0]
        return self

    def join(self, *, active: bool = True, **more) -> "Caller":
        made = self("bootstrap", new_cluster_id="cluster-a", new_incarnation_id="incarnation-a")
        self.who |= {name: made.value[name] for name in ("cluster_id", "incarnation_id")}
        self.register(**more)
        if active:
            lease = self("acquire_lease", lease_ms=10_000)
            assert lease.code == "OK", lease
            self.controller_epoch = lease.value["controller_epoch"]
            assert self.unfence(self).code == "OK"
        return self.catch_up()

    def register(self, boot="boot-1", directory=None, lossy=False, rack=None, **more) -> StoreOutcome:
        node_id = self.who["node_id"]
        arguments = {
            "boot_id": f"{node_id}-{boot}",
            "directories": directory or f"dir-{node_id}",
            "host": "localhost",
            "port": 9092,
            "rack": rack,
            "role": "leader",
            "lossy": lossy,
        }
        outcome = self("register", **arguments, **more)
        if outcome.code == "OK":
            self.who["broker_epoch"] = outcome.value["broker_epoch"]
        return outcome

    def unfence(self, other: "Caller") -> StoreOutcome:
        return self("unfence", target_id=other.who["node_id"], target_epoch=other.who["broker_epoch"])

    def create(self, name="a", topic_id="", replicas=("1",), configs=None, **more) -> StoreOutcome:
        arguments = {
            "name": name,
            "topic_id": topic_id or str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            "total": len(replicas),
            "configs": configs or {},
            "partitions": [{"partition": n, "replicas": r} for n, r in enumerate(replicas)],
        }
        return self("create_topic", **(arguments | more))

    def elect(self, name: str, leader: int, *, unclean=False, partition=0, partition_epoch=None) -> str:
        topic = self.catch_up().image.topics[name]
        epoch = topic.partitions[partition].partition_epoch if partition_epoch is None else partition_epoch
        item = {"topic_id": str(topic.topic_id), "partition": partition, "leader": leader}
        outcome = self("elect", partitions=[item | {"partition_epoch": epoch, "unclean": unclean}])
        assert outcome.code == "OK", outcome
        return outcome.value["codes"][0]

    def partition(self, name="a", number=0):
        return self.catch_up().image.topics[name].partitions[number]


@pytest.fixture
def one(backend):
    return Caller(backend).join()


def two_brokers(backend) -> tuple[Caller, Caller]:
    one = Caller(backend).join()
    other = Caller(backend, 2).join(active=False).catch_up()
    assert other("heartbeat", persisted=other.image.offset).code == "OK"
    assert one.unfence(other).code == "OK"
    return one.catch_up(), other.catch_up()


def kinds(backend) -> list[str]:
    return [record.kind for record in backend.records()]


# ------------------------------------------------------------------------------------------------------ history


def test_nothing_works_before_there_is_a_cluster(backend):
    assert Caller(backend)("verify").code == "NO_CLUSTER"
    assert Caller(backend)("heartbeat", persisted=0).code == "NO_CLUSTER"


def test_bootstrap_makes_one_cluster_whoever_asks_again(backend):
    first = Caller(backend)("bootstrap", new_cluster_id="c1", new_incarnation_id="i1")
    second = Caller(backend)("bootstrap", new_cluster_id="c2", new_incarnation_id="i2")
    assert first.value == {"cluster_id": "c1", "incarnation_id": "i1", "incarnation": 1, "created": True}
    assert second.value == first.value | {"created": False}
    assert kinds(backend) == ["Cluster"]
    stranger = Caller(backend)
    stranger.who["cluster_id"] = "other"
    refused = stranger("bootstrap", new_cluster_id="c2", new_incarnation_id="i2")
    assert (refused.code, refused.value) == ("WRONG_CLUSTER", {"cluster_id": "c1"})


def test_the_log_is_a_chain_without_gaps(one, backend):
    one.create("a", replicas=["1"] * 3)
    records = backend.records()
    assert [record.offset for record in records] == list(range(1, len(records) + 1))
    assert [record.previous_hash for record in records[1:]] == [record.chain_hash for record in records[:-1]]
    assert records[0].previous_hash == ""
    assert len({record.chain_hash for record in records}) == len(records)


def test_another_cluster_and_another_incarnation_are_refused(one):
    one.who["incarnation_id"] = "other"
    assert one("verify").code == "WRONG_INCARNATION"
    one.who["cluster_id"] = "other"
    assert one("verify").code == "WRONG_CLUSTER"


def test_verify_says_what_the_store_knows_of_the_asker(one, backend):
    value = one("verify").value
    assert value["broker"] == {
        "broker_epoch": 2,
        "boot_id": "1-boot-1",
        "state": "ACTIVE",
        "host": "localhost",
        "port": 9092,
    }
    assert (value["controller_id"], value["controller_epoch"], value["incarnation"]) == (1, 1, 1)
    assert "broker" not in Caller(backend, 5)("verify").value


def test_a_rolled_back_store_is_regressed_and_then_forked(one, backend):
    one.create("a")
    one.catch_up()
    backend.lose_last(2)
    assert one("verify").code == "REGRESSED"
    assert one("heartbeat", persisted=1).code == "REGRESSED"
    fresh = Caller(backend)
    fresh.who |= one.who
    for name in "bcd":
        assert fresh.create(name).code == "OK"
    assert one("verify").code == "FORKED"
    assert one.create("e").code == "FORKED"


def test_a_fork_of_the_same_length_is_noticed(one, backend):
    one.create("a")
    one.catch_up()
    backend.lose_last(2)
    fresh = Caller(backend)
    fresh.who |= one.who
    assert fresh.create("b").offset == one.image.offset
    assert one("verify").code == "FORKED"


def test_an_emptied_store_has_no_cluster(one, backend):
    backend.flush_all()
    assert one("heartbeat", persisted=1).code == "NO_CLUSTER"


# ------------------------------------------------------------------------------------------------------ brokers


def test_registering_gives_the_offset_of_the_registration_as_epoch(backend):
    caller = Caller(backend).join(active=False)
    record = backend.records()[-1]
    assert record.kind == "RegisterBroker"
    assert caller.who["broker_epoch"] == record.offset == record.payload["broker_epoch"]
    assert record.payload["rack"] is None
    assert caller.image.brokers[1].state == "FENCED"


def test_registering_the_same_boot_again_is_a_repeat(one, backend):
    before = kinds(backend)
    assert one.register().value == {"broker_epoch": 2}
    assert kinds(backend) == before


def test_a_boot_with_the_same_directory_takes_over_at_once_and_the_old_one_is_stale(one, backend):
    old = Caller(backend)
    old.who |= one.who
    assert one.register("boot-2").code == "OK"
    assert old("heartbeat", persisted=0).code == "STALE_BROKER_EPOCH"
    assert one("heartbeat", persisted=0).code == "OK"


def test_a_node_id_in_use_needs_a_silent_heartbeat(one, backend):
    one("heartbeat", persisted=1)
    other = Caller(backend)
    other.who |= one.who
    refused = other.register("boot-2", "elsewhere")
    assert refused.code == "NODE_ID_IN_USE"
    assert refused.value == {"heartbeat": 1, "host": "localhost", "port": 9092, "boot_id": "1-boot-1"}
    one("heartbeat", persisted=1)
    assert other.register("boot-2", "elsewhere", observed_heartbeat=1).code == "NODE_ID_IN_USE"
    assert other.register("boot-2", "elsewhere", observed_heartbeat=2).code == "OK"


def test_a_closed_broker_frees_its_node_id_and_its_lease(one, backend):
    assert one("begin_stop", state="CLOSED").code == "OK"
    assert one("heartbeat", persisted=1).code == "STALE_BROKER_EPOCH"
    other = Caller(backend, 2).join()
    assert other.controller_epoch == 2
    again = Caller(backend)
    again.who |= one.who
    assert again.register("boot-2", "elsewhere").code == "OK"


def test_stopping_twice_is_one_record(one, backend):
    assert one("begin_stop", state="STOPPING").code == "OK"
    assert one("begin_stop", state="STOPPING").code == "OK"
    assert kinds(backend).count("BrokerChange") == 2
    assert one("begin_stop", state="ASLEEP").code == "BAD_REQUEST"


def test_a_heartbeat_tells_the_controller_everyones_counters(backend):
    one, other = two_brokers(backend)
    value = other("heartbeat", persisted=3).value
    assert (value["state"], value["controller_id"], value["controller_epoch"]) == ("ACTIVE", 1, 1)
    assert "heartbeats" not in value
    mine = one("heartbeat", persisted=3).value
    assert mine["heartbeats"] == {"1": 1, "2": 2}
    assert 0 < mine["lease_ms"] <= 10_000


def test_only_the_controllers_current_epoch_may_fence(backend):
    one, other = two_brokers(backend)
    target = {"target_id": 2, "target_epoch": other.who["broker_epoch"]}
    refused = other("fence", **target)
    assert (refused.code, refused.value) == ("FENCED_CONTROLLER", {"controller_id": 1})
    assert one("fence", **(target | {"target_epoch": 1})).code == "STALE_EPOCH"
    assert one("fence", **target).code == "OK"
    assert one("fence", **target).code == "OK"
    assert one.catch_up().image.brokers[2].state == "FENCED"
    assert kinds(backend).count("BrokerChange") == 3


def test_a_broker_that_does_not_have_its_registration_on_disk_is_not_let_in(backend):
    one = Caller(backend).join()
    other = Caller(backend, 2).join(active=False)
    assert one.unfence(other).code == "NOT_CAUGHT_UP"


def test_the_lease_is_held_against_others_until_it_runs_out(backend):
    one, other = two_brokers(backend)
    held = other("acquire_lease", lease_ms=10_000)
    assert held.code == "LEASE_HELD"
    assert held.value["controller_id"] == 1
    assert 0 < held.value["ttl_ms"] <= 10_000
    assert one("acquire_lease", lease_ms=10_000).value == {"controller_epoch": 1}
    assert one("renew_lease", lease_ms=5_000).code == "OK"
    backend.pass_time(20_000)
    assert one("renew_lease", lease_ms=10_000).code == "OK"
    backend.pass_time(20_000)
    assert other("acquire_lease", lease_ms=10_000).value == {"controller_epoch": 2}
    assert one("renew_lease", lease_ms=10_000).code == "FENCED_CONTROLLER"


def test_a_new_boot_takes_the_lease_of_its_dead_one_at_once(one):
    one.register("boot-2")
    assert one("acquire_lease", lease_ms=10_000).value == {"controller_epoch": 2}


def test_unregistering_needs_a_broker_that_is_not_alive(backend):
    one, other = two_brokers(backend)
    assert one("unregister", target_id=2).code == "BROKER_ACTIVE"
    assert one("unregister", target_id=9).code == "NO_BROKER"
    assert other("begin_stop", state="CLOSED").code == "OK"
    assert one("unregister", target_id=2).code == "OK"
    assert 2 not in one.catch_up().image.brokers


# ------------------------------------------------------------------------------------------------------- topics


def test_a_created_topic_has_its_leader_and_isr(one):
    assert one.create("a", replicas=["1", "1"], configs={"retention.ms": "1000"}).value == {"created": True}
    topic = one.catch_up().image.topics["a"]
    assert topic.configs == {"retention.ms": "1000"}
    assert [p.leader for p in topic.partitions] == [1, 1]
    assert topic.partitions[0].isr_epochs == (one.who["broker_epoch"],)
    assert (topic.partitions[0].leader_epoch, topic.partitions[0].partition_epoch) == (0, 0)


def test_creating_with_the_same_id_is_a_repeat_and_with_another_is_refused(one, backend):
    one.create("a")
    before = kinds(backend)
    assert one.create("a").value == {"created": False}
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "TOPIC_EXISTS"
    assert kinds(backend) == before


def test_replicas_must_be_registered_and_one_of_them_active(backend):
    one = Caller(backend).join()
    Caller(backend, 2).join(active=False)
    assert one.create("a", replicas=["7"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["2"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["2,1"]).code == "OK"
    partition = one.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


def test_slices_have_bounds(one):
    assert one.create("a", replicas=["1"] * 201).code == "BAD_REQUEST"
    assert one.create("a", partitions=[]).code == "BAD_REQUEST"
    assert one.create("a", partitions=[{"partition": 3, "replicas": "1"}]).code == "BAD_REQUEST"


def test_a_topic_of_several_slices_is_seen_when_all_are_in(one):
    topic_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, "a"))
    items = [{"partition": n, "replicas": "1"} for n in range(450)]
    assert one.create("a", total=450, partitions=items[:200]).code == "OK"
    assert "a" not in one.catch_up().image.topics
    for start in (200, 400):
        part = items[start : start + 200]
        assert one("create_partitions", topic_id=topic_id, total=450, partitions=part).code == "OK"
    assert len(one.catch_up().image.topics["a"].partitions) == 450


def test_a_half_made_topic_of_a_dead_creator_makes_way(one, backend):
    one.create("a", total=2)
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "TOPIC_EXISTS"
    one.register("boot-2")
    lease = one("acquire_lease", lease_ms=10_000)
    one.controller_epoch = lease.value["controller_epoch"]
    one.unfence(one)
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "OK"
    assert one.catch_up().image.topics["a"].topic_id == uuid.UUID(int=5)
    assert kinds(backend)[-3:] == ["RemoveTopic", "Topic", "Partition"]


def test_growing_a_topic_adds_partitions_once(one, backend):
    one.create("a")
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    more = {"topic_id": topic_id, "total": 3, "partitions": [{"partition": n, "replicas": "1"} for n in (1, 2)]}
    assert one("create_partitions", **more).code == "OK"
    before = kinds(backend)
    assert one("create_partitions", **more).code == "OK"
    assert kinds(backend) == before
    assert len(one.catch_up().image.topics["a"].partitions) == 3
    assert one("create_partitions", **(more | {"total": 2})).code == "INVALID_PARTITIONS"
    assert one("create_partitions", **(more | {"topic_id": "none"})).code == "NO_TOPIC"


def test_a_deleted_topic_is_gone_and_its_name_is_free(one):
    one.create("a", configs={"retention.ms": "1"})
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    assert one("delete_topic", topic_id=topic_id).value == {"removed": True}
    assert one("delete_topic", topic_id=topic_id).value == {"removed": False}
    assert one.catch_up().image.topics == {}
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {}


# ------------------------------------------------------------------------------------------------------ configs


def alter(caller, kind, name, changes, replace=False):
    return caller("alter_configs", resource_type=kind, resource_name=name, changes=changes, replace=replace)


def test_configs_are_set_removed_and_replaced(one, backend):
    one.create("a", configs={"x": "1", "y": "2"})
    assert alter(one, "topic", "a", [["x", "3"], ["y", None], ["z", "4"]]).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {"x": "3", "z": "4"}
    before = kinds(backend)
    assert alter(one, "topic", "a", [["x", "3"]]).code == "OK"
    assert kinds(backend) == before
    assert alter(one, "topic", "a", [["q", "5"]], replace=True).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {"q": "5"}
    assert alter(one, "topic", "a", [], replace=True).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {}
    assert alter(one, "topic", "none", [["x", "1"]]).code == "NO_TOPIC"


def test_broker_configs_are_for_one_or_for_all(one):
    assert alter(one, "broker", "1", [["x", "1"]]).code == "OK"
    assert alter(one, "broker", "", [["x", "2"]]).code == "OK"
    image = one.catch_up().image
    assert image.broker_configs == {1: {"x": "1"}}
    assert image.default_broker_configs == {"x": "2"}


def test_a_new_minimum_isr_raises_every_partition_epoch(one):
    one.create("a", replicas=["1"] * 3)
    assert alter(one, "topic", "a", [["min.insync.replicas", "2"]]).code == "OK"
    assert [p.partition_epoch for p in one.catch_up().image.topics["a"].partitions] == [1, 1, 1]


# --------------------------------------------------------------------------------------------------- partitions


def test_a_restarted_sole_replica_is_elected_in_the_next_epochs(one):
    one.create("a")
    one.register("boot-2")
    one.controller_epoch = one("acquire_lease", lease_ms=10_000).value["controller_epoch"]
    assert one.elect("a", 1) == "INELIGIBLE_REPLICA"
    one.unfence(one)
    assert one.elect("a", 1, partition_epoch=7) == "INVALID_UPDATE_VERSION"
    assert one.elect("a", 1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 1)
    assert partition.isr_epochs == (one.who["broker_epoch"],)


def test_a_lossy_sole_replica_leads_only_as_unclean(one, backend):
    one.create("a")
    one.register("boot-2", lossy=True)
    one.controller_epoch = one("acquire_lease", lease_ms=10_000).value["controller_epoch"]
    one.unfence(one)
    assert one.elect("a", 1) == "INELIGIBLE_REPLICA"
    assert one.elect("a", 1, unclean=True) == "OK"
    assert backend.records()[-1].payload["changes"][0]["unclean"] is True


def test_a_leader_that_is_fenced_gives_way_to_an_isr_member(backend):
    one, other = two_brokers(backend)
    one.create("a", replicas=["2,1"])
    assert one.elect("a", -1) == "INELIGIBLE_REPLICA"
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect("a", 2) == "INELIGIBLE_REPLICA"
    assert one.elect("a", 1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())


def test_a_partition_whose_only_member_is_fenced_has_no_leader_but_keeps_its_isr(backend):
    one, other = two_brokers(backend)
    one.create("a", replicas=["2"])
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect("a", -1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.isr, partition.leader_epoch) == (-1, (2,), 1)


def test_an_isr_below_the_minimum_remembers_eligible_leaders(backend):
    one, other = two_brokers(backend)
    one.create("a", replicas=["1,2"], configs={"min.insync.replicas": "2"})
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    mine = f"1@{one.who['broker_epoch']}"
    shrink = {"topic_id": topic_id, "partition": 0, "leader_epoch": 0, "partition_epoch": 0, "isr": mine, "nonce": "n1"}
    assert one("alter_isr", **shrink).value["elr"] == f"2@{other.who['broker_epoch']}"
    one.unfence(other)
    both = f"{mine},2@{other.who['broker_epoch']}"
    grown = one("alter_isr", **(shrink | {"isr": both, "partition_epoch": 1, "nonce": "n2"}))
    assert (grown.value["isr"], grown.value["elr"]) == (both, "")


def test_alter_isr_is_a_compare_and_set_that_knows_its_own_repeat(backend):
    one, other = two_brokers(backend)
    one.create("a", replicas=["1,2"])
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    mine, theirs = f"1@{one.who['broker_epoch']}", f"2@{other.who['broker_epoch']}"
    call = {"topic_id": topic_id, "partition": 0, "leader_epoch": 0, "partition_epoch": 0, "isr": mine, "nonce": "n1"}
    first = one("alter_isr", **call)
    again = one("alter_isr", **call)
    assert first == again
    assert first.value["partition_epoch"] == 1
    assert one("alter_isr", **(call | {"nonce": "n2"})).code == "INVALID_UPDATE_VERSION"
    assert one("alter_isr", **(call | {"leader_epoch": 1})).code == "FENCED_LEADER_EPOCH"
    assert other("alter_isr", **call).code == "FENCED_LEADER_EPOCH"
    assert one("alter_isr", **(call | {"partition": 9})).code == "NO_TOPIC"
    now = call | {"partition_epoch": 1, "nonce": "n3"}
    assert one("alter_isr", **(now | {"isr": theirs})).code == "INELIGIBLE_REPLICA"
    assert one("alter_isr", **(now | {"isr": f"{mine},2@1"})).code == "INELIGIBLE_REPLICA"
    assert one("alter_isr", **(now | {"isr": f"{mine},{theirs}"})).code == "OK"


def test_a_barrier_makes_an_older_change_fail(one):
    one.create("a")
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    where = {"topic_id": topic_id, "partition": 0, "leader_epoch": 0, "partition_epoch": 0}
    assert one("barrier", **where, nonce="b").value["partition_epoch"] == 1
    assert one("barrier", **where, nonce="b").value["partition_epoch"] == 1
    late = one("alter_isr", **where, isr=f"1@{one.who['broker_epoch']}", nonce="n")
    assert late.code == "INVALID_UPDATE_VERSION"


def test_high_watermarks_never_go_back(one, backend):
    one.create("a")
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    for report in ([0, 10], [0, 5], [1, 12], [0, 20]):
        assert one("report_hw", partitions=[[topic_id, 0, *report], ["none", 0, 1, 1]]).code == "OK"
    assert backend.high_watermarks() == {f"{topic_id}:0": "1:12"}
    one("delete_topic", topic_id=topic_id)
    assert backend.high_watermarks() == {}


def test_producer_id_blocks_follow_each_other(one, backend):
    assert one("alloc_pid").value == {"first": 0, "next": 1000}
    assert one("alloc_pid").value == {"first": 1000, "next": 2000}
    assert one.catch_up().image.next_producer_id == 2000


def test_trimming_keeps_a_snapshot_and_what_others_still_need(one, backend):
    for name in "abcdef":
        one.create(name)
    one.catch_up()
    one("heartbeat", persisted=one.image.offset)
    snapshot = {
        "snapshot": json.dumps(write_snapshot(one.image).payload),
        "snapshot_offset": one.image.offset,
        "snapshot_hash": one.image.chain_hash,
    }
    assert one("trim", **(snapshot | {"snapshot_hash": "x"}), keep=2).code == "BAD_REQUEST"
    assert one("trim", **snapshot, keep=2).value == {"trimmed": one.image.offset - 3}
    late = Caller(backend)
    late.who |= one.who
    late.image = Image(offset=1, chain_hash="whatever")
    assert late("verify").code == "TRIMMED"
    assert one("verify").code == "OK"


def test_a_stale_broker_can_do_nothing(one, backend):
    one.create("a")
    topic_id = str(one.catch_up().image.topics["a"].topic_id)
    one.who["broker_epoch"] = 1
    assert one.create("b").code == "STALE_BROKER_EPOCH"
    assert one("delete_topic", topic_id=topic_id).code == "STALE_BROKER_EPOCH"
    assert one("alloc_pid").code == "STALE_BROKER_EPOCH"
    assert one("acquire_lease", lease_ms=1).code == "STALE_BROKER_EPOCH"
    assert alter(one, "broker", "", [["x", "2"]]).code == "STALE_BROKER_EPOCH"


def test_both_stores_come_to_the_same_image(embedded):
    """One run of calls on each; the images must be equal in all but hashes and times."""
    images = []
    client = redis_py.Redis.from_url(embedded.url)
    for backend in (MemoryBackend(), RedisBackend(client, uuid.uuid4().hex)):
        one, other = two_brokers(backend)
        one.create("a", replicas=["1,2", "2,1", "2"], configs={"min.insync.replicas": "2", "x": "ü"})
        one.create("b")
        one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
        one.elect("a", 1, partition=1)
        one.elect("a", -1, partition=2)
        alter(one, "topic", "a", [["min.insync.replicas", "1"]])
        alter(one, "broker", "", [["y", "1"]])
        one("alloc_pid")
        one.register("boot-2", rack="r1")
        images.append(one.catch_up().image)
    client.close()
    assert images[0].offset == images[1].offset
    assert images[0].without_position() == images[1].without_position()
