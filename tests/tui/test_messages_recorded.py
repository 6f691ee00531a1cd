"""The Messages and Consumer screens without a cluster: what is drawn, at both sizes and in letters."""

import pytest
from driving import details, drawn, on_recorded, on_top, until
from pictures import recorded_app
from records import EACH, PARTITIONS, open_recorded

from yak.client.offset_spec import START
from yak.tui.messages.subscription import Choice, Seek, Subscription
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.record_pane import RecordPane

ORDERS = Subscription((Choice("orders"),), Seek(START))


@pytest.fixture(autouse=True)
def records(monkeypatch):
    now_ms = recorded_app().now_ms()
    monkeypatch.setattr("yak.tui.messages.reader.open_feed", open_recorded(now_ms))


async def opened(app, pilot, name, what):
    app.go(name, what)
    await until(pilot, lambda: app.current_mode == name and app.screen.is_mounted)
    return app.screen


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_list_of_records(size):
    async with on_recorded(size=size) as (app, pilot):
        screen = await opened(app, pilot, "messages", ORDERS)
        await until(pilot, lambda: screen.grid_in_use().row_count == EACH * PARTITIONS)
        await until(pilot, lambda: "at the end" in drawn(app))
        text = drawn(app)
        assert "OFFSET" in text
        assert "0@1000" in text
        assert f"{EACH * PARTITIONS} read" in text
        assert ("HEADERS" in text) == (size[0] == 140), "columns go where there is no room"


async def test_ascii_mode_has_letters_for_signs():
    async with on_recorded(is_ascii=True) as (app, pilot):
        await opened(app, pilot, "messages", ORDERS)
        await until(pilot, lambda: "[up] at the end" in drawn(app))
        await pilot.press("space")
        await until(pilot, lambda: "[||] paused" in drawn(app))


async def test_space_resumes_a_display_that_another_screen_paused():
    async with on_recorded(size=(140, 40)) as (app, pilot):
        await pilot.press("space")
        assert app.is_frozen
        screen = await opened(app, pilot, "messages", ORDERS)
        await pilot.press("space")
        assert not app.is_frozen
        await until(pilot, lambda: screen.grid_in_use().row_count == EACH * PARTITIONS)
        await until(pilot, lambda: "‖ paused" not in drawn(app))
        await pilot.press("space")
        await until(pilot, lambda: "‖ paused" in drawn(app))
        assert not app.is_frozen


async def test_times_follow_the_zone_and_the_view_is_cycled():
    async with on_recorded(size=(140, 40)) as (app, pilot):
        screen = await opened(app, pilot, "messages", ORDERS)
        await until(pilot, lambda: screen.grid_in_use().row_count == EACH * PARTITIONS)
        await pilot.press("Z", "Z")
        await until(pilot, lambda: "60 s ago" in drawn(app) or "1 min ago" in drawn(app))
        await pilot.press("J", "J")
        await until(pilot, lambda: "⟨hex⟩ 7b 22 6f" in drawn(app))


async def test_the_keys_of_both_screens_are_in_the_help():
    async with on_recorded(size=(140, 40)) as (app, pilot):
        for name, text in (("messages", "Read other topics"), ("consumer", "Commit the offsets")):
            await opened(app, pilot, name, None)
            await pilot.press("question_mark")
            await on_top(pilot, TextDialog)
            assert text in str(app.screen.query_one("#text").render())
            await pilot.press("escape")


@pytest.mark.parametrize(("size", "count"), [((80, 24), 3), ((140, 40), 6)])
async def test_tiles(size, count):
    async with on_recorded(size=size) as (app, pilot):
        screen = await opened(app, pilot, "consumer", None)
        assert "No subscriptions yet. a adds one" in drawn(app)
        for number in range(count):
            screen.read(Subscription((Choice(("orders", "payments")[number % 2]),), Seek(START)))
        await until(pilot, lambda: sum(tile.grid.row_count for tile in screen.tiles) == count * EACH * PARTITIONS)
        await until(pilot, lambda: drawn(app).count("at the end") == count)
        text = drawn(app)
        for tile in screen.tiles:
            assert f"{tile.letter} {tile.reader.wanted.title}" in text
            assert tile.size.height >= 6
        await pilot.press("m")
        merged = screen.query_one("#merged")
        await until(pilot, lambda: merged.row_count == count * EACH * PARTITIONS)
        await pilot.press("escape")
        await until(pilot, lambda: not screen.query_one("#merged-panel").display, "the tiles again")
        assert app.current_mode == "consumer"


async def test_the_value_of_a_record_is_in_sight_in_a_low_window():
    async with on_recorded() as (app, pilot):
        screen = await opened(app, pilot, "messages", ORDERS)
        await until(pilot, lambda: screen.grid_in_use().row_count == EACH * PARTITIONS)
        await pilot.press("d")
        await until(pilot, lambda: '"order":' in drawn(app).partition("key text")[2])
        pane = screen.query_one(RecordPane)
        assert "partition" in details(pane), "the facts beside it follow the value"
