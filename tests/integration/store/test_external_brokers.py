"""The registry of external brokers, in a real Redis and in a metadata quorum: its bound, conflicts, old entries, taken ids and outages."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import redis as redis_py
import trio

from yak.cluster.image import Image
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode
from yak.metadata_store.scripts import execute
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreRequest
from yak.quorum.store import decode_request, encode_outcome
from yak.quorum.transport import ENVELOPE
from yak.server.http import external_brokers as module
from yak.server.http.external_brokers import ExternalBrokers
from yak.server.http.problems import Problem
from yak.server.redis_client import ConnectionLost, ReplyError
from yak.views.metadata_json import ExternalBroker

KEY = "registry:guests"


class Store:
    """Calls Redis as `RedisStore` does; `is_away` is an outage."""

    prefix = "registry:"

    def __init__(self, url):
        self.client = redis_py.Redis.from_url(url, decode_responses=True)
        self.is_away = False
        self.calls = 0

    async def call(self, *command, timeout_seconds):
        self.calls += 1
        if self.is_away:
            raise ConnectionLost("gone")
        try:
            return self.client.execute_command(*command)
        except redis_py.ResponseError as error:
            raise ReplyError(str(error)) from None

    def put(self, node_id, entry):
        """Write an entry, as another broker does."""
        self.client.hset(KEY, str(node_id), entry)

    def ids(self):
        """The ids of all entries."""
        return sorted(int(each) for each in self.client.hkeys(KEY))


class Quorum:
    """Answers Envelope as the quorum's leader does; `is_away` is a quorum without a leader."""

    def __init__(self):
        self.state = StoreState()
        execute(self.state, StoreRequest("bootstrap", {"new_cluster_id": "c", "new_incarnation_id": "i"}), 1)
        self.is_away = False
        self.calls = 0

    async def ask(self, api_key, fields, *, timeout_s):
        assert api_key == ENVELOPE
        self.calls += 1
        if self.is_away:
            return SimpleNamespace(response_data=None, error_code=ErrorCode.request_timed_out)
        outcome = execute(self.state, decode_request(fields["request_data"]), time.time_ns() // 1_000_000)
        return SimpleNamespace(response_data=encode_outcome(outcome), error_code=ErrorCode.none)

    def put(self, node_id, entry):
        """Write an entry, as another broker does."""
        self.state.external_brokers[node_id] = entry

    def ids(self):
        """The ids of all entries."""
        return sorted(self.state.external_brokers)


@pytest.fixture(params=["redis", "quorum"])
def store(request):
    if request.param == "quorum":
        yield Quorum()
        return
    made = Store(request.getfixturevalue("embedded").url)
    made.client.delete(KEY, "registry:cluster")
    yield made
    made.client.close()


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)


def registry(store, **image):
    own = SimpleNamespace(image=Image(incarnation_ms=77, **image), metadata_in_quorum=isinstance(store, Quorum))
    shell = SimpleNamespace(store=None if isinstance(store, Quorum) else store)
    return ExternalBrokers(SimpleNamespace(broker=own, shell=shell, broker_client=store))


def broker(node_id, state=BrokerState.ACTIVE):
    return ExternalBroker(node_id, 1, f"u{node_id}", "h", 9092, "r/ä", "SSL", state)


async def put(registry, new):
    return await registry.change(new.node_id, lambda _old: new)


async def listed(registry):
    return (await registry.read()).brokers


async def test_every_broker_reads_what_another_one_registered(store):
    first, second = registry(store), registry(store)
    made = await put(first, broker(9))
    assert made == broker(9)
    reading = await second.read()
    assert reading.brokers == {9: made}
    assert 1_600_000_000_000 < reading.brokers[9].changed_ms <= reading.at_ms


async def test_a_full_registry_forgets_the_broker_closed_first_and_refuses_when_none_is(store, monkeypatch):
    monkeypatch.setattr(module, "EXTERNAL_BROKERS_MAX", 3)
    mine = registry(store)
    for node_id in (8, 7, 9):
        await put(mine, broker(node_id))
    with pytest.raises(Problem) as refused:
        await put(mine, broker(10))
    assert (refused.value.status, refused.value.error) == (409, "too-many-brokers")
    for node_id in (9, 7):
        await put(mine, broker(node_id, BrokerState.CLOSED))
        await trio.sleep(0.002)
    await put(mine, broker(10))
    assert sorted(await listed(mine)) == [7, 8, 10]


async def test_a_change_that_conflicts_is_planned_again_with_the_newer_entry(store):
    mine, other = registry(store), registry(store)
    await put(mine, broker(9))
    seen = []

    def plan(old):
        if not seen:
            put_by_other = replace(old, broker_epoch=2, host="other")
            store.put(9, json.dumps(entry_of(put_by_other)))
        seen.append(old.broker_epoch)
        return replace(old, broker_epoch=old.broker_epoch + 1, port=1)

    made = await mine.change(9, plan)
    assert seen == [1, 2]
    assert (made.broker_epoch, made.host, made.port) == (3, "other", 1)
    assert await listed(other) == {9: made}


async def test_two_registrations_at_the_same_time_stay_within_the_bound(store, monkeypatch):
    monkeypatch.setattr(module, "EXTERNAL_BROKERS_MAX", 2)
    mine = registry(store)
    await put(mine, broker(8))

    def plan(_old):
        if 10 not in store.ids():
            store.put(10, json.dumps(entry_of(broker(10))))
        return broker(9)

    with pytest.raises(Problem) as refused:
        await mine.change(9, plan)
    assert refused.value.error == "too-many-brokers"
    assert sorted(await listed(mine)) == [8, 10]


async def test_entries_of_an_older_yak_are_taken_over(store):
    old = {"broker_epoch": 4, "boot_id": "u9", "host": "h", "port": 9092, "rack": None, "security_protocol": "SSL"}
    store.put(9, json.dumps(old | {"state": "CLOSED", "nonce": "n", "changed": 12}))
    (found,) = (await listed(registry(store))).values()
    assert (found.broker_epoch, found.state, found.rack, found.changed_ms) == (4, BrokerState.CLOSED, None, 77)


async def test_an_id_that_a_yak_broker_took_is_hidden_and_makes_room_first(store, monkeypatch):
    monkeypatch.setattr(module, "EXTERNAL_BROKERS_MAX", 3)
    mine = registry(store)
    await put(mine, broker(6, BrokerState.CLOSED))
    await put(mine, broker(7))
    await put(mine, broker(8))
    later = registry(store, unregistered={7: 5})
    assert sorted(await listed(later)) == [6, 8]
    await put(later, broker(9))
    assert sorted(await listed(later)) == [6, 8, 9]
    assert store.ids() == [6, 8, 9]


async def test_newest_registry_snapshot_is_returned_and_changes_refused_during_an_outage(store):
    mine = registry(store)
    await put(mine, broker(9))
    store.is_away = True
    reading = await mine.read()
    assert (list(reading.brokers), reading.at_ms) == ([9], reading.brokers[9].changed_ms)
    assert await registry(store).read() == module.RegistrySnapshot({}, 0)
    with pytest.raises(Problem) as refused:
        await put(mine, broker(10))
    assert (refused.value.status, refused.value.error) == (503, "metadata-store-unavailable")


async def test_recent_registry_snapshot_is_returned_without_a_call_to_the_store(store, monkeypatch):
    mine = registry(store)
    await put(mine, broker(9))
    monkeypatch.setattr(module, "_FRESH_SECONDS", 60.0)
    await mine.read()
    before = store.calls
    store.is_away = True
    mine._tried_at = float("-inf")
    await mine.read()
    await mine.read()
    assert store.calls - before == 1, "also after a failure"


def entry_of(broker):
    return {
        "broker_epoch": broker.broker_epoch, "boot_id": broker.boot_id, "host": broker.host, "port": broker.port,
        "rack": broker.rack, "security_protocol": broker.security_protocol, "state": broker.state, "changed_ms": 1,
    }  # fmt: skip


@pytest.mark.parametrize("state", ["EXPORTED", "MOVED"])
async def test_registry_whose_metadata_move_takes_no_change(embedded, state):
    store = Store(embedded.url)
    store.client.delete(KEY)
    store.client.hset("registry:cluster", "state", state)
    try:
        with pytest.raises(Problem) as caught:
            await put(registry(store), broker(1))
        assert (caught.value.status, store.ids()) == (503, [])
    finally:
        store.client.delete("registry:cluster")
        store.client.close()
