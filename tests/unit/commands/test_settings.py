import json

import pytest

from tests.errors import raises_error
from yak.commands.options import Flags, Globals
from yak.commands.settings import Settings
from yak.errors import UsageError


def load(flags=None, *, config=None, **environment):
    return Settings.load(flags or {}, config_flag=config, environment=environment)


def test_each_source_wins_over_the_ones_behind_it(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('current = "c"\n[contexts.c]\nnode_id = 5\n')
    where = {"config": str(config)}
    assert load(**where).get("node_id").value == 5
    assert load(**where).get("node_id").origin == "context c"
    (tmp_path / "yak.toml").write_text("node-id = 4\n")
    assert (load(**where).value("node_id"), load(**where).get("node_id").origin) == (4, "./yak.toml")
    alias = load(**where, BROKER_ID="3")
    assert (alias.value("node_id"), alias.get("node_id").origin) == (3, "env BROKER_ID=3")
    both = load(**where, BROKER_ID="3", YAK_NODE_ID="2")
    assert (both.value("node_id"), both.get("node_id").origin) == (2, "env YAK_NODE_ID")
    assert both.get("node_id", flag=1).origin == "flag --node-id"
    nothing = str(tmp_path / "none")
    assert load(XDG_CONFIG_HOME=nothing, YAK_X="").value("port") == 9092
    assert load(XDG_CONFIG_HOME=nothing).get("port").origin == "default"


def test_two_variables_that_differ_give_one_warning_that_names_both():
    settings = load(YAK_NODE_ID="1", BROKER_ID="2")
    settings.get("node_id")
    settings.get("node_id")
    assert settings.warnings == ["YAK_NODE_ID=1 and BROKER_ID=2 differ; YAK_NODE_ID is used"]
    same = load(YAK_NODE_ID="2", BROKER_ID="2")
    same.get("node_id")
    assert same.warnings == []


def test_redis_host_and_port_make_a_url():
    assert load(REDIS_HOST="r", REDIS_PORT="7000").value("redis_url") == "redis://r:7000/0"
    assert load(REDIS_HOST="r").value("redis_url") == "redis://r:6379/0"
    assert load(REDIS_HOST="r", YAK_REDIS_URL="redis://s/1").value("redis_url") == "redis://s/1"


def test_seconds_may_be_bare_or_have_a_unit():
    assert load(LEASE_TIME_SECONDS="10").value("lease_time_seconds") == 10.0
    assert load(YAK_LEASE_TIME_SECONDS="1500ms").value("lease_time_seconds") == 1.5


def test_a_context_named_by_flag_wins_over_variables(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[contexts.a]\nbootstrap_servers = "a:1"\n')
    environment = {"YAK_BOOTSTRAP_SERVERS": "env:2"}
    assert load({"context": "a"}, config=str(config), **environment).value("bootstrap_servers") == "a:1"
    by_variable = load(config=str(config), YAK_CONTEXT="a", **environment)
    assert by_variable.value("bootstrap_servers") == "env:2"


def test_context_without_a_name_is_not_the_current_one(yak):
    assert yak("context", "add", "a", "-b", "a:1").code == 0
    ran = yak("-C", "", "config", "show")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith('error[unknown-context]: context "" does not exist')


def test_an_unknown_context_is_answered_with_the_closest(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[contexts.staging]\nbootstrap_servers = "a:1"\n')
    with raises_error(UsageError, "unknown-context") as caught:
        load({"context": "stagin"}, config=str(config)).value("port")
    assert 'closest: "staging"' in caught.value.why


def test_the_context_file_follows_xdg_and_yak_config(tmp_path):
    (tmp_path / "yak").mkdir()
    (tmp_path / "yak" / "config.toml").write_text('current = "x"\n[contexts.x]\nport = 1\n')
    assert load(XDG_CONFIG_HOME=str(tmp_path)).value("port") == 1
    other = tmp_path / "other.toml"
    other.write_text('current = "y"\n[contexts.y]\nport = 2\n')
    assert load(XDG_CONFIG_HOME=str(tmp_path), YAK_CONFIG=str(other)).value("port") == 2


def test_a_setting_beside_the_contexts_is_refused(tmp_path):
    (tmp_path / "c.toml").write_text('bootstrap_servers = "h:1"\n[keys]\nquit = "x"\n[contexts.x]\nport = 1\n')
    with raises_error(UsageError, "unknown-setting", match=r'"bootstrap_servers" in .*c.toml is not a setting'):
        load(YAK_CONFIG=str(tmp_path / "c.toml"))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("prot = 1\n", "unknown-setting"),
        ("port = \n", "config-file"),
        ('port = "x"\n', "bad-setting"),
        ("port = true\n", "bad-setting"),
        ('context = ["a"]\n', "unknown-context"),
    ],
)
def test_a_project_file_with_a_mistake_is_refused(tmp_path, text, slug):
    (tmp_path / "yak.toml").write_text(text)
    with raises_error(UsageError, slug):
        load().value("port")


def test_config_show_says_where_each_value_came_from(yak, golden, monkeypatch):
    monkeypatch.setenv("BROKER_ID", "7")
    monkeypatch.setenv("YAK_PORT", "9100")
    ran = yak("config", "show", "--origin", "-C", "", "-o", "json")
    rows = {row["name"]: row for row in json.loads(yak("config", "show", "--origin", "-o", "json").out)}
    assert rows["node_id"]["origin"] == "env BROKER_ID=7"
    assert rows["port"] == {
        "name": "port", "value": 9100, "origin": "env YAK_PORT", "variable": "YAK_PORT",
        "summary": "port the broker listens on",
    }  # fmt: skip
    assert rows["host"]["origin"] == "default"
    assert ran.code == 0
    golden("tables/config-show.txt", yak("config", "show", "--origin").out)


def test_contexts_are_added_used_printed_and_removed(yak, tmp_path):
    assert yak("context", "add", "a", "-b", "a:1").code == 0
    assert yak("context", "add", "b", "-b", "b:1,c", "--set", "redis-url=redis://r/0").code == 0
    assert yak("context", "use", "b").code == 0
    assert json.loads(yak("context", "show", "-o", "json").out) == {
        "name": "b", "bootstrap_servers": "b:1,c:9092", "redis_url": "redis://r/0",
    }  # fmt: skip
    assert yak("context", "use", "-").err == "using a: a:1\n"
    listed = json.loads(yak("context", "list", "-o", "json").out)
    assert [(each["name"], each["current"]) for each in listed] == [("a", True), ("b", False)]
    assert yak("context", "remove", "a").code == 2
    assert yak("context", "remove", "a", "--yes").code == 0
    assert yak("context", "use", "a").code == 2
    mode = (tmp_path / "xdg_config_home" / "yak" / "config.toml").stat().st_mode & 0o777
    assert mode == 0o600


@pytest.mark.parametrize("args", [("--config", "no.toml", "topics", "list"), ("config", "show", "--config", "no.toml")])
def test_a_config_file_that_is_named_and_absent_is_refused(yak, args):
    ran = yak(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[config-file]: no.toml does not exist\n  why:  --config names it\n")


def test_a_config_file_that_yak_config_names_must_exist(yak, monkeypatch):
    monkeypatch.setenv("YAK_CONFIG", "no.toml")
    assert "why:  YAK_CONFIG names it" in yak("config", "show").err


@pytest.mark.parametrize("args", [("context", "add", "p", "--readonly"), ("--readonly", "context", "add", "p")])
def test_context_add_readonly_makes_a_context_that_refuses_changes(yak, args):
    assert yak(*args, "-b", "127.0.0.1:1").code == 0
    ran = yak("-C", "p", "topics", "create", "orders")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[readonly]: creating ")
    assert yak("context", "add", "p", "-b", "127.0.0.1:1").code == 0, "the context is replaced"
    assert json.loads(yak("context", "show", "p", "-o", "json").out) == {
        "name": "p", "bootstrap_servers": "127.0.0.1:1",
    }  # fmt: skip


def test_context_add_with_a_password_of_no_user_is_refused(yak, tmp_path):
    (tmp_path / "secret").write_text("hidden\n")
    ran = yak("context", "add", "p", "-b", "h:1", "--password-file", "secret")
    assert ran.code == 2
    assert "--password-file needs --login" in ran.err


def test_advice_for_a_readonly_context_lets_the_command_change_the_cluster(yak, monkeypatch):
    assert yak("context", "add", "p", "-b", "127.0.0.1:1", "--readonly").code == 0
    words = ("topics", "create", "orders", "--timeout", "200ms")
    ran = yak("-C", "p", *words)
    assert "  try:  YAK_CONTEXT=p YAK_READONLY=0 yak …          without --context\n" in ran.err
    monkeypatch.setenv("YAK_READONLY", "0")
    assert "error[readonly]" in yak("-C", "p", *words).err, "a context that is named comes first"
    monkeypatch.setenv("YAK_CONTEXT", "p")
    assert "error[unreachable]" in yak(*words).err


@pytest.mark.parametrize("zone", ["Europe", "Europe/Atlantis", "../etc/passwd"])
def test_zone_that_does_not_exist_is_refused(yak, monkeypatch, zone):
    monkeypatch.setenv("YAK_TZ", zone)
    assert yak("version").err.startswith(f'error[bad-setting]: "{zone}" is not a time zone\n')


def test_question_names_the_context_of_the_brokers(yak):
    assert yak("context", "add", "p", "-b", "127.0.0.1:1").code == 0
    for flags, named in ((Flags(context="p"), " (context p)"), (Flags(bootstrap_server="h:1"), "")):
        g = Globals.resolve(flags)
        assert g.bootstrap_servers
        with pytest.raises(UsageError) as caught:
            g.confirm("Delete orders?")
        assert caught.value.why == f"Delete orders{named}? There is no terminal to ask on."


def test_context_add_creates_the_named_config_file(yak):
    assert yak("--config", "new.toml", "context", "add", "one", "-b", "a:1").code == 0
    assert yak("--config", "new.toml", "context", "list").code == 0


def test_unknown_context_of_the_environment_does_not_hide_the_contexts(yak, monkeypatch):
    assert yak("context", "add", "a", "-b", "a:1").code == 0
    monkeypatch.setenv("YAK_CONTEXT", "b")
    assert yak("topics", "list").err.startswith('error[unknown-context]: context "b" does not exist')
    assert "a:1" in yak("context", "list").out
    assert yak("context", "add", "b", "-b", "b:1").code == 0, "as the error advises"


@pytest.mark.parametrize("setting", ["timeout=soon", "port=abc", "readonly=maybe", "foo=1", "accent=plaid"])
def test_context_with_a_setting_that_cannot_be_read_is_not_added(yak, setting):
    ran = yak("context", "add", "a", "-b", "a:1", "--set", setting)
    assert ran.code == 2
    assert 'closest: ""' not in ran.err
    assert yak("context", "list", "-o", "json").out == "[]\n"


def test_wrong_values_of_variables_are_explained_without_the_text_of_python(yak, monkeypatch):
    monkeypatch.setenv("YAK_PORT", "abc")
    port = yak("up", "--status", "--port", "0").err + yak("serve", "--dry-run").err
    assert "invalid literal" not in port
    assert "it is not a number from 0 to 65535 (from env YAK_PORT)" in port
    monkeypatch.delenv("YAK_PORT")
    monkeypatch.setenv("YAK_READONLY", "maybe")
    assert "--readonly False" not in yak("topics", "list").err
    monkeypatch.setenv("YAK_READONLY", "0")
    monkeypatch.setenv("YAK_SECURITY_PROTOCOL", "TLS")
    assert "try:   PLAINTEXT" not in yak("topics", "list").err


def test_timeout_is_one_that_the_client_library_can_wait():
    found = Settings.load({"timeout": "400d"}, environment={}).value("timeout")
    assert found == 2**31 - 1


def test_timeout_that_config_show_prints_can_be_given_back(yak, monkeypatch):
    shown = json.loads(yak("config", "show", "-o", "json", "--timeout", "1500ms").out)
    (value,) = [each["value"] for each in shown if each["name"] == "timeout"]
    monkeypatch.setenv("YAK_TIMEOUT", str(value))
    assert Settings.load({}).value("timeout") == 1500
