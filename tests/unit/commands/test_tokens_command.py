"""`yak tokens`, and logins by OAUTHBEARER from the settings: what is sent where, and that no command prints a secret."""

import json
import os
import stat

import pytest

from tests.errors import raises_error
from yak.client import delegation_tokens as client
from yak.client.delegation_tokens import TokenInfo
from yak.client.login import current_login, use_login
from yak.commands import tokens as command
from yak.commands.options import Flags, Globals
from yak.errors import UsageError

TOKEN = TokenInfo("id", "ann", ("bob", "eve"), 0, 86_400_000, 2 * 86_400_000, b"secret")


@pytest.fixture(autouse=True)
def no_login():
    yield
    use_login(None)


@pytest.fixture
def requests(monkeypatch):
    """What was asked of the broker."""
    calls = []

    def recorded(name, result):
        def call(_address, *arguments, timeout_s, **more):
            assert timeout_s == 10.0
            calls.append((name, *arguments, *more.values()))
            return result

        monkeypatch.setattr(client, name, call)

    monkeypatch.setattr(command, "_address", lambda _g: "127.0.0.1:9092")
    recorded("create_token", TOKEN)
    recorded("describe_tokens", [TOKEN])
    recorded("find_token", TOKEN)
    recorded("renew_token", 5_000)
    recorded("expire_token", 5_000)
    return calls


def test_created_token_is_written_for_its_user_alone(yak, requests, tmp_path):
    path = tmp_path / "job.token"
    ran = yak("tokens", "create", "--token-file", str(path), "--renewer", "bob", "--for", "12h", "-o", "json")
    assert ran.code == 0, ran.err
    assert path.read_text() == f"id:{TOKEN.password}\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert TOKEN.password not in ran.out + ran.err
    assert json.loads(ran.out)[0]["renewers"] == "bob,eve"
    assert requests == [("create_token", ["bob"], 43_200_000, None)]


def test_token_whose_file_cannot_be_written_is_ended_again(yak, requests, tmp_path):
    ran = yak("tokens", "create", "--token-file", str(tmp_path / "absent" / "job.token"))
    assert ran.code == 2
    assert "error[cannot-write]" in ran.err
    assert requests == [("create_token", (), None, None), ("expire_token", TOKEN, None)]


def test_created_token_is_printed_only_on_request(yak, requests):
    assert yak("tokens", "create", "--token-file", "-").out == f"id:{TOKEN.password}\n"
    assert requests == [("create_token", (), None, None)]
    assert yak("tokens", "create").code == 2


def test_list_shows_no_password(yak, requests):
    ran = yak("tokens", "list")
    assert "1970-01-02" in ran.out
    for output in ("table", "wide", "json", "csv"):
        ran = yak("tokens", "list", "-o", output)
        assert "id" in ran.out
        assert TOKEN.password not in ran.out + ran.err


def test_token_is_renewed_and_expired_by_its_id(yak, requests):
    assert yak("tokens", "renew", "id", "--for", "1m").code == 0
    assert yak("tokens", "expire", "id", "--yes").code == 0
    assert "ends at 1970" in yak("tokens", "expire", "id", "--in", "5s", "--yes").err
    assert [call for call in requests if call[0] != "find_token"] == [
        ("renew_token", TOKEN, 60_000),
        ("expire_token", TOKEN, None),
        ("expire_token", TOKEN, 5_000),
    ]


@pytest.mark.parametrize("args", [("create", "--token-file", "-"), ("renew", "id"), ("expire", "id")])
def test_readonly_refuses_changes(yak, requests, args):
    assert yak("--readonly", "tokens", *args).code == 2
    assert requests == []


# ------------------------------------------------------------------------------------------------------- OAUTHBEARER

ENDPOINT = "sasl_oauthbearer_token_endpoint_url"


def add_context(yak, tmp_path, *more):
    config = str(tmp_path / "config.toml")
    (tmp_path / "secret").write_text("hidden\n")
    args = ("prod", "-b", "k:9092", "--set", "sasl_mechanism=OAUTHBEARER", "--config", config, *more)
    ran = yak("context", "add", *args)
    assert ran.code == 0, ran.err
    return Flags(config=config)


def test_context_logs_in_by_a_token_endpoint(yak, tmp_path):
    url = "https://issuer/token"
    login = ("--login", "me", "--password-file", str(tmp_path / "secret"))
    flags = add_context(yak, tmp_path, "--set", f"{ENDPOINT}={url}", *login, "--set", "sasl_oauthbearer_scope=s")
    assert Globals.resolve(flags).bootstrap_servers == "k:9092"
    assert current_login().tokens.url == url
    assert "hidden" not in repr(current_login())


def test_context_logs_in_by_a_token_file(yak, tmp_path):
    flags = add_context(yak, tmp_path, "--set", f"{ENDPOINT}=file:///t", "--set", "security_protocol=SASL_SSL")
    assert Globals.resolve(flags).bootstrap_servers == "k:9092"
    assert (current_login().user, current_login().tokens.url) == ("of file:///t", "file:///t")


def test_token_of_a_context_is_not_sent_to_brokers_that_a_folder_names(yak, tmp_path):
    flags = add_context(yak, tmp_path, "--set", f"{ENDPOINT}=file:///t", "--set", "security_protocol=SASL_SSL")
    (tmp_path / "yak.toml").write_text('bootstrap_servers = "evil.example:1"\n')
    with raises_error(UsageError, "login-settings"):
        _ = Globals.resolve(flags).bootstrap_servers


def test_secret_of_a_context_is_not_sent_to_an_endpoint_that_a_folder_names(yak, tmp_path, capfdbinary):
    login = ("--login", "me", "--password-file", str(tmp_path / "secret"))
    flags = add_context(yak, tmp_path, "--set", f"{ENDPOINT}=https://issuer/token", *login)
    (tmp_path / "yak.toml").write_text(f'{ENDPOINT} = "https://evil.example/token"\n')
    with raises_error(UsageError, "login-settings"):
        _ = Globals.resolve(flags).bootstrap_servers
    assert b"evil.example" in capfdbinary.readouterr().err
