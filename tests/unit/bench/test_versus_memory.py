"""Touching the machine's memory before a comparison."""

from types import ModuleType

import pytest


@pytest.fixture
def memory() -> ModuleType:
    from versus import memory

    return memory


@pytest.fixture
def said() -> list[str]:
    return []


def test_what_is_available_is_touched_but_for_a_reserve(memory, said, monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "available_bytes", lambda: memory.RESERVE_BYTES + (5 << 20))
    monkeypatch.setattr(memory.subprocess, "run", lambda command, check: asked.append((command[-1], check)))
    memory.touch_memory(said.append)
    assert asked == [(str(5 << 20), False)]
    assert said[-1].startswith("touched in ")


def test_the_process_that_touches_ends_well(memory, said, monkeypatch):
    ended = []
    run = memory.subprocess.run
    monkeypatch.setattr(memory, "available_bytes", lambda: memory.RESERVE_BYTES + (5 << 20) + 1)
    monkeypatch.setattr(memory.subprocess, "run", lambda *args, **named: ended.append(run(*args, **named)))
    memory.touch_memory(said.append)
    assert [each.returncode for each in ended] == [0]


@pytest.mark.parametrize("available", [None, 1 << 30])
def test_where_nothing_is_known_or_little_is_free_nothing_is_touched(memory, said, monkeypatch, available):
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    memory.touch_memory(said.append)
    assert not said


def test_the_kernel_says_what_is_available(memory, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    assert memory.available_bytes() is None
    (tmp_path / "meminfo").write_text("MemTotal:       100 kB\nMemAvailable:     64 kB\n")
    assert memory.available_bytes() == 64 * 1024
