"""The order of a whole run: what is quick and small first, real brokers last, so that a plain mistake shows at once."""

import gc
import inspect
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import flaky
from tests.preloaded import PORTS, Preloaded

pytest_plugins = ["tests.workers"]
ORDER = ("unit", "sim", "tui", "integration", "spark")
TESTS = Path(__file__).resolve().parent
GC_THRESHOLDS = (50_000, 20, 20)
EXAMPLES_MIN = 25
EXAMPLES_DIVISOR = 4

# No test has a stopwatch: a busy machine must not make a true property fail. On CI the examples are the same each time.
settings.register_profile(
    "yak",
    parent=settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("yak")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so. The processes of tests would ignore Ctrl+C until they handle it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: nothing of what collection makes becomes garbage, and a third of its time went

_with_fewer: set[object] = set()


def _rank(item: pytest.Item) -> int:
    top = item.path.relative_to(TESTS).parts[0]
    return ORDER.index(top) if top in ORDER else len(ORDER)


def _fewer(known: settings) -> settings:
    return settings(
        known, max_examples=min(known.max_examples, max(EXAMPLES_MIN, known.max_examples // EXAMPLES_DIVISOR))
    )


def _run_fewer(machine: Any, *, settings: settings) -> None:
    run_state_machine_as_test(machine, settings=_fewer(settings))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a property try a quarter of its examples, but 25 if it has as many; `make test-all` tries all."""
    if item.config.getoption("all_examples"):
        return
    module: Any = getattr(item, "module", None)
    if getattr(module, "run_state_machine_as_test", None) is run_state_machine_as_test:
        module.run_state_machine_as_test = _run_fewer
    machine = getattr(item, "cls", None)
    if isinstance(getattr(machine, "settings", None), settings) and machine not in _with_fewer:
        _with_fewer.add(machine)
        machine.settings = _fewer(machine.settings)
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    known = getattr(test, "_hypothesis_internal_use_settings", None)
    if is_hypothesis_test(test) and known is not None and test not in _with_fewer:
        _with_fewer.add(test)
        test._hypothesis_internal_use_settings = _fewer(known)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by ring; within a ring the order of collection stays. In a whole run each listed flaky test must exist."""
    items.sort(key=_rank)
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_whole and (unused := flaky.unused(flaky.load(), (item.nodeid for item in items))):
        raise pytest.UsageError(f"tests/flaky.toml: no such test: {', '.join(unused)}")


def pytest_collection_finish() -> None:
    """Collect cycles seldom, and never visit what the imports and 13,000 collected tests made: it cost 4 % of unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


_preloaded = Preloaded()
PORT_RANGES = 12
"""More than the workers of a run."""


def _use_own_ports() -> None:
    """Let this worker's clusters have ports of their own: while a broker is down, no other worker's cluster takes its port.

    A client of that broker would not notice, and did create its topics in the other cluster. Forked `yak` processes have
    the ports of the test that starts them.
    """
    from yak.local import ports

    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PORT_RANGES
    first, end = ports._LASTING
    size = (end - first) // PORT_RANGES
    ports._LASTING = (first + number * size, first + (number + 1) * size)
    os.environ[PORTS] = f"{ports._LASTING[0]} {ports._LASTING[1]}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test-all` does and `make test` does not."""
    parser.addoption("--all-examples", action="store_true", help="let each property try as many examples as it names")
    parser.addoption("--exec-yak", action="store_true", help="start each `yak` by exec, not from a preloaded process")


def pytest_configure(config: pytest.Config) -> None:
    """Fork `yak` processes from a preloaded one (`tests/preloaded.py`)."""
    if sys.platform.startswith("linux") and not config.getoption("exec_yak"):
        _preloaded.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test with the mark `exec_yak` starts each `yak` by exec. Forked ones become children of this worker."""
    if _preloaded.owner != os.getpid():
        _preloaded.owner = os.getpid()
        _use_own_ports()
    _preloaded.is_wanted = item.get_closest_marker("exec_yak") is None
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in a Trio loop of its own, on the clock that it asks for."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    import trio

    trio.run(lambda: pyfuncitem.obj(**given), clock=given.get("autojump_clock"))
    return True
