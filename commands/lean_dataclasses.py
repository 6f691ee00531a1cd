"""Dataclasses whose methods are not all compiled when a module is imported.

`dataclasses` writes each method of a class as text and compiles it. `__setattr__` and `__delattr__` of a frozen class and
`__repr__` depend on the names of the fields only, so a function for all classes does the same: 0.2 ms less for a class,
and a tenth of the processor time of a broker's start. Other methods stay compiled, since they are faster so. Python 3.13
compiles all methods of a class at once: there nothing is replaced.
"""

import dataclasses
from collections.abc import Callable, Sequence
from reprlib import recursive_repr
from typing import Any

_Methods = tuple[Callable[..., None], Callable[..., None]]


def install() -> None:
    """Replace the inner functions of `dataclasses` for classes that are defined from now on."""
    if not hasattr(dataclasses, "_repr_fn"):
        return  # Python 3.13 has a `_frozen_get_del_attr` too, whose result it ignores
    for name, replacement in (("_frozen_get_del_attr", _frozen_methods), ("_repr_fn", _repr_method)):
        setattr(dataclasses, name, replacement)


def _frozen_methods(cls: Any, fields: "Sequence[dataclasses.Field[Any]]", _globals: object) -> _Methods:
    names = frozenset(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _repr_method(fields: "Sequence[dataclasses.Field[Any]]", _globals: object) -> Callable[..., str]:
    names = [field.name for field in fields]

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__
