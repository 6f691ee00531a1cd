"""Confirmation texts of the failover screen, and the equivalent commands. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from yak.errors import UsageError
from yak.tui.rows.failover import Processes, stake_of
from yak.tui.state.picture import Picture

ANY = "any in sync"


def kill_words(action: str, node: int, picture: Picture, processes: Processes | None) -> tuple[str, str, str]:
    """Text, title, and the label of yes."""
    stake = stake_of(picture, node)
    process = processes.brokers.get(node) if processes is not None else None
    pid = f"process {process.pid}" if process is not None and process.pid is not None else "no process"
    controller = "It is the controller: another broker takes the office. " if node == picture.controller_id else ""
    leads = f"It leads {stake.leads} of {len(picture.partitions)} partitions."
    after = {
        "kill": f"It ends at once ({pid}), as in a crash. U starts it again on its data.",
        "pause": f"It hangs ({pid}), with all its connections. U lets it go on.",
        "restart": f"It hands over what it leads, ends ({pid}), and is started again.",
    }[action]
    danger = ""
    if stake.unsafe:
        names = ", ".join(stake.unsafe[:3]) + (" and others" if len(stake.unsafe) > 3 else "")
        danger = f"\nNobody else in sync could lead {names}: offline until it is back."
    title = {"kill": f"Kill broker {node}", "pause": f"Hang broker {node}", "restart": f"Restart broker {node}"}[action]
    yes = {"kill": "Kill", "pause": "Hang", "restart": "Restart"}[action]
    return f"{leads} {controller}{after}{danger}", title, yes


def redis_words() -> str:
    """The effect of stopping the metadata store."""
    return (
        "It ends at once, as in a crash; what it holds is on its disk. Messages flow on without it, only changes of topics "
        "and leaders wait. U starts it again."
    )


def move_body(node: int, values: Mapping[str, str], led: Sequence[str], nodes: Sequence[int]) -> dict[str, Any]:
    """The body for `POST /api/failover`. Raises UsageError for a partition that the broker does not lead."""
    body: dict[str, Any] = {}
    what = values["what"].strip()
    if what:
        topic, _, number = what.partition(":")
        body["topic"] = topic
        mine = [name for name in led if name.rpartition("-")[0] == topic]
        if not mine:
            raise UsageError("not-led", f"broker {node} leads nothing of {topic}", why=f"it leads {_some(led)}")
        if number:
            if f"{topic}-{number}" not in mine:
                raise UsageError("not-led", f"broker {node} does not lead {what}", why=f"it leads {_some(mine)}")
            body["partition"] = int(number)
    body["from"] = node
    to = values["to"]
    if to != ANY:
        if to not in {str(each) for each in nodes}:
            raise UsageError("unknown-broker", f"there is no broker {to}")
        body["to"] = int(to)
    return body


def move_command(node: int, values: Mapping[str, str], led: Sequence[str], nodes: Sequence[int]) -> str:
    """The equivalent command. Raises UsageError."""
    body = move_body(node, values, led, nodes)
    what = "" if "topic" not in body else f" {body['topic']}" + (f":{body['partition']}" if "partition" in body else "")
    to = f" --to {body['to']}" if "to" in body else ""
    return f"yak failover{what} --from {node}{to}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
