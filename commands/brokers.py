"""`yak brokers`: list, describe, config, watch, unregister."""

from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import OUTPUT, STOP, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import DryRun, argument, option
from yak.commands.topics import require_configs
from yak.commands.units import key_values
from yak.errors import YakError

if TYPE_CHECKING:
    from yak.client.admin import Admin, ConfigValue

brokers = CommandGroup(
    "brokers",
    examples=("yak brokers list", "yak brokers describe 1 --all-configs", "yak brokers watch"),
)

Unfold = Annotated[bool, option("--unfold", "One line for each broker, not for each machine.", OUTPUT)]
Id = Annotated[int, argument("ID", "Broker id.")]


@brokers.command("list", examples=("yak brokers list", "yak brokers list --unfold", "yak brokers list -o wide"))
def list_brokers(g: Globals, unfold: Unfold = False) -> None:
    """List brokers with their leaders, replicas and disk use; the brokers of one machine in one line."""
    from yak.commands.broker_views import broker_rows, columns, fold, with_machines
    from yak.commands.local_cluster import roles_note

    admin = g.admin()
    rows = broker_rows(admin, sizes=g.out.format != "table")
    roles = {row["id"]: row["role"] for row in rows}
    if g.out.format in ("json", "yaml"):
        rows = with_machines(rows)
    elif g.out.for_people and not unfold:
        rows = fold(rows)
    g.out.table(rows, columns(g, rows), ("leaders_skew_percent", "size_bytes"))
    # only brokers of different roles, of which there is a note, need the voters
    if g.out.for_people and roles_note(roles):
        g.out.note(roles_note(roles, _voters(admin)))


def _voters(admin: "Admin") -> list[int]:
    """The voters of the metadata quorum; empty without a quorum, or while it has no leader that knows them."""
    from yak.client.quorum import describe_quorum

    try:
        return describe_quorum(admin.answered, timeout_s=min(1.0, admin.timeout_s)).voter_ids
    except YakError:
        return []


@brokers.command("describe", examples=("yak brokers describe 1", "yak brokers describe 1 --all-configs -o json"))
def describe(
    g: Globals,
    node_id: Id,
    all_configs: bool = flag("--all-configs", "Also configs at their default.", OUTPUT, default=False),
) -> None:
    """Show one broker and its configs."""
    from yak.commands.broker_views import broker_rows, find_broker
    from yak.commands.output import cell
    from yak.view.broker_state import SeenState

    admin = g.admin()
    row = find_broker(broker_rows(admin, sizes=True), node_id)
    configs = [
        _config_row(each)
        for each in (admin.configs("broker", str(node_id)) if row["state"] == SeenState.ACTIVE else ())
        if all_configs or not each.is_default or each.name.startswith("yak.")
    ]
    if g.out.for_programs({**row, "configs": configs}, configs, ("name", "value", "source", "read_only")):
        return
    for name, value in row.items():
        g.out.line(f"{name.replace('_', ' '):<22}{cell(value)}")
    if row["state"] != SeenState.ACTIVE:
        g.out.note(f"broker {node_id} is {row['state']}: its configs cannot be read")
        return
    g.out.line()
    g.out.table(configs, ("name", "value", "source"), ("read_only",))


@brokers.command("config", examples=("yak brokers config 1", "yak brokers config 1 --set log.retention.ms=3600000"))
def config(
    g: Globals,
    node_id: Id,
    set_: list[str] | None = flag("--set", "Set a config; repeatable.", WHAT, metavar="NAME=VALUE"),
    delete: list[str] | None = flag("--delete", "Reset to the default; repeatable.", WHAT, metavar="NAME"),
    dry_run: DryRun = False,
) -> None:
    """Show or change a broker's configs."""
    from yak.commands.broker_views import broker_rows, find_broker

    changes = key_values(set_, "--set log.retention.ms=3600000")
    if (changes or delete) and not dry_run:
        g.must_not_be_readonly(f"changing configs of broker {node_id}")
    admin = g.admin()
    find_broker(broker_rows(admin, sizes=False), node_id)
    if changes or delete:
        require_configs(admin, "broker", str(node_id), delete or ())
        admin.alter_configs("broker", str(node_id), changes, delete or (), validate_only=dry_run)
        g.out.note(f"broker {node_id}: configs {'could be' if dry_run else 'were'} changed")
        return
    rows = [_config_row(each) for each in admin.configs("broker", str(node_id))]
    g.out.table(rows, ("name", "value", "source"), ("read_only",))


def _config_row(config: "ConfigValue") -> dict[str, Any]:
    return {"name": config.name, "value": config.value, "source": config.source, "read_only": config.is_read_only}


@brokers.command("watch", examples=("yak brokers watch", "yak brokers watch --interval 5s -o json"))
def watch(
    g: Globals,
    interval: str = flag("--interval", "Time between updates.", OUTPUT, default="1s", metavar="DURATION"),
    count: int | None = flag("--count, -n", "Stop after N updates.", STOP, min=1),
    unfold: Unfold = False,
) -> None:
    """Show brokers continuously, with records a second."""
    from yak.commands.broker_views import watch_brokers
    from yak.commands.units import parse_duration_ms

    watch_brokers(g, parse_duration_ms(interval, bare_unit="s"), count, unfold=unfold)


@brokers.command("unregister", examples=("yak brokers unregister 4",))
def unregister(g: Globals, node_id: Id) -> None:
    """Unregister a broker that will not return.

    The broker must be down. Reassign its replicas first: otherwise they stay assigned to it, outside the ISR.
    """
    from yak.client.unregister import unregister_broker
    from yak.commands.broker_views import broker_rows, find_broker
    from yak.view.formats import counted

    g.must_not_be_readonly(f"unregistering broker {node_id}")
    admin = g.admin()
    replicas = find_broker(broker_rows(admin, sizes=False), node_id)["replicas"]
    has = f", which {counted(replicas, 'partition')} count on" if replicas else ""
    g.confirm(f"Forget broker {node_id}{has}?")
    unregister_broker(admin.answered, node_id, timeout_s=admin.timeout_s)
    g.out.note(f"broker {node_id} was unregistered")
