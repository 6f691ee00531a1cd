"""`yak cluster`."""

from typing import TYPE_CHECKING, Any

from yak.commands.app import CommandGroup
from yak.commands.cluster_migrate import migrate
from yak.commands.cluster_restore import restore
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.admin import Admin

GOOD_STATE = "ACTIVE"
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


cluster = CommandGroup(
    "cluster",
    "Show the cluster and its metadata store; move it.",
    examples=("yak cluster", "yak cluster -o json", "yak cluster migrate --to raft"),
    default="show",
)
cluster.command(
    "restore",
    examples=("yak cluster restore --dry-run", "yak cluster restore", "yak cluster restore --accept-loss"),
)(restore)
cluster.command(
    "migrate",
    examples=(
        "yak cluster migrate --to raft",
        "yak cluster migrate --to redis",
        "yak cluster migrate --to raft -b h1:9092",
    ),
)(migrate)


@cluster.command("show", examples=("yak cluster", "yak cluster show -o json"))
def show(g: Globals) -> int:
    """Show the cluster and its metadata store.

    Returns 1 if a broker or its session with the metadata store is not ACTIVE, or a partition is offline.
    """
    from yak.client.admin import Admin

    admin = Admin(g.bootstrap_servers, timeout_ms=g.timeout_ms, verbose=g.verbose)
    found = look(admin)
    if not g.out.for_people and g.output not in ("csv", "raw"):
        g.out.object(found)
    elif g.output in ("csv", "raw"):
        g.out.table(
            found["brokers"],
            ("id", "address", "role", "rack", "state", "controller", *STORE_CONFIGS.values()),
        )
    else:
        _print(g, found)
    return 0 if found["healthy"] else 1


def look(admin: "Admin") -> dict[str, Any]:
    """The cluster as a document; it has no `metadata` for a broker that is not yak."""
    from yak.client.members import ROLE, read_members
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
            "state": member.state,
            "controller": member.node_id == controller_id,
            **{key: _value(member.configs[name]) for name, key in STORE_CONFIGS.items() if name in member.configs},
        }
        for member in members
    ]
    min_isrs = admin.min_isrs(metadata.topics)
    states = StateCounts.of(
        each.replication(min_isrs[topic.name]) for topic in metadata.topics.values() for each in topic.partitions
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
    from yak.client.quorum_changes import describe_quorum
    from yak.errors import YakError

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
    from yak.commands.output import layout
    from yak.view.formats import counted

    out = g.out
    controller = found["controller_id"]
    out.line(f"cluster      {found['cluster_id']}")
    out.line(f"controller   {'none' if controller is None else controller}")
    if "quorum" in found:
        out.line(f"quorum       {_quorum_words(found['quorum'])}")
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


def _quorum_words(quorum: dict[str, Any] | None) -> str:
    if quorum is None:
        return "no leader: changes are refused until a majority of its voters runs"
    voters = ", ".join(map(str, quorum["voters"]))
    return f"leader {quorum['leader_id']}, epoch {quorum['leader_epoch']}, voters {voters}"


def _health(found: dict[str, Any]) -> str:
    from yak.view.formats import counted
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
