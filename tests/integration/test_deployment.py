"""docs/deployment.md, followed on hosts of network namespaces, under a load that misses no acknowledged record.

The commands are those of the document: only paths, the user, and the program `systemctl` are substitutes.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from support.netns_hosts import Host, Network, reason_to_skip

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "deployment.md"
LOAD = Path(__file__).parent / "support" / "load_process.py"
BLOCK = re.compile(r"^```sh host=(?P<hosts>\S+) step=(?P<step>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BROKERS = "10.0.0.1:9092,10.0.0.2:9092,10.0.0.3:9092"


QUORUM = re.search(r"^```\n(YAK_METADATA=.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


class Deployment:
    """The hosts, and the steps of the document."""

    def __init__(self, network: Network) -> None:
        self.hosts = network.hosts
        self._steps: dict[str, list[tuple[Host, str]]] = {}
        for block in BLOCK.finditer(DOCUMENT.read_text()):
            on = [(self.hosts[name], block["text"]) for name in block["hosts"].split(",")]
            self._steps.setdefault(block["step"], []).extend(on)
        self.done: set[str] = set()

    def do(self, step: str) -> None:
        """Run the step's blocks, in the document's order."""
        self.done.add(step)
        for host, text in self._steps[step]:
            try:
                host.run(text, timeout_s=300)
            except AssertionError as error:
                isr = self.hosts["d"].run(f"yak isr -b {BROKERS}", check=False)
                raise AssertionError(f"{error}\n{isr.stdout}{isr.stderr}{self.logs()}") from None

    def text(self, step: str) -> tuple[Host, str]:
        """The only block of a step, for a test that runs it beside others."""
        self.done.add(step)
        ((host, text),) = self._steps[step]
        return host, text

    @property
    def left(self) -> set[str]:
        """The steps that the document has and the test did not run."""
        return set(self._steps) - self.done

    def wait(self, host: str, command: str, holds: Any, what: str, seconds: float = 90) -> None:
        """Run a command again until its result holds."""
        deadline = time.monotonic() + seconds
        while not holds(ran := self.hosts[host].run(command, check=False)):
            assert time.monotonic() < deadline, f"{what}: {ran.stdout}{ran.stderr}{self.logs()}"
            time.sleep(0.3)

    def wait_in_sync(self) -> None:
        self.wait("d", f"yak isr --check -q -b {BROKERS}", lambda ran: ran.returncode == 0, "all replicas in sync")

    def logs(self) -> str:
        return "\n".join(f"==== host {name}\n{host.log()[-3000:]}" for name, host in self.hosts.items())


class LoadProcess:
    """`load_process.py` on host d. A context manager."""

    def __init__(self, deployment: Deployment, topic: str) -> None:
        command = f"exec {sys.executable} {LOAD} {BROKERS} {topic} 6"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._deployment = deployment
        self._child = deployment.hosts["d"].start(command, **pipes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()

    def ask(self, command: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{command}\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer.startswith("{"), f"{command}: {answer}{self._deployment.logs()}"
        return dict(json.loads(answer))


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    network = Network(tmp_path, "abcde")
    try:
        with network:
            yield Deployment(network)
    finally:
        deadline = time.monotonic() + 10
        while network.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert network.processes() == []
        assert network.namespaces() == []


def first_start(deployment: Deployment) -> None:
    deployment.do("redis")
    deployment.do("configure")
    deployment.do("start")
    _, text = deployment.text("check")
    first_line = text.splitlines()[0]
    deployment.wait("d", first_line, lambda ran: ran.stdout.count("ACTIVE") == 3, "three brokers")
    deployment.do("check")


def remove_broker(deployment: Deployment) -> None:
    host, text = deployment.text("remove")
    child = host.start(text, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    told = []
    for line in child.stderr:
        told.append(line)
        if "stop broker 4 now" in line:
            deployment.do("remove-stop")
    assert child.wait(60) == 0, f"{told}{deployment.logs()}"
    assert "broker 4 is removed" in told[-1], told


def test_the_documented_deployment_loses_nothing(deployment: Deployment) -> None:
    hosts = deployment.hosts
    first_start(deployment)
    if reason := hosts["b"].delay(20):
        print(f"without a delayed link: {reason}")
    with LoadProcess(deployment, "orders") as load:
        load.ask("more 200")

        hosts["c"].pull_cable()
        load.ask("more 200")  # those that need host c wait until it is out of the ISR
        hosts["c"].plug_cable()
        deployment.wait_in_sync()

        hosts["a"].power_off()  # the leader of all partitions
        load.ask("more 200")
        hosts["a"].power_on()
        deployment.wait_in_sync()

        deployment.do("upgrade")
        load.ask("more 200")

        deployment.do("add")
        listed = f"yak brokers list -b {BROKERS}"
        deployment.wait("d", listed, lambda ran: ran.stdout.count("ACTIVE") == 4, "four brokers")
        hosts["d"].run(f"yak topics create late -p 6 -b {BROKERS}")
        with LoadProcess(deployment, "late") as late:
            late.ask("more 100")
            remove_broker(deployment)
            late.ask("more 100")
            late.ask("end")
            late.ask("check")
        listing = hosts["d"].run(listed).stdout
        assert not re.search(r"^ *4 ", listing, re.MULTILINE), listing

        found = load.ask("end")
        load.ask("check")
        assert found["acknowledged"] >= 1000

        deployment.do("stop")
        deployment.do("backup")
        deployment.do("start-again")
        deployment.wait_in_sync()
        hosts["d"].run(f"yak topics create gone -b {BROKERS}")  # the restored cluster knows nothing of it
        deployment.do("stop")
        deployment.do("restore")
        deployment.do("start-again")
        deployment.wait_in_sync()
        load.ask("check")
        assert "gone" not in hosts["d"].run(f"yak topics list -b {BROKERS}").stdout
    assert deployment.left == set()


def test_the_documented_deployment_without_redis_survives_a_power_loss(deployment: Deployment) -> None:
    hosts = deployment.hosts
    deployment.do("configure")
    assert QUORUM is not None
    hosts["a"].run("yak quorum secret > /etc/yak/cluster.secret")
    secret = (hosts["a"].root / "etc/yak/cluster.secret").read_text()
    for host in (hosts["a"], hosts["b"], hosts["c"]):
        settings = host.root / "etc/yak/yak.env"
        kept = re.sub(r"^YAK_REDIS_URL=.*\n", "", settings.read_text(), flags=re.MULTILINE)
        settings.write_text(kept + host.local(QUORUM[1]))
        host.run(f"umask 077; echo '{secret.strip()}' > /etc/yak/cluster.secret")
    deployment.do("start")
    _, text = deployment.text("check")
    deployment.wait("d", text.splitlines()[0], lambda ran: ran.stdout.count("ACTIVE") == 3, "three brokers")
    deployment.do("check")
    with LoadProcess(deployment, "orders") as load:
        load.ask("more 100")
        hosts["a"].power_off()
        load.ask("more 100")
        hosts["a"].power_on()
        deployment.wait_in_sync()
        load.ask("more 50")
        load.ask("end")
        load.ask("check")
