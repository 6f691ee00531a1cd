"""Dataclasses behave the same with the shared methods as with the standard library's compiled ones."""

import dataclasses
import sys
from typing import Any

import pytest

from yak.commands import lean_dataclasses


def define() -> tuple[Any, Any]:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Sealed:
        name: str
        hidden: int = dataclasses.field(default=0, repr=False)
        inner: object = None

    @dataclasses.dataclass(frozen=True)
    class Child(Sealed):
        more: int = 1

    return Sealed, Child


@pytest.fixture(params=[False, True], ids=["compiled", "shared"])
def classes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The classes with the standard library's methods, and with the shared ones."""
    replaced = ("_frozen_get_del_attr", "_repr_fn")
    for name in replaced:
        if hasattr(dataclasses, name):
            monkeypatch.setattr(dataclasses, name, getattr(dataclasses, name))  # set back after the test
    if request.param:
        lean_dataclasses.install()
        shared = [getattr(dataclasses, name, None) for name in replaced]
        module = lean_dataclasses.__name__ if sys.version_info < (3, 13) else dataclasses.__name__
        assert all(each is None or each.__module__ == module for each in shared)
    return define()


def test_dataclasses_of_python_3_13_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = object()
    monkeypatch.delattr(dataclasses, "_repr_fn", raising=False)
    monkeypatch.setattr(dataclasses, "_frozen_get_del_attr", compiled, raising=False)
    lean_dataclasses.install()
    assert getattr(dataclasses, "_frozen_get_del_attr") is compiled  # noqa: B009 - mypy does not know it


def test_a_frozen_class_refuses_changes(classes: tuple[Any, Any]) -> None:
    for made in (classes[0]("a"), classes[1]("a")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
            made.name = "b"
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
            del made.name
        assert made.name == "a"


def test_a_plain_class_under_a_frozen_one_keeps_its_own_attributes_open(classes: tuple[Any, Any]) -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        name: str

    class Open(Frozen):
        other = 0

    made = Open("a")
    made.other = 1  # type: ignore[misc]
    assert made.other == 1
    del made.other
    assert made.other == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]


def test_dataclass_repr_equality_and_hash_are_unchanged(classes: tuple[Any, Any]) -> None:
    sealed, child = classes
    assert repr(sealed("a", 5, [1])).endswith("Sealed(name='a', inner=[1])")
    assert repr(child("a")).endswith("Child(name='a', inner=None, more=1)")
    assert sealed("a") == sealed("a") != sealed("b")
    assert hash(sealed("a")) == hash(sealed("a"))
    assert dataclasses.replace(child("a"), more=3).more == 3


def test_dataclass_value_that_contains_itself_has_a_repr(classes: tuple[Any, Any]) -> None:
    inner: list[object] = []
    made = classes[0]("a", 0, inner)
    inner.append(made)
    assert repr(made).endswith("Sealed(name='a', inner=[...])")
