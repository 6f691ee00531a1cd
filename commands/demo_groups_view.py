"""Prints `yak demo groups`: assignments, where a dead member's partitions went, and the report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.commands.demo_view import Printed, aligned, show_end

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.local.demo.group_ledger import PartitionVerdict
    from yak.local.demo.groups_result import GroupsDemoResult, Handover, MemberRow

COLUMNS = ("partition", "read_by", "acknowledged", "read", "lost", "twice_committed", "twice_uncommitted")


class PrintedGroups(Printed):
    """Reports the steps, with tables of the group."""

    def reading(self, acknowledged: int, read: int) -> None:
        """Print the current counts on the same line."""
        self.count(f"{acknowledged} acknowledged, {read} read")

    def members(self, rows: "Sequence[MemberRow]") -> None:
        """Print one row per member."""
        self._lines(member_lines(rows))

    def handovers(self, rows: "Sequence[Handover]") -> None:
        """Print one row per partition of the dead member."""
        self._lines(handover_lines(rows))

    def _lines(self, lines: Sequence[tuple[str, str]]) -> None:
        for line, colour in lines:
            self.say(self._out.paint(line, colour) if colour else line)


def member_lines(rows: "Sequence[MemberRow]") -> list[tuple[str, str]]:
    """Lines with their colours."""
    from yak.commands.isr_view import BAD, GOOD
    from yak.commands.output import layout

    shown = [
        {
            "member": row.name,
            "pid": row.pid,
            "partitions": "killed" if row.is_killed else ", ".join(map(str, row.partitions)) or None,
            "messages read": row.read,
        }
        for row in rows
    ]
    colours = [GOOD, *(BAD if row.is_killed or not row.partitions else GOOD for row in rows)]
    return _coloured(layout(shown, list(shown[0]) if shown else []), colours)


def handover_lines(rows: "Sequence[Handover]") -> list[tuple[str, str]]:
    """Lines with their colours."""
    from yak.commands.isr_view import BAD, GOOD
    from yak.commands.output import layout

    shown = [
        {
            "partition": row.partition,
            "last commit": row.committed,
            "was read to": row.read_to,
            "goes on with": row.taken_by,
            "from": row.began_at,
            "read again": row.again,
        }
        for row in rows
    ]
    colours = [GOOD, *(GOOD if row.holds else BAD for row in rows)]
    return _coloured(layout(shown, list(shown[0]) if shown else []), colours)


def _coloured(lines: list[str], colours: list[str]) -> list[tuple[str, str]]:
    return list(zip(lines, colours, strict=True)) if len(colours) > 1 else []


def verdict_rows(verdicts: "Sequence[PartitionVerdict]") -> list[dict[str, object]]:
    """One row per partition."""
    return [
        {
            "partition": verdict.partition,
            "read_by": ", ".join(reader.removeprefix("member-") for reader in verdict.readers),
            **{name: getattr(verdict, name) for name in COLUMNS[2:]},
        }
        for verdict in verdicts
    ]


def show_groups_verdict(g: "Globals", result: "GroupsDemoResult") -> None:
    """Print the report for people: the table on stdout, the rest on stderr."""
    g.out.note("")
    g.out.table(verdict_rows(result.verdicts), COLUMNS)
    show_end(
        g,
        "every message was read, and nothing twice that was committed" if result.holds else None,
        more=verdict_lines(result),
        next_commands=_after(result),
    )


def verdict_lines(result: "GroupsDemoResult") -> list[str]:
    """The counts, and the most important times."""
    from yak.local.demo.group_ledger import totals

    found, times = totals(result.verdicts), result.times
    session_s = result.settings.session_timeout_ms / 1000.0
    lines = [
        f"acked {found['acknowledged']}, read {found['read']}, lost {found['lost']}, committed and read again "
        + str(found["twice_committed"]),
        f"read again because it was not committed yet: {found['twice_uncommitted']}",
    ]
    if result.commits_lost:
        lines.append(f"commits lost with the coordinator: {result.commits_lost}")
    lines += [
        f"start {times.start_ms:.0f} ms, Redis included; the whole demo {times.total_ms / 1000.0:.1f} s",
        f"the dead member's partitions went to the others in {times.taken_over_ms:.0f} ms (session {session_s:g} s)",
        f"from the kill of the coordinator to the next commit {times.next_commit_ms:.0f} ms",
    ]
    return lines


def _after(result: "GroupsDemoResult") -> list[str]:
    import shlex

    from yak.local.demo.groups_result import GROUP_ID, TOPIC

    if not result.settings.keep:
        return aligned(
            [
                ("yak up -d --brokers 3", "start a cluster that stays"),
                ("yak demo groups --session-timeout 2s", "a death is noticed sooner"),
                ("yak demo groups --keep", "this again, and leave it running"),
            ]
        )
    where = shlex.quote(result.data_dir)
    return aligned(
        [
            (f"yak groups describe {GROUP_ID} -b {result.bootstrap}", ""),
            (f"yak consume {TOPIC} --from-beginning --exit -b {result.bootstrap}", ""),
            (f"yak down --data-dir {where}", ""),
        ]
    )
