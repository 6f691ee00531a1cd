"""`yak cluster restore`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import CONNECTION, WHAT
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.cluster.restore import RestorePlan
    from yak.local.metadata_restore import Found

SHOWN_MAX = 20
"""How many partitions are printed; JSON has all."""


def restore(
    g: Globals,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Restore although brokers may have acted on newer metadata.",
                     rich_help_panel=WHAT),
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Forget the offers; the store goes on with its own content.",
                           rich_help_panel=WHAT)
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.", rich_help_panel=WHAT)] = False,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="The metadata store.", metavar="URL", rich_help_panel=CONNECTION),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", help="Use the store of this yak up directory.", metavar="DIR", rich_help_panel=CONNECTION),
    ] = None,
) -> int:  # fmt: skip
    """Restore a metadata store that lost its data, from the newest of the brokers' copies.

    Each broker that detects the loss offers its copy. The newest copy is complete if all registered brokers have
    offered and each other copy is the beginning of it. Otherwise the command refuses, and names the brokers:
    --accept-loss restores without what they may know.
    """
    from yak.commands.local_cluster import find_local, known_redis
    from yak.local.metadata_restore import RestoreStore

    url = known_redis(g, redis_url, find_local(g, data_dir)) or str(g.settings.value("redis_url"))
    with RestoreStore(url, timeout_s=min(5.0, g.timeout_ms / 1000)) as store:
        found = store.look()
        if found.state != "SEEDING" or not found.offers:
            return _nothing_to_do(g, store.name, found)
        if abort:
            g.must_not_be_readonly("giving up a restore")
            g.confirm(f"Let cluster {found.cluster_id} go on with the store as it is?")
            store.abort(found)
            g.out.note("The offers are forgotten. Brokers that still miss their history offer again.")
            return 0
        plan = found.plan()
        document = describe(found, plan)
        if dry_run or (g.out.for_people and not g.out.quiet):
            _print(g, document)
        if dry_run:
            return 0
        if not accept_loss:
            _refuse_unsafe(plan)
        g.must_not_be_readonly("restoring the metadata store")
        g.confirm(_question(found, plan))
        store.commit(found, plan)
        if not g.out.for_people:
            g.out.object(document | {"committed": True})
        g.out.note(f"Restored as incarnation {plan.image.incarnation}. The brokers take it over within 3 s.")
        return 0


def describe(found: "Found", plan: "RestorePlan") -> dict[str, Any]:
    """The restore plan as a document."""
    return {
        "cluster_id": found.cluster_id,
        "incarnation": plan.image.incarnation,
        "answered": [
            {"id": node_id, "metadata_offset": position[0]} for node_id, position in sorted(plan.took_part.items())
        ],
        "newest": plan.newest.node_id,
        "unknown": [{"id": node_id, "reason": words} for node_id, words in plan.unknown.items()],
        "topics": len(plan.image.topics),
        "partitions": sum(len(topic.partitions) for topic in plan.image.topics.values()),
        "at_risk": [{"topic": topic, "partition": partition} for topic, partition in plan.at_risk],
        "safe": plan.is_safe,
        "committed": False,
    }


def _nothing_to_do(g: Globals, name: str, found: "Found") -> int:
    from yak.errors import YakError

    if found.state == "LIVE":
        g.out.note(f"The metadata store at {name} holds cluster {found.cluster_id}; there is nothing to restore.")
        return 0
    if found.state not in ("EMPTY", "SEEDING"):
        g.out.note(
            f"The metadata store at {name} is {found.state}: yak cluster migrate moves, or moved, its metadata; "
            "there is nothing to restore."
        )
        return 0
    raise YakError(
        "no-offers",
        f"no broker has offered its metadata to the metadata store at {name}",
        why="it is empty, and no broker of a cluster is connected to it"
        if found.state == "EMPTY"
        else "brokers offer within 3 s of detecting the loss; those that run may use another store",
        try_=("yak cluster", "start the brokers with this --redis-url"),
    )


def _refuse_unsafe(plan: "RestorePlan") -> None:
    from yak.errors import YakError

    if not plan.is_safe:
        raise YakError(
            "restore-unsafe",
            "brokers may have acted on newer metadata than any offer has; nothing was written",
            why="; ".join(f"broker {node_id}: {words}" for node_id, words in plan.unknown.items()),
            try_=(
                "start the brokers that did not answer, and run the command again",
                "yak cluster restore --accept-loss   acknowledged records may be lost",
            ),
        )


def _question(found: "Found", plan: "RestorePlan") -> str:
    question = f"Restore cluster {found.cluster_id} from the metadata of broker {plan.newest.node_id}"
    if not plan.is_safe:
        question += f", accepting that acknowledged records of {len(plan.at_risk)} partitions may be lost"
    return question + "?"


def _print(g: Globals, document: dict[str, Any]) -> None:
    from yak.view.formats import counted

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
    for each in document["at_risk"][:SHOWN_MAX]:
        out.line(f"may lose     {each['topic']}-{each['partition']}")
    if len(document["at_risk"]) > SHOWN_MAX:
        out.line(f"may lose     and {len(document['at_risk']) - SHOWN_MAX} more partitions")
    if document["safe"]:
        out.note("The newest copy has every record that any broker acted on: nothing is lost.")
