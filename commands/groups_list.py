"""`yak groups list`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import OUTPUT, command
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.groups.asking import GroupBrokers
    from yak.client.groups.describing import Group

SHOW = "Show only"


@command(examples=("yak groups list", "yak groups list --state empty,dead", "yak groups list --no-lag -o json"))
def list_(
    g: Globals,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Groups in this state; repeatable.", metavar="STATE", rich_help_panel=SHOW),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", help="classic, consumer, share or streams.", metavar="TYPE", rich_help_panel=SHOW),
    ] = None,
    lag: Annotated[
        bool,
        typer.Option("--lag/--no-lag", help="Read committed and log end offsets, for the lag.",
                     rich_help_panel=OUTPUT),
    ] = True,
) -> int | None:  # fmt: skip
    """List groups."""
    from yak.client.groups.describing import STATES, TYPES, list_groups
    from yak.commands.group_arguments import chosen, connect
    from yak.commands.group_views import LIST_COLUMNS, LIST_WIDE

    states, types = chosen(state, STATES, "state"), chosen(type_, TYPES, "type")
    with connect(g) as brokers:
        known, silent = list_groups(brokers, states=states, types=types)
        rows, failed = _rows(g, brokers, known, with_lag=lag)
    empty = (
        "No such groups." if states or types else "No groups. A group is there as soon as a consumer joins or commits."
    )
    g.out.table(rows, [each for each in LIST_COLUMNS if lag or each != "lag"], LIST_WIDE, empty=empty)
    for broker, reason in silent.items():
        g.out.warn(f"broker {broker.node_id} at {broker.address} did not answer; its groups are missing: {reason}")
    return 1 if silent or failed else None


def _rows(
    g: Globals, brokers: "GroupBrokers", known: "dict[str, Group]", *, with_lag: bool
) -> tuple[list[dict[str, Any]], int]:
    """One row per group, and the number of groups with missing data."""
    from yak.client.groups.describing import describe_groups
    from yak.client.groups.lag import read_marks
    from yak.client.groups.offsets import committed_offsets
    from yak.commands.group_views import list_row
    from yak.errors import YakError

    described = describe_groups(brokers, known.values())
    committed = committed_offsets(brokers, list(known)) if with_lag else {}
    failed = 0
    for error in [*described.values(), *committed.values()]:
        # A group that was deleted after it was listed is not a failure, but has no data.
        if isinstance(error, YakError) and error.code != "unknown-group":
            g.out.error(error)
            failed += 1
    marks = read_marks(
        brokers.admin, {each for found in committed.values() if isinstance(found, dict) for each in found}
    )
    rows = []
    for name, listed in known.items():
        found, offsets = described[name], committed.get(name)
        if isinstance(found, YakError) and found.code == "unknown-group":
            continue
        group = listed if isinstance(found, YakError) else found
        rows.append(list_row(group, offsets if isinstance(offsets, dict) else None, marks))
    return rows, failed
