"""Pictures of every screen of `yak ui`, taken from `yak ui --demo`: three real brokers under load, one of them killed
on the way.

    .venv/bin/python docs/make_screenshots.py

Writes docs/images/ui-NAME.svg. Fonts are the reader's own: a picture asks no foreign address for anything.
"""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from yak.tui.app import YakApp
from yak.tui.demo.run import DemoRun
from yak.tui.demo.source import DemoSource
from yak.tui.settings import UiSettings

if TYPE_CHECKING:
    from textual.pilot import Pilot

IMAGES = Path(__file__).resolve().parent / "images"
SIZE = (120, 34)
START_SECONDS = 60.0
WARM_SECONDS = 20.0
"""So that the plots of the last minute have something in them."""
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def without_fonts(svg: str) -> str:
    """The picture with the reader's own fonts."""
    return re.sub(r"font-family: Fira Code[^;]*;", f"font-family: {FONTS};", _FACE.sub("", svg)).replace(
        "font-family:Fira Code", f"font-family:{FONTS}"
    )


async def take(pilot: "Pilot[int]", name: str, *keys: str, wait_s: float = 1.5) -> None:
    """Press keys, wait until that is drawn, and keep the picture."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.2)
    await pilot.pause(wait_s)
    svg = without_fonts(pilot.app.export_screenshot(title="yak ui"))
    path = IMAGES / f"ui-{name}.svg"
    await asyncio.to_thread(path.write_text, svg, "utf-8")
    print(f"docs/images/{path.name}", flush=True)


async def until(what: Callable[[], bool], seconds: float, pilot: "Pilot[int]") -> None:
    """Wait for something, or give up loudly."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise SystemExit("the demo's cluster did not come up")
        await pilot.pause(0.1)


async def story(pilot: "Pilot[int]", app: YakApp, killed: Callable[[], Awaitable[None]]) -> None:
    """All pictures in an order that makes each say something."""
    await until(lambda: app.picture.is_loaded and len(app.picture.brokers) == 3, START_SECONDS, pilot)
    await pilot.pause(WARM_SECONDS)
    await take(pilot, "dashboard", "1")
    await take(pilot, "topics", "2")
    await take(pilot, "topic", "enter", wait_s=3)
    await take(pilot, "messages", "colon", *"messages orders", "enter", wait_s=3)
    await take(pilot, "producer", "colon", *"producer orders", "enter")
    await take(pilot, "groups", "6", wait_s=3)
    await take(pilot, "metadata", "7", wait_s=3)
    await killed()
    await take(pilot, "failover", "8", wait_s=3)
    await take(pilot, "replication", "colon", *"replication", "enter", wait_s=2)
    await take(pilot, "activity", "0")


async def draw(run: DemoRun) -> None:
    """The app on the demo's cluster, without a terminal."""
    source = DemoSource(run)
    app = YakApp(source, UiSettings(context="demo"))
    async with app.run_test(size=SIZE) as pilot:

        async def killed() -> None:
            local = app.source.local
            node_id = app.picture.controller_id
            if local is not None and node_id is not None:
                await asyncio.to_thread(local.kill, node_id)
            await pilot.pause(2)

        await story(pilot, app, killed)


def main() -> int:
    """Start the demo, draw, stop it."""
    run = DemoRun()
    run.start()
    try:
        asyncio.run(draw(run))
    finally:
        run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
