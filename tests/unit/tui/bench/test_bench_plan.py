"""What is chosen on the bench screen, as a command line that `yak bench` takes."""

import pytest

from yak.errors import UsageError
from yak.tui.bench.plan import KINDS, arguments, command_line, settings_words


def proposed(name: str) -> dict[str, str]:
    return {option.name: option.value for option in KINDS[name].options}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("produce", "yak bench produce -b h:1 --duration 10s"),
        ("consume", "yak bench consume -b h:1"),
        ("latency", "yak bench latency -b h:1"),
        ("e2e", "yak bench e2e -b h:1"),
        ("failover", "yak bench failover --kills 5"),
    ],
)
def test_what_is_proposed_makes_a_short_line(name: str, line: str) -> None:
    assert command_line(arguments(KINDS[name], proposed(name), "h:1,h:2")) == line


def test_what_differs_is_said() -> None:
    values = {**proposed("latency"), "topic": "my topic", "clients": "4", "acks": "1", "compression": "zstd"}
    line = command_line(arguments(KINDS["latency"], values, "h:1"))
    assert line == "yak bench latency -b h:1 --topic 'my topic' --clients 4 --acks 1 --compression zstd"
    assert settings_words(KINDS["latency"], values) == "topic my topic, clients 4, acks 1, compression zstd"


@pytest.mark.parametrize("name", KINDS)
def test_every_flag_is_one_that_the_command_has_and_what_counts_as_usual_is_usual_there(name: str) -> None:
    from typer.main import get_command

    from yak.commands.app import typer_app
    from yak.commands.bench import bench

    parameters = {flag: each for each in get_command(typer_app(bench.leaves[name])).params for flag in each.opts}
    for option in KINDS[name].options:
        assert option.flag in parameters, option.flag
        default = parameters[option.flag].default
        if option.is_usual and option.value:
            usual = "10s" if option.name == "duration" and default is None else default
            assert str(usual).removesuffix(".0") == option.value, (name, option.name, default)


@pytest.mark.parametrize(
    ("name", "value"),
    [("clients", "many"), ("size", "big"), ("duration", "soon"), ("throughput", "-1"), ("size", "1 yard")],
)
def test_what_is_no_number_size_or_time_is_refused_by_name(name: str, value: str) -> None:
    label = next(each.label for each in KINDS["produce"].options if each.name == name)
    with pytest.raises(UsageError, match=label):
        arguments(KINDS["produce"], {**proposed("produce"), name: value}, "h:1")
