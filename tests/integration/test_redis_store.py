"""The store's client against a real Redis: events, loss, black holes, restarts, log-in, trimmed logs."""

import json
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import redis as redis_py
import trio

from tests.errors import raises_error
from yak.cluster.image import Image
from yak.cluster.snapshot import write_snapshot
from yak.core.events import Event, RecordsTailed, StoreConnected, StoreLost, StoreReplied
from yak.errors import StartRefused, UsageError
from yak.local import redis_child
from yak.local.redis_server import EmbeddedRedis
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.server.redis_client import RedisAddress
from yak.server.redis_store import RedisStore

BOOT = {"boot_id": "b", "directories": "d", "host": "h", "port": 1, "rack": None, "role": "", "lossy": False}


@pytest.fixture
def directory():
    # Not tmp_path: the path of a unix socket must be short.
    path = tempfile.mkdtemp(prefix="yak-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(directory):
    with EmbeddedRedis(directory) as running:
        yield running


class Shell:
    """Collects what the store posts."""

    def __init__(self, url: str, **more) -> None:
        self.store = RedisStore(url, **more)
        self.events: list[Event] = []
        self._changed = trio.Event()
        self._nonce = 0
        self.who = {"cluster_id": "", "incarnation_id": "", "node_id": 1, "broker_epoch": 0, "controller_epoch": 0}

    def post(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = trio.Event()

    async def next(self, kind: type, after: int = 0, where: Callable = lambda event: True) -> Event:
        with trio.fail_after(20):
            while True:
                for event in self.events[after:]:
                    if isinstance(event, kind) and where(event):
                        return event
                await self._changed.wait()

    def submit(self, script: str, **arguments) -> int:
        self._nonce += 1
        self.store.submit(self._nonce, StoreRequest(script, self.who | arguments))
        return self._nonce

    async def call(self, script: str, **arguments) -> StoreOutcome:
        nonce = self.submit(script, **arguments)
        reply = await self.next(StoreReplied, where=lambda event: event.nonce == nonce)
        return reply.outcome

    async def join(self) -> None:
        await self.next(StoreConnected)
        await self.call("bootstrap", new_cluster_id="c", new_incarnation_id="i")
        self.who["broker_epoch"] = (await self.call("register", **BOOT)).value["broker_epoch"]
        lease = await self.call("acquire_lease")
        self.who["controller_epoch"] = lease.value["controller_epoch"]
        await self.call("unfence", target_id=1, target_epoch=self.who["broker_epoch"])

    def tailed(self) -> list:
        return [record for event in self.events if isinstance(event, RecordsTailed) for record in event.records]


@asynccontextmanager
async def running(shell: Shell) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shell.store.run, shell.post)
        yield
        nursery.cancel_scope.cancel()


async def test_calls_are_answered_and_records_are_tailed_as_they_come(server):
    shell = Shell(server.url, namespace="ns")
    async with running(shell):
        await shell.join()
        shell.store.tail(0)
        await shell.next(RecordsTailed, where=lambda event: event.records[-1].offset >= 4)
        await shell.call("alloc_pid")
        await shell.next(RecordsTailed, where=lambda event: event.records[-1].kind == "ProducerIds")
        offsets = [record.offset for record in shell.tailed()]
        assert offsets == list(range(1, 6))
        assert Image().apply_all(shell.tailed())[0].cluster_id == "c"
    keys = redis_py.Redis.from_url(server.url).keys("*")
    assert keys
    assert all(key.startswith(b"ns:{y}:") for key in keys)


async def test_server_that_still_loads_its_data_does_not_count_as_connected(directory, monkeypatch):
    """It refuses every script meanwhile, and a broker took that for a store without its history."""
    with EmbeddedRedis(directory) as filled, redis_py.Redis.from_url(filled.url) as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(3_000):
            pipeline.set(str(number), "")
        pipeline.execute()
    settings = redis_child._settings
    monkeypatch.setattr(redis_child, "_settings", lambda *where: settings(*where) + b"key-load-delay 400\n")
    loading = EmbeddedRedis(directory)
    shell = Shell(loading.url)

    try:
        async with running(shell), trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, loading.start)
            await shell.next(StoreConnected)
            outcome = await shell.call("bootstrap", new_cluster_id="c", new_incarnation_id="i")
            assert outcome.code == "OK", outcome
    finally:
        loading.stop()
    assert any("is loading its data" in event.reason for event in shell.events if isinstance(event, StoreLost))


async def test_tailing_again_from_another_offset_interrupts_the_blocking_read(server):
    shell = Shell(server.url)
    async with running(shell):
        await shell.join()
        shell.store.tail(4)
        await trio.sleep(0.05)
        with trio.fail_after(3):
            shell.store.tail(1)
            await shell.next(RecordsTailed)
        assert [record.offset for record in shell.tailed()] == [2, 3, 4]


async def test_scripts_that_the_server_forgot_are_sent_again_in_order(server):
    shell = Shell(server.url)
    async with running(shell):
        await shell.join()
        await shell.call("alloc_pid")
        redis_py.Redis.from_url(server.url).script_flush()
        outcomes = [await shell.call("alloc_pid") for _ in range(2)]
        assert [outcome.value["first"] for outcome in outcomes] == [1000, 2000]


async def test_a_server_that_does_not_answer_is_lost_and_found_again(server):
    shell = Shell(server.url, timeout_seconds=0.3)
    async with running(shell):
        await shell.join()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            shell.submit("alloc_pid")
            lost = await shell.next(StoreLost)
            assert "did not answer" in lost.reason
            seen = len(shell.events)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await shell.next(StoreConnected, after=seen)
        assert (await shell.call("verify")).code == "OK"


async def test_a_killed_server_has_everything_that_it_had_answered(server):
    shell = Shell(server.url)
    async with running(shell):
        await shell.join()
        first = await shell.next(StoreConnected)
        await shell.call("alloc_pid")
        server.kill()
        lost = await shell.next(StoreLost)
        assert lost.reason
        seen = len(shell.events)
        server.start()
        again = await shell.next(StoreConnected, after=seen)
        assert again.process_id != first.process_id
        assert (await shell.call("alloc_pid")).value == {"first": 1000, "next": 2000}


async def test_call_submitted_without_a_connection_is_not_buffered(server):
    shell = Shell("redis://127.0.0.1:1/0")
    async with running(shell):
        lost = await shell.next(StoreLost)
        assert "127.0.0.1" in lost.reason
        shell.submit("verify")
        shell.store.tail(0)
        await shell.next(StoreLost, after=len(shell.events))
        assert not any(isinstance(event, StoreReplied) for event in shell.events)


async def test_unsafe_redis_settings_are_reported_in_plain_text(server):
    client = redis_py.Redis.from_url(server.url)
    client.config_set("appendfsync", "everysec")
    client.config_set("maxmemory-policy", "allkeys-lru")
    shell = Shell(server.url)
    async with running(shell):
        connected = await shell.next(StoreConnected)
        assert len(connected.unsafe) == 2
        assert connected.unsafe[0].startswith("appendfsync is everysec, not always")
        assert connected.unsafe[1].startswith("maxmemory-policy is allkeys-lru")


async def test_an_embedded_server_has_nothing_unsafe(server):
    shell = Shell(server.url)
    async with running(shell):
        assert (await shell.next(StoreConnected)).unsafe == ()


async def test_a_full_store_refuses_and_changes_nothing(server):
    shell = Shell(server.url)
    async with running(shell):
        await shell.join()
        client = redis_py.Redis.from_url(server.url)
        client.config_set("maxmemory", "1")
        outcome = await shell.call("alloc_pid")
        assert outcome.code == "STORE_ERROR"
        assert "memory" in outcome.value["message"]
        client.config_set("maxmemory", "0")
        assert (await shell.call("alloc_pid")).value["first"] == 0


async def test_a_reader_of_a_trimmed_log_starts_with_the_snapshot(server):
    shell = Shell(server.url)
    async with running(shell):
        await shell.join()
        shell.store.tail(0)
        for _ in range(5):
            last = await shell.call("alloc_pid")
        await shell.next(RecordsTailed, where=lambda event: event.records[-1].offset == last.offset)
        image = Image().apply_all(shell.tailed())[0]
        await shell.call("heartbeat", persisted=image.offset)
        payload = json.dumps(write_snapshot(image).payload)
        where = {"snapshot_offset": image.offset, "snapshot_hash": image.chain_hash, "keep": 2}
        assert (await shell.call("trim", snapshot=payload, **where)).value == {"trimmed": image.offset - 3}
        await shell.call("alloc_pid")
        seen = len(shell.events)
        shell.store.tail(0)
        await shell.next(RecordsTailed, after=seen, where=lambda event: event.records[-1].kind == "ProducerIds")
        late = [r for e in shell.events[seen:] if isinstance(e, RecordsTailed) for r in e.records]
        fresh = late[[r.kind for r in late].index("Snapshot") :]
        assert Image().apply_all(fresh)[0].next_producer_id == 6000


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h:1/2", RedisAddress("h", 1, database=2)),
        ("redis://h", RedisAddress("h")),
        ("rediss://u:p@h:1", RedisAddress("h", 1, tls=True, username="u", password="p")),
        ("unix:///a/b?db=3&password=x", RedisAddress(path="/a/b", database=3, password="x")),
    ],
)
def test_addresses_are_read(url, address):
    assert RedisAddress.parse(url) == address


@pytest.mark.parametrize("url", ["", "h:1", "http://h:1", "redis://", "redis://h:x", "redis://h/x", "redis://:pw@h:x"])
def test_a_bad_address_is_refused_without_showing_the_password(url):
    with pytest.raises(UsageError) as error:
        RedisStore(url)
    assert "pw" not in error.value.message


def test_a_server_that_ends_at_once_says_why(directory, monkeypatch):
    monkeypatch.setenv("YAK_REDIS_SERVER", "false")
    with raises_error(StartRefused, "redis-ended"):
        EmbeddedRedis(directory).start()


def test_server_in_too_long_a_path_has_its_socket_elsewhere(directory):
    folder = os.path.join(directory, "x" * 120)
    with EmbeddedRedis(folder) as server:
        assert folder not in server.url
        assert os.path.exists(server.url.removeprefix("unix://"))
    assert not os.path.exists(server.url.removeprefix("unix://"))


def test_no_server_at_all_is_said(directory, monkeypatch):
    monkeypatch.setenv("YAK_REDIS_SERVER", f"/nowhere/{uuid.uuid4()}")
    with raises_error(UsageError, "no-redis-server"):
        EmbeddedRedis(directory).start()
