import pytest

from yak.config.definitions import ConfigDef, ConfigType, table_of
from yak.config.incremental import Change, IncrementalOp, apply_incremental
from yak.config.topic_configs import TOPIC_CONFIGS, topic_config_value, validate_topic_config
from yak.errors import ErrorCode, PeerError

LISTS = table_of(
    (ConfigDef("colours", ConfigType.LIST, "red", "A list."), ConfigDef("size", ConfigType.INT, "1", "A number."))
)


def change_lists(overrides, *changes):
    return apply_incremental(
        LISTS,
        overrides,
        [Change(*change) for change in changes],
        lambda _name, _value: None,
        lambda name: LISTS[name].default,
    )


def change_topic(overrides, *changes):
    return apply_incremental(
        TOPIC_CONFIGS,
        overrides,
        [Change(*change) for change in changes],
        validate_topic_config,
        lambda name: topic_config_value(TOPIC_CONFIGS[name], {}),
    )


def test_set_and_delete():
    assert change_topic({"segment.ms": "5"}, ("retention.ms", IncrementalOp.SET, "9")) == {
        "segment.ms": "5",
        "retention.ms": "9",
    }
    assert change_topic({"segment.ms": "5"}, ("segment.ms", IncrementalOp.DELETE, None)) == {}
    assert change_topic({}, ("segment.ms", IncrementalOp.DELETE, "x")) == {}


def test_append_starts_from_the_value_in_force_and_adds_what_is_new():
    assert change_lists({}, ("colours", IncrementalOp.APPEND, "blue,red,blue")) == {"colours": "red,blue"}
    assert change_lists({"colours": "green"}, ("colours", IncrementalOp.APPEND, "blue")) == {"colours": "green,blue"}


def test_subtract_takes_away_what_is_there():
    assert change_lists({"colours": "green,blue"}, ("colours", IncrementalOp.SUBTRACT, "blue,pink")) == {
        "colours": "green"
    }
    assert change_lists({}, ("colours", IncrementalOp.SUBTRACT, "red")) == {"colours": ""}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("size", IncrementalOp.APPEND, "1")], ErrorCode.invalid_config),
        ([("nothing", IncrementalOp.APPEND, "1")], ErrorCode.invalid_config),
        ([("size", IncrementalOp.SET, None)], ErrorCode.invalid_request),
        ([("size", IncrementalOp.APPEND, "1"), ("colours", IncrementalOp.SET, None)], ErrorCode.invalid_request),
        ([("size", 9, "1")], ErrorCode.invalid_request),
        ([("size", IncrementalOp.SET, "1"), ("size", IncrementalOp.DELETE, None)], ErrorCode.invalid_request),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(changes, code):
    with pytest.raises(PeerError) as caught:
        change_lists({}, *changes)
    assert caught.value.error_code is code


def test_the_new_value_is_validated_and_nothing_is_changed_when_it_is_refused():
    overrides = {"segment.ms": "5"}
    with pytest.raises(PeerError, match="one of"):
        change_topic(
            overrides, ("segment.ms", IncrementalOp.SET, "6"), ("cleanup.policy", IncrementalOp.APPEND, "compress")
        )
    assert overrides == {"segment.ms": "5"}
