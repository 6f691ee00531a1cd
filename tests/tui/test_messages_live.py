"""The Messages and Consumer screens on a cluster that runs."""

import asyncio
import json
import os
import subprocess
import time
from contextlib import asynccontextmanager

from driving import details, fill_in, on_top, until
from textual.widgets import Input

from yak.client.admin import Admin
from yak.client.connection import base_config
from yak.client.offset_spec import END, START
from yak.client.produce import Outgoing, RecordSender, open_producer, producer_settings
from yak.local.spawn import yak_argv
from yak.tui.messages.reader import Limits
from yak.tui.messages.subscription import Choice, Seek, Subscription
from yak.tui.produce.form import Form
from yak.tui.screens.consumer import ConsumerScreen
from yak.tui.screens.messages import MessageGrid, MessagesScreen
from yak.tui.widgets.dialogs import ChoiceMenu, ConfirmDialog, FormDialog
from yak.tui.widgets.record_pane import RecordPane

SECONDS = 30.0


def fill(live, topic, numbers, *, partitions=3, partition=None, **more):
    """Make the topic if it is not there, and send `{"n": number}` with key `k<n mod 5>`; returns the topic."""
    admin = Admin(live.bootstrap)
    if topic not in admin.metadata().topics:
        admin.create_topic(topic, partitions=partitions)
        deadline = time.monotonic() + SECONDS
        while topic not in admin.metadata().topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    sender = RecordSender(topic, open_producer(producer_settings(live.bootstrap)))
    for place, number in enumerate(numbers):
        record = Outgoing(value=json.dumps({"n": number}).encode(), key=b"k%d" % (number % 5), **more)
        record.partition = -1 if partition is None else partition
        sender.send(record, place)
    sender.finish(SECONDS)
    return topic


def numbers_of(reader):
    return sorted(json.loads(each.value)["n"] for piece in reader.store.pieces(500) for each in piece)


def cli(live, *text):
    """What a command prints."""
    return subprocess.run(yak_argv("-b", live.bootstrap, *text), check=True, capture_output=True, env=os.environ).stdout


async def messages(app, pilot, what):
    """Go there and open topics or a subscription, as another screen or `:messages` does."""
    app.go("messages", what)
    await until(pilot, lambda: isinstance(app.screen_below(), MessagesScreen), "the screen")
    screen = app.screen_below()
    await until(pilot, lambda: screen.reader is not None and screen.reader.status.phase != "opening", "it is opened")
    return screen


@asynccontextmanager
async def on_messages(cluster, topic, count, *, size=(140, 40)):
    """The app on a topic's messages, once it shows so many of them; its pilot, and the screen."""
    async with cluster.open_app(size=size) as (app, pilot):
        screen = await messages(app, pilot, topic)
        await until(pilot, lambda: screen.grid_in_use().row_count == count, f"{count} messages")
        yield app, pilot, screen


async def ticked(pilot, screen):
    """Wait for several paints of a screen: a reader that is not paused would have read new records by then."""
    ticks = []
    screen.set_interval(1 / screen.app.settings.fps, lambda: ticks.append(None))
    await until(pilot, lambda: len(ticks) > 3, "paints")


async def test_a_topic_is_tailed_by_its_name(lone, new_topic):
    topic = fill(lone, new_topic(), range(250))

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        typed = [{" ": "space", "-": "minus"}.get(letter, letter) for letter in f"messages {topic}"]
        await pilot.press("colon", *typed, "enter")
        await until(pilot, lambda: isinstance(app.screen_below(), MessagesScreen), "the screen")
        screen = app.screen_below()
        await until(
            pilot, lambda: screen.reader is not None and screen.grid_in_use().row_count == 250, "the last 100 of each"
        )
        times = [each.timestamp_ms for piece in screen.reader.store.pieces(500) for each in piece]
        assert times == sorted(times)
        assert screen.grid_in_use().cursor_index == 249
        await asyncio.to_thread(fill, lone, topic, range(250, 260))
        await until(pilot, lambda: screen.grid_in_use().row_count == 260, "new ones")
        assert screen.grid_in_use().cursor_index == 259, "the end is followed"
        assert any(f"yak consume {topic} --tail 100" in line.message for line in app.picture.activity.lines)


async def test_a_filter_holds_while_it_is_typed_and_is_cleared_by_escape(lone, new_topic):
    topic = fill(lone, new_topic(), range(100))

    async with on_messages(lone, topic, 100) as (app, pilot, screen):
        await pilot.press("slash", "k", "colon", "k", "3")
        await until(pilot, lambda: screen.grid_in_use().row_count == 20, "those with the key")
        await pilot.press("enter")
        await asyncio.to_thread(fill, lone, topic, range(100, 110))
        await until(pilot, lambda: screen.grid_in_use().row_count == 22, "and what comes")
        assert all(number % 5 == 3 for number in numbers_of(screen.reader))
        screen.set_filter("v:nowhere")
        await until(pilot, lambda: screen.grid_in_use().row_count == 0, "none")
        await until(pilot, lambda: "110 scanned. esc clears" in screen.grid_in_use()._empty, "what it means")
        await pilot.press("escape")
        await until(pilot, lambda: screen.grid_in_use().row_count == 110, "all again")
        await pilot.press("g", "n")
        await until(pilot, lambda: any("matches v:nowhere" in str(said) for _, said, _ in app.notices), "no hit")
        screen.last_filter = "v:.n == 77"
        await pilot.press("n")
        await until(pilot, lambda: json.loads(screen.record_in_use().value)["n"] == 77, "the hit")


async def test_a_filter_that_is_wrong_is_said_where_it_is_typed(lone, new_topic):
    topic = fill(lone, new_topic(), range(3))

    async with on_messages(lone, topic, 3) as (app, pilot, screen):
        await pilot.press("slash", "k", "colon", "tilde", "left_parenthesis")
        assert "regular expression" in str(app.screen.query_one("#prompt-error").render())
        await pilot.press("escape")
        assert screen.grid_in_use().row_count == 3


async def test_o_opens_the_form_of_the_position(lone, new_topic):
    one, two = new_topic(), new_topic()
    fill(lone, one, range(30), partitions=1)
    fill(lone, two, range(100, 110), partitions=2)

    async with lone.open_app(size=(80, 24)) as (app, pilot):
        screen = await messages(app, pilot, Subscription((Choice(one),)))
        await until(pilot, lambda: screen.reader.status.phase == "reading", "the end")
        await pilot.press("o")
        await fill_in(pilot, topics=f"{one}:0", **{"from": "10:20"})
        await until(pilot, lambda: screen.reader.status.phase == "done", "all of it")
        assert numbers_of(screen.reader) == list(range(10, 20))
        await pilot.press("o")
        await fill_in(pilot, topics=f"{one},{two}", to="", **{"from": "-1h"})
        await until(pilot, lambda: screen.grid_in_use().row_count == 40, "both topics")
        assert screen.grid_in_use().columns[0].label == "TOPIC"
        await pilot.press("o")
        await on_top(pilot, FormDialog)
        app.screen.query_one("#field-from", Input).value = "soon"
        await pilot.pause()
        assert "not a time" in str(app.screen.query_one("#form-error").render())


async def test_a_topic_that_is_not_there_is_said_in_its_place(lone):
    async with lone.open_app(size=(80, 24)) as (app, pilot):
        screen = await messages(app, pilot, "nosuchtopic")
        await until(pilot, lambda: screen.reader.status.phase == "failed", "the error")
        await until(pilot, lambda: 'topic "nosuchtopic" does not exist' in screen.grid_in_use()._empty, "its words")


async def test_without_a_topic_one_is_chosen_from_a_list(lone, new_topic):
    topic = fill(lone, new_topic(), range(7))

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        await until(pilot, lambda: any(name == topic for name, _ in app.picture.partitions), "it is known")
        await pilot.press("3")
        screen = app.screen_below()
        grid = screen.grid_in_use()
        await until(pilot, lambda: grid.row_count > 0, "the list")
        grid.move_to(topic)
        await pilot.press("enter")
        await until(pilot, lambda: screen.reader is not None and grid.row_count == 7, "its messages")


async def test_space_pauses_and_another_screen_does_too(lone, new_topic):
    topic = fill(lone, new_topic(), range(5))

    async with on_messages(lone, topic, 5) as (_app, pilot, screen):
        await pilot.press("space")
        await until(pilot, lambda: screen.reader.status.phase == "paused", "the pause")
        await asyncio.to_thread(fill, lone, topic, range(5, 9))
        await ticked(pilot, screen)
        assert screen.grid_in_use().row_count == 5
        await pilot.press("space")
        await until(pilot, lambda: screen.grid_in_use().row_count == 9, "nothing is missing")
        await pilot.press("1")
        await until(pilot, lambda: screen.reader.status.phase == "paused", "no focus")
        await pilot.press("3")
        await until(pilot, lambda: screen.reader.status.phase == "reading", "seen again")


async def test_all_about_a_message_is_beside_it(lone, new_topic):
    topic = fill(lone, new_topic(), [42], headers=[("source", b"web")])

    async with on_messages(lone, topic, 1, size=(80, 24)) as (_app, pilot, screen):
        await pilot.press("enter")
        pane = screen.query_one(RecordPane)
        await until(pilot, lambda: '"n": 42' in details(pane), "its value")
        assert screen.focused is pane
        assert "source = web" in details(pane)
        opening = details(pane).split("\n").index("  {")
        await pilot.press("g", *["j"] * opening, "enter")
        await until(pilot, lambda: "{ … 1 }" in details(pane), "folded")
        await pilot.press("J", "J")
        await until(pilot, lambda: "00000000  7b 22 6e 22" in details(pane), "hex")
        await pilot.press("escape")
        assert not screen.query_one("#record-panel").has_class("-open")
        assert screen.focused is screen.grid_in_use()


async def test_copies_and_sending_again(lone, new_topic, monkeypatch):
    topic = fill(lone, new_topic(), [42])

    async with on_messages(lone, topic, 1) as (app, pilot, _screen):
        await pilot.press("y")
        await on_top(pilot, ChoiceMenu)
        await pilot.press("p")
        await until(pilot, lambda: bool(app.clipboard), "the copy")
        assert app.clipboard == f"yak produce {topic} -k k2 -m '{{\"n\": 42}}'"
        await pilot.press("y")
        await on_top(pilot, ChoiceMenu)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.clipboard == '{"n": 42}', "the value")
        gone = []
        monkeypatch.setattr(app, "go", lambda *where: gone.append(where))
        await pilot.press("p")
        assert gone == [("producer", Form.of(topic, b"k2", b'{"n": 42}'))]


async def test_marked_records_are_exported_and_yak_produce_accepts_the_file(lone, new_topic, tmp_path):
    topic, back = new_topic(), new_topic()
    fill(lone, topic, range(50))
    path = tmp_path / "some.ndjson"

    async with on_messages(lone, topic, 50) as (app, pilot, screen):
        await pilot.press("g", "v", "v", "j", "v")
        marked = [json.loads(each.value)["n"] for each in screen.marks.values()]
        assert len(marked) == 3
        await pilot.press("x")
        await fill_in(pilot, path=str(path))
        await until(pilot, path.exists, "the file")
        await until(pilot, lambda: any(str(path) in str(said) for _, said, _ in app.notices), "its path is told")
        lines = path.read_text().splitlines()
        assert [json.loads(json.loads(line)["value"])["n"] for line in lines] == marked
        await pilot.press("x")
        await fill_in(pilot, path=str(path))
        await until(pilot, lambda: any("is there already" in str(said) for _, said, _ in app.notices), "no overwriting")
    cli(lone, "produce", back, "-f", str(path), "--create")
    visible = cli(lone, "consume", back, "--from-beginning", "--exit", "-o", "json")
    fields = ("key", "value", "headers", "timestamp")
    sent = [[json.loads(line)[field] for field in fields] for line in path.read_text().splitlines()]
    came = [[json.loads(line)[field] for field in fields] for line in visible.splitlines()]
    assert sorted(sent) == sorted(came)


async def test_tail_continues_when_a_leader_dies_and_finds_new_partitions(live, new_topic):
    topic = fill(live, new_topic(), range(10), partitions=1)

    async with on_messages(live, topic, 10) as (app, pilot, screen):
        admin = Admin(live.bootstrap)
        await asyncio.to_thread(admin.add_partitions, topic, 2)
        leader = admin.metadata().topics[topic].partitions[0].leader
        await asyncio.to_thread(app.source.local.kill, leader)
        await asyncio.to_thread(fill, live, topic, range(10, 20), partition=0)
        await until(pilot, lambda: screen.grid_in_use().row_count == 20, "what came after")
        await until(pilot, lambda: len(screen.reader.status.partitions) == 2, "the new partition")
        await asyncio.to_thread(fill, live, topic, range(20, 25), partition=1)
        await until(pilot, lambda: numbers_of(screen.reader) == list(range(25)), "its messages")


async def test_a_list_that_is_full_says_so_and_m_reads_on(lone, new_topic):
    topic = fill(lone, new_topic(), range(1500), partitions=1)

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        screen = await messages(app, pilot, Subscription((Choice(topic),)))
        screen.limits = Limits(rows=1000)
        screen.read(Subscription((Choice(topic),), Seek(START)))
        await until(pilot, lambda: screen.reader.status.phase == "full", "no room")
        await until(pilot, lambda: screen.grid_in_use().row_count == 1000, "what there is")
        await pilot.press("m")
        await until(pilot, lambda: numbers_of(screen.reader) == list(range(500, 1500)), "the newer half and more")


async def test_enter_loads_all_of_a_large_value(lone, new_topic):
    topic = fill(lone, new_topic(), [])
    sender = RecordSender(topic, open_producer(producer_settings(lone.bootstrap)))
    sender.send(Outgoing(value=json.dumps({"text": ["word"] * 30_000}).encode()), 0)
    sender.finish(SECONDS)

    async with on_messages(lone, topic, 1) as (_app, pilot, screen):
        await pilot.press("enter")
        pane = screen.query_one(RecordPane)
        await until(pilot, lambda: "shown 2.0 KiB of 234 KiB: enter loads all" in details(pane), "its beginning")
        await pilot.press("G", "enter")
        await until(pilot, lambda: details(pane).count('"word"') == 30_000, "all of it")


async def test_in_a_browser_an_export_and_a_large_copy_are_downloaded(lone, new_topic, monkeypatch):
    topic = fill(lone, new_topic(), range(5))
    given = []

    async with on_messages(lone, topic, 5) as (app, pilot, _screen):
        monkeypatch.setattr(type(app), "is_web", property(lambda _self: True))
        monkeypatch.setattr(app, "deliver_text", lambda file, save_filename: given.append((file.read(), save_filename)))
        await pilot.press("x")
        await fill_in(pilot)
        await until(pilot, lambda: bool(given), "the download")
        text, name = given[0]
        assert len(text.splitlines()) == 5
        assert name.startswith(topic)
        monkeypatch.setattr("yak.tui.screens.messages.CLIPBOARD_BYTES", 0)
        await pilot.press("y")
        await on_top(pilot, ChoiceMenu)
        await pilot.press("enter")
        await until(pilot, lambda: len(given) == 2, "the copy")
        assert given[1][1].endswith(".txt")


# -- the consumer --------------------------------------------------------------------------------------------------------


async def consumer(app, pilot):
    app.go("consumer")
    await until(
        pilot, lambda: isinstance(app.screen_below(), ConsumerScreen) and app.screen_below().is_mounted, "the screen"
    )
    return app.screen_below()


def committed(live, group, topic, partitions):
    """What the group has committed of these partitions of a topic, added up."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer(base_config(live.bootstrap) | {"group.id": group})
    try:
        answers = reader.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=SECONDS)
    finally:
        reader.close()
    return sum(max(each.offset, 0) for each in answers)


async def test_a_group_is_read_with_and_committed_for_when_it_is_said(lone, new_topic):
    topic, group = new_topic(), new_topic()
    fill(lone, topic, range(40), partitions=2)

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        screen = await consumer(app, pilot)
        await pilot.press("a")
        await fill_in(pilot, topics=topic, group=group, **{"from": "start"})
        await until(pilot, lambda: screen.tile is not None and screen.tile.grid.row_count == 40, "all of it")
        tile = screen.tile
        assert tile.reader.status.uncommitted == 40
        assert await asyncio.to_thread(committed, lone, group, topic, 2) == 0
        await pilot.press("C")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: tile.reader.status.uncommitted == 0, "the commit")
        assert await asyncio.to_thread(committed, lone, group, topic, 2) == 40
        await until(pilot, lambda: any(f"committed for {group}" == said for _, said, _ in app.notices), "it is told")
        await asyncio.to_thread(fill, lone, topic, range(40, 45))
        await until(pilot, lambda: tile.reader.status.uncommitted == 5, "more")
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: not screen.tiles, "it is closed")
        assert tile.reader.join(SECONDS)
        await pilot.press("a")
        await fill_in(pilot, topics=topic, group=group)
        await until(
            pilot, lambda: screen.tile is not None and screen.tile.grid.row_count == 5, "what was not committed"
        )
    assert committed(lone, group, topic, 2) == 40
    visible = cli(lone, "groups", "describe", group, "-o", "json")
    assert {row["state"] for row in json.loads(visible)} == {"Empty"}, "the app left it when it ended"


async def test_commit_leaves_out_records_that_arrive_while_its_question_is_open(lone, new_topic):
    topic, group = new_topic(), new_topic()
    fill(lone, topic, range(10), partitions=1)

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        screen = await consumer(app, pilot)
        await pilot.press("a")
        await fill_in(pilot, topics=topic, group=group, **{"from": "start"})
        await until(pilot, lambda: screen.tile is not None and screen.tile.reader.status.uncommitted == 10, "all of it")
        await pilot.press("C")
        await on_top(pilot, ConfirmDialog)
        await asyncio.to_thread(fill, lone, topic, range(10, 15))
        await ticked(pilot, screen)
        await pilot.press("y")
        await until(pilot, lambda: screen.tile.reader.status.uncommitted == 5, "the commit, and the records behind it")
        assert await asyncio.to_thread(committed, lone, group, topic, 1) == 10


async def test_tiles_side_by_side_and_in_one_list(lone, new_topic):
    one, two = new_topic(), new_topic()
    fill(lone, one, range(20))
    fill(lone, two, range(100, 130))

    async with lone.open_app(size=(140, 40)) as (app, pilot):
        screen = await consumer(app, pilot)
        for topic in (one, two):
            screen.read(Subscription((Choice(topic),), Seek(END, None, 50)))
        await until(pilot, lambda: [tile.grid.row_count for tile in screen.tiles] == [20, 30], "both")
        await pilot.press("m")
        merged = screen.query_one("#merged", MessageGrid)
        await until(pilot, lambda: merged.row_count == 50, "all in one list")
        await asyncio.to_thread(fill, lone, one, range(20, 23))
        await until(pilot, lambda: merged.row_count == 53, "what comes")
        await until(pilot, lambda: screen.record_in_use().topic == one, "is at the end")
        await pilot.press("space")
        await until(pilot, lambda: {tile.reader.status.phase for tile in screen.tiles} == {"paused"}, "all pause")
        await pilot.press("space", "m")
        await until(pilot, lambda: {tile.reader.status.phase for tile in screen.tiles} == {"reading"}, "all go on")
        screen.tiles[1].grid.focus()
        await pilot.pause()
        await pilot.press("slash", "k", "colon", "k", "1", "enter")
        await until(pilot, lambda: [tile.grid.row_count for tile in screen.tiles] == [23, 6], "one is filtered")
        await pilot.press("space")
        await until(pilot, lambda: [t.reader.status.phase for t in screen.tiles] == ["reading", "paused"], "one pauses")
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.press("X")
        await until(pilot, lambda: [tile.letter for tile in screen.tiles] == ["A"], "one is closed")
        await pilot.press("1")
        await until(pilot, lambda: screen.tiles[0].reader.status.phase == "paused", "no focus")


async def test_six_at_most_and_a_failed_one_says_why(lone, new_topic):
    topic = fill(lone, new_topic(), range(3))

    async with lone.open_app(size=(80, 24)) as (app, pilot):
        screen = await consumer(app, pilot)
        for _ in range(5):
            screen.opened(topic)
        screen.opened("nosuchtopic")
        await until(pilot, lambda: len(screen.tiles) == 6, "six")
        await until(pilot, lambda: screen.tiles[5].reader.status.phase == "failed", "the error")
        screen.opened(topic)
        assert "6 subscriptions" in str(app.notices[-1][1])
        assert len(screen.tiles) == 6
        screen.tiles[5].grid.focus()
        await pilot.pause()
        await pilot.press("o")
        await fill_in(pilot, topics=topic, **{"from": "start"})
        await until(pilot, lambda: screen.tiles[5].grid.row_count == 3, "another topic")


async def test_read_only_consumer_screen_joins_no_group(lone, new_topic):
    topic = fill(lone, new_topic(), range(3))

    async with lone.open_app(size=(140, 40), is_readonly=True) as (app, pilot):
        screen = await consumer(app, pilot)
        await pilot.press("a")
        await fill_in(pilot, topics=topic, group="audit")
        assert "cannot be joined" in str(app.screen.query_one("#form-error").render())
        await pilot.press("escape")
        screen.opened(topic)
        await until(pilot, lambda: len(screen.tiles) == 1, "a tile")
        await pilot.press("C")
        await pilot.pause()
        assert not isinstance(app.screen, ConfirmDialog)
        assert not app.notices, "the key is not bound"
