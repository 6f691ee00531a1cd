"""The security screen on recorded data: its tabs, what is removed, what brokers refuse, and what is never asked."""

from contextlib import asynccontextmanager

import pytest
from driving import fill_in, on_recorded, on_top, press, until
from pictures import recorded_source
from textual.widgets import Input, TabbedContent

from yak.acls.bindings import bindings_of
from yak.errors import Unreachable, YakError
from yak.tui.screens.security import SecurityScreen
from yak.tui.source.security import Quota
from yak.tui.widgets.dialogs import ConfirmDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid

ACLS_OFF = YakError("acls-off", "the ACLs could not be read", why="the brokers have no authorizer")


@asynccontextmanager
async def on_security(source=None, **settings):
    """The app on this screen, when each table was asked for, and its pilot."""
    async with on_recorded(size=(100, 30), source=source, start="security", **settings) as (app, pilot):
        await until(pilot, lambda: app.screen_below().query("#quotas"), "tables")
        await until(pilot, lambda: "asking" not in text_of(app, "quotas"), "answers")
        yield app, pilot


def table(app, name):
    return app.screen_below().query_one(f"#{name}", Grid)


def text_of(app, name):
    """The text of a table without rows."""
    return table(app, name)._empty


def keys_of(app, name):
    grid = table(app, name)
    return [grid.displayed.at(index).key for index in range(grid.row_count)]


def calls_of(source, function):
    """The arguments of each call of a function that changes something."""
    calls = []
    source.calls[function] = lambda *arguments: calls.append(arguments)
    return calls


@pytest.mark.parametrize("word", ["users", "acls", "quotas"])
async def test_command_of_a_tab_opens_the_tab_with_the_focus_on_its_table(word):
    async with on_recorded(size=(100, 30), start="dashboard") as (app, pilot):
        await pilot.press("colon", *word, "enter")
        await until(pilot, lambda: app.current_mode == "security", "screen")
        await until(pilot, lambda: app.screen.query(TabbedContent), "tabs")
        await until(pilot, lambda: app.screen.query_one(TabbedContent).active == f"tab-{word}", "tab")
        await until(pilot, lambda: app.focused is table(app, word), "focus")
        await until(pilot, lambda: table(app, word).row_count >= 2, "rows")


async def test_filter_applies_to_the_table_of_the_open_tab():
    async with on_security() as (app, pilot):
        await pilot.press("L")
        await until(pilot, lambda: app.focused is table(app, "acls"), "focus")
        await pilot.press("slash", *"bob", "enter")
        await until(pilot, lambda: table(app, "acls").row_count == 1, "filtered rows")
        assert table(app, "users").row_count == 2


async def test_user_is_removed_when_its_name_is_typed():
    source = recorded_source()
    calls = calls_of(source, "delete_user")

    async with on_security(source) as (app, pilot):
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        assert calls == []
        app.screen.query_one("#typed", Input).value = "ann"
        await pilot.press("enter")
        await until(pilot, lambda: calls, "removal")
        assert calls == [("ann", {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096})]
        await until(pilot, lambda: app.notices, "notice")
        assert app.notices[-1][1] == "removed user ann"


@pytest.mark.parametrize("tab", ["acls", "quotas"])
async def test_selected_line_is_removed_after_a_question_and_not_without_it(tab):
    source = recorded_source()
    calls = calls_of(source, f"delete_{tab.removesuffix('s')}")

    async with on_security(source, start_with=tab) as (app, pilot):
        await until(pilot, lambda: app.focused is table(app, tab), "focus")
        await pilot.press("j", "X")
        await on_top(pilot, ConfirmDialog)
        await press(pilot, "escape")
        assert calls == []
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: calls, "removal")
        assert [key for key, _item in calls] == [keys_of(app, tab)[1]]


async def test_form_adds_an_acl():
    source = recorded_source()
    calls = calls_of(source, "add_acl")

    async with on_security(source, start_with="acls") as (app, pilot):
        await until(pilot, lambda: app.focused is table(app, "acls"), "focus")
        await pilot.press("a")
        await fill_in(pilot, principal="bob", name="orders")
        await until(pilot, lambda: calls, "change")
        assert calls[0][0] == next(bindings_of({"TOPIC,LITERAL,orders": {"ALLOW,READ,*,User:bob": ""}}))


async def test_form_sets_a_quota():
    source = recorded_source()
    calls = calls_of(source, "set_quota")

    async with on_security(source, start_with="quotas") as (app, pilot):
        await until(pilot, lambda: app.focused is table(app, "quotas"), "focus")
        await pilot.press("a")
        await fill_in(pilot, client_id="loader", value="1e6")
        await until(pilot, lambda: calls, "change")
        assert calls == [(Quota((("client-id", "loader"),), "producer_byte_rate", 1e6),)]
        await until(pilot, lambda: app.notices, "notice")
        assert app.notices[-1][1] == "done: yak quotas set --client-id loader producer_byte_rate=1000000"


async def test_user_is_added_by_the_command_so_that_no_password_is_typed_here():
    async with on_security() as (app, pilot):
        await pilot.press("a")
        await until(pilot, lambda: app.notices, "notice")
        assert "yak users add NAME" in app.notices[-1][1]
        assert isinstance(app.screen, SecurityScreen)


async def test_refused_tables_explain_why_and_have_nothing_to_remove():
    source = recorded_source()
    source.calls["list_acls"] = ACLS_OFF
    source.calls["list_quotas"] = YakError("quota-refused", "the quotas could not be read", why="refused")

    async with on_security(source, start_with="acls") as (app, pilot):
        assert "without authorizer.class.name every client may do everything" in text_of(app, "acls")
        assert "yak acls add --allow USER --operation describe-configs --cluster" in text_of(app, "quotas")
        assert table(app, "users").row_count == 2
        await until(pilot, lambda: app.focused is table(app, "acls"), "focus")
        await press(pilot, "X")
        assert not isinstance(app.screen, ConfirmDialog)


async def test_rows_stay_while_the_brokers_are_silent_and_go_when_they_refuse():
    source = recorded_source()

    async with on_security(source) as (app, pilot):
        source.calls["list_acls"] = Unreachable("unreachable", "the ACLs could not be read", why="no answer")
        await pilot.press("r")
        panel = app.screen.query_one("#acls-panel", Panel)
        await until(pilot, lambda: "could not be read" in str(panel.border_subtitle), "error")
        assert table(app, "acls").row_count == 3
        source.calls["list_acls"] = ACLS_OFF
        await pilot.press("r")
        await until(pilot, lambda: table(app, "acls").row_count == 0, "empty table")
