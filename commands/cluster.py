"""`yak cluster`: what the metadata store says; move it, and restore it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from yak.commands.app import CONNECTION, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.parameters import option
from yak.errors import UsageError, YakError
from yak.view.broker_state import SeenState
from yak.view.formats import counted, numbered

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.store_moves import BrokerStores
    from yak.cluster.restore import RestorePlan
    from yak.local.metadata_restore import RestoreState

cluster = CommandGroup(
    "cluster",
    examples=("yak cluster", "yak cluster -o json", "yak cluster migrate --to raft"),
    default="show",
)

LISTED_MAX = 20
"""How many partitions are printed; JSON has all."""


@cluster.command(
    "restore",
    examples=("yak cluster restore --dry-run", "yak cluster restore", "yak cluster restore --accept-loss"),
)
def restore(
    g: Globals,
    accept_loss: bool = flag(
        "--accept-loss", "Restore although brokers may have acted on newer metadata.", WHAT, default=False
    ),
    abort: bool = flag("--abort", "Forget the offers; the store continues with its own content.", WHAT, default=False),
    dry_run: bool = flag("--dry-run", "Show the plan, change nothing.", WHAT, default=False),
    redis_url: str | None = flag("--redis-url", "The metadata store.", CONNECTION, metavar="URL"),
    data_dir: str | None = flag("--data-dir", "Use the store of this yak up directory.", CONNECTION, metavar="DIR"),
) -> None:
    """Restore a metadata store that lost its data, from the newest of the brokers' copies.

    Each broker that detects the loss offers its copy. The newest copy is complete if all registered brokers have
    offered and each other copy is the beginning of it. Otherwise the command refuses, and names the brokers:
    --accept-loss restores without what they may know.
    """
    from yak.commands.local_cluster import find_local, known_redis
    from yak.local.metadata_restore import RestoreStore

    url = known_redis(g, redis_url, find_local(g, data_dir)) or str(g.settings.value("redis_url"))
    with RestoreStore(url, timeout_s=min(5.0, g.timeout_s)) as store:
        found = store.find()
        if found.state != "SEEDING" or not found.offers:
            _nothing_to_do(g, store.name, found)
            return
        if abort and dry_run:
            g.out.note(f"The offers of {numbered('broker', sorted(found.offers))} would be forgotten.")
            return
        if abort:
            g.must_not_be_readonly("giving up a restore")
            g.confirm(f"Let cluster {found.cluster_id} continue with the store as it is?")
            store.abort(found)
            g.out.note("The offers are forgotten. Brokers that still miss their history offer again.")
            return
        plan = found.plan()
        document = describe(found, plan)
        if dry_run or (g.out.for_people and not g.out.quiet):
            _print_restored(g, document)
        if dry_run:
            return
        if not accept_loss:
            _refuse_unsafe(plan)
        g.must_not_be_readonly("restoring the metadata store")
        g.confirm(_question(found, plan))
        store.commit(found, plan)
        if not g.out.for_people:
            g.out.object(document | {"committed": True})
        g.out.note(f"Restored as incarnation {plan.image.incarnation}. The brokers take it over within 3 s.")


def describe(found: "RestoreState", plan: "RestorePlan") -> dict[str, Any]:
    """The restore plan as a document."""
    return {
        "cluster_id": found.cluster_id,
        "incarnation": plan.image.incarnation,
        "answered": [
            {"id": node_id, "metadata_offset": position[0]} for node_id, position in sorted(plan.took_part.items())
        ],
        "newest": plan.newest.node_id,
        "unknown": [{"id": node_id, "reason": reason} for node_id, reason in plan.unknown.items()],
        "topics": len(plan.image.topics),
        "partitions": sum(len(topic.partitions) for topic in plan.image.topics.values()),
        "at_risk": [{"topic": topic, "partition": partition} for topic, partition in plan.at_risk],
        "safe": plan.is_safe,
        "committed": False,
    }


def _nothing_to_do(g: Globals, name: str, found: "RestoreState") -> None:
    """Say why nothing is to be restored. Raises YakError (`no-offers`) where something may be."""
    if found.state == "LIVE":
        g.out.note(f"The metadata store at {name} holds cluster {found.cluster_id}; there is nothing to restore.")
    elif found.state not in ("EMPTY", "SEEDING"):
        g.out.note(
            f"The metadata store at {name} is {found.state}: yak cluster migrate moves, or moved, its metadata; "
            "there is nothing to restore."
        )
    else:
        raise YakError(
            "no-offers",
            f"no broker has offered its metadata to the metadata store at {name}",
            why="it is empty, and no broker of a cluster is connected to it"
            if found.state == "EMPTY"
            else "brokers offer within 3 s of detecting the loss; those that run may use another store",
            try_=("yak cluster", "start the brokers with this --redis-url"),
        )


def _refuse_unsafe(plan: "RestorePlan") -> None:
    if not plan.is_safe:
        raise YakError(
            "restore-unsafe",
            "brokers may have acted on newer metadata than any offer has; nothing was written",
            why="; ".join(f"broker {node_id}: {reason}" for node_id, reason in plan.unknown.items()),
            try_=(
                "start the brokers that did not answer, and run the command again",
                "yak cluster restore --accept-loss   acknowledged records may be lost",
            ),
        )


def _question(found: "RestoreState", plan: "RestorePlan") -> str:
    question = f"Restore cluster {found.cluster_id} from the metadata of broker {plan.newest.node_id}"
    if not plan.is_safe:
        question += f", accepting that acknowledged records of {len(plan.at_risk)} partitions may be lost"
    return question + "?"


def _print_restored(g: Globals, document: dict[str, Any]) -> None:
    out = g.out
    if not out.for_people:
        out.object(document)
        return
    out.line(f"cluster      {document['cluster_id']}, to become incarnation {document['incarnation']}")
    out.line(f"holds        {counted(document['topics'], 'topic')}, {counted(document['partitions'], 'partition')}")
    for each in document["answered"]:
        newest = ", the newest" if each["id"] == document["newest"] else ""
        out.line(f"answered     broker {each['id']}: metadata up to record {each['metadata_offset']}{newest}")
    for each in document["unknown"]:
        out.line(f"unknown      broker {each['id']}: {each['reason']}")
    for each in document["at_risk"][:LISTED_MAX]:
        out.line(f"may lose     {each['topic']}-{each['partition']}")
    if len(document["at_risk"]) > LISTED_MAX:
        out.line(f"may lose     and {len(document['at_risk']) - LISTED_MAX} more partitions")
    if document["safe"]:
        out.note("The newest copy has every record that any broker acted on: nothing is lost.")


STORE_NAMES = {"redis": "Redis", "raft": "a quorum of the brokers"}
MOVE_SECONDS_MIN = 60.0
MIGRATION_SECONDS = 10.0


@cluster.command(
    "migrate",
    examples=(
        "yak cluster migrate --to raft",
        "yak cluster migrate --to redis",
        "yak cluster migrate --to raft -b h1:9092",
    ),
)
def migrate(
    g: Globals,
    to: Annotated[
        Literal["redis", "raft"], option("--to", "The new place of the metadata.", WHAT, metavar="redis|raft")
    ],
    redis_url: str | None = flag(
        "--redis-url", "With yak up: to this Redis, not to one of its own.", CONNECTION, metavar="URL"
    ),
    data_dir: str | None = flag("--data-dir", "Move the cluster of this yak up directory.", CONNECTION, metavar="DIR"),
) -> None:
    """Move a running cluster's metadata between Redis and a quorum of its brokers.

    A cluster of yak up is restarted broker by broker with both stores, and then with the new one alone. Other brokers
    must run with --metadata both before; restart them with --metadata raft or redis afterwards. No record is lost, and
    partitions with replicas are served throughout. The command can be repeated after it was interrupted.
    """
    from yak.commands.local_cluster import find_local
    from yak.local.cluster import LocalCluster

    g.must_not_be_readonly("moving the metadata")
    local = find_local(g, data_dir)
    if redis_url is not None and (to == "raft" or local is None):
        why = "a quorum needs no Redis" if to == "raft" else "the brokers were started with their --redis-url"
        raise UsageError("usage", "--redis-url goes with --to redis and a cluster of yak up", why=why)
    if local is not None:
        g.servers_of_local(local)
        cluster = LocalCluster(local.data_dir)
        has_moved = cluster.migrate(to, redis_url=redis_url, say=g.out.note)
        _report(g, to, cluster.status().cluster_id, has_moved=has_moved)
    else:
        _migrate_others(g, to)


def _migrate_others(g: Globals, to: str) -> None:
    """Brokers that were started by other means: the move alone, between their two restarts."""
    from yak.client.members import list_members
    from yak.client.store_moves import read_stores, set_target, wait_for_quorum, wait_for_store

    admin = g.admin()
    metadata = admin.metadata()
    holders = {node for topic in metadata.topics.values() for each in topic.partitions for node in each.replicas}
    members = list_members(metadata.brokers, holders, [admin.answered], timeout_s=admin.timeout_s)
    addresses = {node_id: broker.address for node_id, broker in metadata.brokers.items()}
    found = read_stores(addresses, timeout_s=admin.timeout_s)
    if all(each.uses(to) and each.stores == to for each in found):
        _report(g, to, metadata.cluster_id, has_moved=False)
        return
    absent = [node_id for node_id, member in members.items() if node_id not in addresses or member.state != GOOD_STATE]
    check_ready(found, absent, to)
    has_moved = not all(each.uses(to) for each in found)
    if has_moved:
        state = wait_for_quorum(addresses, timeout_s=max(MIGRATION_SECONDS, admin.timeout_s))
        g.out.note(f"node {state.leader_id} leads the quorum, and its voters have caught up")
        set_target(addresses, to, timeout_s=max(MIGRATION_SECONDS, admin.timeout_s))
        wait_for_store(addresses, to, timeout_s=max(MOVE_SECONDS_MIN, admin.timeout_s))
    _report(g, to, metadata.cluster_id, has_moved=has_moved)
    g.out.note(f"next: restart the brokers one by one with --metadata {to}; wait for their ISRs in between")


def check_ready(found: "list[BrokerStores]", absent: list[int], to: str) -> None:
    """Check that every broker runs, with both stores or the new one. Raises YakError (`migrate-not-both`)."""
    from yak.client.store_moves import BOTH

    if absent:
        raise _not_both(
            f"{numbered('broker', absent)} {'does' if len(absent) == 1 else 'do'} not run",
            "a broker that is down during the move would start with the old store",
            ("start it with --metadata both", "yak brokers unregister NODE          one that is lost for good"),
        )
    others = [each for each in found if each.stores != BOTH and not (each.stores == to and each.uses(to))]
    if others:
        flags = "--metadata both --redis-url URL --voters ID@HOST:PORT,..."
        raise _not_both(
            f"{numbered('broker', [each.node_id for each in others])} cannot use both metadata stores",
            "; ".join(f"broker {each.node_id} has {each.stores or 'given no answer'}" for each in others),
            (
                f"restart each of them with {flags}",
                "yak quorum secret --data-dir DIR          for a new broker's --cluster-secret-file",
            ),
        )


def _not_both(message: str, why: str, try_: tuple[str, ...]) -> "YakError":
    return YakError("migrate-not-both", f"the metadata were not moved: {message}", why=why, try_=try_)


def _report(g: Globals, to: str, cluster_id: str | None, *, has_moved: bool) -> None:
    document: dict[str, Any] = {"cluster_id": cluster_id, "metadata": to, "moved": has_moved}
    g.out.document(document)
    name = STORE_NAMES[to]
    g.out.note(f"The metadata are in {name} now." if has_moved else f"The metadata are in {name} already.")


GOOD_STATE = SeenState.ACTIVE
"""Of a broker; also the name of its session's normal state."""
QUORUM = "quorum"
"""What a broker of a metadata quorum reports as its store."""
QUORUM_SECONDS = 1.0
STORE_ID_CHARACTERS = 8
"""How much of the store's run id the table shows; enough to detect another process. JSON has all of it."""
STORE_CONFIGS = {
    "yak.metadata.state": "session",
    "yak.metadata.reason": "reason",
    "yak.metadata.store": "store",
    "yak.metadata.unsafe": "unsafe",
    "yak.metadata.offset": "metadata_offset",
    "yak.metadata.controller.epoch": "controller_epoch",
    "yak.broker.epoch": "broker_epoch",
}
"""Read-only configs in which a yak broker reports about itself. Apache Kafka has none of them."""


@cluster.command("show", examples=("yak cluster", "yak cluster show -o json"))
def show(g: Globals) -> int:
    """Show the cluster and its metadata store.

    Returns 1 if a broker or its session with the metadata store is not ACTIVE, or a partition is offline.
    """

    admin = g.admin()
    found = describe_cluster(admin)
    columns = ("id", "address", "role", "rack", "state", "controller", *STORE_CONFIGS.values())
    if not g.out.for_programs(found, found["brokers"], columns):
        _print(g, found)
    return 0 if found["healthy"] else 1


def describe_cluster(admin: "Admin") -> dict[str, Any]:
    """The cluster as a document; it has no `metadata` for a broker that is not yak."""
    from yak.client.members import ROLE, read_members
    from yak.commands.topics import replications
    from yak.view.partition_state import StateCounts

    metadata = admin.metadata()
    members = read_members(metadata, answered=admin.answered, timeout_s=admin.timeout_s, names=(ROLE, *STORE_CONFIGS))
    controller_id = admin.controller_id(metadata, is_yak=any(member.role for member in members))
    brokers = [
        {
            "id": member.node_id,
            "address": member.address,
            "role": member.role,
            "rack": member.rack,
            "state": member.state.value,
            "controller": member.node_id == controller_id,
            **{key: _value(member.configs[name]) for name, key in STORE_CONFIGS.items() if name in member.configs},
        }
        for member in members
    ]
    min_isrs = admin.min_isrs(metadata.topics)
    silent = [member.node_id for member in members if member.state is SeenState.SILENT]
    states = StateCounts.of(
        each for topic in metadata.topics.values() for each in replications(topic, min_isrs[topic.name], silent)
    )
    has_quorum = any(broker.get("store") == QUORUM for broker in brokers)
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": controller_id if controller_id >= 0 else None,
        **({"quorum": _quorum(admin)} if has_quorum else {}),
        "brokers": brokers,
        "topics": len(metadata.topics),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics.values()),
        **states._asdict(),
        "healthy": states.offline == 0 and all(map(_is_well, brokers)),
    }


def _quorum(admin: "Admin") -> dict[str, Any] | None:
    """The leader, epoch and voters of the metadata quorum; None when it has no leader now."""
    from yak.client.quorum import describe_quorum

    try:
        state = describe_quorum(admin.answered, timeout_s=min(QUORUM_SECONDS, admin.timeout_s))
    except YakError:
        return None
    return {"leader_id": state.leader_id, "leader_epoch": state.epoch, "voters": state.voter_ids}


def _is_well(broker: dict[str, Any]) -> bool:
    return bool(broker["state"] == GOOD_STATE and broker.get("session", GOOD_STATE) == GOOD_STATE)


def _value(text: str | None) -> str | int | None:
    return int(text) if text and text.isdigit() else text or None


def _print(g: Globals, found: dict[str, Any]) -> None:
    out = g.out
    controller = found["controller_id"]
    out.line(f"cluster      {found['cluster_id']}")
    out.line(f"controller   {'none' if controller is None else controller}")
    if "quorum" in found:
        out.line(f"quorum       {_quorum_text(found['quorum'])}")
    out.line(f"holds        {counted(found['topics'], 'topic')}, {counted(found['partitions'], 'partition')}")
    out.line(f"health       {_health(found)}")
    out.line()
    columns = ["id", "address"]
    columns += [name for name in ("role", "rack") if any(broker[name] is not None for broker in found["brokers"])]
    columns += ["state", "controller"]
    if any("session" in broker for broker in found["brokers"]):
        columns += ["session", "broker_epoch", "controller_epoch", "metadata_offset", "store"]
    rows = [
        {**broker, "store": (broker.get("store") or "")[:STORE_ID_CHARACTERS] or None} for broker in found["brokers"]
    ]
    for line in layout(rows, columns, headers=out.headers):
        out.line(line)
    for broker in found["brokers"]:
        if broker["state"] != GOOD_STATE:
            out.line()
            out.line(f"broker {broker['id']} is {broker['state']}; yak isr shows the partitions without its replicas")
        if broker.get("session", GOOD_STATE) != GOOD_STATE:
            out.line()
            reason = broker.get("reason") or "no reason given"
            out.line(f"broker {broker['id']}: metadata store session is {broker['session']}: {reason}")
        if broker.get("unsafe"):
            out.line(f"broker {broker['id']}: metadata store is unsafe: {broker['unsafe']}")


def _quorum_text(quorum: dict[str, Any] | None) -> str:
    if quorum is None:
        return "no leader: changes are refused until a majority of its voters runs"
    voters = ", ".join(map(str, quorum["voters"]))
    return f"leader {quorum['leader_id']}, epoch {quorum['leader_epoch']}, voters {voters}"


def _health(found: dict[str, Any]) -> str:
    from yak.view.partition_state import PartitionState

    conditions = (PartitionState.OFFLINE, PartitionState.UNDER_MIN_ISR, PartitionState.UNDER_REPLICATED)
    problems = [f"{counted(found[each], 'partition')} {each.label}" for each in conditions if found[each]]
    down = [str(each["id"]) for each in found["brokers"] if each["state"] != GOOD_STATE]
    if down:
        problems.append(f"down: broker {', '.join(down)}")
    bad = [str(each["id"]) for each in found["brokers"] if each.get("session", GOOD_STATE) != GOOD_STATE]
    if bad:
        problems.append(f"metadata store: see broker {', '.join(bad)}")
    return "; ".join(problems) or "all partitions ok"
