"""TLS configs of single listeners that are changed while the broker runs."""

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.requests import BROKER, alter, describe, rows_of
from tests.unit.noted_calls import note_calls
from yak.core.events import ReconfigureListeners

NAME = "listener.name.external.ssl.keystore.location"


@pytest.fixture
def effects(rig, monkeypatch):
    return note_calls(monkeypatch, rig.node, "_carry_out")


def reconfigured(effects):
    return [dict(each.configs) for (each,) in effects if isinstance(each, ReconfigureListeners)]


def altered(rig, name, value, *, resource="1", validate_only=False):
    return alter(rig, BROKER, resource, {name: value}, validate_only=validate_only).error_code


def test_new_location_reaches_the_shell_and_is_described_as_dynamic(rig, effects):
    assert altered(rig, NAME, "/new.pem") == ErrorCode.none
    assert reconfigured(effects) == [{NAME: "/new.pem"}]
    row = rows_of(describe(rig, BROKER, "1"))[NAME]
    assert (row.value, row.read_only, row.config_source) == ("/new.pem", False, 2)


def test_same_location_makes_the_shell_read_the_file_again_unless_it_is_only_validated(rig, effects):
    for validate_only, count in ((True, 0), (False, 1), (False, 2), (True, 2)):
        assert altered(rig, NAME, "/new.pem", validate_only=validate_only) == ErrorCode.none
        assert reconfigured(effects) == [{NAME: "/new.pem"}] * count


def test_removed_location_goes_back_to_that_of_the_start(rig, effects):
    altered(rig, NAME, "/new.pem")
    assert altered(rig, NAME, None) == ErrorCode.none
    assert reconfigured(effects)[-1] == {}
    assert NAME not in rows_of(describe(rig, BROKER, "1"))


@pytest.mark.parametrize(
    ("name", "value", "resource"),
    [
        (NAME, "/new.pem", ""),
        ("ssl.keystore.location", "/new.pem", "1"),
        ("listener.name.external.ssl.key.password", "odd-secret", "1"),
        ("listener.name.external.ssl.keystore.key", "odd-secret", "1"),
        ("listener.name.external.ssl.client.auth", "none", "1"),
        ("listener.name.external.ssl.keystore.type", "JKS", "1"),
        ("listener.name.external.no.such", "x", "1"),
    ],
)
def test_config_that_cannot_change_is_refused(rig, effects, name, value, resource):
    assert altered(rig, name, value, resource=resource) == ErrorCode.invalid_request
    assert reconfigured(effects) == []
    assert "odd-secret" not in str(rig.node.broker.image.broker_configs)


def test_other_configs_of_the_broker_do_not_reach_the_listeners(rig, effects):
    assert altered(rig, "log.retention.ms", "1000") == ErrorCode.none
    assert reconfigured(effects) == []
