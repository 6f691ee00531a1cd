import json
import random
import uuid
from typing import Any

import pytest
import redis as redis_py
from support.stores import Backend, Caller, MemoryBackend, RedisBackend, brokers, topic_id_of

from yak.ports.metadata_store import StoreOutcome, StoreRequest

TOPICS = ("a", "b", "c")


def random_step(rng: random.Random, callers: list[Caller]) -> tuple[int, str, dict]:
    """Somebody calls something: mostly who may, with what is true."""
    step = rng.choices(list(STEPS), list(STEPS.values()))[0]
    image = callers[0].image
    at = rng.randrange(len(callers))
    if step in OFFICES and rng.random() < 0.9 and image.controller_id > 0:
        at = image.controller_id - 1
    script, arguments = step(rng, callers[at], rng.choice(callers))
    if step in LEADERS and rng.random() < 0.9:
        names = [n for n in TOPICS if n in image.topics and image.topics[n].partitions[0].leader > 0]
        if names:
            at = image.topics[rng.choice(names)].partitions[0].leader - 1
            script, arguments = step(rng, callers[at], rng.choice(callers))
    return at, script, arguments


def maybe(rng: random.Random, number: int) -> int:
    return number if rng.random() < 0.95 else number + rng.choice((-1, 1))


def some_nodes(rng: random.Random) -> str:
    return ",".join(str(node) for node in rng.sample(range(1, 5 if rng.random() < 0.95 else 6), rng.randint(1, 4)))


def epoch_of(rng, caller, name):
    topic = caller.image.topics.get(name)
    partition = topic.partitions[0] if topic else None
    return (maybe(rng, partition.partition_epoch), maybe(rng, partition.leader_epoch)) if partition else (0, 0)


def heartbeat(rng, caller, other):
    return "heartbeat", {"persisted": maybe(rng, caller.image.offset), "is_full": rng.random() < 0.3}


def register(rng, caller, other):
    node = caller.who["node_id"]
    boot = {"boot_id": f"{node}-{rng.randint(0, 30)}", "directories": f"dir-{node}", "host": "h", "port": 1}
    boot |= {"rack": rng.choice((None, "r")), "role": rng.choice(("leader", "follower"))}
    boot |= {"last_epoch": maybe(rng, caller.who["broker_epoch"]), "renew": rng.random() < 0.5}
    boot |= {"lossy": rng.random() < 0.1}
    if rng.random() < 0.2:
        boot["directories"] += f",other-{rng.randint(0, 1)}"
    return "register", boot


def acquire(rng, caller, other):
    renewals = rng.choice((None, 0, 1, 2, 3))
    claims = {"claimed_epoch": maybe(rng, caller.image.controller_epoch), "claimed_renewals": renewals}
    return "acquire_lease", claims | {"fast": rng.random() < 0.2}


def fence(rng, caller, other):
    return "fence", other.target | {"fast": rng.random() < 0.5}


def unfence(rng, caller, other):
    fenced = [b for b in caller.image.brokers.values() if b.state == "FENCED"]
    if fenced and rng.random() < 0.9:
        broker = rng.choice(fenced)
        return "unfence", {"target_id": broker.node_id, "target_epoch": broker.broker_epoch}
    return "unfence", other.target


def stop(rng, caller, other):
    return "begin_stop", {"state": rng.choices(("STOPPING", "CLOSED"), (4, 1))[0]}


def unregister(rng, caller, other):
    return "unregister", {"target_id": rng.randint(1, 5)}


def create(rng, caller, other):
    name, count = rng.choice(TOPICS), rng.randint(1, 3)
    items = [{"partition": n, "replicas": some_nodes(rng)} for n in range(count)]
    topic_id = topic_id_of(name) if rng.random() < 0.95 else str(uuid.UUID(int=rng.getrandbits(128)))
    configs = rng.choice(({}, {"min.insync.replicas": "2"}))
    return "create_topic", {
        "name": name,
        "topic_id": topic_id,
        "total": count + (rng.random() < 0.1),
        "configs": configs,
        "partitions": items,
    }


def grow(rng, caller, other):
    items = [{"partition": n, "replicas": some_nodes(rng)} for n in rng.sample(range(5), 2)]
    return "create_partitions", {
        "topic_id": topic_id_of(rng.choice(TOPICS)),
        "total": rng.randint(1, 5),
        "partitions": items,
    }


def undo(rng, caller, other):
    return "undo_half_made", {"topic_id": topic_id_of(rng.choice(TOPICS))}


def delete(rng, caller, other):
    return "delete_topic", {"topic_id": topic_id_of(rng.choice(TOPICS))}


def configs(rng, caller, other):
    kind, name = rng.choice((("broker", ""), ("broker", "1"), ("topic", rng.choice(TOPICS))))
    changes = [["min.insync.replicas", rng.choice((None, "1", "2", "3"))]]
    return "alter_configs", {"resource_type": kind, "resource_name": name, "changes": changes, "replace": False}


def elect(rng, caller, other):
    items = []
    for name in rng.choices(TOPICS, k=rng.randint(1, 3)):
        topic = caller.image.topics.get(name)
        leader = rng.choice(topic.partitions[0].replicas if topic and rng.random() < 0.8 else (-1, 1, 2, 3, 4))
        item = {"topic_id": topic_id_of(name), "partition": 0, "leader": leader}
        items.append(item | {"partition_epoch": epoch_of(rng, caller, name)[0], "unclean": rng.random() < 0.3})
    return "elect", {"partitions": items}


def isr(rng, caller, other):
    items = []
    led = [
        n
        for n in TOPICS
        if n in caller.image.topics and caller.image.topics[n].partitions[0].leader == caller.who["node_id"]
    ]
    for name in rng.choices(led if led and rng.random() < 0.9 else TOPICS, k=rng.randint(1, 2)):
        topic = caller.image.topics.get(name)
        chosen: dict[int, int] = {}
        if topic is not None:
            p = topic.partitions[0]
            chosen = {n: e for n, e in zip(p.isr, p.isr_epochs, strict=True) if rng.random() < 0.8}
            chosen |= {
                n: caller.image.brokers[n].broker_epoch
                for n in p.replicas
                if n in caller.image.brokers and rng.random() < 0.5
            }
        if rng.random() < 0.9:
            chosen[caller.who["node_id"]] = caller.who["broker_epoch"]
        proposal = ",".join(f"{n}@{maybe(rng, e)}" for n, e in chosen.items())
        pe, le = epoch_of(rng, caller, name)
        item = {"topic_id": topic_id_of(name), "partition": 0, "isr": proposal, "min_isr": rng.randint(1, 3)}
        items.append(item | {"partition_epoch": pe, "leader_epoch": le, "nonce": f"n{rng.randint(0, 30)}"})
    return "alter_isr", {"partitions": items}


def reassign(rng, caller, other):
    items = []
    for name in rng.choices(TOPICS, k=rng.randint(1, 2)):
        replicas = rng.choice((None, some_nodes(rng), some_nodes(rng), "1,1"))
        pe = epoch_of(rng, caller, name)[0]
        items.append({"topic_id": topic_id_of(name), "partition": 0, "partition_epoch": pe, "replicas": replicas})
    return "alter_replicas", {"partitions": items}


def barrier(rng, caller, other):
    name = rng.choice(TOPICS)
    pe, le = epoch_of(rng, caller, name)
    where = {"topic_id": topic_id_of(name), "partition": 0, "nonce": f"n{rng.randint(0, 3)}"}
    return "barrier", where | {"partition_epoch": pe, "leader_epoch": le}


def report(rng, caller, other):
    where = [topic_id_of(rng.choice(TOPICS)), 0, rng.randint(0, 3), rng.randint(0, 9)]
    return "report_hw", {"partitions": [[*where, {str(n): rng.randint(0, 9) for n in range(rng.randint(0, 3))}]]}


STEPS = {
    heartbeat: 8,
    unfence: 14,
    acquire: 4,
    register: 4,
    fence: 3,
    stop: 2,
    unregister: 1,
    create: 6,
    grow: 1,
    undo: 1,
    delete: 1,
    configs: 2,
    elect: 8,
    isr: 12,
    reassign: 5,
    barrier: 1,
    report: 2,
}
OFFICES = (unfence, fence, elect, undo)
LEADERS = (isr, barrier)


def check_partitions(callers: list[Caller]) -> None:
    """What must hold of any partition whatever was called."""
    image = callers[0].image
    for topic in image.topics.values():
        for p in topic.partitions:
            assert p.leader == -1 or p.leader in p.isr, p
            assert set(p.isr) <= set(p.replicas), p
            assert p.isr, p
            assert set(p.elr) <= set(p.replicas) - set(p.isr), p
            assert len(set(p.replicas)) == len(p.replicas), p
            assert set(p.adding_replicas + p.removing_replicas) <= set(p.replicas), p
            assert not set(p.adding_replicas) & set(p.removing_replicas), p


def check_epochs(before, after) -> None:
    for topic in before.topics.values():
        now = after.topic_by_id(topic.topic_id)
        for old, new in zip(topic.partitions, now.partitions if now else (), strict=False):
            assert new.partition_epoch >= old.partition_epoch
            assert new.leader_epoch >= old.leader_epoch
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
            if new.partition_epoch > old.partition_epoch:
                arrived = set(zip(new.isr, new.isr_epochs, strict=True)) - set(
                    zip(old.isr, old.isr_epochs, strict=True)
                )
                for node_id, epoch in arrived:
                    broker = after.brokers[node_id]
                    assert (broker.state.value, broker.broker_epoch) == ("ACTIVE", epoch)


def walk(rng: random.Random, worlds: list[list[Caller]], steps: int) -> dict[str, int]:
    """Call the same in both worlds, and compare them after each call; returns how often each code was answered."""
    sent: list[tuple[int, list[StoreRequest]]] = []
    codes: dict[str, int] = {}
    for number in range(steps):
        if sent and rng.random() < 0.1:
            # A call that was answered arrives once more, from a connection that was given up.
            at, requests = rng.choice(sent[-20:])
            late = True
        else:
            at, script, arguments = random_step(rng, worlds[0])
            requests = [callers[at].request(script, **arguments) for callers in worlds]
            late = False
            sent.append((at, requests))
        outcomes = []
        for callers, request in zip(worlds, requests, strict=True):
            before = callers[0].image
            outcome = callers[0].backend.call(request)
            outcomes.append((outcome.code, outcome.offset, outcome.value))
            if not late:
                take_answer(callers[at], request.script, outcome)
            for each in callers:
                each.catch_up()
            check_epochs(before, callers[0].image)
        assert outcomes[0] == outcomes[1], (number, requests[0])
        check_partitions(worlds[0])
        codes[outcomes[0][0]] = codes.get(outcomes[0][0], 0) + 1
        assert worlds[0][0].image.without_position() == worlds[1][0].image.without_position(), (number, requests[0])
    assert worlds[0][0].backend.high_watermarks() == worlds[1][0].backend.high_watermarks()
    assert worlds[0][0].backend.log_end_offsets() == worlds[1][0].backend.log_end_offsets()
    return codes


@pytest.mark.parametrize("seed", range(12))
def test_both_stores_answer_alike_whatever_is_called(embedded, seed):
    client = redis_py.Redis.from_url(embedded.url)
    worlds = [brokers(backend, 4) for backend in (MemoryBackend(), RedisBackend(client, keep_dumps=False))]
    codes = walk(random.Random(seed), worlds, 300)
    client.close()
    assert codes["OK"] > 100


@pytest.mark.parametrize("seed", range(100, 104))
def test_stores_that_took_over_each_other_s_content_answer_alike(embedded, seed):
    rng = random.Random(seed)
    client = redis_py.Redis.from_url(embedded.url)
    backends = [MemoryBackend(), RedisBackend(client, keep_dumps=False)]
    worlds = [brokers(backend, 4) for backend in backends]
    walk(rng, worlds, 120)
    contents = [export(backend, 1) for backend in backends]
    others = [RedisBackend(client, keep_dumps=False), MemoryBackend()]
    for callers, content, other in zip(worlds, contents, others, strict=True):
        assert other.call(migration("import_metadata", 1, content=content, state="LIVE")).code == "OK"
        for caller in callers:
            caller.backend = other
        assert export(other, 2) == {**content, "hashes": moved_hashes(content["hashes"], 2)}
        assert other.call(migration("cancel_export", 2)).code == "OK"
    walk(rng, worlds, 120)
    client.close()


def migration(script: str, migration_id: int, **more: Any) -> StoreRequest:
    return StoreRequest(script, {"node_id": 1, "cluster_id": "cluster-a", "migration_id": migration_id, **more})


def export(backend: Backend, migration_id: int) -> dict[str, Any]:
    """The content of a store, in one order and with one way to write JSON."""
    outcome = backend.call(migration("export_metadata", migration_id))
    assert outcome.code == "OK"
    content: Any = outcome.value["content"]
    hashes = [
        [name, {field: as_written(text) if name == "configs" else text for field, text in sorted(fields.items())}]
        for name, fields in content["hashes"]
    ]
    return {
        "hashes": sorted(hashes),
        "sets": sorted(content["sets"] or []),
        "secret": content["secret"],
        "log": [
            [int(offset), kind, as_written(payload), *hashes, int(time_ms)]
            for offset, kind, payload, *hashes, time_ms in content["log"]
        ],
    }


def as_written(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def moved_hashes(hashes: list[Any], migration_id: int) -> list[Any]:
    """The hashes after a move: the other store has another clock."""
    changed = {"cluster": {"migration_id": str(migration_id)}}
    clock = {"fast_fenced_ms": "0"}
    return [
        [name, {**fields, **(clock if name.startswith("b:") else changed.get(name, {}))}] for name, fields in hashes
    ]


def take_answer(caller: Caller, script: str, outcome: StoreOutcome) -> None:
    if outcome.code == "OK" and script == "register":
        caller.who["broker_epoch"] = outcome.value["broker_epoch"]
    if outcome.code == "OK" and script == "acquire_lease":
        caller.controller_epoch = outcome.value["controller_epoch"]
