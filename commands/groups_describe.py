"""`yak groups describe`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import OUTPUT, command
from yak.commands.completing import complete_group
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.groups.asking import GroupBrokers
    from yak.client.groups.describing import Group
    from yak.ids import Offset, TopicPartition


@command(
    examples=(
        "yak groups describe audit",
        "yak groups describe audit billing -o json",
        "yak groups describe audit --no-time      # without reading any record",
    )
)
def describe(
    g: Globals,
    names: Annotated[list[str], typer.Argument(help="Groups.", metavar="GROUP", autocompletion=complete_group)],
    time: Annotated[
        bool,
        typer.Option("--time/--no-time", help="Read the first unread record of each partition, for its age.",
                     rich_help_panel=OUTPUT),
    ] = True,
) -> int | None:  # fmt: skip
    """Show the lag of groups in records and in time, and their assignments."""
    from yak.client.groups.describing import require_groups
    from yak.client.groups.offsets import committed_offsets
    from yak.commands.group_arguments import connect
    from yak.errors import YakError

    with connect(g) as brokers:
        found = require_groups(brokers, names)
        committed = committed_offsets(brokers, [name for name, each in found.items() if not isinstance(each, YakError)])
        documents, errors = [], []
        for name, group in found.items():
            offsets = committed.get(name, {})
            error = group if isinstance(group, YakError) else offsets
            if isinstance(error, YakError):
                errors.append(error)
            elif not isinstance(group, YakError):
                documents.append(_document(g, brokers, group, error, with_time=time))
    if not documents and len(errors) == 1:
        raise errors[0]
    _show(g, documents, with_time=time)
    g.out.stdout.flush()
    for failed in errors:
        g.out.error(failed)
    return 1 if errors else None


def _document(
    g: Globals, brokers: "GroupBrokers", group: "Group", committed: "dict[TopicPartition, Offset]", *, with_time: bool
) -> dict[str, Any]:
    from dataclasses import replace

    from yak.client.groups.lag import lags_of, oldest_unread, read_marks
    from yak.commands.group_views import group_document, time_text

    admin = brokers.admin
    assigned = {each for member in group.members or () for each in member.assigned or ()}
    lags = lags_of(committed, group.members or (), read_marks(admin, assigned | set(committed)))
    if with_time:
        ages = oldest_unread(admin.servers, lags, timeout_s=admin.timeout_s, verbose=g.verbose)
        lags = [replace(each, oldest_unread_ms=ages.get(each.partition)) for each in lags]
    return group_document(group, lags, now_ms=g.now_ms(), when=time_text(g.zone))


def _show(g: Globals, documents: list[dict[str, Any]], *, with_time: bool) -> None:
    from yak.commands.group_views import LAG_FLAT, description_lines, flat_rows, troubles

    out = g.out
    if out.format in ("csv", "raw"):
        out.table(flat_rows(documents), LAG_FLAT)
    elif not out.for_people:
        out.object(documents)
    else:
        for index, each in enumerate(documents):
            if index:
                out.line()
            for line in description_lines(each, with_time=with_time, headers=out.headers):
                out.line(line)
        out.stdout.flush()
        for each in documents:
            for sentence in troubles(each):
                out.warn(sentence)
