"""Drives the app on the recorded cluster, and reads what it shows."""

import asyncio
from contextlib import asynccontextmanager

from pictures import recorded_app
from textual.widgets import TextArea

PATIENCE_S = 60.0


@asynccontextmanager
async def on_recorded(*, size=(80, 24), source=None, **settings):
    """An app on recorded data, once what it asks for at first was answered, and its pilot."""
    app = recorded_app(source=source, **settings)
    async with app.run_test(size=size) as pilot:
        await answered(pilot)
        yield app, pilot
        assert app._exception is None


async def until(pilot, condition, what="it"):
    """Pause until this holds: generous with time, so that a busy machine fails no test."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not in {PATIENCE_S:.0f} s: {what}"
        await pilot.pause(0.05)


async def answered(pilot):
    """Until what is asked was answered, and drawn."""
    await pilot.pause()
    while asked := [each for each in pilot.app.workers if each.group in ("asking", "topic") and not each.is_finished]:
        await asyncio.wait_for(pilot.app.workers.wait_for_complete(asked), 5)
        await pilot.pause()
    pilot.app.screen_below().paint_all(pilot.app.now_ms())
    await pilot.pause()


async def press(pilot, *keys):
    await pilot.press(*keys)
    await answered(pilot)


async def typed(app, pilot, **fields):
    """Put texts into fields by name, and wait until they are checked."""
    for name, text in fields.items():
        field = app.screen.query_one(f"#{name.replace('_', '-')}")
        if isinstance(field, TextArea):
            field.text = text
        else:
            field.value = text
    await pilot.pause(0.4)


def texts(grid):
    """The lines of a table."""
    return [[cell.text for cell in grid.displayed.at(index).cells] for index in range(grid.row_count)]


def shown(grid):
    """The lines of a table as dicts by heading."""
    return [dict(zip((column.label for column in grid.columns), line, strict=True)) for line in texts(grid)]


def drawn(app):
    """The whole screen as text."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def words(lines):
    """The text of `Lines`."""
    return " ".join(cell.text for line in lines._lines for cell in line)


def details(pane):
    """The text of a `RecordPane`."""
    return "\n".join(line.text for line in pane._lines)
