"""Prints the results of `yak failover`: moved leaders, and the timeline."""

from typing import TYPE_CHECKING, Any

from yak.commands.local_cluster import data_dir_flag
from yak.commands.output import layout
from yak.view.formats import counted

if TYPE_CHECKING:
    from yak.client.leadership import Plan
    from yak.commands.options import Globals
    from yak.local.failover import Failover, Moved
    from yak.local.failover_timeline import Timeline

MOVE_COLUMNS = ("topic", "partition", "from", "to", "result")
LONG_MS = 1000.0


def show_end(g: "Globals", result: "Failover", *, hard: bool, data_dir: str) -> None:
    """Print the result of a killed or restarted broker."""
    out = g.out
    if out.format in ("json", "yaml"):
        out.object({"action": "kill" if hard else "restart", **result.as_json()})
        return
    if not out.for_people:
        out.table(_steps(result.timeline, "killed" if hard else "told to stop"), ("ms", "step"))
        return
    office = " and was the controller" if result.was_controller else ""
    how = "killed with kill -9" if hard else "stopped and started again"
    out.line(
        f"broker {result.node_id} (pid {result.pid}) {how}; it led {counted(len(result.led), 'partition')}{office}"
    )
    for line in timeline_lines(result.timeline, "killed" if hard else "told to stop", out="fenced" if hard else "left"):
        out.line(f"  {line}")
    out.stdout.flush()
    for line in probe_lines(result):
        out.note(line)
    if result.led and result.timeline.elected_ms is None:
        out.warn("not every partition has a new leader yet: yak isr --offline")
    if hard:
        out.note(f"bring it back: yak node restart {result.node_id}{data_dir_flag(data_dir)}")


def probe_lines(result: "Failover") -> list[str]:
    """The result of the probe, in words."""
    if result.probed is None:
        return []
    pause = (
        "no write came through" if result.pause_ms is None else f"writes stood still for {_ms(result.pause_ms)} at most"
    )
    errors = f"{counted(len(result.errors), 'error')}" + (f": {result.errors[0]}" if result.errors else "")
    return [f"test topic with the same leader: {pause}; {result.acknowledged} records acknowledged, {errors}"]


def timeline_lines(timeline: "Timeline", begin: str, *, out: str = "fenced") -> list[str]:
    """Lines such as ` 31 ms detected`; `out` is the word for a broker that left the cluster."""
    rows = _steps(timeline, begin)
    for row in rows:
        row["step"] = out if row["step"] == "fenced" else row["step"]
    return layout([{"ms": _ms(row["ms"]).rjust(8), "step": row["step"]} for row in rows], ("ms", "step"), headers=False)


def _steps(timeline: "Timeline", begin: str) -> list[dict[str, Any]]:
    return [
        {"ms": 0.0, "step": begin},
        *({"ms": round(at, 1), "step": name} for name, at in timeline.steps()),
    ]


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value < LONG_MS * 10 else f"{value / 1000:.1f} s"


def show_moves(g: "Globals", plan: "Plan", moved: "Moved") -> None:
    """Print the result of planned leadership moves."""
    out = g.out
    rows = _move_rows(plan, moved)
    if out.format in ("json", "yaml"):
        out.object({"action": "move", "moves": rows, **moved.as_json()})
        return
    out.table(rows, MOVE_COLUMNS)
    if not out.for_people:
        return
    out.stdout.flush()
    count = len(plan.moves) - len(moved.failed)
    if not plan.moves and not plan.refused:
        out.note("nothing to move: every partition is led by the broker it should be led by")
        return
    out.note(f"{counted(count, 'leader')} moved in {_ms(moved.took_ms)}")
    for line in timeline_lines(moved.timeline, "asked") if moved.timeline.steps() else ():
        out.note(f"  {line}")
    if moved.probed is not None:
        out.note(
            f"{moved.probed}: writes stood still for {_ms(moved.pause_ms or 0.0)} at most; "
            f"{moved.acknowledged} test records acknowledged, {counted(len(moved.errors), 'error')}"
        )


def _move_rows(plan: "Plan", moved: "Moved") -> list[dict[str, Any]]:
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "from": each.leader,
            "to": each.to,
            "result": f"failed: {moved.failed[each.partition]}" if each.partition in moved.failed else "moved",
        }
        for each in plan.moves
    ]
    for others, word in ((plan.refused, "not moved"), (plan.stays, "stays")):
        rows += [
            {"topic": key.topic, "partition": key.partition, "from": None, "to": None, "result": f"{word}: {reason}"}
            for key, reason in others.items()
        ]
    return sorted(rows, key=lambda row: (str(row["topic"]), int(str(row["partition"]))))
