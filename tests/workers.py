"""`--workers N`: workers forked from the process that has collected the tests, which then shares the files among them.

Each worker of xdist collects by itself, for half a minute of processor time. Here a worker asks for a file when it begins
the last test of the one that it has. The process that collected runs no test: it forks another worker if one crashes.
Linux only, as some libraries of macOS do not work after a fork.

Every second worker takes files from the end, where real brokers and Spark are. They mostly wait, while unit tests mostly
compute: both together use the processors better than one after the other, and what takes longest does not begin last.
What is left then mostly waits: where the processors are idle, more workers are forked, up to `_IDLE_FACTOR` N.
"""

import atexit
import contextlib
import os
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

_NAME = "PYTEST_XDIST_WORKER"
"""Plugins that write a report at the end know a worker by this variable."""
_ON_ONE_SESSION = ("tests/spark/jobs/", "tests/spark/source/")
"""Folders whose tests use the Spark session of their process: in a second worker they would start a second JVM. They come
last, which is where the second worker begins."""
_IDLE_FACTOR = 2
_IDLE_PERCENT = 30.0
"""Share of the last 10 s in which some process waited for a processor, below which another worker is forked."""
_FORK_SECONDS = 10.0
"""Between two of these forks: the pressure has to show the first one."""
_CHECK_SECONDS = 1.0
"""Between two readings of the pressure."""
_NICE = 5
"""Of workers that take files from the front: brokers answer in time although unit tests compute beside them."""


def cpu_pressure_percent() -> float:
    """Share of the last 10 s in which some process waited for a processor (PSI); 100 where the kernel does not say."""
    try:
        with open("/proc/pressure/cpu") as file:
            return float(file.readline().split("avg10=")[1].split()[0])
    except (OSError, LookupError, ValueError):
        return 100.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many workers."""
    parser.addoption("--workers", type=int, default=0, metavar="N", help="fork N workers after collection")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers."""
    option = session.config.option
    if option.workers < 2 or option.collectonly or session.testsfailed:
        return None
    Sharing(session).run(option.workers)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def by_file(ids: Sequence[str]) -> list[list[int]]:
    """The numbers of the tests that one worker runs one after the other, in the order of collection."""
    numbers: dict[str, list[int]] = {}
    on_one_session: list[int] = []
    for number, each in enumerate(ids):
        file = each.partition("::")[0]
        (on_one_session if each.startswith(_ON_ONE_SESSION) else numbers.setdefault(file, [])).append(number)
    return [*numbers.values(), *([on_one_session] if on_one_session else [])]


@dataclass
class Worker:
    """A worker, as the process that forked it sees it."""

    pid: int
    connection: Connection
    end: int
    """A descriptor that can be read when the worker has ended."""
    is_at_front: bool
    numbers: deque[int] = field(default_factory=deque)
    """The tests that it has to run, from the last one that it began."""


class Sharing:
    """The tests of a session, and the workers that run them."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config: Any = session.config
        self._files = deque(by_file([item.nodeid for item in session.items]))
        self._workers: list[Worker] = []
        self._forks = self._count_max = 0
        self._forked_s = self._checked_s = 0.0

    def run(self, count: int) -> None:
        """Return when all tests have run, or when one has failed that ends the run."""
        if reporter := self._config.pluginmanager.getplugin("terminalreporter"):
            reporter.showfspath = False  # the files of several workers alternate
        self._count_max = count * _IDLE_FACTOR
        for number in range(min(count, len(self._files))):
            self._fork(is_at_front=number % 2 == 0)
        try:
            while self._workers and not (self._session.shouldfail or self._session.shouldstop):
                ready = wait([each for worker in self._workers for each in (worker.connection, worker.end)])
                for worker in [each for each in self._workers if each.connection in ready or each.end in ready]:
                    self._receive(worker)
                self._fork_if_idle()
        finally:
            for worker in [*self._workers]:
                self._remove(worker)

    def _fork(self, *, is_at_front: bool) -> None:
        ours, theirs = Pipe()
        name = f"gw{self._forks}"
        self._forks += 1
        self._forked_s = time.monotonic()
        folder = self._config._tmp_path_factory.getbasetemp() / name
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if (pid := os.fork()) == 0:
            for each in (ours, *(worker.connection for worker in self._workers)):
                each.close()
            if is_at_front:
                os.nice(_NICE)
            folder.mkdir(mode=0o700)
            self._config._tmp_path_factory._basetemp = folder
            InWorker(self._session, theirs, name).run()
        theirs.close()
        self._workers.append(Worker(pid, ours, os.pidfd_open(pid), is_at_front))

    def _fork_if_idle(self) -> None:
        now_s = time.monotonic()
        if (
            self._files
            and len(self._workers) < self._count_max
            and now_s - self._forked_s > _FORK_SECONDS
            and now_s - self._checked_s > _CHECK_SECONDS
        ):
            self._checked_s = now_s
            if cpu_pressure_percent() < _IDLE_PERCENT:
                self._fork(is_at_front=False)

    def _receive(self, worker: Worker) -> None:
        try:
            kind, what = worker.connection.recv() if worker.connection.poll() else ("crash", {})
        except (EOFError, OSError):
            kind, what = "crash", {}
        hook = self._config.hook
        if kind == "pytest_runtest_logstart":
            while self._session.items[worker.numbers[0]].nodeid != what["nodeid"]:
                worker.numbers.popleft()
        for data in what.pop("reports", ()):
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            hook.pytest_runtest_logreport(report=report)
            self._name_if_failed(report)
        if kind == "pytest_warning_recorded":
            hook.pytest_warning_recorded.call_historic(kwargs=_read_warning(what))
        elif kind.startswith("pytest_"):
            getattr(hook, kind)(**what)
        else:
            getattr(self, f"_on_{kind}")(worker, **what)

    def _name_if_failed(self, report: pytest.TestReport) -> None:
        """A run that is killed prints no summary: say at once which test failed, and why in a line."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else report.longreprtext
            reporter.write_line(f" failed: {report.nodeid}: {reason.splitlines()[0] if reason else report.when}")

    def _on_next(self, worker: Worker) -> None:
        take = self._files.popleft if worker.is_at_front else self._files.pop
        numbers = take() if self._files else []
        worker.numbers += numbers
        with contextlib.suppress(OSError):  # it has crashed, which `_receive` notices
            worker.connection.send(numbers)

    def _on_end(self, worker: Worker, used_snapshots: Any) -> None:
        self._remove(worker)
        if used_snapshots is not None:
            self._config._syrupy.add_worker_report(used_snapshots)

    def _on_crash(self, worker: Worker) -> None:
        """The test that ran has failed; another worker runs what is left of its file."""
        code = self._remove(worker)
        if not worker.numbers:
            raise RuntimeError("a worker ended before its first test")
        item = self._session.items[worker.numbers.popleft()]
        text = f"the worker crashed while it ran {item.nodeid}: exit code {code}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._config.hook.pytest_runtest_logreport(report=report)
        if worker.numbers:
            self._files.appendleft([*worker.numbers])
        if self._files:
            self._fork(is_at_front=worker.is_at_front)

    def _remove(self, worker: Worker) -> int:
        """Close the connection, with which a worker that runs ends after its test, and wait for its exit code."""
        self._workers.remove(worker)
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        os.close(worker.end)
        return os.waitstatus_to_exitcode(status)


class InWorker:
    """The worker itself: a plugin that sends what happens to the process that shares the tests."""

    def __init__(self, session: pytest.Session, connection: Connection, name: str) -> None:
        self._session = session
        self._config: Any = session.config
        self._connection = connection
        self._reports: list[dict[str, Any]] = []
        os.environ[_NAME] = name
        atexit._clear()  # what the process that collected does at its end
        plugins = self._config.pluginmanager
        # Files of captured output, and places in them, would be shared with the others.
        if capture := plugins.getplugin("capturemanager"):
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        if reporter := plugins.unregister(name="terminalreporter"):
            plugins.register(
                SimpleNamespace(_tw=reporter._tw), "terminalreporter"
            )  # a time-out prints all stacks there
        self._sends = False
        plugins.register(self)  # hears again which warnings collection had
        self._sends = True

    def run(self) -> NoReturn:
        """Run files until there is none, and end this process."""
        try:
            self._run()
            self._send("end", used_snapshots=self._used_snapshots())
        except (EOFError, OSError):
            self._session._setupstate.teardown_exact(None)  # the run is over
        except BaseException:
            traceback.print_exc()
            self._session._setupstate.teardown_exact(None)
        finally:
            with contextlib.suppress(Exception):
                threading._shutdown()  # type: ignore[attr-defined]
                atexit._run_exitfuncs()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(0)

    def _run(self) -> None:
        numbers = self._next()
        while numbers and not (self._session.shouldfail or self._session.shouldstop):
            number = numbers.popleft()
            numbers = numbers or self._next()
            items = self._session.items
            following = items[numbers[0]] if numbers else None
            self._config.hook.pytest_runtest_protocol(item=items[number], nextitem=following)

    def _next(self) -> deque[int]:
        self._send("next")
        return deque(self._connection.recv())

    def _send(self, kind: str, **what: Any) -> None:
        self._connection.send((kind, what))

    def _used_snapshots(self) -> Any:
        if not hasattr(self._config, "_syrupy"):
            return None
        self._config.workeroutput = {}
        self._config._syrupy.finish()
        return self._config.workeroutput.get("syrupy_report")

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Send it."""
        self._send("pytest_runtest_logstart", nodeid=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it until the test ends: a message costs both processes more than a report."""
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Send it, after the test's reports."""
        reports, self._reports = self._reports, []
        self._send("pytest_runtest_logfinish", nodeid=nodeid, location=location, reports=reports)

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send it, with the name of its class, which may be a test's own."""
        if self._sends:
            raised = warning_message
            words = (str(raised.message), raised.category.__name__, raised.filename, raised.lineno)
            self._send("pytest_warning_recorded", words=words, when=when, nodeid=nodeid, location=location)


def _read_warning(sent: dict[str, Any]) -> dict[str, Any]:
    text, name, filename, line = sent.pop("words")
    category = type(name, (Warning,), {})
    return {"warning_message": warnings.WarningMessage(category(text), category, filename, line), **sent}
