"""`yak cluster migrate`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from yak.commands.app import CONNECTION, WHAT
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.store_moves import BrokerStores
    from yak.errors import YakError

STORE_NAMES = {"redis": "Redis", "raft": "a quorum of the brokers"}
MOVE_SECONDS_MIN = 60.0
QUORUM_SECONDS = 10.0


def migrate(
    g: Globals,
    to: Annotated[
        Literal["redis", "raft"],
        typer.Option("--to", metavar="redis|raft", help="Where the metadata shall be.", rich_help_panel=WHAT),
    ],
    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url", metavar="URL", help="With yak up: to this Redis, not to one of its own.", rich_help_panel=CONNECTION
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", help="Move the cluster of this yak up directory.", metavar="DIR", rich_help_panel=CONNECTION),
    ] = None,
) -> None:  # fmt: skip
    """Move a running cluster's metadata between Redis and a quorum of its brokers.

    A cluster of yak up is restarted broker by broker with both stores, and then with the new one alone. Other brokers
    must run with --metadata both before; restart them with --metadata raft or redis afterwards. No record is lost, and
    partitions with replicas are served throughout. The command can be repeated after it was interrupted.
    """
    from yak.commands.local_cluster import find_local
    from yak.errors import UsageError

    g.must_not_be_readonly("moving the metadata")
    local = find_local(g, data_dir)
    if redis_url is not None and (to == "raft" or local is None):
        why = "a quorum needs no Redis" if to == "raft" else "the brokers were started with their --redis-url"
        raise UsageError("usage", "--redis-url goes with --to redis and a cluster of yak up", why=why)
    if local is not None:
        g.servers_of_local(local)
        _migrate_local(g, local.data_dir, to, redis_url)
    else:
        _migrate_others(g, to)


def _migrate_local(g: Globals, data_dir: str, to: str, redis_url: str | None) -> None:
    """A cluster of `yak up`: everything."""
    from yak.local.cluster import LocalCluster

    cluster = LocalCluster(data_dir)
    has_moved = cluster.migrate(to, redis_url=redis_url, say=g.out.note)
    status = cluster.status()
    _report(g, to, status.cluster_id, has_moved=has_moved)


def _migrate_others(g: Globals, to: str) -> None:
    """Brokers that were started by other means: the move alone, between their two restarts."""
    from yak.client.admin import Admin
    from yak.client.members import list_members
    from yak.client.store_moves import read_stores, set_target, wait_for_quorum, wait_for_store

    admin = Admin(g.bootstrap_servers, timeout_ms=g.timeout_ms, verbose=g.verbose)
    metadata = admin.metadata()
    holders = {node for topic in metadata.topics.values() for each in topic.partitions for node in each.replicas}
    members = list_members(metadata.brokers, holders, [admin.answered], timeout_s=admin.timeout_s)
    addresses = {node_id: broker.address for node_id, broker in metadata.brokers.items()}
    found = read_stores(addresses, timeout_s=admin.timeout_s)
    if all(each.uses(to) and each.stores == to for each in found):
        _report(g, to, metadata.cluster_id, has_moved=False)
        return
    absent = [node_id for node_id, member in members.items() if node_id not in addresses or member.state != "ACTIVE"]
    check_ready(found, absent, to)
    has_moved = not all(each.uses(to) for each in found)
    if has_moved:
        state = wait_for_quorum(addresses, timeout_s=max(QUORUM_SECONDS, admin.timeout_s))
        g.out.note(f"node {state.leader_id} leads the quorum, and its voters have caught up")
        set_target(addresses, to, timeout_s=max(QUORUM_SECONDS, admin.timeout_s))
        wait_for_store(addresses, to, timeout_s=max(MOVE_SECONDS_MIN, admin.timeout_s))
    _report(g, to, metadata.cluster_id, has_moved=has_moved)
    g.out.note(f"next: restart the brokers one by one with --metadata {to}; wait for their ISRs in between")


def check_ready(found: "list[BrokerStores]", absent: list[int], to: str) -> None:
    """Check that every broker runs, with both stores or the new one. Raises YakError (`migrate-not-both`)."""
    from yak.client.store_moves import BOTH

    if absent:
        raise _not_both(
            f"{_nodes(absent)} {'does' if len(absent) == 1 else 'do'} not run",
            "a broker that is away during the move would look for the metadata in the old store",
            ("start it with --metadata both", "yak brokers unregister NODE          one that is lost for good"),
        )
    others = [each for each in found if each.stores != BOTH and not (each.stores == to and each.uses(to))]
    if others:
        flags = "--metadata both --redis-url URL --voters ID@HOST:PORT,..."
        raise _not_both(
            f"{_nodes([each.node_id for each in others])} cannot use both metadata stores",
            "; ".join(f"broker {each.node_id} has {each.stores or 'given no answer'}" for each in others),
            (
                f"restart each of them with {flags}",
                "yak quorum secret --data-dir DIR          for a new broker's --cluster-secret-file",
            ),
        )


def _not_both(message: str, why: str, try_: tuple[str, ...]) -> "YakError":
    from yak.errors import YakError

    return YakError("migrate-not-both", f"the metadata were not moved: {message}", why=why, try_=try_)


def _nodes(node_ids: list[int]) -> str:
    return f"{'broker' if len(node_ids) == 1 else 'brokers'} {', '.join(map(str, node_ids))}"


def _report(g: Globals, to: str, cluster_id: str | None, *, has_moved: bool) -> None:
    document: dict[str, Any] = {"cluster_id": cluster_id, "metadata": to, "moved": has_moved}
    if g.output in ("json", "yaml"):
        g.out.object(document)
    name = STORE_NAMES[to]
    g.out.note(f"The metadata are in {name} now." if has_moved else f"The metadata are in {name} already.")
