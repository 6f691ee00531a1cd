"""Draw a screen from recorded data: `python tests/tui/look.py topics 80x24 out.svg [key ...]`; `topics:orders` opens
orders in it.

`--theme yak-light`, `--ascii`, `--readonly` as `yak ui` has them.
"""

import argparse
import asyncio
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent / "recorded"), str(Path(__file__).parents[2])]

from driving import answered
from pictures import recorded_app
from records import open_recorded

from yak.tui.messages import reader


async def draw(arguments: argparse.Namespace) -> str:
    """As SVG."""
    width, _, height = arguments.size.partition("x")
    start, _, what = arguments.screen.partition(":")
    app = recorded_app(
        start=start,
        start_with=what or None,
        theme=arguments.theme,
        is_ascii=arguments.ascii,
        is_readonly=arguments.readonly,
    )
    reader.open_feed = open_recorded(app.now_ms())  # type: ignore[assignment]
    async with app.run_test(size=(int(width), int(height))) as pilot:
        await answered(pilot)
        for key in arguments.keys:
            await pilot.press(key)
            await answered(pilot)
        await pilot.pause(0.7)  # for the threads that read records
        return app.export_screenshot()


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("screen")
parser.add_argument("size")
parser.add_argument("out")
parser.add_argument("keys", nargs="*")
parser.add_argument("--theme", default="yak-dark")
parser.add_argument("--ascii", action="store_true")
parser.add_argument("--readonly", action="store_true")
given = parser.parse_args()
Path(given.out).write_text(asyncio.run(draw(given)), encoding="utf-8")
