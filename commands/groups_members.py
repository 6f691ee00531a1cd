"""`yak groups members`."""

from typing import Annotated

import typer

from yak.commands.app import command
from yak.commands.completing import complete_group
from yak.commands.options import Globals


@command(examples=("yak groups members audit", "yak groups members audit -o wide", "yak groups members audit -o json"))
def members(
    g: Globals,
    name: Annotated[str, typer.Argument(help="Group.", metavar="GROUP", autocompletion=complete_group)],
) -> None:
    """Show the members of a group and their assignments.

    -v or -o wide: also their subscriptions and the assignor.
    """
    from yak.client.groups.describing import require_groups
    from yak.commands.group_arguments import connect
    from yak.commands.group_views import MEMBER_COLUMNS, MEMBER_WIDE, member_documents, member_rows
    from yak.errors import YakError

    with connect(g) as brokers:
        found = require_groups(brokers, [name])[name]
    if isinstance(found, YakError):
        raise found
    if g.out.format in ("json", "yaml"):
        g.out.object(member_documents(found))
        return
    columns = (*MEMBER_COLUMNS, *MEMBER_WIDE) if g.verbose and g.out.format == "table" else MEMBER_COLUMNS
    g.out.table(member_rows(found), columns, MEMBER_WIDE, empty=f'group "{name}" is {found.state}: it has no members')
    if g.out.for_people and found.members and any(each.assigned is None for each in found.members):
        g.out.note(f'group "{name}" is {found.state}: its assignments are known when it is Stable')
