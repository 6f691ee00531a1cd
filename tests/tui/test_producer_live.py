"""The producer against three brokers: what it says was written is what can be read."""

import asyncio
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driving import on_top, typed, until
from support.loads import read_messages
from textual.widgets import Select

from yak.client.admin import Admin
from yak.tui.produce.files import checkpoint_path
from yak.tui.widgets.dialogs import FormDialog

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_config(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def make_topic(live, name, partitions=3, configs=None):
    Admin(live.bootstrap).create_topic(name, partitions=partitions, configs=configs)
    return name


def read_all(live, topic):
    """Every record of a topic, as (partition, key, value, headers), to the ends as they are now."""
    partitions = Admin(live.bootstrap).metadata().topics[topic].partitions
    found = [message for each in partitions for message in read_messages(live.bootstrap, topic, each.number)]
    return [(each.partition(), each.key(), each.value(), each.headers()) for each in found]


def screen(app):
    return app.screen_stack[0]


def stats(app):
    return screen(app)._run.stats


async def test_displayed_command_writes_the_same_record(lone, new_topic):
    topic = make_topic(lone, new_topic())

    async with lone.open_app(size=(140, 40), start="producer") as (app, pilot):
        await until(pilot, lambda: app.picture.is_loaded, "the picture")
        await typed(
            app, pilot, form_topic=topic, form_key="u'1", form_value='{"a": "$HOME",\n "b": [1]}', form_headers="h=w\nn"
        )
        await pilot.press("S")
        await until(pilot, lambda: screen(app)._run and stats(app).is_over, "the message")
        assert (stats(app).acknowledged, stats(app).failed) == (1, 0)
        assert stats(app).few[0].topic == topic
        command = app.screen._command()
    shell = command.replace("yak produce", f"{sys.executable} -m yak.commands produce -b {lone.bootstrap}", 1)
    subprocess.run(shell, shell=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    first, second = read_all(lone, topic)
    assert first == second
    assert first[1:] == (b"u'1", b'{"a": "$HOME",\n "b": [1]}', [("h", b"w"), ("n", None)])


async def test_messages_of_a_template_are_sent_at_a_rate_until_x_stops_them(lone, new_topic):
    topic = make_topic(lone, new_topic())

    async with lone.open_app(size=(80, 24), start="producer") as (app, pilot):
        await typed(app, pilot, form_topic=topic, form_key="{{int 1 5}}", form_value='{"i":{{i}}}')
        await pilot.press("R")
        await on_top(pilot, FormDialog)
        await typed(app, pilot, field_rate="100")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: screen(app)._run and stats(app).acknowledged >= 50, "fifty")
        assert "sending" in app.screen.query_one("#statistics-panel").border_title
        await pilot.press("X")
        await until(pilot, lambda: stats(app).is_over, "the end")
        ended = stats(app)
        assert ended.state == "stopped"
        assert ended.sent == ended.acknowledged
        assert ended.p50_ms is not None
    found = read_all(lone, topic)
    assert sorted(json.loads(value)["i"] for _, _, value, _ in found) == list(range(ended.sent))
    assert {int(key) for _, key, _, _ in found} <= {1, 2, 3, 4, 5}


async def test_a_topic_that_is_not_there_is_created_on_request_and_then_written_to(lone, new_topic):
    topic = new_topic()

    async with lone.open_app(size=(80, 24), start="producer") as (app, pilot):
        await typed(app, pilot, form_topic=topic, form_value="1")
        await pilot.press("S")
        await until(pilot, lambda: isinstance(app.screen, FormDialog) and app.screen.query("#field-partitions"), "it")
        await typed(app, pilot, field_partitions="2")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: stats(app).state == "done", "the message")
        assert stats(app).acknowledged == 1
    assert len(Admin(lone.bootstrap).metadata().topics[topic].partitions) == 2
    assert [value for _, _, value, _ in read_all(lone, topic)] == [b"1"]


async def repeat(app, pilot, topic, *, rate, acknowledged):
    """Send numbered records to a topic until stopped; returns when so many are acknowledged."""
    await typed(app, pilot, form_topic=topic, form_value="{{i}}")
    await pilot.press("R")
    await on_top(pilot, FormDialog)
    await typed(app, pilot, field_rate=str(rate))
    await pilot.press("ctrl+s")
    await until(pilot, lambda: screen(app)._run and stats(app).acknowledged >= acknowledged, "the first ones")


async def test_a_broker_that_is_killed_meanwhile_loses_and_doubles_nothing(live, new_topic):
    topic = make_topic(live, new_topic(), configs={"min.insync.replicas": "2"})

    async with live.open_app(size=(80, 24), start="producer") as (app, pilot):
        await repeat(app, pilot, topic, rate=300, acknowledged=200)
        leader = app.picture.partitions[topic, 0].leader
        await asyncio.to_thread(live.local.kill, leader)
        at_kill = stats(app).acknowledged
        await until(
            pilot,
            lambda: (
                app.picture.partitions[topic, 0].leader not in (None, leader)
                and stats(app).acknowledged >= at_kill + 600
                and stats(app).waiting < 200
            ),
            "going on behind another leader",
        )
        await pilot.press("X")
        await until(pilot, lambda: stats(app).is_over, "the end")
        ended = stats(app)
    assert (ended.sent, ended.failed) == (ended.acknowledged, 0)
    assert sorted(int(value) for _, _, value, _ in read_all(live, topic)) == list(range(ended.sent))


def csv_file(tmp_path, rows, bad=()):
    path = tmp_path / "o.csv"
    lines = ["id,total,part"] + [f"u{n},{n},{n % 3}" if n not in bad else bad[n] for n in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


async def upload(app, pilot, path, topic, rate=""):
    screen(app).query_one("TabbedContent").active = "producer-csv"
    await typed(app, pilot, csv_path=str(path), csv_topic=topic)
    await until(pilot, lambda: screen(app).csv.form.columns and screen(app).csv._plan, "the columns")
    app.screen.query_one("#csv-key", Select).value = "id"
    app.screen.query_one("#csv-partition", Select).value = "part"
    await until(
        pilot, lambda: screen(app).csv._plan and screen(app).csv._plan.mapping.partition == "part", "the mapping"
    )
    await pilot.press("S")
    await on_top(pilot, FormDialog)
    await typed(app, pilot, field_rate=rate)
    await pilot.press("ctrl+s")
    await until(pilot, lambda: screen(app).csv.run is not None, "the upload")


async def test_a_file_is_written_and_its_bad_rows_are_set_aside(lone, new_topic, tmp_path):
    topic = make_topic(lone, new_topic())
    path = csv_file(
        tmp_path,
        5000,
        {3: "u3", 70: "u70,x,9", 900: 'u900,"x' + "y" * 1_100_000 + '",1', 1200: f"u1200,{'z' * 1_048_560},1"},
    )

    async with lone.open_app(size=(140, 40), start="producer") as (app, pilot):
        await until(pilot, lambda: (topic, 2) in app.picture.partitions, "the topic")
        await upload(app, pilot, path, topic)
        await until(pilot, lambda: screen(app).csv.run.stats.is_over, "the end")
        ended, progress = screen(app).csv.run.stats, screen(app).csv._feed.progress
        assert (ended.state, ended.acknowledged) == ("done", 4996)
        assert (progress.settled, progress.rejected) == (5000, 4)
    with open(f"{path}.rejected.csv", newline="") as file:
        rejected = {int(row["line"]): row["reason"] for row in csv.DictReader(file)}
    assert sorted(rejected) == [5, 72, 902, 1202]
    assert rejected[5] == "1 column, not 3"
    assert "no partition 9" in rejected[72]
    assert "a line of more than" in rejected[902]
    assert "MSG_SIZE_TOO_LARGE" in rejected[1202]
    assert not os.path.exists(checkpoint_path(str(path), topic))
    found = read_all(lone, topic)
    assert len(found) == 4996
    assert all(json.loads(value) == {"total": key.decode()[1:]} for _, key, value, _ in found)
    assert all(int(key[1:]) % 3 == partition for partition, key, _, _ in found)


async def test_stopped_upload_resumes_where_it_stopped(lone, new_topic, tmp_path):
    topic = make_topic(lone, new_topic())
    path = csv_file(tmp_path, 1000)

    async with lone.open_app(size=(80, 24), start="producer") as (app, pilot):
        await upload(app, pilot, path, topic, rate="200")
        await until(pilot, lambda: screen(app).csv.run.stats.acknowledged >= 100, "a hundred")
        await pilot.press("X")
        await until(pilot, lambda: screen(app).csv.run.stats.is_over, "the stop")
        first = screen(app).csv.run
        assert first.stats.state == "stopped"
        assert 100 <= first.stats.acknowledged < 1000
        await until(pilot, lambda: screen(app).csv._plan and screen(app).csv._plan.settled, "the checkpoint")
        assert screen(app).csv._plan.settled == first.stats.acknowledged
        await pilot.press("S")
        await on_top(pilot, FormDialog)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: screen(app).csv.run is not first, "going on")
        await until(pilot, lambda: screen(app).csv.run.stats.is_over, "the end")
        assert screen(app).csv.run.stats.state == "done"
    assert sorted(int(key[1:]) for _, key, _, _ in read_all(lone, topic)) == list(range(1000))


def test_a_form_that_is_left_while_it_sends_ends_its_thread(lone, new_topic):
    topic = make_topic(lone, new_topic())

    async def left():
        async with lone.open_app(size=(80, 24), start="producer") as (app, pilot):
            await repeat(app, pilot, topic, rate=50, acknowledged=5)
            return screen(app)._run

    sending = asyncio.run(left())  # would not end before the thread does
    assert sending.stats.is_over
