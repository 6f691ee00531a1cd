"""Random calls of the metadata store's scripts by four brokers: mostly by the right one, with true arguments."""

import random
import uuid

from support.stores import Caller, topic_id_of

from yak.ports.metadata_store import StoreOutcome

TOPICS = ("a", "b.c", "b_c")


def random_step(rng: random.Random, callers: list[Caller]) -> tuple[int, str, dict]:
    """A broker calls a script: mostly one that may, with what is true."""
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
    boot |= {"lossy": rng.random() < 0.1, "persisted": maybe(rng, caller.image.offset)}
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
    return "unregister", {"target_id": rng.randint(1, 5)} if rng.random() < 0.5 else other.target


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
        "refuses_collision": rng.random() < 0.9,
    }


def grow(rng, caller, other):
    items = [{"partition": n, "replicas": some_nodes(rng)} for n in rng.sample(range(5), 2)]
    return "create_partitions", {
        "topic_id": topic_id_of(rng.choice(TOPICS)),
        "total": rng.randint(1, 5),
        "partitions": items,
        "growth_id": rng.choice(("", "g1", "g2")),
    }


def undo(rng, caller, other):
    return "undo_half_made", {"topic_id": topic_id_of(rng.choice(TOPICS)), "is_overdue": rng.random() < 0.2}


def delete(rng, caller, other):
    return "delete_topic", {"topic_id": topic_id_of(rng.choice(TOPICS))}


def configs(rng, caller, other):
    kind, name = rng.choice((("broker", ""), ("broker", "1"), ("topic", rng.choice(TOPICS))))
    expected = ([], [], [None], ["1"], ["2"])
    changes = [["min.insync.replicas", rng.choice((None, "1", "2", "3")), *rng.choice(expected)]]
    change = {"resource_type": kind, "resource_name": name, "changes": changes, "replace": False}
    return "alter_configs", change | version(rng)


def elect(rng, caller, other):
    items = []
    for name in rng.choices(TOPICS, k=rng.randint(1, 3)):
        topic = caller.image.topics.get(name)
        leader = rng.choice(topic.partitions[0].replicas if topic and rng.random() < 0.8 else (-1, 1, 2, 3, 4))
        item = {"topic_id": topic_id_of(name), "partition": 0, "leader": leader}
        item |= {"partition_epoch": epoch_of(rng, caller, name)[0], "unclean": rng.random() < 0.3}
        items.append(item | rng.choice(({}, {"unclean_config": None}, {"unclean_config": ""})))
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
            chosen = {n: e for n, e in p.isr_members if rng.random() < 0.8}
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
        item = {"topic_id": topic_id_of(name), "partition": 0, "partition_epoch": pe, "replicas": replicas}
        items.append(item | version(rng))
    return "alter_replicas", {"partitions": items}


def leave(rng, caller, other):
    items = []
    for name in rng.choices(TOPICS, k=rng.randint(1, 2)):
        item = {"topic_id": topic_id_of(name), "partition": 0, "lost": False}
        items.append(item | {"yields_to": rng.choice(("", other.member))} | version(rng))
    return "leave_isr", {"partitions": items}


def version(rng):
    """What calls of an earlier version lack."""
    return {"keeps_elr_without_leader": True} if rng.random() < 0.7 else {}


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
    leave: 2,
    report: 2,
}
OFFICES = (unfence, fence, elect, undo)
LEADERS = (isr,)


def take_answer(caller: Caller, script: str, outcome: StoreOutcome) -> None:
    if outcome.code == "OK" and script == "register":
        caller.who["broker_epoch"] = outcome.value["broker_epoch"]
    if outcome.code == "OK" and script == "acquire_lease":
        caller.controller_epoch = outcome.value["controller_epoch"]
