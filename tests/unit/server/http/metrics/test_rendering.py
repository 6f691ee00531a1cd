"""One collection for simultaneous scrapes, in slices between which others run, in the format of each."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from tests.rig import Rig
from yak.server.http.broker_client import BrokerClient
from yak.server.http.context import Context
from yak.server.http.metrics import rendering as module
from yak.server.http.metrics.rendering import MetricsLimits, Rendering
from yak.server.latencies import Latencies
from yak.server.shell import Shell
from yak.sim.disk import SimDisk

OPEN_METRICS = "application/openmetrics-text;version=1.0.0"


@asynccontextmanager
async def rendering_of(**limits: float) -> AsyncIterator[tuple[Rig, Rendering]]:
    """A shell around a simulated broker."""
    rig = Rig()
    rig.create_topic("orders", partitions=3)
    broker = rig.node.broker
    assert broker is not None
    async with trio.open_nursery() as nursery:
        shell = Shell(broker, nursery, disk=SimDisk(), latencies=Latencies(broker.counters))
        broker_client = BrokerClient(broker, shell.in_process, shell.rate_limit)
        context = Context(shell, broker, broker_client, http_port=1, host="127.0.0.1", advertised_host="localhost")
        with trio.fail_after(20):
            yield rig, Rendering(context, MetricsLimits(**limits))
        nursery.cancel_scope.cancel()


def number(text: list[bytes], name: str) -> float:
    """The value of a sample without labels."""
    for family in parser.text_string_to_metric_families(b"".join(text).decode()):
        for sample in family.samples:
            if sample.name == name:
                return sample.value
    raise AssertionError(name)


async def test_accept_header_chooses_the_format():
    async with rendering_of() as (_, rendering):
        kind, text = await rendering.text("")
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        plain = {family.name for family in parser.text_string_to_metric_families(b"".join(text).decode())}
        kind, text = await rendering.text(OPEN_METRICS)
        assert kind.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
        families = openmetrics_parser.text_string_to_metric_families(b"".join(text).decode())
        assert plain == {family.name for family in families}
        assert {"yak_build_info", "yak_request_seconds", "process_resident_memory_bytes"} <= plain


async def test_every_metric_of_the_docs_is_in_the_text():
    page = (Path(__file__).parents[5] / "docs" / "http.md").read_text()
    rows = re.findall(r"^\| [a-zA-Z ]+ \| (`(?:yak|process)_.*) \|$", page, re.MULTILINE)
    named = {name for row in rows if "yak_quorum_" not in row for name in re.findall(r"`([a-z_]*_[a-z]+)`", row)}
    async with rendering_of() as (_, rendering):
        text = b"".join((await rendering.text(""))[1]).decode()
    shown = tuple(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    # a name that begins with _ shares the beginning of the one before
    missing = {name for name in named if not any(each.endswith(name) for each in shown)}
    assert missing == {"yak_store_call_seconds"}, "this broker has no store"


@pytest.mark.parametrize(
    "accept",
    ["application/openmetrics-text;version=x", "text/plain;version=nan", "*/*", f"{OPEN_METRICS}<script>", ",;=,;;q"],
)
async def test_accept_header_that_makes_no_sense_gets_plain_text(accept):
    async with rendering_of() as (_, rendering):
        assert (await rendering.text(accept))[0] == "text/plain; version=0.0.4; charset=utf-8"


def test_scrapes_within_a_second_share_one_text():
    clock = trio.testing.MockClock()

    async def main() -> None:
        async with rendering_of(fresh_seconds=0.2) as (rig, rendering):
            found: list[tuple[str, list[bytes]]] = []

            async def ask(accept: str) -> None:
                found.append(await rendering.text(accept))

            async with trio.open_nursery() as nursery:
                for accept in ("", "", OPEN_METRICS, ""):
                    nursery.start_soon(ask, accept)
            plain = [text for kind, text in found if kind.startswith("text/plain")]
            assert len(plain) == 3
            assert plain[0] is plain[1] is plain[2]
            before = number(plain[0], "yak_in_messages_total")
            rig.produce("orders", [b"x"] * 5)
            assert number((await rendering.text(""))[1], "yak_in_messages_total") == before
            clock.jump(rendering.limits.fresh_seconds * 1.1)
            assert number((await rendering.text(""))[1], "yak_in_messages_total") == before + 5
            # and megabytes are not kept for the next one, who may never ask
            await trio.testing.wait_all_tasks_blocked()  # what forgets them looks at the clock when it begins
            clock.jump(rendering.limits.fresh_seconds * 3)
            await trio.testing.wait_all_tasks_blocked()
            assert rendering._gathered is None
            assert rendering._pieces == {}

    trio.run(main, clock=clock)


async def test_others_run_while_it_is_made(monkeypatch):
    """With slices of no length the loop goes round after every step: nothing is done in one go."""
    async with rendering_of(fresh_seconds=0) as (rig, rendering):
        await rendering.text("")
        rounds = 0

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await trio.lowlevel.checkpoint()

        rig.create_topic("many", partitions=3_000)
        monkeypatch.setattr(module, "_SLICE_NS", 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            text = (await rendering.text(""))[1]
            nursery.cancel_scope.cancel()
        assert number(text, "yak_replicas") == 3_003
        assert rounds > 3_000 / 32 + 18_000 / 1_000


async def test_omitted_metrics_are_reported_as_truncated():
    async with rendering_of(partitions_max=2) as (_, rendering):
        text = b"".join((await rendering.text(""))[1]).decode()
        (family,) = (f for f in parser.text_string_to_metric_families(text) if f.name == "yak_metrics_truncated")
        assert {sample.labels["what"]: sample.value for sample in family.samples} == {
            "topics": 0,
            "partitions": 1,
            "groups": 0,
            "group_topics": 0,
            "group_offsets": 0,
        }


def test_the_library_is_loaded_by_the_first_scrape_only():
    code = "import sys, yak.server.main, yak.server.http.http_server; print('prometheus_client' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
