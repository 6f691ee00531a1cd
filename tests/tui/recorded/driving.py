"""Drives the app on the recorded cluster, and reads what it shows."""

import asyncio
from contextlib import asynccontextmanager

from pictures import recorded_app
from textual.widgets import TextArea

from yak.tui.screens.producer import MessageForm
from yak.tui.screens.producer_csv import CsvForm
from yak.tui.widgets.dialogs import FormDialog

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
        await pilot.pause(0.05)  # from look to look


def is_busy(app):
    """Whether something is asked or changed, or a timer will ask: of a field that was typed, of a cursor that rests.

    A worker that waits for the user's answer to an open dialog does not count.
    """
    below = app.screen_below()
    is_dialog_open = app.screen is not below

    def is_under_way(worker):
        if worker.is_finished or worker.group == "listen":
            return False
        return not is_dialog_open or worker.group in ("asking", "topic") or below not in worker.node.ancestors_with_self

    return (
        any(is_under_way(each) for each in app.workers)
        or any(each._is_quiet for each in app.screen.query(MessageForm))
        or any(each._is_waiting for each in app.screen.query(CsvForm))
        or getattr(below, "_resting", None) is not None
    )


async def answered(pilot):
    """Until what is asked was answered, what is changed was done, and both are drawn."""
    app = pilot.app
    await pilot.pause()
    while True:
        await until(pilot, lambda: not is_busy(app), "answers")
        app.screen_below().paint_all(app.now_ms())
        await pilot.pause()
        if not is_busy(app):  # what was drawn may ask too
            return


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
    await answered(pilot)


async def on_top(pilot, kind):
    """The dialog or screen of this kind, once it is on top."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, kind) and app.screen.is_mounted, kind.__name__)
    return app.screen


async def fill_in(pilot, **values):
    """Put values into the fields of the form that opens, and send it."""
    form = await on_top(pilot, FormDialog)
    for name, value in values.items():
        form.query_one(f"#field-{name.replace('_', '-')}").value = value
    await pilot.pause()
    await pilot.press("ctrl+s")


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
