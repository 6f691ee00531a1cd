"""The options as types, and as the classes take them, are the same."""

import inspect
import typing

import pytest

import yak
from yak.client.api.client import ConsumerOptions, ProducerOptions


@pytest.mark.parametrize(("options", "kind"), [(ProducerOptions, yak.Producer), (ConsumerOptions, yak.Consumer)])
def test_options_are_those_of_the_class(options, kind):
    taken = {
        name: parameter.annotation
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and not name.startswith("_")
    }
    assert typing.get_type_hints(options) == taken
    assert [name for name in taken if f"`{name}`" not in (kind.__doc__ or "") and name != "client_id"] == []
