"""`yak topics`: list, describe, create, alter, delete, trim, clone."""

from typing import Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, CommandGroup
from yak.commands.completing import complete_topic
from yak.commands.options import Globals
from yak.commands.topic_arguments import key_values, rewrite

SHOW = "Show only"

topics = CommandGroup(
    "topics",
    "List, describe, create and change topics.",
    examples=(
        "yak topics list",
        "yak topics create orders -p 3 -c retention.ms=3600000",
        "yak topics describe orders",
    ),
    rewrite=rewrite,
)


def _admin(g: Globals):  # type: ignore[no-untyped-def]
    from yak.client.admin import Admin

    return Admin(g.bootstrap_servers, timeout_ms=g.timeout_ms, verbose=g.verbose)


def _only(name: str, what: str) -> object:
    return typer.Option(f"--{name}", help=what, rich_help_panel=SHOW)


Names = Annotated[list[str], typer.Argument(help="Topics.", autocompletion=complete_topic, metavar="TOPIC")]
Name = Annotated[str, typer.Argument(help="Topic.", autocompletion=complete_topic, metavar="TOPIC")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", help="A topic config; repeatable.", metavar="NAME=VALUE", rich_help_panel=WHAT),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Validate on the broker, change nothing.", rich_help_panel=WHAT)
]


@topics.command("list", examples=("yak topics list", "yak topics list --sort records -o wide"))
def list_topics(
    g: Globals,
    internal: Annotated[bool, _only("internal", "Include internal topics.")] = False,
    under_replicated: Annotated[
        bool, _only("under-replicated-partitions", "Topics with under-replicated partitions.")
    ] = False,
    under_min_isr: Annotated[bool, _only("under-min-isr-partitions", "Topics that refuse acks=all.")] = False,
    at_min_isr: Annotated[bool, _only("at-min-isr-partitions", "Topics with an ISR of min.insync.replicas.")] = False,
    unavailable: Annotated[bool, _only("unavailable-partitions", "Topics with an offline partition.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", help="name, partitions, records or size.", rich_help_panel=OUTPUT, metavar="COLUMN")
    ] = "name",
) -> None:
    """List topics."""
    from yak.commands.topic_views import list_rows, with_labels
    from yak.view.partition_state import Conditions

    rows = list_rows(
        g,
        _admin(g),
        internal=internal,
        conditions=Conditions(unavailable, under_min_isr, at_min_isr, under_replicated),
        sort=sort,
    )
    g.out.table(
        with_labels(rows) if g.out.for_people else rows,
        ("name", "partitions", "replication_factor", "state"),
        ("records", "size_bytes"),
        empty="No topics. Topics hold records. yak topics create NAME makes one.",
    )


@topics.command("describe", examples=("yak topics describe orders", "yak topics describe orders -o json"))
def describe(
    g: Globals,
    names: Names,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Also configs at their default.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Show partitions, replicas and configs of topics."""
    from yak.commands.topic_views import describe_topic, print_description

    admin = _admin(g)
    described = [describe_topic(admin, name) for name in names]
    if not g.out.for_people and g.output != "raw":
        if g.output == "csv":
            rows = [{"topic": each["name"], **row} for each in described for row in each["partitions"]]
            g.out.table(rows, ("topic", *described[0]["partitions"][0]) if rows else ())
        else:
            g.out.object(described)
        return
    for index, each in enumerate(described):
        if index:
            g.out.line()
        print_description(g, each, all_configs=all_configs)


@topics.command(
    "create",
    examples=("yak topics create orders -p 3", "yak topics create orders -c retention.ms=3600000 --if-not-exists"),
)
def create(
    g: Globals,
    names: Names,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            help="Number of partitions; the broker's default if not given.",
            show_default=False,
            rich_help_panel=WHAT,
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Replicas; the broker's default if not given.",
            show_default=False,
            rich_help_panel=WHAT,
        ),
    ] = -1,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it exists.", rich_help_panel=WHAT)
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Create topics."""
    if not dry_run:
        g.must_not_be_readonly(f"creating {', '.join(names)}")
    configs, admin = key_values(config), _admin(g)

    def create_one(name: str) -> str:
        if if_not_exists and name in admin.metadata().topics:
            return "exists"
        admin.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs, validate_only=dry_run
        )
        return "could be created" if dry_run else "created"

    return _each(g, names, create_one)


@topics.command("alter", examples=("yak topics alter orders -p 6", "yak topics alter orders -c retention.ms=60000"))
def alter(
    g: Globals,
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="Grow to this many.", rich_help_panel=WHAT, min=1)
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", help="Reset to the default; repeatable.", metavar="NAME", rich_help_panel=WHAT),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions, or change configs."""
    from yak.errors import UsageError

    if not dry_run:
        g.must_not_be_readonly(f"changing {name}")
    changes = key_values(config)
    if partitions is None and not changes and not delete_config:
        raise UsageError(
            "usage", f"nothing to change in {name}", try_=(f"yak topics alter {name} -c retention.ms=60000",)
        )
    admin = _admin(g)
    admin.metadata().require_topic(name)
    done = "could be" if dry_run else "were"
    if changes or delete_config:
        admin.alter_configs("topic", name, changes, delete_config or (), validate_only=dry_run)
        g.out.note(f"{name}: configs {done} changed")
    if partitions is not None:
        admin.add_partitions(name, partitions, validate_only=dry_run)
        g.out.note(f"{name}: partitions {done} grown to {partitions}")


@topics.command("delete", examples=("yak topics delete orders", "yak topics delete a b --if-exists --yes"))
def delete(
    g: Globals,
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it does not exist.", rich_help_panel=WHAT)
    ] = False,
) -> int:
    """Delete topics and all their records."""
    g.must_not_be_readonly(f"deleting {', '.join(names)}")
    admin = _admin(g)
    known = admin.metadata()
    if not if_exists:
        for name in names:
            known.require_topic(name)
    present = [name for name in names if name in known.topics]
    if present:
        g.confirm(f"Delete {', '.join(present)} and all records?")

    def delete_one(name: str) -> str:
        if name not in known.topics:
            return "not there"
        admin.delete_topic(name)
        return "deleted"

    return _each(g, names, delete_one)


@topics.command("trim", examples=("yak topics trim orders --before 1000", "yak topics trim orders --before -1h"))
def trim(
    g: Globals,
    name: Name,
    before: Annotated[
        str,
        typer.Option(
            "--before", help="Delete records below this offset, or older than this time.", rich_help_panel=WHAT,
            metavar="OFFSET|TIME",
        ),
    ],
    partitions: Annotated[
        str | None, typer.Option("--partitions", help="Only these.", rich_help_panel=WHAT, metavar="0,2")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the records to delete.", rich_help_panel=WHAT)] = False,
) -> int:  # fmt: skip
    """Delete a topic's oldest records."""
    from yak.commands.topic_views import plan_trim, trim_rows

    if not dry_run:
        g.must_not_be_readonly(f"deleting records of {name}")
    admin = _admin(g)
    plan = plan_trim(g, admin, name, before, partitions)
    if not dry_run:
        gone = sum(max(0, step.new - step.old) for step in plan)
        g.confirm(f"Delete {gone} records of {name}?")
    rows, failed = trim_rows(admin, plan, dry_run=dry_run)
    g.out.table(rows, ("partition", "old_start", "new_start", "records", "result"))
    if dry_run:
        g.out.note("dry run: nothing was deleted")
    return 1 if failed else 0


@topics.command("clone", examples=("yak topics clone orders orders-test",))
def clone(
    g: Globals,
    source: Name,
    target: Annotated[str, typer.Argument(help="The new topic.", metavar="NEW")],
    dry_run: DryRun = False,
) -> None:
    """Create an empty topic with another's partitions and configs."""
    if not dry_run:
        g.must_not_be_readonly(f"creating {target}")
    admin = _admin(g)
    original = admin.metadata().require_topic(source)
    configs = {
        each.name: each.value
        for each in admin.configs("topic", source)
        if each.source == "topic" and each.value is not None and not each.is_read_only
    }
    admin.create_topic(
        target,
        partitions=len(original.partitions),
        replication_factor=original.replication_factor,
        configs=configs,
        validate_only=dry_run,
    )
    verb = "could be created" if dry_run else "created"
    g.out.note(f"{verb} {target} like {source}: {len(original.partitions)} partitions, {len(configs)} configs")


def _each(g: Globals, names: list[str], act) -> int:  # type: ignore[no-untyped-def]
    """Run `act` for each name and report each result; return 1 if any failed. A failure does not stop the others."""
    from yak.errors import YakError

    rows, failed = [], 0
    for name in dict.fromkeys(names):
        try:
            result = act(name)
        except YakError as error:
            if len(names) == 1:
                raise
            failed += 1
            g.out.error(error)
            result = f"failed: {error.code}"
        rows.append({"name": name, "result": result})
    if g.out.for_people:
        for row in rows:
            g.out.note(f"{row['name']}: {row['result']}")
    elif not g.quiet:
        g.out.table(rows, ("name", "result"))
    return 1 if failed else 0
