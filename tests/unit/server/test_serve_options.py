import pytest

from yak.config.broker_configs import BrokerConfig
from yak.config.listeners import Listeners
from yak.errors import UsageError
from yak.server.options import ServeOptions, parse_followers, parse_properties_file, split_address


def test_the_defaults_can_be_served() -> None:
    options = ServeOptions(port=19092)
    assert options.check() == ()
    assert (options.lease_ms, options.renew_interval_ms) == (6_000, 500)
    config = BrokerConfig.from_settings(options.broker_settings())
    assert config.node_id == 1
    assert config.static["advertised.listeners"] == "PLAINTEXT://127.0.0.1:19092"


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        (ServeOptions(lease_ms=1000, renew_ms=1000), "lease-config"),
        (ServeOptions(lease_ms=1000, renew_ms=0), "lease-config"),
        (ServeOptions(lease_ms=1000, renew_ms=501), "lease-config"),
        (ServeOptions(lease_ms=2), "lease-config"),
        (ServeOptions(followers=("127.0.0.1:9092",)), "bad-followers"),
        (ServeOptions(advertised_host="me.example", followers=("me.example:9092",)), "bad-followers"),
        (ServeOptions(followers_timeout_ms=-1), "bad-followers"),
        (ServeOptions(host="0.0.0.0"), "bad-advertised"),
        (ServeOptions(advertised_host="::"), "bad-advertised"),
        (ServeOptions(node_id=-1), "bad-node-id"),
        (ServeOptions(role="boss"), "bad-role"),  # type: ignore[arg-type]
        (ServeOptions(data_dirs=("a", "a")), "data-dir"),
        (ServeOptions(data_dirs=()), "data-dir"),
        (ServeOptions(project_redis="redis://h:1"), "project-redis"),
    ],
)
def test_serve_options_that_cannot_work_are_refused(options: ServeOptions, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.check()
    assert (caught.value.code, caught.value.exit_code) == (slug, 2)


def test_a_short_lease_is_renewed_more_often() -> None:
    assert ServeOptions(lease_ms=900).renew_interval_ms == 300
    assert ServeOptions(lease_ms=60_000).renew_interval_ms == 500
    assert ServeOptions(lease_ms=10_000, renew_ms=5_000).check() == ()


def test_a_renewal_that_is_too_slow_says_why_and_what_would_do() -> None:
    for renew_ms, text in ((10_000, "renew 10 s is not below lease 10 s"), (6_000, "more than half of lease 10 s")):
        with pytest.raises(UsageError) as caught:
            ServeOptions(lease_ms=10_000, renew_ms=renew_ms).check()
        assert text in caught.value.why
        assert caught.value.try_ == ("yak serve --renew-interval 3.3s",)


def test_followers_are_addresses_each_named_once() -> None:
    assert parse_followers("") == ()
    assert parse_followers(" a:1, b ,[::1]:3,PLAINTEXT://c:4,") == ("a:1", "b:9092", "[::1]:3", "c:4")
    for text in ("a:x", "a:0", ":9092", "a:1,a:1", "a,a:9092", "http://a:8081"):
        with pytest.raises(UsageError) as caught:
            parse_followers(text)
        assert caught.value.code == "bad-followers"
        assert caught.value.why


def test_a_follower_that_is_given_followers_is_warned() -> None:
    assert len(ServeOptions(role="follower", followers=("a:1",)).check()) == 1
    assert ServeOptions(followers=("a:1",)).check() == ()


def test_rack_is_set_by_kafkas_config() -> None:
    assert ServeOptions(rack="zone-a").broker_settings()["broker.rack"] == "zone-a"
    assert "broker.rack" not in ServeOptions().broker_settings()


def test_an_advertised_loopback_behind_an_open_listener_is_warned_of() -> None:
    options = ServeOptions(host="0.0.0.0", advertised_host="localhost")
    assert len(options.check()) == 1
    assert ServeOptions(host="0.0.0.0", advertised_host="kafka.example").check() == ()


def test_ipv6_hosts_are_bracketed_in_kafkas_configs() -> None:
    assert ServeOptions(host="::1", port=9).broker_settings()["listeners"] == "PLAINTEXT://[::1]:9"


def test_flags_win_over_configs_that_say_the_same() -> None:
    settings = ServeOptions(node_id=4, configs={"num.partitions": "6"}).broker_settings()
    assert settings["node.id"] == "4"
    assert settings["num.partitions"] == "6"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", ("host", None)),
        ("host:1", ("host", 1)),
        (":9092", ("", 9092)),
        ("[::1]:5", ("::1", 5)),
        ("::1", ("::1", None)),
        ("PLAINTEXT://h:2", ("h", 2)),
    ],
)
def test_addresses_are_split(text: str, address: tuple[str, int | None]) -> None:
    assert split_address(text, "x") == address


@pytest.mark.parametrize("text", ["h:x", "h:99999", "SSL://h:1", "[::1]:-1"])
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        split_address(text, "x")


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (
            r"ssl.principal.mapping.rules=RULE:^CN=(\\w+)\\.x$/$1/",
            "ssl.principal.mapping.rules",
            r"RULE:^CN=(\w+)\.x$/$1/",
        ),
        (r"ssl.key.password=a\\b\=c\:d", "ssl.key.password", r"a\b=c:d"),
        (r"listener\:name=x", "listener:name", "x"),
        (r"a=\t\u00e9\ud83d\ude00\z", "a", "\t\u00e9\U0001f600z"),
        (r"a=\ud83d", "a", "\ufffd"),
        (r"a=b\\\\", "a", "b\\\\"),
        ("num.partitions 6", "num.partitions", "6"),
        ("ssl.key.password\t open sesame", "ssl.key.password", "open sesame"),
        ("a = = b", "a", "= b"),
        ("a\\ b=c", "a b", "c"),
        ("ssl.key.password=open\u2028sesame", "ssl.key.password", "open\u2028sesame"),
    ],
)
def test_line_of_a_properties_file_is_read_as_java_does(line: str, name: str, value: str) -> None:
    assert parse_properties_file(f"{line}\nlast=1\n") == {name: value, "last": "1"}


def test_properties_files_are_read_as_java_does() -> None:
    text = "# note\n! note\n\nnode.id=3\n log.dirs = /a,\\\n   /b\nlisteners: PLAINTEXT://:9092\nempty=\nlast=x\\"
    assert parse_properties_file(text) == {
        "node.id": "3",
        "log.dirs": "/a,/b",
        "listeners": "PLAINTEXT://:9092",
        "empty": "",
        "last": "x",
    }


def test_named_listeners_are_served_under_kafkas_names_with_bound_ports() -> None:
    named = Listeners.from_settings(
        {
            "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://:0",
            "advertised.listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://localhost:29092",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        }
    )
    options = ServeOptions().of_listeners(named)
    assert options.check() == ()
    bound = options.with_bound(named.with_ports([7, 8]).bound)
    assert bound.advertised(bound.port) == ("127.0.0.1", 7)
    settings = bound.broker_settings()
    assert settings["listeners"] == "INTERNAL://127.0.0.1:7,EXTERNAL://:8"
    assert settings["advertised.listeners"] == "INTERNAL://127.0.0.1:7,EXTERNAL://localhost:29092"
    assert settings["inter.broker.listener.name"] == "INTERNAL"


def test_options_show_no_password() -> None:
    assert "hush" not in repr(ServeOptions(configs={"ssl.key.password": "hush"}))


def test_bootstrap_listeners_are_more_addresses_of_the_brokers_listeners() -> None:
    name = "yak.bootstrap.listeners"
    options = ServeOptions(port=9093, configs={name: "PLAINTEXT://127.0.0.1:9092"})
    [found] = options.bootstrap_listeners()
    assert (found.name, found.port) == ("PLAINTEXT", 9092)
    assert ServeOptions().bootstrap_listeners() == ()


@pytest.mark.parametrize(
    "text", ["OTHER://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:9093", "9092"]
)
def test_bootstrap_listener_that_is_unknown_without_a_port_or_the_brokers_own_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        ServeOptions(port=9093, configs={"yak.bootstrap.listeners": text}).check()
    assert caught.value.code == "bad-listeners"
