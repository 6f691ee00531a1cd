"""The top line: the cluster and its health. Pure."""

from yak.tui.look import Look, ago
from yak.tui.rows.cells import Cell
from yak.tui.state.picture import Picture


def header(
    title: str, picture: Picture, look: Look, now_ms: int, *, is_readonly: bool, is_production: bool, is_frozen: bool
) -> tuple[list[Cell], list[Cell]]:
    """The cells at the left and at the right."""
    left = [Cell("yak ", "accent"), Cell(title, "strong")]
    if is_production:
        left.append(Cell("PROD", "bad"))
    brokers = picture.brokers.values()
    up = sum(broker.is_up for broker in brokers)
    if not picture.is_loaded:
        left.append(Cell(f"{look.sign('unknown')} connecting", "dim"))
    elif picture.lost_since_ms is not None:
        left.append(Cell(f"{look.sign('down')} lost", "bad"))
    else:
        whole = up == len(picture.brokers)
        left.append(
            Cell(f"{look.sign('up' if whole else 'warn')} {up}/{len(picture.brokers)} up", "good" if whole else "warn")
        )
        left.append(_controller(picture))
        behind = sum(each.is_under_replicated for each in picture.partitions.values())
        leaderless = sum(each.leader is None for each in picture.partitions.values())
        if leaderless:
            left.append(Cell(f"{look.sign('bad')} {leaderless} offline", "bad"))
        elif behind:
            left.append(Cell(f"{look.sign('warn')} {behind} behind", "warn"))
    right = []
    if is_frozen:
        right.append(Cell(f"{look.sign('paused')} paused", "warn"))
    if is_readonly:
        right.append(Cell("READ-ONLY", "warn"))
    if picture.lost_since_ms is not None and picture.heard_ms is not None:
        right.append(Cell(f"as of {ago(now_ms - picture.heard_ms)}", "dim"))
    zoned = Look("utc" if look.zone == "relative" else look.zone, look.is_ascii)
    right.append(Cell(zoned.time(now_ms, now_ms), "dim"))
    return left, right


def _controller(picture: Picture) -> Cell:
    if picture.controller_id is None:
        return Cell("no controller", "warn")
    return Cell(f"controller {picture.controller_id} (epoch {picture.controller_epoch})", "dim")
