"""TLS configs of single listeners that are changed while the broker runs."""

import pytest
from kio.schema.errors import ErrorCode

from yak.core.events import ReconfigureListeners
from yak.sim.rig import Rig

BROKER = 4
NAME = "listener.name.external.ssl.keystore.location"
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def rig():
    rig = Rig()
    rig.reconfigured = []
    context = rig.node.broker.context
    emit = context.emit

    def noted(effect):
        if isinstance(effect, ReconfigureListeners):
            rig.reconfigured.append(dict(effect.configs))
        emit(effect)

    context.emit = noted
    return rig


def alter(rig, name, value, *, operation=SET, resource="1", validate_only=False):
    configs = [{"name": name, "config_operation": operation, "value": value}]
    asked = {"resource_type": BROKER, "resource_name": resource, "configs": configs}
    return rig.ask(44, 1, resources=[asked], validate_only=validate_only).responses[0].error_code


def rows_of(rig):
    asked = [{"resource_type": BROKER, "resource_name": "1"}]
    answer = rig.ask(32, 4, resources=asked, include_synonyms=True)
    return {row.name: row for row in answer.results[0].configs}


def test_new_location_reaches_the_shell_and_is_described_as_dynamic(rig):
    assert alter(rig, NAME, "/new.pem") == ErrorCode.none
    assert rig.reconfigured == [{NAME: "/new.pem"}]
    row = rows_of(rig)[NAME]
    assert (row.value, row.read_only, row.config_source) == ("/new.pem", False, 2)


def test_same_location_makes_the_shell_read_the_file_again(rig):
    alter(rig, NAME, "/new.pem")
    assert alter(rig, NAME, "/new.pem") == ErrorCode.none
    assert rig.reconfigured == [{NAME: "/new.pem"}] * 2
    assert alter(rig, NAME, "/new.pem", validate_only=True) == ErrorCode.none
    assert len(rig.reconfigured) == 2


def test_removed_location_goes_back_to_that_of_the_start(rig):
    alter(rig, NAME, "/new.pem")
    assert alter(rig, NAME, None, operation=DELETE) == ErrorCode.none
    assert rig.reconfigured[-1] == {}
    assert NAME not in rows_of(rig)


def test_validation_alone_changes_nothing(rig):
    assert alter(rig, NAME, "/new.pem", validate_only=True) == ErrorCode.none
    assert rig.reconfigured == []


@pytest.mark.parametrize(
    ("name", "value", "resource", "code"),
    [
        (NAME, "/new.pem", "", ErrorCode.invalid_request),
        ("ssl.keystore.location", "/new.pem", "1", ErrorCode.invalid_request),
        ("listener.name.external.ssl.key.password", "odd-secret", "1", ErrorCode.invalid_request),
        ("listener.name.external.ssl.keystore.key", "odd-secret", "1", ErrorCode.invalid_request),
        ("listener.name.external.ssl.client.auth", "none", "1", ErrorCode.invalid_request),
        ("listener.name.external.ssl.keystore.type", "JKS", "1", ErrorCode.invalid_request),
        ("listener.name.external.no.such", "x", "1", ErrorCode.invalid_request),
    ],
)
def test_config_that_cannot_change_is_refused(rig, name, value, resource, code):
    assert alter(rig, name, value, resource=resource) == code
    assert rig.reconfigured == []
    assert "odd-secret" not in str(rig.node.broker.image.broker_configs)


def test_other_configs_of_the_broker_do_not_reach_the_listeners(rig):
    assert alter(rig, "log.retention.ms", "1000") == ErrorCode.none
    assert rig.reconfigured == []
