"""Checks which options of `yak up` may be combined, and parses its actions."""

from dataclasses import dataclass

from yak.errors import UsageError

ON_A_NODE = ("kill", "pause", "resume", "restart")


@dataclass(frozen=True, slots=True)
class Action:
    """A change of a running cluster: `add`, or one of `ON_A_NODE` for a node."""

    name: str
    node_id: int = 0


def read_action(words: list[str] | None) -> Action | None:
    """The action after `yak up`. Raises UsageError (`bad-up-action`)."""
    if not words:
        return None
    name, *rest = words
    if name == "add" and not rest:
        return Action(name)
    if name in ON_A_NODE and len(rest) == 1 and rest[0].isascii() and rest[0].isdigit():
        return Action(name, int(rest[0]))
    raise UsageError(
        "bad-up-action",
        f'"yak up {" ".join(words)}" is not understood',
        why=f"actions are add, and {', '.join(ON_A_NODE)} with the number of a node",
        try_=("yak up restart 1", "yak up --status          show the nodes"),
    )


def check_together(
    *, status: bool, down: bool, action: Action | None, purge: bool, hard: bool, role: str | None
) -> None:
    """Refuse options that exclude each other. Raises UsageError (`bad-up-action`, `bad-role`)."""
    name = action.name if action else ""
    if status + down + bool(name) > 1:
        raise UsageError(
            "bad-up-action",
            f"--status, --down and {name or 'an action'} exclude each other",
            try_=("yak up --status",),
        )
    if purge and not down:
        raise UsageError("bad-up-action", "--purge goes with --down", try_=("yak up --down --purge",))
    if hard and name != "restart":
        raise UsageError("bad-up-action", "--hard goes with restart", try_=("yak up restart 1 --hard",))
    if role is not None and name != "add":
        raise UsageError("bad-up-action", "--role goes with add", try_=("yak up add --role leader",))
    if role not in {None, "leader", "follower"}:
        raise UsageError(
            "bad-role",
            f"no such role: {role}",
            why="roles are leader and follower",
            try_=("yak up add --role follower",),
        )


def check_data(*, ephemeral: bool, keep: bool, purge: bool, looks_only: bool) -> None:
    """Refuse --keep with a deletion, and --keep or --ephemeral when no cluster starts. Raises UsageError."""
    if keep and (ephemeral or purge):
        other = "--ephemeral" if ephemeral else "--purge"
        raise UsageError("bad-up-action", f"--keep and {other} exclude each other", why="one deletes, one does not")
    if looks_only and (keep or ephemeral):
        raise UsageError(
            "bad-up-action", f"--{'keep' if keep else 'ephemeral'} goes with a start", try_=("yak up --keep",)
        )
