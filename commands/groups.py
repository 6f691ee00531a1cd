"""`yak groups`: list, describe, members, reset, delete. Each has a file of its own."""

from yak.commands.app import CommandGroup
from yak.commands.group_arguments import rewrite
from yak.commands.groups_delete import delete
from yak.commands.groups_describe import describe
from yak.commands.groups_list import list_
from yak.commands.groups_members import members
from yak.commands.groups_reset import reset

groups = CommandGroup(
    "groups",
    "List and describe consumer groups, reset their offsets.",
    examples=(
        "yak groups list",
        "yak groups describe audit",
        "yak groups reset audit --topic orders --to-earliest            # shows the plan only",
        "yak groups reset audit --topic orders --to-earliest --execute",
    ),
    rewrite=rewrite,
    leaves={"list": list_, "describe": describe, "members": members, "reset": reset, "delete": delete},
)
