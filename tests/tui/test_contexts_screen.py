"""Contexts: which answer, using another one, adding one."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from driving import on_recorded, on_top, press, until
from pictures import recorded_app, recorded_source
from records import open_recorded
from textual.widgets import Checkbox, Input, Select, Static

from tests.listeners import answering
from yak.client.contexts import add_context, read_contexts
from yak.tui.screens.contexts import why_silent
from yak.tui.screens.groups import GroupScreen
from yak.tui.widgets.dialogs import FormDialog
from yak.tui.widgets.grid import Grid


@pytest.fixture
def broker():
    """What answers ApiVersions as a Kafka broker does: a correlation id is all that is looked at."""
    with answering(lambda _: b"\x00\x00\x00\x06\x00\x00\x00\x07\x00\x00") as address:
        yield address


@pytest.fixture
def closed():
    """An address where nobody is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def config(tmp_path, broker, closed):
    path = str(tmp_path / "config.toml")
    add_context(path, "here", {"bootstrap_servers": broker})
    add_context(path, "prod", {"bootstrap_servers": broker, "production": "true", "accent": "red"})
    add_context(path, "gone", {"bootstrap_servers": closed})
    return path


@asynccontextmanager
async def on_contexts(config, **more):
    """The app on this screen, with the contexts of a file, and its pilot."""
    settings = {"contexts": read_contexts(config), "config_file": config, "context": "here", **more}
    async with on_recorded(size=(100, 40), start="contexts", **settings) as (app, pilot):
        app._other_source = lambda name: recorded_source(title=name)
        yield app, pilot


def rows_of(app):
    grid = app.screen.query_one("#contexts", Grid)
    return {grid.displayed.at(n).key: [cell.text for cell in grid.displayed.at(n).cells] for n in range(grid.row_count)}


def test_only_a_kafka_broker_counts_as_answering(broker, closed):
    assert why_silent(broker) == ""
    assert "connection refused" in why_silent(closed)


async def test_each_context_is_tried(config):
    async with on_contexts(config) as (app, _pilot):
        rows = rows_of(app)
        assert rows["here"][:4] == ["▶", "here", "", "● answers"]
        assert rows["prod"][2] == "PROD red"
        assert "connection refused" in rows_of(app)["gone"][3]


async def test_another_one_is_used_and_marked_in_the_header(config):
    async with on_contexts(config) as (app, pilot):
        accent = app.theme_variables["accent"]
        await pilot.press("colon", *"ctx", "space", *"prod", "enter")
        await until(pilot, lambda: (app.context_name, app.current_mode) == ("prod", "dashboard"), "the other context")
        assert app.is_production
        assert app.has_class("-production")
        assert app.source.title == "prod"
        assert app.get_css_variables()["accent"] != accent
        await pilot.press("colon", *"ctx", "space", *"nosuch", "enter")
        await until(pilot, lambda: app.notices, "the error")
        assert app.notices[-1][1].code == "unknown-context"


async def test_context_with_readonly_binds_no_key_that_changes_the_cluster(config, broker):
    add_context(config, "safe", {"bootstrap_servers": broker, "readonly": "true"})

    async with on_contexts(config) as (app, pilot):
        for name, is_readonly in (("safe", True), ("here", False)):
            await pilot.press("colon", *"ctx", "space", *name, "enter")
            await until(pilot, lambda name=name: (app.context_name, app.current_mode) == (name, "dashboard"))
            assert app.is_readonly is is_readonly
            app.go("failover")
            await until(pilot, lambda: app.current_mode == "failover" and app.screen.is_mounted)
            assert bool(app.screen.check_action("move", ())) is not is_readonly


async def test_screens_begin_again_in_another_context_and_read_its_records(config, monkeypatch):
    monkeypatch.setattr("yak.tui.messages.reader.open_feed", open_recorded(recorded_app().now_ms()))
    async with on_contexts(config) as (app, pilot):
        app.go("messages", "orders")
        await until(pilot, lambda: app.current_mode == "messages" and app.screen.is_mounted and app.screen.reader)
        messages = app.screen
        await until(pilot, lambda: messages.grid_in_use().row_count > 0, "records")
        app.go("groups", "billing")
        await on_top(pilot, GroupScreen)
        app.use_context("prod")
        await until(pilot, lambda: messages.reader.status.phase == "closed", "the end of the reading")
        assert app.current_mode == "dashboard"
        for name in ("groups", "messages"):
            app.go(name)
            await until(pilot, lambda name=name: app.current_mode == name and app.screen.is_mounted, name)
            assert len(app.screen_stack) == 1
        assert app.screen is not messages
        assert app.screen.reader is None


async def test_context_is_added_to_the_file_and_removed_again(config):
    async with on_contexts(config) as (app, pilot):
        await pilot.press("a")
        form = await on_top(pilot, FormDialog)
        form.query_one("#field-name", Input).value = "new"
        form.query_one("#field-servers", Input).value = "a.example, b.example:1"
        form.query_one("#field-accent", Select).value = "blue"
        form.query_one("#field-token", Input).value = "hush"
        form.query_one("#field-production", Checkbox).value = True
        await pilot.pause()
        command = str(form.query_one("#form-command", Static).render())
        assert command.startswith("$ yak context add new -b a.example:9092,b.example:1 --set production=true")
        assert "hush" not in command
        await press(pilot, "ctrl+s")
        assert read_contexts(config)["new"] == {
            "bootstrap_servers": "a.example:9092,b.example:1", "production": True, "accent": "blue", "http_token": "hush",
        }  # fmt: skip
        assert "new" in rows_of(app)
        app.screen.query_one("#contexts", Grid).move_to("new")
        await press(pilot, "X", "y")
        assert "new" not in read_contexts(config)
        assert "new" not in rows_of(app)


async def test_public_contexts_screen_changes_no_config_file(config):
    before = read_contexts(config)
    async with on_contexts(config, is_readonly=True, is_public=True) as (app, pilot):
        for key in ("a", "X"):
            await press(pilot, key)
            assert app.screen is app.screen_below()
        assert read_contexts(config) == before


async def test_unwritable_config_file_shows_an_error(config, tmp_path):
    async with on_contexts(config) as (app, pilot):
        (tmp_path / "config.toml").write_text("= broken")
        await press(pilot, "X", "y")
        assert app.notices[-1][1].code == "config-file"
        assert len(rows_of(app)) == 3


async def test_keys_typed_while_the_screens_begin_again_open_screens(config, monkeypatch):
    names = ("topics", "groups", "metadata", "replication")
    async with on_contexts(config) as (app, pilot):
        remove = app.remove_mode

        async def later(removed):
            await removed
            await asyncio.sleep(0.05)

        monkeypatch.setattr(app, "remove_mode", lambda name: later(remove(name)))
        app.use_context("prod")
        await until(pilot, lambda: app.current_mode == "dashboard", "the dashboard")
        for name in (*names, *reversed(names)):
            app.go(name)
            await asyncio.sleep(0.02)
        await until(pilot, lambda: app.current_mode == names[0] and app.screen.is_mounted, "the last of them")
