"""`yak cluster restore`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import CONNECTION, WHAT
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.cluster.restore import Plan
    from yak.local.metadata_restore import Found

SHOWN_MAX = 20
"""How many entries of a list are printed; JSON has all."""


def restore(
    g: Globals,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Restore without brokers that may have unique records.",
                     rich_help_panel=WHAT),
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Cancel the active restore; the store stays unchanged.",
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
    """Restore a metadata store that lost its data, from the brokers' copies.

    Brokers restore it automatically when all of them have answered. This command shows the answers and the quarantined
    partitions, and restores after confirmation. A quarantined partition keeps its leader, without elections, until the
    missing brokers answer.
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
            g.out.note("The restore was given up. Brokers that still miss their history begin another one.")
            return 0
        plan = found.plan(accept_loss=accept_loss)
        document = describe(found, plan)
        if dry_run or (g.out.for_people and not g.out.quiet):
            _print(g, document)
        if dry_run:
            return 0
        _refuse_conflicts(plan)
        g.must_not_be_readonly("restoring the metadata store")
        g.confirm(_question(found, plan))
        store.commit(found, plan)
        if not g.out.for_people:
            g.out.object(document | {"committed": True})
        g.out.note(f"Restored as incarnation {plan.image.incarnation}. The brokers take it over within a second.")
        return 0


def describe(found: "Found", plan: "Plan") -> dict[str, Any]:
    """The restore plan as a document."""
    return {
        "cluster_id": found.cluster_id,
        "incarnation": plan.image.incarnation,
        "answered": [
            {
                "id": offer.node_id,
                "metadata_offset": offer.image.offset,
                "topics": len(offer.image.topics),
                "logs": len(offer.logs),
            }
            for offer in found.offers
        ],
        "missing": [{"id": node_id, "reason": words} for node_id, words in plan.missing.items()],
        "conflicts": list(plan.conflicts),
        "topics": len(plan.image.topics),
        "partitions": len(plan.fates),
        "held": [_fate(fate) for fate in plan.quarantined],
        "lost": [_fate(fate) for fate in plan.lost],
        "automatic": plan.is_automatic,
        "committed": False,
    }


def _fate(fate: Any) -> dict[str, Any]:
    return {
        "topic": fate.topic,
        "partition": fate.partition,
        "leader": fate.leader if fate.leader >= 0 else None,
        "isr": list(fate.isr),
        "waits_for": list(fate.waits_for),
        "reason": fate.reason,
    }


def _nothing_to_do(g: Globals, name: str, found: "Found") -> int:
    from yak.errors import YakError

    if found.state == "LIVE":
        g.out.note(f"The metadata store at {name} holds cluster {found.cluster_id}; there is nothing to restore.")
        return 0
    raise YakError(
        "no-offers",
        f"no broker has offered what it knows to the metadata store at {name}",
        why="it is empty, and no broker that knew the cluster is connected to it"
        if found.state == "EMPTY"
        else "brokers offer within a second of noticing; those that run may use another store",
        try_=("yak cluster", "start the brokers with this --redis-url"),
    )


def _refuse_conflicts(plan: "Plan") -> None:
    from yak.errors import YakError

    if plan.conflicts and not plan.accepts_loss:
        raise YakError(
            "restore-conflict",
            "the brokers know histories that do not fit together; nothing was written",
            why=plan.conflicts[0],
            try_=("stop the brokers of the wrong history, or", "yak cluster restore --accept-loss"),
        )


def _question(found: "Found", plan: "Plan") -> str:
    nodes = ", ".join(str(offer.node_id) for offer in found.offers)
    question = f"Restore cluster {found.cluster_id} from broker {nodes}"
    if plan.quarantined:
        question += f", with {len(plan.quarantined)} partitions held back"
    if plan.accepts_loss:
        question += f", accepting that acknowledged records of {len(plan.lost)} partitions may be lost"
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
        knows = f"metadata up to record {each['metadata_offset']}, {counted(each['logs'], 'log')}"
        out.line(f"answered     broker {each['id']}: {knows}")
    for each in document["missing"]:
        out.line(f"missing      broker {each['id']}: {each['reason']}")
    for words in document["conflicts"]:
        out.line(f"conflict     {words}")
    _print_fates(g, "held back", document["held"])
    _print_fates(g, "may lose", document["lost"])
    if document["held"]:
        out.note("With --accept-loss these go on without what the missing brokers may have acknowledged alone.")
    if document["automatic"]:
        out.note("All brokers have answered: they restore it themselves in a few seconds.")


def _print_fates(g: Globals, label: str, fates: list[dict[str, Any]]) -> None:
    for each in fates[:SHOWN_MAX]:
        leader = "no leader" if each["leader"] is None else f"led by {each['leader']}"
        g.out.line(f"{label:<12} {each['topic']}-{each['partition']} ({leader}): {each['reason']}")
    if len(fates) > SHOWN_MAX:
        g.out.line(f"{label:<12} and {len(fates) - SHOWN_MAX} more partitions")
