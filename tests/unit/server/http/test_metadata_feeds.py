"""The metadata log and its states, from a store and from a copy: pages, folds, and what is not there."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from yak.cluster import image_log
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import Image
from yak.cluster.snapshot import write_snapshot
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import TailedRecord
from yak.server.boot import METADATA_FOLDER
from yak.server.disk import RealDisk
from yak.server.http.external_brokers import RegistrySnapshot
from yak.server.http.problems import Problem
from yak.server.http.routes import metadata_feeds
from yak.server.http.routes.metadata_feeds import RECORDS_PER_READ, History, Point, _past_ms, _point
from yak.server.redis_client import ConnectionLost
from yak.server.redis_store import LogPage, RedisStore
from yak.views.metadata_json import CLOCKS_MS

COUNT = 3 * RECORDS_PER_READ


def records(count=COUNT, *, first=1, previous=""):
    """A cluster, and then one change of its configs after another; record n is at n seconds."""
    made = []
    for offset in range(first, first + count):
        kind, payload = "Config", {"resource_type": "broker", "resource_name": "", "configs": {"n": str(offset)}}
        if offset == 1:
            kind, payload = "Cluster", {"cluster_id": "c", "incarnation": 1, "incarnation_id": "i"}
        made.append(TailedRecord(offset, f"h{offset}", kind, offset * 1000, {"version": 0} | payload, previous))
        previous = f"h{offset}"
    return made


class FakeStore(RedisStore):
    """Records of a log that may be trimmed."""

    def __init__(self, held, snapshot=None):
        self.held = held
        self.snapshot = snapshot
        self.reads = []
        self.is_away = False

    async def read_log(self, first, count, *, with_snapshot=False):
        self.reads.append(first)
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise ConnectionLost("it is away")
        found = [record for record in self.held if record.offset >= first][:count]
        return LogPage(found, self.held[0].offset, self.held[-1].offset, self.snapshot if with_snapshot else None)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A history over this store, and a copy that has these records behind a snapshot, if there is one."""
    monkeypatch.setattr(image_log, "MAX_RECORDS", 1)

    def build(store, copied, *, snapshot_at=0, quorum=None):
        disk = RealDisk(max_open_files=16)
        log, _image = image_log.ImageLog.open(disk, f"{tmp_path}/{METADATA_FOLDER}")
        if snapshot_at:
            log.append(records(snapshot_at)).run(disk)
            log.compaction(Image().apply_all(records(snapshot_at))[0]).run(disk)
        if copied:
            log.append(copied).run(disk)
        broker = SimpleNamespace(
            image=Image().apply_all(records())[0],
            log_store=SimpleNamespace(directories=[SimpleNamespace(path=str(tmp_path))]),
            quorum=quorum,
            metadata_in_quorum=quorum is not None,
        )
        return History(SimpleNamespace(broker=broker, shell=SimpleNamespace(store=store)))

    return build


def quorum_with(log, snapshot=None):
    """A node of the metadata quorum that has applied these records."""
    machine = SimpleNamespace(state=StoreState(log=log, snapshot=snapshot))
    return SimpleNamespace(quorum=SimpleNamespace(machine=machine))


def value(image):
    return image.offset, image.default_broker_configs.get("n")


async def at(history, **point):
    return value(await history.image_at(Point(**point)))


async def test_page_ends_at_its_limit_and_returns_the_next_offset(make):
    history = make(FakeStore(records()), [])
    page = await history.page(5, RECORDS_PER_READ + 20)
    assert [each["offset"] for each in page["records"]] == list(range(5, RECORDS_PER_READ + 25))
    assert (page["begin"], page["end"], page["next"], page["source"]) == (1, COUNT, RECORDS_PER_READ + 25, "store")
    last = await history.page(COUNT - 2, 50)
    assert ([each["offset"] for each in last["records"]], last["next"]) == ([COUNT - 2, COUNT - 1, COUNT], None)


async def test_a_page_ends_before_it_becomes_large(make, monkeypatch):
    monkeypatch.setattr(metadata_feeds, "PAGE_BYTES_MAX", 1_000)
    for store in (FakeStore(records()), None):
        history = make(store, [] if store else records())
        page = await history.page(1, 1_000)
        assert 0 < len(page["records"]) <= RECORDS_PER_READ
        assert page["next"] == len(page["records"]) + 1


async def test_page_of_a_quorum_comes_from_the_log_that_this_node_applied(make):
    history = make(None, [], quorum=quorum_with(records()[100:]))
    page = await history.page(5, RECORDS_PER_READ + 20)
    assert [each["offset"] for each in page["records"]] == list(range(101, RECORDS_PER_READ + 121))
    assert (page["begin"], page["end"], page["next"], page["source"]) == (101, COUNT, RECORDS_PER_READ + 121, "store")
    last = await history.page(COUNT - 2, 50)
    assert ([each["offset"] for each in last["records"]], last["next"]) == ([COUNT - 2, COUNT - 1, COUNT], None)
    assert (await history.page(COUNT + 1, 50))["records"] == []
    nothing = await make(None, [], quorum=quorum_with([])).page(1, 50)
    assert (nothing["records"], nothing["begin"], nothing["end"]) == ([], 0, 0)


async def test_state_in_a_quorum_is_replayed_from_its_log_and_its_snapshot(make):
    history = make(None, [], quorum=quorum_with(records()))
    assert await at(history, offset=150) == (150, "150")
    assert await at(history, time_ms=10_999) == (10, "10")
    base = write_snapshot(Image().apply_all(records(120))[0])
    trimmed = make(None, [], quorum=quorum_with(records()[100:], base))
    assert await at(trimmed, offset=130) == (130, "130")
    with pytest.raises(Problem, match="begins at record 120"):
        await at(trimmed, offset=119)


async def test_metadata_history_is_read_from_the_copy_while_the_store_is_unreachable(make):
    store = FakeStore(records())
    store.is_away = True
    history = make(store, records()[9:20], snapshot_at=9)
    page = await history.page(0, 5)
    assert ([each["offset"] for each in page["records"]], page["source"]) == ([10, 11, 12, 13, 14], "copy")
    assert (page["begin"], page["end"], page["next"]) == (10, 20, 15)


async def test_the_state_of_now_needs_no_reading(make):
    store = FakeStore(records())
    history = make(store, [])
    assert await at(history, offset=COUNT) == await at(history, time_ms=COUNT * 1000 + 1) == (COUNT, str(COUNT))
    assert store.reads == []


async def test_state_in_the_copy_is_not_read_from_the_store(make):
    store = FakeStore(records())
    history = make(store, records()[50:], snapshot_at=50)
    assert await at(history, offset=50) == (50, "50")
    assert await at(history, offset=RECORDS_PER_READ + 51) == (RECORDS_PER_READ + 51, str(RECORDS_PER_READ + 51))
    assert await at(history, time_ms=60_999) == (60, "60")
    assert store.reads == []
    assert await at(history, offset=49) == (49, "49")
    assert store.reads


async def test_next_state_continues_from_the_last_state(make):
    store = FakeStore(records())
    history = make(store, [])
    assert await at(history, offset=150) == (150, "150")
    store.reads.clear()
    assert await at(history, offset=160) == (160, "160")
    assert store.reads == [1, 151]
    assert await at(history, offset=10) == (10, "10"), "an earlier one begins again"


async def test_trimmed_state_returns_410_and_the_hint_names_the_first_available_record(make):
    base = write_snapshot(Image().apply_all(records(120))[0])
    history = make(FakeStore(records()[100:], base), [])
    assert await at(history, offset=130) == (130, "130")
    assert await at(history, offset=120) == (120, "120")
    with pytest.raises(Problem, match="begins at record 120") as gone:
        await at(history, offset=119)
    assert gone.value.status == 410
    without = make(FakeStore(records()[100:]), [])
    with pytest.raises(Problem) as nothing:
        await at(without, offset=130)
    assert nothing.value.status == 410


async def test_state_that_only_the_store_has_needs_the_store(make):
    store = FakeStore(records())
    store.is_away = True
    history = make(store, records()[50:], snapshot_at=50)
    with pytest.raises(Problem, match="it is away") as away:
        await at(history, offset=10)
    assert (away.value.status, away.value.error) == (503, "metadata-store-unavailable")
    with pytest.raises(Problem) as later:
        await at(history, offset=COUNT + 1)
    assert (later.value.status, later.value.error) == (404, "not-yet")


async def test_a_log_that_does_not_fit_together_is_said_to_be_broken(make):
    broken = records(10) + records(COUNT - 10, first=11, previous="another")
    with pytest.raises(Problem, match="are inconsistent") as found:
        await at(make(FakeStore(broken), []), offset=20)
    assert found.value.status == 503


async def test_replay_that_takes_too_long_is_refused(make, monkeypatch):
    monkeypatch.setattr(metadata_feeds, "REPLAY_SECONDS_MAX", 0.0)
    with pytest.raises(Problem) as slow:
        await at(make(FakeStore(records()), []), offset=20)
    assert slow.value.status == 504


def test_offsets_and_times_are_distinguished():
    now_ms = 2_000_000_000_000
    assert _point("0", now_ms) == Point(offset=0)
    assert _point("999999999", now_ms) == Point(offset=999_999_999)
    assert _point("1763668800", now_ms) == Point(time_ms=1_763_668_800_000)
    assert _point("17.5", now_ms) == Point(time_ms=17_500)
    for same in (
        "2025-11-20T20:00:00Z",
        "2025-11-20T21:00:00+01:00",
        "2025-11-20T21:00:00 01:00",
        "2025-11-20 20:00:00",
    ):
        assert _point(same, now_ms) == Point(time_ms=1_763_668_800_000)
    for bad in ("", "-1", "nan", "1960-01-01T00:00:00Z", "2999-01-01", "9" * 16, "9" * 10, "9999-99-99"):
        with pytest.raises(Problem) as refused:
            _point(bad, now_ms)
        assert (refused.value.status, bool(refused.value.hint)) == (400, True)


def test_a_time_that_was_is_taken_to_the_millisecond():
    assert _past_ms("t", "1.5", 10_000, "hint") == 1_500
    assert _past_ms("t", "1.1239", 10_000, "hint") == 1_123
    assert _past_ms("t", "15", 10_000, "hint") == 15_000, "clocks differ by a little"
    with pytest.raises(Problem, match="in the future"):
        _past_ms("t", "15.001", 10_000, "hint")


@pytest.mark.parametrize(("steady_ms", "wall_ms"), [(-3_600_000, 0), (3_600_000, 0), (0, -3_600_000)])
async def test_changes_follow_the_clock_that_was_set_since_the_start(steady_ms, wall_ms):
    now_ms = 1_795_176_000_000
    image = replace(Image(), timestamp_ms=now_ms - 60_000)
    clock = SimpleNamespace(now_ms=lambda: now_ms + steady_ms, wall_ms=lambda: now_ms + wall_ms)

    async def read():
        return RegistrySnapshot(at_ms=now_ms)

    context = SimpleNamespace(
        broker=SimpleNamespace(
            image=image, metadata=SimpleNamespace(lifecycle=SimpleNamespace(state=LifecycleState.ACTIVE))
        ),
        shell=SimpleNamespace(clock=clock),
        part=lambda _kind: SimpleNamespace(read=read),
    )
    since = SimpleNamespace(
        path_params={"previous_offset": f"{image.timestamp_ms / 1000}"}, url=SimpleNamespace(path="/client_mgmt/1")
    )
    found = json.loads(bytes((await metadata_feeds.changes(context, since)).body))
    assert (found["full"], found["timestamp"]) == (False, (now_ms - CLOCKS_MS) / 1000)
