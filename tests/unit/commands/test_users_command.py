"""`yak users` and the logins of contexts: where passwords come from, and that no command prints one."""

import io
import json
import os
import stat
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.errors import raises_error
from yak.client.login import ClientLogin, current_login, login_of, use_login
from yak.commands.options import Flags, Globals
from yak.commands.users import read_password
from yak.errors import UsageError

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def no_login():
    yield
    use_login(None)


def write(tmp_path, text=PASSWORD + "\n"):
    path = tmp_path / "secret"
    path.write_text(text)
    return str(path)


def test_password_is_the_first_line_of_a_file_or_of_the_standard_input(tmp_path, monkeypatch):
    assert read_password(write(tmp_path), "", "yak users add ann") == PASSWORD
    for path in ("-", None):
        monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\r\nmore\n"))
        assert read_password(path, "", "yak users add ann") == "from stdin"


@pytest.mark.parametrize("text", ["", "\n", "\nsecond line"])
def test_empty_password_is_refused(tmp_path, text):
    with raises_error(UsageError, "password"):
        read_password(write(tmp_path, text), "", "yak users add ann")


def test_two_typed_passwords_must_be_equal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    typed = iter(["one", "two", "same", "same"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(typed))
    with pytest.raises(UsageError, match="differ"):
        read_password(None, "", "yak users add ann", twice=True)
    assert read_password(None, "", "yak users add ann", twice=True) == "same"


def test_context_with_a_login_keeps_the_password_in_a_private_file_and_no_command_prints_it(yak, tmp_path):
    config = str(tmp_path / "config.toml")
    at = ("--config", config)
    added = yak("context", "add", "prod", "-b", "k:9092", "--login", "ann", "--password-file", write(tmp_path), *at)
    assert added.code == 0, added.err
    assert stat.S_IMODE(os.stat(config).st_mode) == 0o600
    with open(config, encoding="utf-8") as file:
        assert PASSWORD in file.read()
    for args in (("context", "list"), ("context", "show"), ("config", "show", "--origin")):
        for output in ("table", "json"):
            ran = yak(*args, "-o", output, *at)
            assert ran.code == 0
            assert PASSWORD not in ran.out + ran.err
    assert "(set)" in yak("context", "show", *at).out


@pytest.mark.parametrize("setting", ["sasl_password", "ssl-key-password"])
def test_password_on_the_command_line_is_refused(yak, setting):
    ran = yak("context", "add", "prod", "--set", f"{setting}={PASSWORD}")
    assert ran.code == 2
    assert PASSWORD not in ran.err


def add_context(yak, tmp_path, config, *more):
    args = ("prod", "-b", "k:9092", "--login", "ann", "--password-file", write(tmp_path), "--config", config, *more)
    assert yak("context", "add", *args).code == 0


@pytest.mark.parametrize(
    ("given", "stored"), [("ssl", "SASL_SSL"), ("SASL_SSL", "SASL_SSL"), ("PLAINTEXT", "SASL_PLAINTEXT")]
)
def test_login_of_a_context_stays_inside_tls(yak, tmp_path, given, stored):
    config = str(tmp_path / "config.toml")
    add_context(yak, tmp_path, config, "--set", f"security_protocol={given}")
    printed = yak("context", "show", "prod", "-o", "json", "--config", config)
    assert json.loads(printed.out)["security_protocol"] == stored


def test_login_of_a_context_is_used_at_its_brokers(yak, tmp_path):
    config = str(tmp_path / "config.toml")
    add_context(yak, tmp_path, config)
    assert Globals.resolve(Flags(config=config)).bootstrap_servers == "k:9092"
    assert current_login() == ClientLogin("SCRAM-SHA-256", "ann", PASSWORD)
    assert PASSWORD not in repr(current_login())


def test_password_of_a_context_is_not_sent_to_brokers_that_a_folder_names(yak, tmp_path):
    config = str(tmp_path / "config.toml")
    add_context(yak, tmp_path, config)
    (tmp_path / "yak.toml").write_text('bootstrap_servers = "evil.example:1"\n')
    with raises_error(UsageError, "login-settings"):
        _ = Globals.resolve(Flags(config=config)).bootstrap_servers


def test_login_without_a_user_or_a_password_is_refused():
    assert login_of("PLAINTEXT", "PLAIN", "ann", None) is None
    for user, password in ((None, "x"), ("ann", None)):
        with raises_error(UsageError, "login-settings"):
            login_of("SASL_PLAINTEXT", "PLAIN", user, password)


@pytest.mark.parametrize(("user", "password"), [(" ann", "x"), ("ann", "\tx")])
def test_login_that_librdkafka_would_change_is_refused(user, password):
    with pytest.raises(UsageError) as caught:
        login_of("SASL_PLAINTEXT", "PLAIN", user, password)
    assert "begins with white space" in caught.value.message
    assert login_of("SASL_PLAINTEXT", "PLAIN", "ann b", "x ") == ClientLogin("PLAIN", "ann b", "x ")


def test_unknown_mechanism_of_a_user_is_refused(yak):
    assert yak("users", "add", "ann", "--mechanism", "PLAIN").code == 2


@pytest.mark.parametrize("iterations", ["5", "99999999999999999999999"])
def test_iterations_outside_the_range_of_the_help_are_wrong_usage(yak, tmp_path, iterations):
    ran = yak("users", "add", "ann", "--iterations", iterations, "--password-file", write(tmp_path))
    assert ran.code == 2
    assert "it is not from 4096 to 16384" in ran.err


@pytest.mark.parametrize("code", [None, KafkaError.RESOURCE_NOT_FOUND, KafkaError.CLUSTER_AUTHORIZATION_FAILED])
def test_users_remove_deletes_also_a_credential_that_a_lagging_broker_does_not_list(yak, monkeypatch, code):
    deleted = []

    class Client:
        def alter_user_scram_credentials(self, changes, *, request_timeout):
            answer = Future()
            deleted.append(changes[0].mechanism.name)
            if code is None or len(deleted) == 1:
                answer.set_result(None)
            else:
                answer.set_exception(KafkaException(KafkaError(code)))
            return {"ann": answer}

    admin = SimpleNamespace(client=Client(), timeout_s=1.0)
    rows = [{"user": "ann", "mechanism": "SCRAM-SHA-256", "iterations": 4096}]
    monkeypatch.setattr(Globals, "admin", lambda _g: admin)
    monkeypatch.setattr("yak.client.users.user_rows", lambda _admin: rows)
    ran = yak("users", "remove", "ann", "--yes")
    assert deleted == ["SCRAM_SHA_256", "SCRAM_SHA_512"]
    assert ran.code == (1 if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED else 0), ran.err
    deleted.clear()
    assert yak("users", "remove", "ann", "--mechanism", "SCRAM-SHA-256", "--yes").code == 0
    assert deleted == ["SCRAM_SHA_256"]


def test_users_remove_of_one_mechanism_does_not_say_that_the_user_is_gone(yak, monkeypatch):
    rows = [{"user": "ann", "mechanism": each, "iterations": 4096} for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    monkeypatch.setattr("yak.commands.options.Globals.admin", lambda _g: None)
    monkeypatch.setattr("yak.client.users.user_rows", lambda _admin: rows)
    monkeypatch.setattr("yak.client.users.remove_user", lambda *_, **__: None)
    remove = ("users", "remove", "ann", "--yes", "--mechanism", "SCRAM-SHA-256")
    assert yak(*remove).err == "removed SCRAM-SHA-256 of user ann\n"
    assert yak(*remove, "--mechanism", "SCRAM-SHA-512").err == "removed user ann\n"
