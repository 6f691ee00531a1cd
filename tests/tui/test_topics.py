"""Topics, and one topic, on the recorded cluster: what they show, and what they send."""

import asyncio

import pytest
from driving import answered, on_recorded, on_top, press, shown, until, words
from pictures import recorded_source
from textual.widgets import Button, Input, TabbedContent

from yak.client.consumer import ConsumerRecord
from yak.errors import YakError
from yak.tui.screens.topic import TopicScreen
from yak.tui.screens.topics import TopicsScreen
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog, TextDialog
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid


def recorded(**answers):
    source = recorded_source()
    source.answers |= {name.replace("_to_", " "): answer for name, answer in answers.items()}
    return source


def identified():
    """The recorded cluster, whose snapshots have topic ids, and the event that `orders` was created again, empty."""
    source = recorded_source()
    source.events = [
        {**each, "partitions": [row | {"topic_id": f"id of {row['topic']}"} for row in each["partitions"]]}
        if each["kind"] == "snapshot"
        else each
        for each in source.events
    ]
    snapshot = next(each for each in source.events if each["kind"] == "snapshot")
    new = {"topic_id": "another", "high_watermark": 0, "partition_epoch": 0}
    rows = [row | new for row in snapshot["partitions"] if row["topic"] == "orders"]
    return source, {"kind": "partitions", "time_ms": snapshot["time_ms"], "partitions": rows}


def is_created_again(app):
    return app.picture.topics["orders"][0].topic_id == "another"


@pytest.mark.parametrize("what", [None, "orders"], ids=["topics", "one topic"])
async def test_screen_timer_sends_no_request_while_the_app_ends(what):
    """Textual empties the stack of screens before it stops their timers."""

    async with on_recorded(start="topics", start_with=what) as (app, _pilot):
        screen = app.screen
        assert isinstance(screen, TopicScreen if what else TopicsScreen)
        ask = screen.ask_seen if what else screen.ask_again
        stack = app._screen_stacks[app.current_mode]
        below = [*stack]
        stack.clear()
        try:
            ask()
        finally:
            stack += below


# the list


async def test_the_list_says_how_much_is_in_each_topic():
    async with on_recorded(start="topics") as (app, pilot):
        app.screen.ask_again()
        await answered(pilot)
        rows = {row["TOPIC"]: row for row in shown(app.screen.query_one("#topics", Grid))}
        assert list(rows) == ["audit-log", "orders", "payments"]
        orders = rows["orders"]
        assert (orders["PARTS"], orders["RF"], orders["STATE"]) == ("3", "3", "▲ 3 at min ISR")
        assert orders["RECORDS"].startswith("15")
        assert orders["SIZE"] == "1.5 MiB"
        assert orders["CONFIGS SET"] == "min.insync.replicas=2 retention.ms=86400000"


async def test_internal_topics_are_listed_on_request():
    async with on_recorded(start="topics") as (app, pilot):
        grid = app.screen.query_one("#topics", Grid)
        assert "__consumer_offsets" not in [row["TOPIC"] for row in shown(grid)]
        assert "internal" in app.screen.query_one(Panel).border_title
        await press(pilot, "I")
        assert "__consumer_offsets" in [row["TOPIC"] for row in shown(grid)]


async def test_a_filter_without_a_match_says_so():
    async with on_recorded(start="topics") as (app, pilot):
        await press(pilot, "slash", *"nosuch", "enter")
        grid = app.screen.query_one("#topics", Grid)
        assert grid.row_count == 0
        assert grid._empty.startswith("No topic matches nosuch: 3 searched")
        await press(pilot, "escape")
        assert grid.row_count == 3


async def test_a_cluster_without_topics_says_how_to_make_one():
    source = recorded_source()
    snapshot = next(each for each in source.events if each["kind"] == "snapshot")
    source.events = [{**snapshot, "partitions": []}]

    async with on_recorded(source=source, start="topics") as (app, _pilot):
        assert "Press a to create one" in app.screen.query_one("#topics", Grid)._empty


async def test_a_topic_is_made_by_a_form_that_shows_the_command_as_it_is_typed():
    source = recorded(POST_to_=None)
    source.answers["POST /topics"] = {"name": "invoices"}

    async with on_recorded(source=source, start="topics") as (app, pilot):
        await press(pilot, "a")
        form = app.screen
        assert isinstance(form, FormDialog)
        assert form.query_one("#yes", Button).disabled
        await press(pilot, *"invoices")
        form.query_one("#field-retention-ms", Input).value = "soon"
        await answered(pilot)
        assert form.query_one("#yes", Button).disabled
        assert "retention.ms" in str(form.query_one("#form-error").render())
        form.query_one("#field-retention-ms", Input).value = "60000"
        await answered(pilot)
        assert (
            str(form.query_one("#form-command").render())
            == "$ yak topics create invoices -p 3 -r 3 -c retention.ms=60000"
        )
        await press(pilot, "ctrl+s")
        assert isinstance(app.screen, TopicsScreen)
        body = {"name": "invoices", "partitions": 3, "replication_factor": 3, "configs": {"retention.ms": "60000"}}
        assert ("POST", "/topics", body) in source.requests
        assert app.picture.activity.lines[-1].message == "yak topics create invoices -p 3 -r 3 -c retention.ms=60000"


async def test_refused_change_is_displayed_and_recorded():
    source = recorded_source()
    source.answers["POST /topics"] = YakError("topic-already-exists", "topic 'orders' exists", why="HTTP 409")

    async with on_recorded(source=source, start="topics") as (app, pilot):
        await press(pilot, "a", *"orders", "ctrl+s")
        assert app.notices[-1][1].message == "topic 'orders' exists"
        assert app.picture.activity.lines[-1].message.endswith("failed: topic 'orders' exists")


async def test_a_topic_is_deleted_only_once_its_name_was_typed():
    (source, _), deleted = identified(), []
    source.calls["delete_topic"] = lambda *arguments: deleted.append(arguments)

    async with on_recorded(source=source, start="topics") as (app, pilot):
        app.screen.query_one("#topics", Grid).move_to("orders")
        await press(pilot, "X", *"order", "enter")
        assert isinstance(app.screen, ConfirmDialog)
        assert not deleted
        await press(pilot, "s", "enter")
        assert deleted == [("orders", "id of orders")]
        assert app.picture.activity.lines[-1].message == "yak topics delete orders --yes"


async def test_deletion_of_a_topic_that_was_created_again_before_the_answer_has_the_id_of_the_one_in_the_question():
    (source, created_again), deleted = identified(), []
    source.calls["delete_topic"] = lambda *arguments: deleted.append(arguments)

    async with on_recorded(source=source, start="topics") as (app, pilot):
        app.screen.query_one("#topics", Grid).move_to("orders")
        await press(pilot, "X", *"order")
        source.more.put_nowait(created_again)
        await until(pilot, lambda: is_created_again(app))
        await press(pilot, "s", "enter")
        assert deleted == [("orders", "id of orders")]


async def test_topic_that_is_created_again_under_its_open_screen_shows_nothing_of_the_one_before():
    source, created_again = identified()

    async with on_recorded(source=source, size=(140, 50), start="topics", start_with="orders") as (app, pilot):
        await on_top(pilot, TopicScreen)
        tail = app.screen.query_one("#tail-beside", Grid)
        await until(pilot, lambda: tail.row_count > 0, "records")
        source.more.put_nowait(created_again)
        await until(pilot, lambda: is_created_again(app), "the other topic")
        await until(pilot, lambda: not tail.row_count, "no records")


async def test_deletion_is_recorded_though_the_screen_of_the_topic_is_left_meanwhile():
    source, release = recorded_source(), asyncio.Event()

    async with on_recorded(source=source, start="topics", start_with="orders") as (app, pilot):
        await on_top(pilot, TopicScreen)

        async def delete(*_arguments):
            await release.wait()

        source.kafka = delete
        await press(pilot, "X", *"orders", "enter", "escape")
        assert isinstance(app.screen, TopicsScreen)
        release.set()
        await until(pilot, lambda: app.picture.activity.lines[-1].message == "yak topics delete orders --yes")


async def test_topic_change_displays_the_difference_for_confirmation():
    source, done = recorded_source(), []
    source.calls["alter_topic"] = lambda *arguments: done.append(arguments)

    async with on_recorded(source=source, start="topics") as (app, pilot):
        app.screen.query_one("#topics", Grid).move_to("orders")
        await press(pilot, "E")
        form = app.screen
        assert form.query_one("#field-retention-ms", Input).value == "86400000"
        assert form.query_one("#yes", Button).disabled  # nothing is changed yet
        form.query_one("#field-retention-ms", Input).value = ""
        form.query_one("#field-partitions", Input).value = "5"
        await press(pilot, "ctrl+s")
        assert isinstance(app.screen, ConfirmDialog)
        assert "3 -> 5" in app.screen._text
        assert "86400000 -> as the cluster has it" in app.screen._text
        assert done == []
        await press(pilot, "y")
        assert done == [("orders", {}, ("retention.ms",), 5)]
        assert app.picture.activity.lines[-1].message == "yak topics alter orders -p 5 --delete-config retention.ms"


@pytest.mark.parametrize(("key", "screen"), [("m", "messages"), ("p", "producer")])
async def test_messages_and_producer_are_opened_with_the_topic(key, screen, monkeypatch):
    async with on_recorded(start="topics") as (app, pilot):
        gone = []
        monkeypatch.setattr(app, "go", lambda name, what=None: gone.append((name, what)))
        app.screen.query_one("#topics", Grid).move_to("payments")
        await press(pilot, key)
        assert gone == [(screen, "payments")]


# one topic


async def test_in_a_wide_window_the_replicas_stand_below_the_partitions():
    async with on_recorded(size=(140, 40), start="topics") as (app, pilot):
        await press(pilot, "d")
        app.go("topics", "orders-1")
        await answered(pilot)
        screen = app.screen
        assert isinstance(screen, TopicScreen)
        partitions = screen.query_one("#partitions", Grid)
        assert partitions.cursor_key == "1"
        row = shown(partitions)[1]
        assert (row["LEADER"], row["EPOCH"], row["ISR"], row["STATE"]) == ("2", "2", "1 2 ·", "▲ at min ISR")
        replicas = shown(screen.query_one("#replicas-beside", Grid))
        assert [each["NODE"] for each in replicas] == ["2", "1", "3"]
        assert replicas[2]["WHY"] == "✗ OUT: broker is fenced"
        meaning = words(screen.query_one("#meaning-beside", Lines))
        assert "acks=all: accepted (ISR 2 ≥ min 2)." in meaning
        assert "If node 1 also fails: rejected." in meaning
        await press(pilot, "right_square_bracket")
        assert "orders-2" in screen.query_one("#topic-replicas-beside", Panel).border_title
        await press(pilot, "enter")
        assert isinstance(app.screen, TextDialog)
        assert "orders-2 is led by" in str(app.screen._content)


async def test_in_a_low_window_enter_goes_to_the_replicas():
    async with on_recorded(size=(80, 20), start="topics", start_with="orders") as (app, pilot):
        screen = app.screen
        assert isinstance(screen, TopicScreen)
        assert not screen.query_one("#topic-beside").display
        await press(pilot, "j", "enter")
        assert screen.query_one(TabbedContent).active == "tab-replicas"
        grid = screen.query_one("#replicas", Grid)
        assert screen.focused is grid
        assert grid.cursor_key == "1/2"
        assert len(shown(grid)) == 9
        await press(pilot, "G")
        assert "orders-2" in screen.query_one("#topic-replicas", Panel).border_title


async def test_only_visible_panels_are_requested():
    source = recorded_source()
    source.calls["read_tail"] = lambda _windows: pytest.fail("the messages are not seen")

    async with on_recorded(source=source, start="topics", start_with="orders") as (app, pilot):
        requested = [path for _, path, _ in source.requests]
        assert "/api/partitions/orders/0" in requested
        assert "/api/groups" not in requested
        app.screen.query_one(TabbedContent).active = "tab-groups"
        await answered(pilot)
        assert "/api/groups/billing" in [path for _, path, _ in source.requests]
        (row,) = shown(app.screen.query_one("#groups", Grid))
        assert (row["GROUP"], row["MEMBERS"], row["PARTITIONS"]) == ("billing", "2", "3")


async def test_last_messages_are_newest_first():
    source = recorded_source()
    source.calls["read_tail"] = lambda windows: [
        ConsumerRecord(*place, 7, 1_000, "CreateTime", b"u1", b'{"total":12}', [], None) for place in windows
    ]

    async with on_recorded(source=source, start="topics", start_with="orders") as (app, pilot):
        app.screen.query_one(TabbedContent).active = "tab-messages"
        await answered(pilot)
        rows = shown(app.screen.query_one("#tail", Grid))
        assert {(row["KEY"], row["VALUE"]) for row in rows} == {("u1", '{"total":12}')}
        assert len(rows) == 3


async def test_messages_that_cannot_be_read_say_why():
    source = recorded_source()
    source.calls["read_tail"] = YakError("no-leader", "orders-0 has no leader", why="broker 3 is dead")

    async with on_recorded(source=source, start="topics", start_with="orders") as (app, pilot):
        app.screen.query_one(TabbedContent).active = "tab-messages"
        await answered(pilot)
        assert app.screen.query_one("#tail", Grid)._empty == "orders-0 has no leader. broker 3 is dead"


async def test_config_tab_lists_sources_and_changes_the_chosen_config():
    source, done = recorded_source(), []
    source.calls["alter_topic"] = lambda *arguments: done.append(arguments)

    async with on_recorded(source=source, start="topics", start_with="orders") as (app, pilot):
        app.screen.query_one(TabbedContent).active = "tab-config"
        await answered(pilot)
        rows = shown(app.screen.query_one("#configs", Grid))
        assert rows[0]["CONFIG"] == "min.insync.replicas"
        assert (rows[1]["VALUE"], rows[1]["FROM"], rows[1]["DEFAULT"]) == (
            "86400000 (24 h)",
            "topic",
            "604800000 (7 d)",
        )
        assert {row["FROM"] for row in rows[2:]} == {"default"}
        await press(pilot, "j", "E")
        app.screen.query_one("#field-value", Input).value = "5000"
        await press(pilot, "ctrl+s", "y")
        assert done == [("orders", {"retention.ms": "5000"}, (), None)]


async def test_the_timeline_is_of_this_topic_alone():
    async with on_recorded(start="topics", start_with="orders") as (app, pilot):
        app.note_command("yak topics alter orders -p 5")
        app.note_command("yak topics alter orders2 -p 5")
        app.screen.query_one(TabbedContent).active = "tab-timeline"
        await answered(pilot)
        grid = app.screen.query_one("#timeline", Grid)
        assert grid.size.height > 5, "only the heading is visible"
        events = [row["EVENT"] for row in shown(grid)]
        assert events[0] == "$ yak topics alter orders -p 5"
        assert len(events) > 5
        assert all("orders-" in each for each in events[1:])


async def test_tabs_turn_by_their_keys_and_each_has_the_focus():
    async with on_recorded(start="topics", start_with="orders") as (app, pilot):
        tabs = app.screen.query_one(TabbedContent)
        for name in ("replicas", "messages", "groups", "config", "timeline", "partitions"):
            await press(pilot, "L")
            assert tabs.active == f"tab-{name}"
            assert app.screen.focused is tabs.active_pane.query(Grid).first()
        await press(pilot, "H")
        assert tabs.active == "tab-timeline"


async def test_a_topic_that_is_deleted_meanwhile_says_so():
    async with on_recorded(start="topics", start_with="orders") as (app, pilot):
        deleted = {"kind": "topic-deleted", "topic": "orders", "topic_id": "x"}
        app.picture.take(deleted | {"time_ms": app.now_ms(), "node_id": 1, "message": "m"})
        await answered(pilot)
        assert "Topic orders is gone" in app.screen.query_one("#partitions", Grid)._empty
        assert shown(app.screen.query_one("#replicas-beside", Grid)) == []
        assert words(app.screen.query_one("#meaning-beside", Lines)) == ""
        for key in ("E", "F", "X"):
            await press(pilot, key)
            assert isinstance(app.screen, TopicScreen)


async def test_a_topic_that_there_is_not_is_named():
    async with on_recorded(start="topics", start_with="nosuch") as (app, _pilot):
        assert isinstance(app.screen, TopicsScreen)
        assert app.notices[-1][1] == "there is no topic nosuch"
