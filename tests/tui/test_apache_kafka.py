"""`yak ui` on a cluster of Apache Kafka: each screen that Kafka can fill is filled, and what it changes is changed."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import driving
import pytest
from confluent_kafka import Consumer
from driving import fill_in, on_top, until
from textual.widgets import Button, Input

from yak.client.admin import Admin
from yak.client.record_template import RecordTemplate, parse_template
from yak.client.users import set_password
from yak.tui.app import YakApp
from yak.tui.produce.run import Plan, Run, TemplateFeed, send
from yak.tui.screens.groups import GroupScreen, ResetPreview
from yak.tui.screens.messages import MessagesScreen
from yak.tui.screens.producer import ProducerScreen
from yak.tui.screens.topic import TopicScreen
from yak.tui.screens.topics import TopicsScreen
from yak.tui.settings import UiSettings
from yak.tui.source import security
from yak.tui.source.live import LiveSource
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog
from yak.tui.widgets.frame import Lines
from yak.tui.widgets.grid import Grid

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from versus.kafka_cluster import KafkaCluster  # noqa: E402
from versus.kafka_jars import KAFKA_VERSION, Missing, java_version, kafka_jars  # noqa: E402

PATIENCE_S = 40.0
GROUP = "billing"
TOPIC = "orders"

pytestmark = [pytest.mark.thorough, pytest.mark.jvm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three nodes; skipped where Java, Maven or Maven Central is missing."""
    try:
        java_version()
        cluster = KafkaCluster(kafka_jars(ROOT / "build/kafka", KAFKA_VERSION), tmp_path_factory.mktemp("kafka"))
    except Missing as missing:
        pytest.skip(str(missing))
    try:
        cluster.prepare()
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def member(bootstrap: str) -> Consumer:
    """A consumer that has read a record and committed it, and stays."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    consumer.commit(message, asynchronous=False)
    return consumer


def texts(app, grid):
    """The lines of a table; none before the screen has it."""
    found = next(iter(app.screen_below().query(grid).results(Grid)), None)
    return [] if found is None else driving.texts(found)


def row(app, grid, number, text):
    """The line whose field of this number has this text."""
    return next((each for each in texts(app, grid) if each[number] == text), None)


async def test_every_screen_that_kafka_can_fill_is_filled(kafka):
    app = YakApp(LiveSource(kafka.bootstrap), UiSettings())
    async with app.run_test(size=(140, 45)) as pilot:
        # dashboard: brokers, the quorum's leader as the controller, disks; no Redis
        await until(pilot, lambda: app.picture.is_loaded, "picture")
        picture = app.picture
        assert {broker.state for broker in picture.brokers.values()} == {"ACTIVE"}
        assert picture.controller_id == kafka.controller()
        await until(pilot, lambda: (row(app, "#brokers", 0, "1") or [" "] * 2)[-2].endswith(" %"), "share of the disk")
        assert row(app, "#health", 0, "– metadata")

        # topics: made here, and filled; what the protocol lacks is a dash
        app.go("topics")
        await until(pilot, lambda: isinstance(app.screen, TopicsScreen) and app.screen.query("#topics"), "topics")
        await pilot.press("a")
        await on_top(pilot, FormDialog)
        await pilot.press(*TOPIC, "ctrl+s")
        await until(pilot, lambda: TOPIC in picture.topics, "topic")
        records = RecordTemplate(parse_template("k"), parse_template('{"n": {{i}}}'), ())
        plan = Plan(TOPIC, count=10)
        assert (await app.source.kafka(send, Run(plan, TemplateFeed(plan, records)))).acknowledged == 10
        await until(pilot, lambda: (row(app, "#topics", 0, TOPIC) or [""] * 5)[4] == "10", "messages counted")
        assert row(app, "#topics", 0, TOPIC)[7] == "–"

        # one topic: partitions, replicas, the last messages
        app.go("topics", TOPIC)
        await until(pilot, lambda: app.screen.query("#tail-beside"), "topic's screen")
        await until(pilot, lambda: len(texts(app, "#tail-beside")) == 10, "last messages")

        # configs
        screen = app.screen
        await pilot.press("E")
        await fill_in(pilot, retention_ms="60000")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: app.screen is screen, "topic again")
        # A broker of Kafka answers before it has replayed the change.
        configs = Admin(kafka.bootstrap).configs
        await until(
            pilot, lambda: {each.name: each.value for each in configs("topic", TOPIC)}["retention.ms"] == "60000"
        )

        # messages
        app.go("messages", TOPIC)
        await until(pilot, lambda: isinstance(app.screen_below(), MessagesScreen), "messages' screen")
        messages = app.screen_below()
        await until(pilot, lambda: messages.reader and messages.grid_in_use().row_count == 10, "messages")

        # groups: a member with its lag
        consumer = await asyncio.to_thread(member, kafka.bootstrap)
        app.go("groups")
        await until(pilot, lambda: (row(app, "#groups", 0, GROUP) or [""] * 6)[5] == "9", "lag of 9")
        assert row(app, "#groups", 0, GROUP)[1:4] == ["● Stable", "classic", "1"]
        await asyncio.to_thread(consumer.close)

        # its offsets are reset
        app.go("groups", GROUP)
        await until(pilot, lambda: isinstance(app.screen, GroupScreen) and app.screen.group.said, "group")
        await until(pilot, lambda: not app.screen.group.said["members"], "group without members")
        await pilot.press("r")
        await on_top(pilot, FormDialog)
        await pilot.press("ctrl+s")
        await on_top(pilot, ResetPreview)
        button = app.screen.query_one("#yes", Button)
        await until(pilot, lambda: not button.disabled, "plan that can be done")
        await pilot.press("R")
        await on_top(pilot, GroupScreen)
        await until(pilot, lambda: app.screen.group.lag == 10, "all records unread again")

        # a record is sent from the Producer screen
        app.go("producer", TOPIC)
        await until(pilot, lambda: isinstance(app.screen, ProducerScreen) and app.screen.query("#form-topic"), "form")
        await driving.typed(app, pilot, form_topic=TOPIC, form_value='{"from": "the screen"}')
        await pilot.press("ctrl+s")
        await until(
            pilot,
            lambda: sum(each.high_watermark for each in picture.partitions.values() if each.topic == TOPIC) == 11,
            "record of the producer",
        )

        # metadata log: missing, with the reason
        app.go("metadata")
        await until(pilot, lambda: "only YAK's HTTP service has the metadata log" in app.screen.error_text(), "reason")

        # replication: a leadership is moved
        app.go("replication")
        partition = picture.partitions[TOPIC, 0]
        await until(pilot, lambda: row(app, "#replication", 2, partition.name), "partition")
        app.screen.query_one("#replication", Grid).move_to(partition.name)
        before = partition.leader
        await pilot.press("F")
        await until(pilot, lambda: app.screen.query("#field-to"), "choice of leader")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: partition.leader not in (before, None), "other leader")

        # failover: a broker that dies is fenced, and comes back
        app.go("failover")
        victim = next(node for node in kafka.nodes if node not in (partition.leader, picture.controller_id))
        await asyncio.to_thread(kafka.kill, victim)
        await until(pilot, lambda: picture.brokers[victim].state == "FENCED", "fenced broker")
        await until(pilot, lambda: partition.replication.is_under_replicated, "smaller ISR")
        await until(
            pilot, lambda: "fenced" in driving.words(app.screen.query_one("#failover-lines", Lines)), "time line"
        )
        await asyncio.to_thread(kafka.restart, victim)
        await until(pilot, lambda: picture.brokers[victim].state == "ACTIVE", "broker back")
        await until(pilot, lambda: not partition.replication.is_under_replicated, "whole ISR")

        # deletion, on the topic's screen, which is open still
        app.go("topics", TOPIC)
        await on_top(pilot, TopicScreen)
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press(*TOPIC, "enter")
        await until(pilot, lambda: TOPIC not in picture.topics, "deletion")
        assert TOPIC not in await asyncio.to_thread(lambda: Admin(kafka.bootstrap).metadata().topics)
    assert app._exception is None


async def test_users_and_quotas_are_listed_and_removed_and_acls_are_off(kafka):
    set_password(Admin(kafka.bootstrap), "ann", "secret", ("SCRAM-SHA-256", "SCRAM-SHA-512"), 4096)
    security.set_quota(kafka.bootstrap, security.Quota((("user", "ann"),), "producer_byte_rate", 1e6))

    app = YakApp(LiveSource(kafka.bootstrap), UiSettings(start="security"))
    async with app.run_test(size=(140, 45)) as pilot:
        user = ["ann", "SCRAM-SHA-256, SCRAM-SHA-512", "4 096"]
        await until(pilot, lambda: texts(app, "#users") == [user], "user")
        await until(pilot, lambda: texts(app, "#quotas"), "quota")
        assert texts(app, "#quotas") == [["user=ann", "producer_byte_rate", "1 000 000 B/s"]]
        await until(pilot, lambda: "acls-off" in app.screen.query_one("#acls", Grid)._empty, "words")
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        app.screen.query_one("#typed", Input).value = "ann"
        await pilot.press("enter")
        await until(pilot, lambda: texts(app, "#users") == [], "removal of the user")
        app.go("security", "quotas")
        await until(pilot, lambda: app.focused is app.screen.query_one("#quotas", Grid), "focus")
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: texts(app, "#quotas") == [], "removal of the quota")
    assert app._exception is None
