"""`yak ui --plain`: one line for each event, for screen readers, pipes and terminals that cannot draw."""

import time
from collections.abc import Callable

from yak.tui.look import Look
from yak.tui.rows.cluster import health_rows
from yak.tui.settings import UiSettings
from yak.tui.source.base import ClusterSource
from yak.tui.state.picture import Picture

_HEALTH_EVERY_MS = 10_000


async def watch(source: ClusterSource, settings: UiSettings, write: Callable[[str], None]) -> None:
    """Write the health when it changes, and each event, until cancelled."""
    picture, look = Picture(), Look(settings.zone, settings.is_ascii)  # type: ignore[arg-type]
    told, health, asked_ms, was_lost = 0, [""], 0, False
    async for event in source.follow():
        picture.take(event)
        now_ms = int(time.time() * 1000)
        for line in picture.activity.since(told):
            write(f"{look.time(line.time_ms, now_ms)}  {line.kind}  {line.message}")
        told = picture.activity.count
        is_lost = picture.lost_since_ms is not None
        if is_lost and not was_lost:
            write(f"{look.time(now_ms, now_ms)}  lost  no broker answers: {picture.lost_why}")
        was_lost = is_lost
        if picture.is_loaded and (event["kind"] != "progress" or now_ms - asked_ms > _HEALTH_EVERY_MS):
            asked_ms = now_ms
            now = [" ".join(cell.text for cell in row.cells) for row in health_rows(picture, look, now_ms)]
            if now != health:
                for words in now:
                    if words not in health:
                        write(f"{look.time(now_ms, now_ms)}  health  {words}")
                health = now
