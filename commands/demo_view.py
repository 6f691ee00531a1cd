"""Prints the demos of `yak demo`: numbered steps on stderr, the report, and the next commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.replication import PartitionReplicas
    from yak.local.demo.ledger import Verdict
    from yak.local.failover import Failover

COLUMNS = ("topic", "acknowledged", "read", "lost", "duplicated", "out_of_order")


class Printed:
    """Reports a scenario's steps on stderr, with a live count on a terminal."""

    def __init__(self, g: Globals, steps: int) -> None:
        import os

        self._out = g.out
        self._steps = steps
        self._live = g.out.stderr.isatty() and not g.quiet and not os.environ.get("CI")
        self._counting = False

    def step(self, number: int, title: str) -> None:
        """Report the start of a step."""
        self._clear_count()
        self._out.note(self._out.paint(f"{number}/{self._steps}", "1;36") + "   " + self._out.paint(title, "1"))

    def say(self, text: str) -> None:
        """Print a line under the step."""
        self._clear_count()
        self._out.note(f"      {text}")

    def loading(self, acknowledged: int) -> None:
        """Print the number of acknowledged records on the same line."""
        self.count(f"{acknowledged} acknowledged")

    def count(self, text: str) -> None:
        """Print a growing count; on a terminal, on the same line."""
        if self._live:
            self._out.stderr.write(f"\r      {text}")
            self._out.stderr.flush()
            self._counting = True

    def replicas(self, partitions: "Sequence[PartitionReplicas]") -> None:
        """Print one row per partition with the log end on each broker; it is narrower than the table of `yak isr`."""
        for line, colour in replica_lines(partitions):
            self.say(self._out.paint(line, colour) if colour else line)

    def timeline(self, failover: "Failover") -> None:
        """Print the timeline after a kill."""
        from yak.commands.failover_view import timeline_lines

        for line in timeline_lines(failover.timeline, "killed"):
            self.say(line)

    def _clear_count(self) -> None:
        if self._counting:
            self._out.stderr.write("\r" + " " * 40 + "\r")
            self._counting = False


def replica_lines(partitions: "Sequence[PartitionReplicas]") -> list[tuple[str, str]]:
    """Lines with their colours."""
    from yak.commands.isr_view import BAD, GOOD
    from yak.commands.output import layout

    nodes = sorted({node for each in partitions for node in each.replicas})
    rows = [
        {
            "partition": each.name,
            "leader": each.leader,
            "epoch": each.leader_epoch,
            "in sync": f"{','.join(map(str, each.isr))} of {len(each.replicas)}",
            "hw": each.high_watermark,
            **{f"end {node}": each.log_end_offsets.get(node) for node in nodes},
        }
        for each in partitions
    ]
    lines = layout(rows, list(rows[0]) if rows else [])
    colours = [GOOD, *(GOOD if each.health == "in sync" else BAD for each in partitions)]
    return list(zip(lines, colours, strict=True)) if rows else []


def verdict_rows(verdicts: "Sequence[Verdict]") -> list[dict[str, object]]:
    """One row per topic."""
    return [
        {
            "topic": verdict.topic,
            "acknowledged": verdict.acknowledged,
            "read": verdict.read,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "out_of_order": verdict.out_of_order + verdict.moved,
        }
        for verdict in verdicts
    ]


def show_verdict(
    g: Globals, verdicts: "Sequence[Verdict]", *, holds: bool, more: Sequence[str], next_commands: Sequence[str]
) -> None:
    """Print the report for people: the table on stdout; the outcome, notes and next commands on stderr."""
    from yak.local.demo.ledger import totals

    found = totals(verdicts)
    counts = ", ".join(
        f"{word} {found[name]}"
        for word, name in (
            ("acked", "acknowledged"),
            ("read", "read"),
            ("lost", "lost"),
            ("duplicated", "duplicated"),
            ("out of order", "out_of_order"),
        )
    )
    g.out.note("")
    g.out.table(verdict_rows(verdicts), COLUMNS)
    show_end(
        g,
        "every acknowledged message is there" if holds else None,
        more=(counts, *more),
        next_commands=next_commands,
    )


def show_end(g: Globals, good: str | None, *, more: Sequence[str], next_commands: Sequence[str]) -> None:
    """Print the outcome below a table, then notes and next commands. `good` is what held; None if something did not."""
    out = g.out
    out.stdout.flush()
    out.note("")
    if good is not None:
        out.note(out.paint(f"OK    {good}", "1;32"))
    else:
        out.note(out.paint("FAIL  the check did not hold", "1;31"))
    for line in more:
        out.note(f"      {line}")
    out.note("")
    out.note(out.paint("What to type next", "1"))
    for line in next_commands:
        out.note(f"  {line}")


def aligned(commands: Sequence[tuple[str, str]]) -> list[str]:
    """Commands with their descriptions, and first the command that puts yak on PATH, if it is not."""
    reach = _reach_yak()
    shown = commands if reach is None else [(reach, "so that the shell finds yak"), *commands]
    return [f"{command:<37} {why}".rstrip() for command, why in shown]


def _reach_yak() -> str | None:
    """The command that puts this `yak` on PATH; None when it is on PATH, as after `pip install`."""
    import os
    import shlex
    import shutil
    import sys

    if shutil.which("yak") is not None:
        return None
    folder = os.path.dirname(os.path.realpath(sys.executable) if getattr(sys, "frozen", False) else sys.executable)
    activate = os.path.join(folder, "activate")
    if not os.path.exists(activate):
        return f"export PATH={shlex.quote(folder)}:$PATH"
    nearby = os.path.relpath(activate)
    return ". " + shlex.quote(activate if nearby.startswith("..") else nearby)
