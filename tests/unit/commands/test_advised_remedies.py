"""What errors advise is what helps: the same command with the right name, refused before anything is connected."""

import io

import pytest

from yak.client.admin import Admin
from yak.errors import YakError

NOWHERE = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("args", "message", "remedy"),
    [
        (("up", "--as-kafka", "9.9"), "--as-kafka 9.9 is no Kafka release", "yak up --as-kafka 4.4"),
        (("up", "--listen", "0.0.0.0:1"), "0.0.0.0:1 lacks NAME://", "EXTERNAL://0.0.0.0:1"),
        (("up", "--advertise", "h:1"), "h:1 lacks NAME://", "EXTERNAL://h:1"),
        (("acls", "add", "--user", "ann"), "acls have no option --user", "--allow ann"),
        (("acls", "remove", "--user=ann"), "acls have no option --user", "--allow ann"),
        (("certs", "show", "nofile"), "nofile cannot be read", "ls -l nofile"),
        (("users", "add", "ann", "--password-file", "nofile"), "no password in nofile", "ls -l nofile"),
        (("groups", "reset", "g", "--from-file", "nofile"), "nofile cannot be read", "ls -l nofile"),
        (
            ("quotas", "set", "--client-id", "c", "producer_byte=1MB"),
            'there is no quota "producer_byte"',
            "producer_byte_rate=1MB",
        ),
        (("consume", "orders", "--partitions", "a,b"), '"a,b" is not a list of partitions', "--partitions 0,2"),
        (("faults", "add", "disconnect_on", "Prodce"), 'there is no api "Prodce"', "yak faults add --help"),
    ],
)
def test_a_wrong_value_is_refused_before_connecting_with_what_helps(yak, args, message, remedy):
    ran = yak(*args, *NOWHERE)
    assert ran.code == 2
    assert message in ran.err
    assert f"try:  {remedy}" in ran.err
    assert "[Errno" not in ran.err


def test_metadata_log_of_a_missing_directory_names_it(yak):
    ran = yak("metadata", "log", "--data-dir", "nodir")
    assert ran.code == 1
    assert "try:  ls nodir  " in ran.err


def test_down_without_a_cluster_does_not_start_one(yak):
    ran = yak("down")
    assert ran.code == 2
    assert "try:  yak up --status --data-dir DIR" in ran.err
    assert "yak up -d" not in ran.err


def test_users_add_without_a_terminal_advises_the_same_user(yak, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "try:  yak users add ann --password-file FILE" in yak("users", "add", "ann").err


def test_an_unknown_option_is_not_answered_with_hidden_ones(yak):
    err = yak("up", "--broker", "3").err
    assert "--brokers" in err
    assert "--broker-list" not in err


def test_creating_an_existing_topic_advises_to_describe_it(monkeypatch):
    def exists(*_: object) -> None:
        raise YakError("topic-exists", "it exists")

    admin = object.__new__(Admin)
    admin.timeout_s = 1.0
    admin.client = type("Client", (), {"create_topics": None})()
    monkeypatch.setattr(Admin, "_ask", lambda *_, **__: {"orders": None})
    monkeypatch.setattr(Admin, "_wait", exists)
    with pytest.raises(YakError) as caught:
        admin.create_topic("orders")
    assert caught.value.try_[0] == "yak topics describe orders"
