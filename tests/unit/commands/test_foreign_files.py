"""Files in the working directory that say where commands go: whose they must be, what is said, and which token is kept back."""

import os
from pathlib import Path

import pytest

from tests.errors import raises_error
from yak.client.contexts import add_context
from yak.commands.options import Flags, Globals
from yak.errors import StartRefused, UsageError
from yak.local import state
from yak.local.processes import identify
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.private_files import distrust

OTHER_USER = 12_345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def resolved(**flags: str) -> Globals:
    return Globals.resolve(Flags(**flags))  # type: ignore[arg-type]


def project(text: str, owner: int | None = None) -> Path:
    path = Path("yak.toml")
    path.write_text(text)
    if owner is not None:
        os.chown(path, owner, owner)
    return path


def cluster(owner: int | None = None) -> Path:
    """A ./yak-data whose broker "runs": its process is this one."""
    Path("yak-data").mkdir()
    broker = BrokerState(1, "leader", "10.9.8.7", 9092, "", process=identify(os.getpid()), is_ready=True)
    state.save(ClusterState(os.path.abspath("yak-data"), RedisState("redis://r"), brokers=[broker]))
    path = state.state_path("yak-data")
    if owner is not None:
        os.chown(path, owner, owner)
    return path


@needs_root
def test_project_file_of_another_user_is_not_used_and_that_is_said(capsys):
    project('bootstrap_servers = "evil.example:9092"\nno_such_setting = 1\n', OTHER_USER)
    assert resolved().bootstrap_servers == "127.0.0.1:9092"
    said = capsys.readouterr().err
    assert said.count("yak.toml is not used: it belongs to another user (uid 12345)") == 1


@needs_root
def test_link_of_another_user_to_an_own_file_is_not_used():
    Path("mine.toml").write_text('bootstrap_servers = "evil.example:9092"\n')
    Path("yak.toml").symlink_to("mine.toml")
    os.chown("yak.toml", OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert resolved().bootstrap_servers == "127.0.0.1:9092"


def test_project_file_that_any_user_may_write_is_not_used():
    project('bootstrap_servers = "evil.example:9092"\n').chmod(0o666)
    assert resolved().bootstrap_servers == "127.0.0.1:9092"


@needs_root
def test_cluster_file_of_another_user_is_refused(capsys):
    cluster(OTHER_USER)
    assert resolved().bootstrap_servers == "127.0.0.1:9092"
    assert "cluster.json is not used: it belongs to another user" in capsys.readouterr().err
    with raises_error(StartRefused, "cluster-state-foreign"):
        state.load("yak-data")


@needs_root
def test_file_of_the_user_that_called_sudo_is_trusted(monkeypatch):
    path = project("", OTHER_USER)
    assert "another user" in distrust(str(path))
    monkeypatch.setenv("SUDO_UID", str(OTHER_USER))
    assert distrust(str(path)) == ""


def test_address_from_a_file_of_the_directory_is_said_once(capsys):
    project('bootstrap_servers = "own.example:9092"\n')
    g = resolved()
    assert g.bootstrap_servers == g.bootstrap_servers == "own.example:9092"
    assert capsys.readouterr().err == "brokers: own.example:9092 (./yak.toml)\n"
    Path("yak.toml").unlink()
    cluster()
    assert resolved().bootstrap_servers == "10.9.8.7:9092"
    assert capsys.readouterr().err == "brokers: 10.9.8.7:9092 (yak up in ./yak-data)\n"
    assert resolved(bootstrap_server="named.example:1").bootstrap_servers == "named.example:1"
    assert capsys.readouterr().err == ""


def test_context_that_a_file_of_the_directory_chose_is_said(capsys):
    g = resolved()
    add_context(g.settings.config_file, "mine", {"bootstrap_servers": "mine.example:1"}, use=True)
    add_context(g.settings.config_file, "prod", {"bootstrap_servers": "prod.example:1"})
    assert resolved().bootstrap_servers == "mine.example:1"
    assert capsys.readouterr().err == ""
    project('context = "prod"\n')
    assert resolved().bootstrap_servers == "prod.example:1"
    assert capsys.readouterr().err == "brokers: prod.example:1 (context prod, which ./yak.toml names)\n"


def test_token_of_a_context_is_sent_to_its_own_brokers_only(capsys):
    values = {"bootstrap_servers": "mine.example:1", "http_token": "secret"}
    add_context(resolved().settings.config_file, "mine", values, use=True)
    assert resolved().http_token() == "secret"
    assert resolved(bootstrap_server="named.example:1").http_token() == "secret"
    project('bootstrap_servers = "evil.example:9092"\n')
    capsys.readouterr()
    assert resolved().http_token() == ""
    said = capsys.readouterr().err
    assert "the token of context mine is not sent to evil.example:9092 (./yak.toml)" in said
    assert "secret" not in said


def test_token_of_the_environment_is_not_sent_to_brokers_that_a_project_file_names(monkeypatch, capsys):
    monkeypatch.setenv("YAK_HTTP_TOKEN", "given")
    assert resolved().http_token() == "given"
    add_context(resolved().settings.config_file, "prod", {"bootstrap_servers": "prod.example:1"})
    project('bootstrap_servers = "evil.example:9092"\n')
    capsys.readouterr()
    g = resolved()
    assert g.http_token() == g.http_token() == ""
    said = capsys.readouterr().err
    assert said.count("YAK_HTTP_TOKEN is not sent to evil.example:9092 (./yak.toml)") == 1
    assert "name the brokers: -b evil.example:9092" in said
    assert "given" not in said
    assert resolved(bootstrap_server="evil.example:9092").http_token() == "given"
    assert resolved(context="prod").http_token() == "given"
    project('context = "prod"\n')
    assert resolved().http_token() == ""
    project('bootstrap_servers = "own.example:1"\nhttp_token = "own"\n')
    monkeypatch.delenv("YAK_HTTP_TOKEN")
    assert resolved().http_token() == "own"


def test_token_of_the_environment_is_sent_to_the_cluster_of_yak_up(monkeypatch):
    monkeypatch.setenv("YAK_HTTP_TOKEN", "given")
    cluster()
    assert resolved().http_token() == "given"


def test_password_of_the_environment_is_not_sent_to_a_cluster_of_the_directory_that_does_not_run(monkeypatch, capsys):
    monkeypatch.setenv("YAK_SASL_PASSWORD", "given")
    monkeypatch.setenv("YAK_SASL_USERNAME", "ann")
    path = cluster()
    found = state.load("yak-data")
    assert found is not None
    found.exposed = state.ListenerOptions(users_file="users")
    state.save(found)
    _brokers, _security, login = resolved().connection()
    assert login is not None
    assert login.password == "given"
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))
    with raises_error(UsageError, "login-settings"):
        resolved().connection()
    assert "YAK_SASL_PASSWORD is not sent to 10.9.8.7:9092 (yak up in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security_protocol", '"SASL_PLAINTEXT"'),
        ("sasl_mechanism", '"PLAIN"'),
        ("ssl_ca_location", '"ca.pem"'),
        ("ssl_check_host_name", "false"),
    ],
)
def test_password_is_not_sent_as_a_project_file_says(name, value, capsys):
    values = {"bootstrap_servers": "prod.example:1", "security_protocol": "SASL_SSL", "sasl_username": "ann"}
    add_context(resolved().settings.config_file, "prod", {**values, "sasl_password": "secret"}, use=True)
    _brokers, _security, login = resolved().connection()
    assert login is not None
    assert login.password == "secret"
    project(f"{name} = {value}")
    with raises_error(UsageError, "login-settings"):
        resolved().connection()
    assert f"the password of context prod is not sent: ./yak.toml sets {name}" in capsys.readouterr().err


def test_token_of_a_context_is_not_sent_to_the_cluster_of_the_directory():
    add_context(resolved().settings.config_file, "mine", {"http_token": "secret"}, use=True)
    cluster()
    assert resolved().http_token() == ""
