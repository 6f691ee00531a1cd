import pytest

from yak.config.definitions import ConfigDef, ConfigType, between, one_of, split_list, subset_of


def make(kind, default="", check=None, **more):
    return ConfigDef("x", kind, default, "", check, **more)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false ", False),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, " -1", -1),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.STRING, " words ", "words"),
        (ConfigType.LIST, " a , b ", ["a", "b"]),
        (ConfigType.LIST, "", []),
    ],
)
def test_a_value_is_parsed_as_kafka_parses_it(kind, text, value):
    assert make(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "\u0661"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.SHORT, "40000"),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "1e999"),
        (ConfigType.STRING, "x" * 40_000),
    ],
)
def test_config_value_that_does_not_parse_is_refused_with_a_message(kind, text):
    with pytest.raises(ValueError, match=r"\w"):
        make(kind).parse(text)


def test_checks_say_what_is_allowed():
    with pytest.raises(ValueError, match="no more than 9"):
        make(ConfigType.INT, "1", between(1, 9)).parse("10")
    with pytest.raises(ValueError, match="at least 1"):
        make(ConfigType.INT, "1", between(1, 9)).parse("0")
    with pytest.raises(ValueError, match="one of: a, b"):
        make(ConfigType.STRING, "a", one_of("a", "b")).parse("c")
    with pytest.raises(ValueError, match="empty"):
        make(ConfigType.LIST, "a", subset_of("a")).parse("")


def test_config_without_effect_accepts_only_its_default_in_any_spelling():
    definition = make(ConfigType.BOOLEAN, "false", has_effect=False)
    assert definition.accept("FALSE") is False
    with pytest.raises(ValueError, match="no effect"):
        definition.accept("true")


def test_lists_keep_their_order():
    assert split_list("b, a,,c") == ["b", "a", "", "c"]
