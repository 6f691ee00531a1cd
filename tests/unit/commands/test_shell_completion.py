"""Completion of topics and groups: what the broker answers, with and without a cache."""

import os
import time

from yak.commands import shell_completion


def test_names_are_offered_where_no_cache_can_be_written(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert shell_completion._names("topics", lambda _servers: ["orders"], "h:1") == ["orders"]


def test_cached_names_from_before_the_clock_was_set_back_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shell_completion._names("topics", lambda _servers: ["old"], "h:1")
    assert shell_completion._names("topics", lambda _servers: ["new"], "h:1") == ["old"]
    os.utime(shell_completion._cache_path("topics", "h:1"), (time.time() + 3600,) * 2)
    assert shell_completion._names("topics", lambda _servers: ["new"], "h:1") == ["new"]


def test_completion_prints_neither_the_addresses_of_brokers_nor_a_warning(tmp_path, monkeypatch, capfd):
    (tmp_path / "yak.toml").write_text('bootstrap_servers = "h:1"\n')
    monkeypatch.setenv("YAK_NODE_ID", "1")
    monkeypatch.setenv("BROKER_ID", "2")
    monkeypatch.setattr(shell_completion, "_ask_topics", lambda _servers: ["orders", "payments"])
    assert shell_completion.complete_topic("or") == ["orders"]
    assert capfd.readouterr() == ("", "")
