"""The metadata log on the recorded cluster, and on one with 100,000 records: pages, places, images, marks."""

import asyncio
from contextlib import asynccontextmanager

from driving import answered, on_recorded, press, texts, until
from pictures import recorded_app, recorded_source
from recorded_source import RecordedSource

from yak.tui.widgets.grid import Grid
from yak.tui.widgets.timeline import Timeline

NOTHING = {
    "timestamp": 0.0, "clusterId": "c", "incarnation": 1, "controllerId": -1, "brokers": [], "topics": [], "partitions": [],
    "producers": [], "brokerConfigs": {"": {}},
}  # fmt: skip


class LongSource(RecordedSource):
    """A log of many records, of which each makes the controller's epoch its offset."""

    def __init__(self, end, **more):
        super().__init__({}, recorded_source().events, **more)
        self.end = end
        self.history = "a"
        self.images = []
        self.slow = None

    def record(self, offset):
        said = {"controllerId": 1, "controllerEpoch": offset, "brokerEpoch": 1}
        hash_ = f"{self.history}{offset}"
        return {
            "offset": offset,
            "timestamp": 1_795_000_000 + offset,
            "kind": "ControllerChange",
            "hash": hash_,
            "record": said,
        }

    async def ask(self, method, path, *, params=None, body=None):
        self.requests.append((method, path, dict(params or {})))
        if path == "/metadata/log":
            last = min(self.end, params["from"] + params["limit"] - 1)
            records = [self.record(offset) for offset in range(params["from"], last + 1)]
            is_more = bool(records) and last < self.end
            return {
                "begin": 1,
                "end": self.end,
                "next": last + 1 if is_more else None,
                "source": "store",
                "records": records,
            }
        if path == "/metadata/image":
            if self.slow is not None:
                await self.slow.wait()
            at = str(params["at"])
            offset = int(at) if at.isdigit() and len(at) < 10 else int(float(at)) - 1_795_000_000
            self.images.append(offset)
            return {**NOTHING, "offset": offset, "controllerEpoch": offset}
        return await super().ask(method, path, params=params, body=body)


@asynccontextmanager
async def on_log(source, size=(80, 24)):
    """The app on this screen, a moment after the log's last record, once its image is there, and its pilot."""
    app = recorded_app(source=source, start="metadata")
    app.now_ms = lambda: (1_795_000_000 + source.end + 5) * 1_000
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.screen_below()._image_of == (source.end, None), "the newest image")
        await answered(pilot)
        yield app, pilot


def log_of(app):
    return app.screen_below().query_one("#log", Grid)


def image_texts(app):
    return texts(app.screen_below().query_one("#image", Grid))


async def test_metadata_screen_opens_at_the_log_end_with_the_current_cluster_state():
    async with on_recorded(start="metadata", size=(140, 40)) as (app, pilot):
        await until(pilot, lambda: image_texts(app), "the cluster")
        assert (log_of(app).row_count, log_of(app).cursor_key) == (34, "34")
        assert "record 34 of 34, live" in str(app.screen.query_one("#metadata-log").border_title)
        assert ["  controller", "broker 2, epoch 2"] in image_texts(app)
        assert any(name.startswith("◆") for name, _text in image_texts(app))
        assert "PartitionChange" in str(app.screen.query_one("#record-json").render())


async def test_record_that_does_not_exist_is_refused_with_the_newest():
    async with on_recorded(start="metadata") as (app, pilot):
        app.go("metadata", "999")
        await until(pilot, lambda: app.notices, "the notice")
        assert str(app.notices[-1][1]) == "record 999 does not exist yet: the newest is 34"
        app.go("metadata", "12")
        await until(pilot, lambda: log_of(app).cursor_key == "12", "the record")
        assert len(app.notices) == 1


async def test_long_log_reads_only_the_visible_pages():
    source = LongSource(100_000)
    async with on_log(source) as (app, pilot):
        assert (log_of(app).row_count, log_of(app).cursor_key) == (100_000, "100000")
        await pilot.press("g")
        await until(pilot, lambda: log_of(app).cursor_row.cells[1].text != "…", "the first page")
        app.screen.query_one(Timeline).post_message(Timeline.Moved(50_000))
        await until(pilot, lambda: log_of(app).cursor_key == "50000", "the place")
        await until(pilot, lambda: log_of(app).cursor_row.cells[1].text != "…", "its page")
        assert log_of(app).cursor_row.cells[3].text == "broker 1 is the controller, epoch 50000"
        requested = [each[2] for each in source.requests if each[1] == "/metadata/log"]
        assert len(requested) < 15
        assert all(each["limit"] <= 100 for each in requested)


async def test_new_records_come_in_and_are_followed_only_from_the_end():
    source = LongSource(50)
    async with on_log(source) as (app, pilot):
        source.end = 53
        app.screen.ask_again()
        await answered(pilot)
        assert log_of(app).cursor_key == "53"
        assert 53 in source.images
        await pilot.press("left_square_bracket", "left_square_bracket")
        source.end = 60
        app.screen.ask_again()
        await answered(pilot)
        assert log_of(app).cursor_key == "51"
        assert "9 newer" in str(app.screen.query_one("#metadata-log").border_title)
        await pilot.press("G")
        source.end = 61
        app.screen.ask_again()
        await answered(pilot)
        assert log_of(app).cursor_key == "61"


async def test_image_is_requested_once_where_the_cursor_rests():
    source = LongSource(500)
    async with on_log(source) as (app, pilot):
        source.images.clear()
        for _ in range(12):
            app.screen.action_step(-1)
        await answered(pilot)
        assert source.images == [488]
        assert ["  controller", "▲ none, epoch 488"] in [
            *image_texts(app),
            *[[n.replace("◆", " "), w] for n, w in image_texts(app)],
        ]
        await press(pilot, "right_square_bracket")
        await press(pilot, "left_square_bracket")
        assert source.images == [488, 489]  # the first was kept


async def test_the_latest_place_wins_when_answers_are_slow():
    source = LongSource(500)
    async with on_log(source) as (app, pilot):
        source.slow = asyncio.Event()
        for place in (100, 200, 300):
            log_of(app).move_to(str(place))
            request = ("GET", "/metadata/image", {"at": place})
            await until(pilot, lambda request=request: request in source.requests, "the request")
        source.slow.set()
        await answered(pilot)
        assert any("epoch 300" in text for _name, text in image_texts(app))


async def test_mark_compares_two_images():
    async with on_log(LongSource(500)) as (app, pilot):
        await pilot.press("equals_sign")
        log_of(app).move_to("100")
        await answered(pilot)
        assert image_texts(app) == [["~ controller", "epoch 100 → 500"]]
        assert str(app.screen.query_one("#metadata-image").border_title) == "What changed from record 100 to 500"
        await press(pilot, "escape")
        assert app.screen.mark is None
        assert any("epoch 100" in text for _name, text in image_texts(app))


async def test_metadata_screen_moves_to_a_time_or_to_a_record():
    async with on_log(LongSource(500)) as (app, pilot):
        await press(pilot, "T", *"123", "enter")
        assert log_of(app).cursor_key == "123"
        await press(pilot, "T", "minus", *"1m", "enter")
        assert log_of(app).cursor_key == "445"
        await press(pilot, "T", *"noon", "enter")
        assert app.notices[-1][1].code == "bad-time"
        assert log_of(app).cursor_key == "445"
        await press(pilot, "T", *"2099", "minus", *"01", "minus", *"01", "enter")
        assert "future" in app.notices[-1][1].message
        await press(pilot, "T", "0", "enter")
        assert log_of(app).cursor_key == "1"


async def test_log_filter_searches_known_records_and_reads_more():
    source = LongSource(700)
    async with on_log(source) as (app, pilot):
        await pilot.press("slash", *"epoch", "space", *"25", "enter")
        for _ in range(8):
            app.screen.ask_again()
            await answered(pilot)
        keys = [log_of(app).displayed.at(index).key for index in range(log_of(app).row_count)]
        assert keys == ["25", *(str(number) for number in range(250, 260))]
        await press(pilot, "escape")
        assert log_of(app).row_count == 700


async def test_metadata_log_of_another_history_replaces_the_old_records():
    source = LongSource(50)
    async with on_log(source) as (app, pilot):
        source.history, source.end = "b", 20
        for _ in range(2):
            app.screen.ask_again()
            await answered(pilot)
        assert log_of(app).row_count == 20
        assert app.screen.log_.records[20]["hash"] == "b20"


async def test_image_title_names_its_record():
    source = LongSource(1_000)
    async with on_log(source, size=(140, 40)) as (app, pilot):
        panel = app.screen.query_one("#metadata-image")
        assert "after record 1000," in str(panel.border_title)
        source.answers.clear()
        is_asked, gate = asyncio.Event(), asyncio.Event()
        answer = source.ask

        async def late(method, path, **more):
            if path == "/metadata/image":
                is_asked.set()
                await gate.wait()
            return await answer(method, path, **more)

        source.ask = late
        app.screen.query_one(Timeline).post_message(Timeline.Moved(500))
        await until(pilot, is_asked.is_set, "the request")
        assert log_of(app).cursor_key == "500"
        assert "after record 1000," in str(panel.border_title), "as the body below it"
        assert "reading record 500" in str(panel.border_subtitle)
        gate.set()
        await answered(pilot)
        assert "after record 500," in str(panel.border_title)
        assert any("epoch 500" in text for _name, text in image_texts(app))
