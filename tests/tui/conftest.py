"""Clusters of three brokers and of one for the live tests of the terminal UI: for each file that asks, whole for each test."""

import asyncio
import inspect
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import textual.app
from textual._wait import wait_for_idle
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from yak.local.cluster import LocalCluster, UpSettings
from yak.tui.app import YakApp
from yak.tui.settings import UiSettings
from yak.tui.source.live import LiveSource
from yak.tui.source.local_control import LocalClusterControl

# tests are no package: what several files share is in folders that are named
sys.path += [str(Path(__file__).parent / "recorded"), str(Path(__file__).parent.parent / "integration")]

from support.waiting import wait_until

CONFIGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4")
_names = itertools.count(1)
_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[Any]] = {}


def _parse_once(self: Stylesheet, css: str, **how: Any) -> list[Any]:
    """Textual parses its styles for each app: a fifth of an app's start, and hundreds of tests start one."""
    key = (css, *how.items(), *self._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(self, css, **how)
    return _parsed[key]


Stylesheet._parse_rules = _parse_once
RuleSet.__hash__ = object.__hash__  # the same hash, but not in Python: half a million times while two apps start
_pause = Pilot.pause
TURNS = 100
"""A message of Textual that leads to another takes a turn of the event loop."""


async def _pause_for_turns(self: Pilot[Any], delay: float | None = None) -> None:
    """Let messages arrive before the time begins, and what a timer posted in this time after it.

    Textual's own pause counts time only, and takes an app for idle that other processes kept off the processor for 20 ms.
    """
    await _take_turns()
    await _pause(self, delay)
    await _take_turns()
    self.app.screen._on_timer_update()


async def _take_turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _idle_for_turns(min_sleep: float = 0.0, max_sleep: float = 1) -> None:
    """Between two keys too: else the second may come before what the first one opens."""
    await _take_turns()
    await wait_for_idle(min_sleep, max_sleep)
    await _take_turns()


Pilot.pause = _pause_for_turns
textual.app.wait_for_idle = _idle_for_turns


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given))
    return True


class LiveCluster:
    """Three brokers, and the app on them."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.has_http = True

    @property
    def bootstrap(self) -> str:
        """Of those that run."""
        return ",".join(broker.address for broker in self.local.status().brokers if broker.state == "running")

    def source(self) -> LiveSource:
        """Where the app has everything from."""
        brokers = self.local.status().brokers if self.has_http else ()
        http = {each.node_id: each.http_address for each in brokers if each.http_address}
        return LiveSource(self.bootstrap, title="test", http=http, local=LocalClusterControl(self.local.data_dir))

    @asynccontextmanager
    async def open_app(self, *, size: tuple[int, int], **settings: object) -> AsyncIterator[tuple[YakApp, Pilot[Any]]]:
        """The app on this cluster, and its pilot."""
        app = YakApp(self.source(), UiSettings(**settings))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            yield app, pilot
            assert app._exception is None

    def health(self) -> dict[str, object]:
        """Of a broker."""
        address = next(each.http_address for each in self.local.status().brokers if each.http_address)
        return httpx.get(f"{address}/health", timeout=10, trust_env=False).json()  # type: ignore[no-any-return]


@contextmanager
def _running(folder: Path, brokers: int) -> Iterator[LiveCluster]:
    made = LiveCluster(LocalCluster(str(folder)))
    try:
        made.local.up(UpSettings(port=0, http_port=0, brokers=brokers, leaders=brokers, configs=CONFIGS))
        yield made
    finally:
        made.local.discard()


@pytest.fixture(scope="module")
def running_live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """The processes."""
    with _running(tmp_path_factory.mktemp("tui"), 3) as made:
        yield made


@pytest.fixture
def live(running_live: LiveCluster) -> LiveCluster:
    """The cluster with all brokers up and all replicas in sync."""
    running_live.local.up(UpSettings())
    wait_until(lambda: running_live.health()["status"] == "ok", "a whole cluster")
    return running_live


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A cluster of one broker, for tests that neither stop it nor look at replicas."""
    with _running(tmp_path_factory.mktemp("tui"), 1) as made:
        yield made


@pytest.fixture(params=["http", "kafka"])
def either(request: pytest.FixtureRequest, live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> LiveCluster:
    """The cluster with HTTP, and then as brokers without HTTP, polled over the Kafka protocol."""
    if request.param == "kafka":
        monkeypatch.setattr("yak.tui.source.kafka.http_addresses", lambda _servers: {})
        monkeypatch.setattr(live, "has_http", False)
    return live


@pytest.fixture
def new_topic() -> Callable[[], str]:
    """A name that nobody has."""
    return lambda: f"tui-{next(_names)}"
