"""Warnings of listeners that other machines reach without a login."""

import pytest

from yak.config.listeners import Listeners
from yak.server.exposure import exposure
from yak.server.options import ServeOptions

EVERYWHERE = ServeOptions(host="0.0.0.0", advertised_host="broker")
BASIC = {"yak.http.authentication": "basic"}


def warnings(options: ServeOptions, http_port: int = 0) -> dict[str, object]:
    return {event: fields.get("listeners", "") for event, fields in exposure(options, http_port)}


def named(**settings: str) -> ServeOptions:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    return ServeOptions(configs=configs).of_listeners(Listeners.from_settings(configs))


def test_broker_on_the_loopback_interface_has_no_warning() -> None:
    assert warnings(ServeOptions(), 8080) == {}


def test_all_open_listeners_are_one_warning() -> None:
    assert warnings(EVERYWHERE, 8080) == {
        "listeners-without-authentication": "PLAINTEXT://0.0.0.0:9092, http://0.0.0.0:8080"
    }


def test_listener_with_a_login_has_no_warning_and_the_http_port_its_own() -> None:
    options = named(listeners="SASL_SSL://10.0.0.1:9092")
    assert warnings(options) == {}
    assert warnings(options, 8080) == {"listeners-without-authentication": "http://10.0.0.1:8080"}


def test_listener_that_the_inter_broker_protocol_chooses_is_checked_as_one_that_a_name_chooses() -> None:
    options = named(listeners="PLAINTEXT://10.0.0.1:9092,SSL://10.0.0.1:9093", security_inter_broker_protocol="SSL")
    assert options.port == 9093
    assert warnings(options) == {"listeners-without-authentication": "PLAINTEXT://10.0.0.1:9092, SSL://10.0.0.1:9093"}


@pytest.mark.parametrize(("protocol", "events"), [("PLAINTEXT", ["http-passwords-in-clear"]), ("SSL", [])])
def test_passwords_over_http_need_tls(protocol: str, events: list[str]) -> None:
    options = named(listeners="SASL_SSL://10.0.0.1:9092", yak_http_authentication="basic",
                    yak_http_security_protocol=protocol)  # fmt: skip
    assert list(warnings(options, 8080)) == events


def test_http_address_has_the_scheme_of_its_protocol() -> None:
    assert ServeOptions(configs={"yak.http.security.protocol": "ssl"}).http_address(1) == "https://127.0.0.1:1"
    assert ServeOptions(configs=BASIC).http_authentication == "basic"
    assert ServeOptions().http_address(1) == "http://127.0.0.1:1"
