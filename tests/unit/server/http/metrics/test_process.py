"""Metrics of the process and the disks."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import trio

from yak.server.http.metrics import process as module
from yak.server.http.metrics.process import DIRECTORY_FREE, DIRECTORY_ONLINE, Process
from yak.server.http.metrics.text import Samples


async def gathered(process: Process) -> Samples:
    directory, samples = SimpleNamespace(path="/", failure=None), Samples()
    await module.gather(process, SimpleNamespace(log_store=SimpleNamespace(directories=[directory])), samples)
    return samples


async def test_scrapes_while_a_disk_hangs_keep_one_thread_and_none_of_other_work(monkeypatch):
    goes_on, statvfs, hanging = threading.Event(), os.statvfs, []

    def hang(path: str) -> os.statvfs_result:
        hanging.append(path)
        goes_on.wait()
        return statvfs(path)

    process = Process()
    monkeypatch.setattr(os, "statvfs", hang)
    monkeypatch.setattr(module, "_DEADLINE_SECONDS", 0.05)
    for _ in range(3):
        samples = await gathered(process)
        assert samples.of(DIRECTORY_ONLINE)
        assert not samples.of(DIRECTORY_FREE)
    assert len(hanging) <= 1
    goes_on.set()
    monkeypatch.setattr(module, "_DEADLINE_SECONDS", 10)
    assert (await gathered(process)).of(DIRECTORY_FREE)
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0


async def test_scrape_while_the_system_starts_no_thread_has_the_other_metrics(monkeypatch):
    async def refuse(*_args: object, **_options: object) -> None:
        raise RuntimeError("can't start new thread")

    process = Process()
    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    monkeypatch.setattr(module, "_DEADLINE_SECONDS", 0.05)
    assert (await gathered(process)).of(DIRECTORY_ONLINE)
