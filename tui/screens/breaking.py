"""Confirmation texts before a broker is killed, paused or restarted. Pure."""

from collections.abc import Mapping

from yak.tui.state.picture import Picture

_AFTER = {
    "kill": "It ends at once, as in a crash. U starts it again on its data.",
    "pause": "It hangs, and its connections stay open. U lets it go on.",
    "restart": "It hands over what it leads, ends, and is started again.",
}
_NAMES = {"kill": "Kill", "pause": "Hang", "restart": "Restart"}


def break_words(action: str, node: int, picture: Picture) -> tuple[str, str, str]:
    """Title, text, and the label of yes."""
    led = [each for each in picture.partitions.values() if each.leader == node]
    alone = sorted(each.name for each in led if set(each.isr) <= {node})
    words = f"Broker {node} leads {len(led)} of {len(picture.partitions)} partitions"
    words += ", and is the controller. " if picture.controller_id == node else ". "
    words += _AFTER[action]
    if alone:
        names = ", ".join(alone[:3]) + (f" and {len(alone) - 3} more" if len(alone) > 3 else "")
        words += f"\nNobody else in sync could lead {names}: offline until it is back."
    return f"{_NAMES[action]} broker {node}", words, _NAMES[action]


def broken_brokers(states: Mapping[int, str]) -> list[tuple[int, str]]:
    """Brokers to repair, and how: paused ones are resumed, dead ones started."""
    how = {"paused": "resume", "dead": "restart", "stopped": "restart"}
    return [(node, how[state]) for node, state in sorted(states.items()) if state in how]
