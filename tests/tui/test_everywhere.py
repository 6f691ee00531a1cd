"""What is the same on all screens, on the recorded cluster."""

import asyncio
import time
from dataclasses import replace

import pytest
from driving import answered, drawn, on_recorded, on_top, press, until
from pictures import recorded_app, recorded_source
from textual import events
from textual.widgets import Input, TextArea

from yak.client.produce import Failed
from yak.errors import UsageError, YakError
from yak.tui.keys import KEYS, SCREENS, check_keymap, clashes
from yak.tui.screens.base import YakScreen
from yak.tui.widgets.dialogs import Field, FormDialog, Prompt, TextDialog
from yak.tui.widgets.frame import KeyBar, Rail
from yak.tui.widgets.grid import Grid


def test_no_key_has_two_actions():
    assert clashes({}) == []


def test_no_key_is_one_that_browsers_keep():
    taken = {"ctrl+w", "ctrl+t", "ctrl+n", *(f"f{number}" for number in range(1, 13))}
    assert not [key.id for key in KEYS.values() for each in key.keys.split(",") if each in taken]


def test_key_that_changes_something_is_a_capital_or_opens_a_form():
    for key in KEYS.values():
        if key.is_change:
            first = key.keys.split(",")[0]
            assert first.isupper() or first in ("a", "ctrl+s", "r", "p"), f"{key.id} is {first}"


def test_a_keymap_that_gives_a_key_to_two_actions_is_refused_with_both_names():
    with pytest.raises(UsageError) as refused:
        check_keymap({"app.zone": "w"})
    assert "app.zone" in refused.value.message
    assert "app.wide" in refused.value.message
    with pytest.raises(UsageError, match=r"app\.nosuch"):
        check_keymap({"app.nosuch": "w"})
    assert check_keymap({"app.zone": "W"}) == {"app.zone": "W"}


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
async def test_every_screen_is_opened_by_its_digit_and_its_name(entry):
    async with on_recorded() as (app, pilot):
        if entry.digit:
            await pilot.press(entry.digit)
            await pilot.pause()
            assert app.current_mode == entry.name
            await pilot.press("escape")
        await pilot.press("colon", *entry.name, "enter")
        await pilot.pause()
        assert app.current_mode == entry.name
        assert app._exception is None


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
async def test_help_of_every_screen_lists_its_keys(entry):
    async with on_recorded(start=entry.name, size=(100, 40)) as (app, pilot):
        screen = app.screen
        assert isinstance(screen, YakScreen)
        assert screen.CRUMB
        bound = {active.binding.id for active in screen.active_bindings.values()}
        app.action_help()
        await pilot.pause()
        assert isinstance(app.screen, TextDialog)
        text = " ".join(str(app.screen._content).split())
        for each in bound & KEYS.keys():
            assert KEYS[each].help in text
        await pilot.press("q")
        await pilot.pause()
        assert app.screen is screen


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
async def test_read_only_screen_has_no_key_that_changes_the_cluster(entry):
    source = recorded_source()
    async with on_recorded(source=source, start=entry.name, is_readonly=True, size=(120, 40)) as (app, pilot):
        for active in app.screen.active_bindings.values():
            key = KEYS.get(active.binding.id or "")
            assert key is None or not key.is_change or not active.enabled, key
        for key in KEYS.values():
            if key.is_change and key.scope == entry.name:
                before = app.screen
                await pilot.press(key.keys.split(",")[0])
                await pilot.pause()
                assert app.screen is before, f"{key.id} opened {app.screen}"
        assert not [each for each in source.requests if each[0] != "GET"]


@pytest.mark.parametrize("name", ["topics", "groups", "failover", "replication"])
async def test_app_that_ends_while_a_screen_opens_reports_no_bug(name):
    """As SIGTERM and SIGHUP end it: they wait for no key."""

    async with on_recorded(size=(120, 40)) as (app, _pilot):
        app.go(name)
        await asyncio.sleep(0)
        app.exit(143)
    assert app.fault is None


def paste(app, text):
    """All keys at once, as a terminal sends a pasted text."""
    for letter in text:
        key = {":": "colon", "/": "slash", "\r": "enter", "\x1b": "escape"}.get(letter, letter)
        app.post_message(events.Key(key, letter))


@pytest.mark.parametrize("name", ["replication", "failover", "groups"])
async def test_a_pasted_command_opens_its_screen(name):
    async with on_recorded(start="failover" if name == "replication" else "topics") as (app, pilot):
        paste(app, f":{name}\r")
        await until(pilot, lambda: app.current_mode == name and len(app.screen_stack) == 1, name)
        await answered(pilot)
        assert app.current_mode == name
        assert len(app.screen_stack) == 1, app.screen


async def test_keys_behind_a_pasted_command_are_for_its_screen():
    """They went to the prompt while it closed, and were lost: the second command was not run."""

    async with on_recorded(start="failover") as (app, pilot):
        paste(app, ":topics\r/ord\r:groups\r:topics\r")
        await until(pilot, lambda: app.current_mode == "topics" and len(app.screen_stack) == 1, "topics")
        assert app.screen.current_filter() == "ord"
        paste(app, "/abc\x1b:groups\r")
        await until(pilot, lambda: app.current_mode == "groups" and len(app.screen_stack) == 1, "groups")


async def test_keys_behind_one_that_goes_to_a_field_are_for_the_field():
    """The app took them before the screen had that key: `:` opened the command line, with the rest of the text in it."""

    async with on_recorded(start="producer", size=(120, 40)) as (app, pilot):
        paste(app, 'e{"a": "b/K"}')
        await until(pilot, lambda: app.screen.query_one("#form-value", TextArea).text == '{"a": "b/K"}', "the value")
        paste(app, "\x1b:topics\r/ord\r")
        await until(pilot, lambda: app.current_mode == "topics" and len(app.screen_stack) == 1, "topics")
        await until(pilot, lambda: app.screen.current_filter() == "ord", "the filter")


async def test_keys_behind_one_that_opens_a_form_are_for_its_first_field():
    """The form took none until it was drawn: the first letters of a name were lost."""

    async with on_recorded(start="topics", size=(120, 40)) as (app, pilot):
        paste(app, "aorders-2")
        await until(pilot, lambda: app.screen.query("#field-name"), "the form")
        await until(pilot, lambda: app.screen.query_one("#field-name", Input).value == "orders-2", "the name")
        paste(app, "\x1bafirst\x1ba:/Ka")
        await until(pilot, lambda: app.screen.query("#field-name"), "the form again")
        await until(pilot, lambda: app.screen.query_one("#field-name", Input).value == ":/Ka", "the next name")


async def test_a_pasted_filter_with_capitals_opens_no_question():
    async with on_recorded(start="failover") as (app, pilot):
        paste(app, "/KPAD")
        await on_top(pilot, Prompt)
        await until(pilot, lambda: app.screen.query_one("#prompt-input", Input).value == "KPAD", "the filter")
        assert app.screen_below().current_filter() == "KPAD"


async def test_a_checkbox_that_is_off_has_no_letter_in_it():
    async with on_recorded() as (app, pilot):
        app.push_screen(FormDialog("Choose", [Field("on", "It", "true", is_check=True)], command=lambda _: ""))
        box = (await on_top(pilot, FormDialog)).query_one("#field-on")
        await pilot.pause()
        text = box.render_line(0).text
        box.value = False
        await pilot.pause()
        assert ("X" in text, "X" in box.render_line(0).text) == (True, False)


async def test_an_unknown_command_names_the_closest():
    async with on_recorded() as (app, pilot):
        await pilot.press("colon", *"activty", "enter")
        await pilot.pause()
        assert app.notices[-1][1].code == "unknown-command"
        assert 'closest: "activity"' in app.notices[-1][1].why


@pytest.mark.parametrize("start", ["dashboard", "failover"])
async def test_enter_on_a_broker_shows_its_details(start):
    async with on_recorded(start=start, size=(100, 40)) as (app, pilot):
        app.screen.query_one("#brokers", Grid).focus()
        await pilot.press("enter")
        await on_top(pilot, TextDialog)
        assert str(app.screen.query_one("#dialog").border_title) == "Broker 1"


async def test_doctor_runs_as_every_yak_that_yak_starts(monkeypatch):
    """Else a folder of the working directory could be taken for a library, see `yak_argv`."""
    monkeypatch.setattr("yak.tui.app.yak_argv", lambda *argv: ["echo", "yak", *argv])

    async with on_recorded() as (app, pilot):
        paste(app, ":doctor\r")
        await on_top(pilot, TextDialog)
        report = str(app.screen.query_one("#text").render())
        assert report.strip() == f"yak doctor -b {app.source.bootstrap} --no-color"


async def test_doctor_has_the_login_of_the_context_in_use(monkeypatch):
    """Without the context it would be that of the current one."""
    monkeypatch.setattr("yak.tui.app.yak_argv", lambda *argv: ["echo", *argv])
    contexts = {"local": {"bootstrap_servers": "a:1"}}

    async with on_recorded(contexts=contexts, config_file="contexts.toml") as (app, pilot):
        paste(app, ":doctor\r")
        await on_top(pilot, TextDialog)
        report = str(app.screen.query_one("#text").render())
        assert "--config contexts.toml --context local" in report


async def test_sample_whose_records_are_not_written_is_an_error():
    refused = Failed(0, YakError("timed-out", "not written in time"), "in time")
    source = recorded_source()
    source.calls["send"] = lambda run: replace(run.stats, sent=100, failed=100, first_failure=refused)

    async with on_recorded(source=source) as (app, pilot):
        paste(app, ":sample\r")
        await until(pilot, lambda: app.notices, "the outcome")
        assert [said.message for _, said, _ in app.notices] == ["not written in time"]


async def test_a_filter_shows_as_it_is_typed_and_escape_clears_it():
    async with on_recorded(start="activity") as (app, pilot):
        grid = app.screen.query_one("#events", Grid)
        every = grid.row_count
        await pilot.press("slash", *"isr")
        await pilot.pause()
        app_screen = app.screen_below()
        grid = app_screen.query_one("#events", Grid)
        assert 0 < grid.row_count < every
        few = grid.row_count
        await pilot.press("enter")
        await pilot.pause()
        assert grid.row_count == few
        await pilot.press("slash", "ctrl+u", "!", *"isr", "enter")
        await pilot.pause()
        assert grid.row_count == every - few
        await pilot.press("escape")
        await pilot.pause()
        assert grid.row_count == every


async def test_invalid_filter_shows_an_error_and_leaves_the_rows():
    async with on_recorded(start="activity") as (app, pilot):
        grid = app.screen.query_one("#events", Grid)
        every = grid.row_count
        await pilot.press("slash", "~", "(")
        await pilot.pause()
        assert "no regular expression" in str(app.screen.query_one("#prompt-error").render())
        assert grid.row_count == every
        await pilot.press("escape")


async def test_enter_refuses_a_wrong_expression_and_escape_restores_the_filter_before():
    async with on_recorded(start="activity") as (app, pilot):
        grid = app.screen.query_one("#events", Grid)
        await pilot.press("slash", *"isr", "enter")
        await pilot.pause()
        assert grid.filter_text == "isr"
        await pilot.press("slash", "ctrl+u", *"~e[", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Prompt)
        assert "no regular expression" in str(app.screen.query_one("#prompt-error").render())
        await pilot.press("]")
        await pilot.pause()
        assert app.screen.query_one("#prompt-input", Input).value == "~e[]", "it takes keys as before"
        await pilot.press("escape")
        await pilot.pause()
        assert grid.filter_text == "isr"


async def test_times_can_be_local_or_relative_and_columns_wide():
    async with on_recorded(start="activity") as (app, pilot):
        assert app.screen.query_one("#events", Grid).cursor_row.cells[0].text.endswith("Z")
        await press(pilot, "Z", "Z")
        assert app.screen.query_one("#events", Grid).cursor_row.cells[0].text.endswith("ago")
        await pilot.press("w")
        assert app.fmt.is_wide


@pytest.mark.parametrize("name", ["dashboard", "topics", "messages", "replication", "failover"])
async def test_screen_without_metadata_says_that_it_waits_for_them(name):
    source = recorded_source()
    source.events = []
    async with on_recorded(source=source, start=name) as (app, _pilot):
        text = drawn(app)
        assert "waiting for the first metadata ..." in text
        assert "yet" not in text


async def test_a_lost_cluster_shows_a_banner_keeps_the_picture_and_comes_back():
    source = recorded_source()
    async with on_recorded(source=source) as (app, pilot):
        rows = app.screen.query_one("#brokers", Grid).row_count
        now_ms = app.now_ms()
        source.more.put_nowait({"kind": "lost", "why": "connection refused", "retry_ms": 2000, "time_ms": now_ms})
        await answered(pilot)
        banner = app.screen.query_one("#banner")
        assert banner.display
        assert "lost the cluster; again in 2 s. connection refused" in str(banner.render())
        grid = app.screen.query_one("#brokers", Grid)
        assert (grid.row_count, grid.is_stale) == (rows, True)
        snapshot = next(each for each in source.events if each["kind"] == "snapshot")
        source.more.put_nowait({**snapshot, "time_ms": now_ms})
        await answered(pilot)
        assert not banner.display
        assert not grid.is_stale


async def test_too_small_a_window_says_so():
    async with on_recorded(size=(50, 12)) as (app, pilot):
        assert app.screen.query_one("#too-small").display
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not app.screen.query_one("#too-small").display, "the screen")


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
async def test_the_key_bar_fits_and_ends_with_help(entry):
    async with on_recorded(start=entry.name) as (app, pilot):
        for size in ((80, 24), (100, 30), (140, 40)):
            await pilot.resize_terminal(*size)
            bar = app.screen.query_one(KeyBar)
            await until(pilot, lambda bar=bar, size=size: bar.size.width == size[0], "the new size")
            await pilot.pause()
            cells = bar._left
            assert 1 <= len(cells) <= 8
            assert sum(len(cell.text) + 2 for cell in cells) <= size[0]
            assert all(" " in cell.text for cell in cells), "a key without a word"
            assert "? help" in bar.render_line(0).text


async def test_digits_go_and_minus_goes_back_and_quit_ends():
    async with on_recorded() as (app, pilot):
        await pilot.press("0")
        await pilot.pause()
        await pilot.press("minus")
        await pilot.pause()
        assert app.current_mode == "dashboard"
        await pilot.press("Q")
        await pilot.pause()
    assert app.return_code == 0


async def test_pause_stops_drawing_and_receiving_continues():
    source = recorded_source()
    async with on_recorded(source=source) as (app, pilot):
        grid = app.screen.query_one("#events", Grid)
        rows = grid.row_count
        await pilot.press("space")
        created = {"kind": "topic-created", "topic": "new", "topic_id": "x", "partitions": 1, "replication_factor": 1}
        version = app.picture.version
        source.more.put_nowait(created | {"time_ms": app.now_ms(), "node_id": 1, "message": "topic new is made"})
        await until(pilot, lambda: app.picture.version > version, "the event")
        app._tick()
        await pilot.pause()
        assert grid.row_count == rows
        await pilot.press("space")
        await until(pilot, lambda: grid.row_count == rows + 1, "the event on the screen")


async def test_letters_jump_to_panels():
    async with on_recorded() as (app, pilot):
        await pilot.press("apostrophe")
        await pilot.pause()
        await pilot.press("c")
        await pilot.pause()
        assert app.focused.id == "events"


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("title", ["127.0.0.1:19092", "kafka-1.example:19092"], ids=["fits", "wraps"])
async def test_rail_shows_the_whole_address_of_a_cluster_without_a_name(title, is_ascii):
    source = recorded_source(title=title)
    async with on_recorded(size=(140, 40), source=source, context="", is_ascii=is_ascii) as (app, _pilot):
        rail = "".join(str(app.screen.query_one(Rail).content).partition("Context")[2].split())
        assert rail.replace("●", "").replace("[up]", "") == title


async def test_paints_take_a_share_of_the_processor_however_long_one_is(monkeypatch):
    app = recorded_app(fps=0.2)
    async with app.run_test() as pilot:
        await answered(pilot)
        painted = []

        def paint(now_ms):
            painted.append(now_ms)
            time.sleep(0.3)  # waiting for its turn on a busy machine does not count
            began = time.thread_time()
            while time.thread_time() - began < 0.05:
                pass

        monkeypatch.setattr(app.screen, "paint_all", paint)
        app.paint_now()
        ended = time.monotonic()
        app.repaint()
        app._tick()
        assert len(painted) == 1
        assert ended + 0.1 <= app._paint_again_at <= ended + 0.8
        app._paint_again_at = 0.0
        app._tick()
        assert len(painted) == 2


async def test_a_large_dashboard_has_topics_beside_the_activity():
    async with on_recorded(size=(200, 60)) as (app, pilot):
        busiest = app.screen.query_one("#busiest", Grid)
        assert busiest.size.height > 20
        assert [busiest.displayed.at(place).key for place in range(2)] == ["orders", "payments"]
        busiest.focus()
        busiest.move_to("orders")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.crumbs() == ["topics", "orders"], "the topic")


async def test_the_role_of_a_broker_and_the_leader_of_a_partition_have_names_of_their_own():
    async with on_recorded(size=(140, 40)) as (app, pilot):
        for name, what, has_role in (("dashboard", None, True), ("failover", None, True), ("topics", "orders", False)):
            app.go(name, what)
            title, other = ("  ROLE  ", "  REPLICA  ") if has_role else ("  REPLICA  ", "  ROLE  ")
            await until(pilot, lambda t=title, o=other: t in (text := drawn(app)) and o not in text, name)
        app.go("dashboard")
        assert "not of a partition" in dict(app.screen_below().EXPLAINED)["Role"]


async def test_a_focus_that_changes_while_the_app_ends_is_no_error():
    app = recorded_app()
    async with app.run_test(size=(80, 24)):
        pass
    assert not app.screen_stack
    app.on_descendant_focus()
