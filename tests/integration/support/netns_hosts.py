"""Hosts made of network namespaces on one bridge, which have the files of a Debian package below a folder of their own.

Needs root and `ip` (iproute2). `systemctl` and `yak` are programs of this file's making: the first one reads the real
unit, packaging/systemd/yak@.service, and starts what it says.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from yak.local.redis_child import find_server
from yak.local.spawn import yak_argv

UNIT = Path(__file__).resolve().parents[3] / "packaging/systemd/yak@.service"
FOLDERS = ("etc/yak", "etc/redis", "var/lib/yak", "var/lib/redis", "var/backups")
MARK = "TEST_HOSTS"

SYSTEMCTL = """#!@PYTHON@
import os, shlex, signal, subprocess, sys, time
root, unit_file, redis = os.environ["HOST_ROOT"], "@UNIT@", "@REDIS@"
verbs = [word for word in sys.argv[1:] if not word.startswith("-")]
verb, unit = verbs
pid_file = f"{root}/run/{unit}.pid"

def local(text):
    for path in @FOLDERS@:
        text = text.replace(f"/{path}", f"{root}/{path}")
    return text

def command():
    environment = dict(os.environ)
    if unit == "redis-server":
        return [redis, f"{root}/etc/redis/redis.conf"], environment
    name, _, instance = unit.partition("@")
    assert name == "yak" and instance, unit
    for line in open(unit_file):
        key, _, value = line.strip().replace("%i", instance).partition("=")
        if key == "EnvironmentFile" and os.path.exists(local(value.lstrip("-"))):
            pairs = (each.strip().partition("=") for each in open(local(value.lstrip("-"))))
            environment.update({name: value for name, _, value in pairs if name})
        elif key == "StateDirectory":
            os.makedirs(f"{root}/var/lib/{value}", mode=0o700, exist_ok=True)
        elif key == "ExecStart":
            argv = shlex.split(local(value.replace("/usr/bin/yak", "yak")))
    return argv, environment

def is_running(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

if verb in ("stop", "restart", "disable") and os.path.exists(pid_file):
    pid = int(open(pid_file).read())
    if is_running(pid):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 90
    while is_running(pid):
        if time.monotonic() > deadline:
            sys.exit(f"{unit} did not stop")
        time.sleep(0.02)
    os.remove(pid_file)
if verb in ("start", "restart", "enable"):
    argv, environment = command()
    log = open(f"{root}/log/{unit}.log", "ab")
    child = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             start_new_session=True, cwd=root)
    open(pid_file, "w").write(str(child.pid))
"""


def reason_to_skip() -> str:
    """Why there can be no hosts on this machine; empty if there can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    name = f"yak-{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"ip netns add: {made.stderr.strip()}"
    ip("netns", "del", name)
    return ""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Host:
    """One host, connected to the switch by a cable. `run("systemctl start yak@1")` is a line of its root's shell."""

    def __init__(self, net: "Network", name: str, address: str) -> None:
        self.name, self.address, self.root = name, address, net.folder / name
        self._net, self._namespace, self._port = net, f"{net.prefix}-{name}", f"port-{name}"
        for folder in (*FOLDERS, "run", "log", "home"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "etc/redis/redis.conf").write_text(f"port 6379\ndir {self.root}/var/lib/redis\n")
        ip("netns", "add", self._namespace)
        switch = ("netns", net.switch)
        ip("link", "add", "eth0", "netns", self._namespace, "type", "veth", "peer", "name", self._port, *switch)
        ip("-n", net.switch, "link", "set", self._port, "master", "bridge", "up")
        ip("-n", self._namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", self._namespace, "link", "set", "eth0", "up")
        ip("-n", self._namespace, "link", "set", "lo", "up")

    def local(self, text: str) -> str:
        """The text with paths of this host, and the user that there is."""
        for folder in FOLDERS:
            text = text.replace(f"/{folder}", f"{self.root}/{folder}")
        return text.replace("yak:yak", "root:root")

    def start(self, command: str, **more: int) -> subprocess.Popen[str]:
        """Start bash with this command on the host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "REDIS_", "KAFKA_"))}
        more_environment = {
            "PATH": f"{self._net.folder}/bin:{kept['PATH']}",
            "HOME": f"{self.root}/home",
            "HOST_ROOT": str(self.root),
            "NO_COLOR": "1",
            MARK: self._net.prefix,
        }
        argv = ["ip", "netns", "exec", self._namespace, "bash", "-euc", self.local(command)]
        return subprocess.Popen(argv, env=kept | more_environment, text=True, cwd=self.root, **more)

    def run(self, command: str, *, timeout_s: float = 120.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command to its end. A failure fails the test, unless `check` is False."""
        child = self.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            raise AssertionError(f"host {self.name}: no end in {timeout_s} s: {command}") from None
        assert not check or child.returncode == 0, f"host {self.name}: {command}\n{out}{err}"
        return subprocess.CompletedProcess(command, child.returncode, out, err)

    def pull_cable(self) -> None:
        """Cut the host off: nothing is sent or received, and no connection is closed."""
        ip("-n", self._net.switch, "link", "set", self._port, "down")

    def plug_cable(self) -> None:
        ip("-n", self._net.switch, "link", "set", self._port, "up")

    def delay(self, milliseconds: int) -> str:
        """Delay what the host sends; returns why not, else an empty string."""
        tc = ["ip", "netns", "exec", self._namespace, "tc", "qdisc", "add", "dev", "eth0", "root", "netem"]
        if shutil.which("tc") is None:
            return "tc is not installed"
        return subprocess.run([*tc, "delay", f"{milliseconds}ms"], capture_output=True, text=True).stderr.strip()

    def power_off(self) -> None:
        """Kill every process at once, behind a dead cable. What was not synced is still in the kernel's page cache: a real
        power loss would lose it, which no kill can do. So the marks of the boot are changed, as a restart of the machine
        does, and the brokers do not trust their last records."""
        self.pull_cable()
        self.kill_all()
        for mark in (self.root / "var/lib/yak").glob("*/boot.yak"):
            mark.write_text("00000000-0000-0000-0000-000000000000\n")

    def power_on(self) -> None:
        """Plug in the host again and start its enabled services."""
        self.plug_cable()
        for pid_file in sorted((self.root / "run").glob("*.pid")):
            pid_file.unlink()
            self.run(f"systemctl start {pid_file.stem}")

    def kill_all(self) -> None:
        """SIGKILL to every process in the host's namespace, until there is none."""
        for _ in range(100):
            found = subprocess.run(["ip", "netns", "pids", self._namespace], capture_output=True, text=True)
            pids = [int(each) for each in found.stdout.split()]
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not pids:
                return
            time.sleep(0.05)
        raise AssertionError(f"processes of host {self.name} survive: {pids}")

    def log(self) -> str:
        """What its services printed."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted((self.root / "log").glob("*")))

    def close(self) -> None:
        self.kill_all()
        ip("netns", "del", self._namespace)


class Network:
    """Hosts at 10.0.0.1, 10.0.0.2 …, by name. A context manager: at its end no process and no namespace is left."""

    def __init__(self, folder: Path, names: str) -> None:
        self.folder, self.prefix = folder, f"yak-{secrets.token_hex(3)}"
        self.switch = f"{self.prefix}-switch"
        self._names = names
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        programs = self.folder / "bin"
        programs.mkdir()
        yak = " ".join(f"'{word}'" for word in yak_argv())
        systemctl = SYSTEMCTL
        words = {"PYTHON": sys.executable, "REDIS": find_server(), "UNIT": str(UNIT), "FOLDERS": repr(FOLDERS)}
        for word, value in words.items():
            systemctl = systemctl.replace(f"@{word}@", value)
        texts = {"systemctl": systemctl, "yak": f'#!/bin/sh\nexec {yak} "$@"\n'}
        for name, text in texts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        ip("netns", "add", self.switch)
        try:
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for number, name in enumerate(self._names, 1):
                self.hosts[name] = Host(self, name, f"10.0.0.{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.close()
        ip("netns", "del", self.switch)

    def processes(self) -> list[int]:
        """The processes of all hosts, also such as left their namespace."""
        found = []
        mark = f"{MARK}={self.prefix}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def namespaces(self) -> list[str]:
        """The namespaces that are there."""
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        return [line.split()[0] for line in listed.splitlines() if line.startswith(self.prefix)]
