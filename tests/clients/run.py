"""`make client-suites`: run the own tests of Kafka's client libraries against YAK.

    python tests/clients/run.py [--page] [NAME ...]

Sources, environments, logs and reports are in build/client-suites. Without a name all suites run, and
docs/clients.md is written again; `--page` writes it from the kept reports. A suite whose sources or tools cannot
be had is skipped with its reason. A suite without a report keeps its lines on the page.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = ROOT / "tests/clients"
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from versus.kafka_jars import Missing, compared_jars  # noqa: E402

from tests.clients.results import Kind, Known, Results, page, read_results  # noqa: E402
from tests.clients.suites import SUITES, Suite  # noqa: E402
from tests.kafka.clusters import Cluster, serving  # noqa: E402
from yak.server.listening_sockets import bind  # noqa: E402
from yak.testing.session import Workspace  # noqa: E402

BUILD: Final = ROOT / "build/client-suites"
PAGE: Final = ROOT / "docs/clients.md"
KNOWN: Final = HERE / "known_failures.toml"
SUITE_SECONDS: Final = 2400
"""A suite that takes longer is ended, and judged by what it reported."""
_PROXY_PORT: Final = 29091
"""sarama's tests expect the proxies of its brokers from this port on, and brokers that advertise them."""
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""The tests of ACLs make and delete them; no ACL binds the tests, which do not log in."""


class Run:
    """One suite: its sources and environment, then its tests."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self._sources = BUILD / suite.name / suite.tag
        self._ready = BUILD / suite.name / f"{suite.tag}.ready"
        self.report = BUILD / suite.name / f"{suite.tag}.report"
        self.log = BUILD / suite.name / f"{suite.tag}.log"
        self._words = {
            "python": str(BUILD / suite.name / "venv/bin/python"),
            "yak": str(ROOT / ".venv/bin/yak"),
            "report": str(self.report),
            "here": str(HERE),
        }

    def prepare(self) -> None:
        """Fetch and build once. Raises Missing."""
        missing = [name for name in self.suite.needs if shutil.which(name) is None]
        if missing:
            raise Missing(f"not on PATH: {', '.join(missing)}")
        if self.suite.calls_kafka:
            self._words["jars"] = str(compared_jars(ROOT / "build/kafka"))
        if self._ready.exists():
            return
        shutil.rmtree(self._sources.parent, ignore_errors=True)
        self._sources.parent.mkdir(parents=True)
        clone = ["git", "clone", "-q", "--depth", "1", "--branch", self.suite.tag, self.suite.url, str(self._sources)]
        with self.log.open("w") as log:
            if subprocess.run(clone, stdout=log, stderr=log).returncode:
                raise Missing(f"{self.suite.url} at {self.suite.tag} cannot be fetched: {self._end_of_log()}")
            python = Path(self._words["python"])
            subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
            for command in self.suite.build:
                if self._call(command, log).wait():
                    raise Missing(f"`{self._filled(command)}` fails: {self._end_of_log()}")
        self._ready.touch()

    def test(self) -> Results:
        """Run the tests on a cluster of their own."""
        self.report.unlink(missing_ok=True)
        with ExitStack() as stack:
            log = stack.enter_context(self.log.open("w"))
            if self.suite.starts_cluster:
                self._start_cluster(stack, log)
            output = stack.enter_context(self.report.open("w")) if self.suite.report == "go" else log
            tests = stack.enter_context(_ended(self._call(self.suite.test, log, output)))
            try:
                tests.wait(SUITE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{self.suite.name}: ended after {SUITE_SECONDS} s", flush=True)
        return read_results(self.suite, self.report)

    def _start_cluster(self, stack: ExitStack, log: IO[str]) -> None:
        suite = self.suite
        workspace = Workspace()
        stack.callback(workspace.close)
        protocols = ("PLAINTEXT", *suite.secured)
        held = [[stack.enter_context(bind("127.0.0.1", 0)[0]) for _ in protocols] for _ in range(suite.brokers)]
        ports = [[each.getsockname()[1] for each in of_broker] for of_broker in held]
        proxies = [
            {
                "name": f"kafka{number}",
                "listen": f"127.0.0.1:{_PROXY_PORT + number - 1}",
                "upstream": f"127.0.0.1:{port}",
            }
            for number, (port, *_) in enumerate(ports, start=1)
        ]
        addresses = (
            [each["listen"] for each in proxies] if suite.serves else [f"{suite.host}:{port}" for port, *_ in ports]
        )
        host, _, port = addresses[0].rpartition(":")
        self._words |= {"bootstrap": ",".join(addresses), "host": host, "port": port}
        self._words |= {"proxies": json.dumps(proxies), "ports": json.dumps(ports)}
        for name, content in suite.files.items():
            (self._sources / name).write_text(self._filled(content))
        for command in suite.serves:
            stack.enter_context(_ended(self._call(command, log)))
        common = {**_AUTHORIZER, **suite.configs, **(self._certificates(log) if suite.secured else {})}
        configs: dict[int, Mapping[str, str]] = {}
        fixed_ports: dict[int, int] = {}
        for node, address, of_broker in zip(count(suite.first_node_id), addresses, ports, strict=False):
            own = [f"{name}://{suite.host}:{each}" for name, each in zip(protocols, of_broker, strict=True)]
            listeners = {"listeners": ",".join(own)} if suite.secured else {}
            advertised = ",".join([f"PLAINTEXT://{address}", *own[1:]])
            own_configs = {name: value.replace("{node}", str(node)) for name, value in common.items()}
            configs[node] = {**own_configs, **listeners, "advertised.listeners": advertised}
            fixed_ports[node] = of_broker[0]
        cluster = Cluster(workspace, "", configs, fixed_ports)
        stack.callback(cluster.end)
        self._words["control"] = str(stack.enter_context(serving(_actions(cluster))))
        for command in suite.set_up:
            if self._call(command, log).wait():
                raise Missing(f"`{self._filled(command)}` fails: {self._end_of_log()}")

    def _certificates(self, log: IO[str]) -> dict[str, str]:
        """The configs of a certificate for localhost, and of the authority that signed it."""
        folder = self._sources.parent / "certificates"
        self._call(f"{{yak}} certs create {folder} --force", log).wait()
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{folder}/broker.pem"}
        return store | {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{folder}/ca.pem"}

    def _call(self, command: str, log: IO[str], output: IO[str] | None = None) -> subprocess.Popen[bytes]:
        environment = {name: self._filled(value) for name, value in self.suite.environment.items()}
        path = f"{HERE / 'stand_ins'}:{os.environ['PATH']}"
        return subprocess.Popen(
            shlex.split(self._filled(command)),
            cwd=self._sources,
            env=_outer_environment() | {"PATH": path} | environment,
            stdin=subprocess.DEVNULL,
            stdout=output or log,
            stderr=log,
            start_new_session=True,
        )

    def _filled(self, text: str) -> str:
        for name, value in self._words.items():
            text = text.replace("{" + name + "}", value)
        return text

    def _end_of_log(self) -> str:
        return " ".join(self.log.read_text(errors="replace").split())[-300:]


def _actions(cluster: Cluster) -> Mapping[str, Callable[..., dict[str, object]]]:
    """What the stand-in for docker asks for."""

    def stop(node: int) -> dict[str, object]:
        cluster.stop(node)
        return {}

    def start(node: int) -> dict[str, object]:
        cluster.start(node)
        return {}

    def log(node: int) -> dict[str, object]:
        return {"path": str(cluster.log_path(node))}

    return {"stop": stop, "start": start, "log": log}


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End the process and what it started."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _outer_environment() -> Mapping[str, str]:
    """Without the environment of YAK itself."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}


def main() -> int:
    """0 when nothing surprises, 1 when something does, 2 for an unknown name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("names", nargs="*", choices=[[], *(suite.name for suite in SUITES)], metavar="NAME")
    asked = parser.parse_args()
    known, ran = Known.read(KNOWN), []
    for suite in SUITES:
        run = Run(suite)
        if asked.page or (asked.names and suite.name not in asked.names):
            continue
        began = time.monotonic()
        try:
            run.prepare()
        except Missing as missing:
            print(f"{suite.name}: skipped: {missing}", flush=True)
            continue
        results = run.test()
        ran.append(results)
        counts = ", ".join(f"{results.counts[kind]} {kind}" for kind in Kind)
        print(f"{suite.name} {suite.tag}: {counts} in {time.monotonic() - began:.0f} s", flush=True)
        for test in results.failures:
            print(f"    {test}: {known.why(suite.name, test) or f'see {run.log.relative_to(ROOT)}'}", flush=True)
    if asked.page or not asked.names:
        kept = [read_results(suite, Run(suite).report) for suite in SUITES if Run(suite).report.exists()]
        PAGE.write_text(page(kept, known, PAGE.read_text() if PAGE.exists() else ""))
        print(f"wrote {PAGE.relative_to(ROOT)}")
    surprises = known.surprises(ran)
    print(*(["", "Not as known_failures.toml says:"] if surprises else []), *surprises, sep="\n")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
