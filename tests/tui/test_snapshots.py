"""Every screen as a picture, from recorded data, in both sizes; some in other states and themes.

A picture that changed fails, and the report shows both; `pytest tests/tui/test_snapshots.py --snapshot-update` takes
the new ones. Look at them first.
"""

import pytest
from driving import answered, drawn, until
from pictures import quorum_source, recorded_app, recorded_source
from records import EACH, PARTITIONS, open_recorded
from textual.widgets import Input
from textual.widgets._toast import Toast

from yak.errors import YakError
from yak.tui.keys import SCREENS
from yak.tui.screens.groups import GroupScreen
from yak.tui.screens.topic import TopicScreen

SIZES = [(80, 24), (140, 40)]


def has_read_all(app):
    text = drawn(app)
    return f"{EACH * PARTITIONS} read" in text and " 0/s" in text


PUSHED = (
    ("topics", "orders", lambda app: isinstance(app.screen, TopicScreen)),
    ("groups", "billing", lambda app: isinstance(app.screen, GroupScreen) and app.screen.unread),
    ("messages", "orders", has_read_all),
    ("consumer", "orders", has_read_all),
    ("producer", "orders", lambda app: app.screen.query_one("#form-topic", Input).value),
)
"""Screens with something opened in them, and how it is known to be open."""


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """What the Messages and Consumer screens read."""
    monkeypatch.setattr("yak.tui.messages.reader.open_feed", open_recorded(recorded_app().now_ms()))


async def settle(pilot):
    """Until what is asked was answered and drawn. A cursor that blinks would make two pictures of one screen."""
    await answered(pilot)
    for field in pilot.app.screen.query("Input, TextArea"):
        field.cursor_blink = False
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
def test_screen(snap_compare, entry, size):
    assert snap_compare(recorded_app(start=entry.name), terminal_size=size, run_before=settle)


@pytest.mark.parametrize("name", ["dashboard", "messages", "producer"])
def test_screen_in_the_light_theme(snap_compare, name):
    app = recorded_app(start=name, theme="yak-light")
    assert snap_compare(app, terminal_size=(140, 40), run_before=settle)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(("name", "what", "is_open"), PUSHED, ids=[f"{name}-{what}" for name, what, _ in PUSHED])
def test_page_opened_in_a_screen_matches_its_snapshot(snap_compare, name, what, is_open, size):
    async def wait(pilot):
        await settle(pilot)
        await until(pilot, lambda: is_open(pilot.app), what)
        await settle(pilot)

    app = recorded_app(start=name, start_with=what)
    assert snap_compare(app, terminal_size=size, run_before=wait)


@pytest.mark.parametrize("theme", ["yak-contrast", "yak-deutan", "mono", "ansi"])
def test_dashboard_in_other_themes(snap_compare, theme):
    assert snap_compare(recorded_app(theme=theme), terminal_size=(80, 24), run_before=settle)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_dashboard_of_a_cluster_with_a_metadata_quorum(snap_compare, size):
    assert snap_compare(recorded_app(source=quorum_source()), terminal_size=size, run_before=settle)


def test_dashboard_of_a_metadata_quorum_with_a_voter_behind(snap_compare):
    assert snap_compare(recorded_app(source=quorum_source(caught_up=2)), terminal_size=(80, 24), run_before=settle)


def test_dashboard_in_letters(snap_compare):
    assert snap_compare(recorded_app(is_ascii=True), terminal_size=(80, 24), run_before=settle)


def test_dashboard_of_a_cluster_that_is_lost(snap_compare):
    source = recorded_source()
    source.events = [
        *source.events,
        {"kind": "lost", "why": "connection refused", "retry_ms": 2000, "time_ms": source.events[-1]["time_ms"]},
    ]
    assert snap_compare(recorded_app(source=source), terminal_size=(80, 24), run_before=settle)


def test_production_read_only(snap_compare):
    app = recorded_app(is_readonly=True, is_production=True, context="eu-prod")
    assert snap_compare(app, terminal_size=(80, 24), run_before=settle)


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
def test_screen_before_the_cluster_answers(snap_compare, entry):
    assert snap_compare(recorded_app(empty=True, start=entry.name), terminal_size=(80, 24), run_before=settle)


def test_an_error_says_what_why_and_what_to_try(snap_compare):
    async def fail(pilot):
        await settle(pilot)
        pilot.app.show_error(
            YakError("no-leader", "orders-0 has no leader", why="broker 3 is dead", try_=("yak node restart 3",))
        )
        await until(pilot, lambda: pilot.app.screen.query(Toast), "the error")
        await settle(pilot)

    assert snap_compare(recorded_app(), terminal_size=(80, 24), run_before=fail)


@pytest.mark.parametrize(
    "keys",
    [("question_mark",), ("colon", *"mess"), ("i",), ("exclamation_mark",), ("ctrl+p",)],
    ids=["help", "command", "explain", "notices", "palette"],
)
def test_overlay_opened_over_a_screen_matches_its_snapshot(snap_compare, keys):
    async def press(pilot):
        await settle(pilot)
        await pilot.press(*keys)
        await settle(pilot)

    assert snap_compare(recorded_app(), terminal_size=(80, 24), run_before=press)
