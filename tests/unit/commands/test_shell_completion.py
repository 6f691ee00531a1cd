"""Completion of topics and groups: what the broker answers, with and without a cache."""

from yak.commands import shell_completion


def test_names_are_offered_where_no_cache_can_be_written(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert shell_completion._names("topics", lambda _servers: ["orders"], "h:1") == ["orders"]


def test_completion_prints_neither_the_addresses_of_brokers_nor_a_warning(tmp_path, monkeypatch, capfd):
    (tmp_path / "yak.toml").write_text('bootstrap_servers = "h:1"\n')
    monkeypatch.setenv("YAK_NODE_ID", "1")
    monkeypatch.setenv("BROKER_ID", "2")
    monkeypatch.setattr(shell_completion, "_ask_topics", lambda _servers: ["orders", "payments"])
    assert shell_completion.complete_topic("or") == ["orders"]
    assert capfd.readouterr() == ("", "")
