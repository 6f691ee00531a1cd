"""`yak groups delete`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import WHAT, command
from yak.commands.completing import complete_group
from yak.commands.options import Globals
from yak.errors import YakError

if TYPE_CHECKING:
    from yak.client.groups.asking import GroupBrokers


@command(
    examples=(
        "yak groups delete audit",
        "yak groups delete audit billing --if-exists --yes",
        "yak groups delete audit --topic orders --topic payments:0,2",
    )
)
def delete(
    g: Globals,
    names: Annotated[list[str], typer.Argument(help="Groups.", metavar="GROUP", autocompletion=complete_group)],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only the offsets of this topic or these partitions; repeatable.",
                     metavar="TOPIC[:P,...]", rich_help_panel=WHAT),
    ] = None,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it does not exist.", rich_help_panel=WHAT)
    ] = False,
) -> int:  # fmt: skip
    """Delete groups and their committed offsets, or only the offsets of some topics.

    A group with members is not deleted. Offsets of a topic are not deleted while a member is subscribed to it.
    """
    from yak.commands.group_arguments import connect

    g.must_not_be_readonly(f"deleting {', '.join(names)}")
    with connect(g) as brokers:
        there, rows, errors = _look(brokers, names, with_members=topic is not None, if_exists=if_exists)
        if errors and len(rows) == len(errors) == 1 and not there:
            raise errors[0]
        for error in errors:
            g.out.error(error)
        if topic is None:
            if there:
                g.confirm(f"Delete {_named(there)} and all committed offsets?")
            done, failed = _delete_groups(brokers, there)
        else:
            places = _places(brokers, there, topic)
            if any(places.values()):
                g.confirm(f"Delete committed offsets of {_named(there)} for {', '.join(topic)}?")
            done, failed = _delete_offsets(brokers, places)
    _report(g, [*rows, *done], failed)
    return 1 if errors or failed else 0


def _named(names: list[str]) -> str:
    return f"group{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _row(name: str, result: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more, "result": result}


def _look(
    brokers: "GroupBrokers", names: list[str], *, with_members: bool, if_exists: bool
) -> tuple[list[str], list[dict[str, Any]], list[YakError]]:
    """The groups that can be deleted; rows and errors of the others."""
    from yak.client.groups.describing import active_group, require_groups

    there: list[str] = []
    rows: list[dict[str, Any]] = []
    errors: list[YakError] = []
    for name, found in require_groups(brokers, names).items():
        if isinstance(found, YakError):
            if if_exists and found.code == "unknown-group":
                rows.append(_row(name, "not there"))
                continue
            error: YakError = found
        elif found.members and not with_members:
            error = active_group(found, f'group "{name}" was not deleted')
        else:
            there.append(name)
            continue
        errors.append(error)
        rows.append(_row(name, f"failed: {error.code}"))
    return there, rows, errors


def _delete_groups(brokers: "GroupBrokers", names: list[str]) -> tuple[list[dict[str, Any]], list[YakError]]:
    from yak.client.groups.offsets import delete_groups

    results = delete_groups(brokers, names)
    rows = [
        _row(name, f"failed: {error.code}" if isinstance(error, YakError) else "deleted")
        for name, error in results.items()
    ]
    return rows, [error for error in results.values() if error is not None]


def _places(brokers: "GroupBrokers", names: list[str], topics: list[str]) -> dict[str, list[Any]]:
    """The offsets that each group committed for these topics. Raises YakError."""
    from yak.client.groups.offsets import committed_offsets
    from yak.client.groups.places import committed_places

    found: dict[str, list[Any]] = {}
    for name, committed in committed_offsets(brokers, names).items():
        if isinstance(committed, YakError):
            raise committed
        found[name] = committed_places(topics, committed)
    return found


def _delete_offsets(
    brokers: "GroupBrokers", places: dict[str, list[Any]]
) -> tuple[list[dict[str, Any]], list[YakError]]:
    from yak.client.groups.offsets import delete_offsets

    rows: list[dict[str, Any]] = []
    errors: dict[str, YakError] = {}
    for name, partitions in places.items():
        if not partitions:
            rows.append(_row(name, "nothing was committed of it"))
            continue
        for each, error in delete_offsets(brokers, name, partitions).items():
            words = "offset deleted" if error is None else f"failed: {error.code}"
            rows.append(_row(name, words, topic=each.topic, partition=each.partition))
            if error is not None:
                errors.setdefault(error.message, error)
    return rows, list(errors.values())


def _report(g: Globals, rows: list[dict[str, Any]], errors: list[YakError]) -> None:
    for error in errors:
        g.out.error(error)
    if g.out.for_people:
        for row in rows:
            where = f" {row['topic']}-{row['partition']}" if "topic" in row else ""
            g.out.note(f"{row['name']}{where}: {row['result']}")
    elif not g.quiet:
        columns = (
            ("name", "topic", "partition", "result") if any("topic" in row for row in rows) else ("name", "result")
        )
        g.out.table(rows, columns)
