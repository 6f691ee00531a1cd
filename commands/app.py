"""Defines subcommands: `@command` for a single function, `CommandGroup` for several functions under one name.

A decorated function takes `g: Globals` first, then its own parameters, and bundles of shared ones. A parameter is an
option by its default, a `flag`; one that several commands share, and an argument, are `Annotated` as Typer has them. The
global options (`yak.commands.options`) are added to it, so they work before and after the command. If a command declares a
name of its own (`topics create --config`), its own option wins. Help shows examples first, then the options by panel.
"""

import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from yak.commands import registry
from yak.commands.settings import ContextsFor
from yak.view.flags import flag as flag  # noqa: PLC0414 - commands import it from here

if TYPE_CHECKING:
    import typer

    from yak.commands import options

WHAT = "What"
START = "Where to start"
STOP = "When to stop"
OUTPUT = "Output"
CONNECTION = "Connection"
PANELS = (WHAT, START, STOP, OUTPUT, CONNECTION)
"""The option groups of the help, in order, for `rich_help_panel`. Other panels follow in order of appearance."""


class Bundle:
    """The base of dataclasses whose fields are options, as one parameter of each command that has them.

    A field whose default is a tuple is an option that may be repeated. A field that is neither `Annotated` nor a `flag`
    is no option.
    """


def fields_by_option(bundle: Any) -> dict[str, "Field[Any]"]:
    """Every name of every `flag` of a dataclass, with the field that it sets."""
    return {name: each for each in fields(bundle) for name in each.metadata["names"].split(", ")}


def takes_value(option: "Field[Any]") -> bool:
    """Whether a value follows the option."""
    return option.type not in (bool, int)


def as_arguments(bundle: Any) -> list[str]:
    """A dataclass of `flag`s as arguments, for a child process with the same options; without hidden ones."""
    arguments: list[str] = []
    for each in fields(bundle):
        value: Any = getattr(bundle, each.name)
        option = next(name for name in each.metadata["names"].split(", ") if name.startswith("--"))
        if each.metadata.get("hidden") or value is None:
            continue
        if takes_value(each):
            arguments += [f"{option}={one}" for one in (value if isinstance(value, tuple) else (value,))]
        else:
            arguments += [option] * value
    return arguments


@dataclass(slots=True)
class Leaf:
    """One runnable command: its function and its examples.

    It may accept unknown options, or be about the contexts.
    """

    function: Callable[..., object]
    examples: tuple[str, ...]
    allow_unknown: bool = False
    contexts_for: ContextsFor = ""

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(slots=True)
class CommandGroup:
    """Several commands under one name, some with `aliases`. `rewrite` may translate another tool's arguments."""

    name: str
    examples: tuple[str, ...] = ()
    rewrite: Callable[[list[str]], list[str]] | None = None
    aliases: dict[str, str] = field(default_factory=dict)
    default: str | None = None
    """The subcommand to run when none is named; None shows the help."""
    leaves: dict[str, Leaf] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    @property
    def summary(self) -> str:
        """Its line in the help of `yak`."""
        return registry.BY_NAME[self.name].summary

    def command(
        self, name: str, *, examples: tuple[str, ...] = (), hidden: bool = False, contexts_for: ContextsFor = ""
    ) -> Callable[[Callable[..., object]], Callable[..., object]]:
        """Register the decorated function as `yak <group> <name>`."""

        def register(function: Callable[..., object]) -> Callable[..., object]:
            self.leaves[name] = Leaf(function, examples, contexts_for=contexts_for)
            if hidden:
                self.hidden.add(name)
            return function

        return register

    def visible(self) -> dict[str, Leaf]:
        return {name: leaf for name, leaf in self.leaves.items() if name not in self.hidden}


def command(*, examples: tuple[str, ...] = (), allow_unknown: bool = False) -> Callable[[Callable[..., object]], Leaf]:
    """Make a `Leaf` from a function whose first parameter is `g: Globals`."""

    def make(function: Callable[..., object]) -> Leaf:
        return Leaf(function, examples, allow_unknown)

    return make


def load(entry: registry.Entry) -> Leaf | CommandGroup:
    """Import a command."""
    found = getattr(import_module(entry.module), entry.attribute)
    assert isinstance(found, Leaf | CommandGroup), f"{entry.module}.{entry.attribute} was not made by yak.commands.app"
    return found


def _own_names(parameter: inspect.Parameter) -> set[str]:
    """The `-x` and `--xxx` that a Typer parameter declares, or that Typer derives from its name."""
    if get_origin(parameter.annotation) is not Annotated:
        return set()
    names: set[str] = set()
    for info in get_args(parameter.annotation)[1:]:
        # Typer stores the first name of an annotated option in `default` until it builds the command.
        first = getattr(info, "default", None)
        declared = [*([first] if isinstance(first, str) else []), *(getattr(info, "param_decls", None) or ())]
        names.update(part for each in declared for part in each.split("/") if part.startswith("-"))
    return names


def _is_bundle(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Bundle)


def _unflagged(parameter: inspect.Parameter) -> inspect.Parameter:
    from yak.commands.parameters import option

    given = parameter.default
    if not isinstance(given, Field):
        return parameter
    return parameter.replace(
        annotation=Annotated[parameter.annotation, option(**given.metadata)], default=given.default
    )


def _unbundled(bundle: Any) -> list[inspect.Parameter]:
    """A parameter for each option of a bundle. Typer knows lists of any length, and no such tuples."""
    from yak.commands.parameters import option

    hints, keyword = get_type_hints(bundle, include_extras=True), inspect.Parameter.KEYWORD_ONLY
    found = []
    for each in fields(bundle):
        hint, default = hints[each.name], each.default
        if each.metadata:
            hint = Annotated[hint, option(**each.metadata)]
        elif get_origin(hint) is not Annotated:
            continue
        if isinstance(default, tuple):
            hint, default = Annotated[list[str] | None, *hint.__metadata__], None
        found.append(inspect.Parameter(each.name, keyword, default=default, annotation=hint))
    return found


def _bundled(bundle: Any, values: dict[str, Any]) -> Any:
    """A bundle with its options' values, which are taken out of `values`."""
    given = {each.name: values.pop(each.name) for each in _unbundled(bundle)}
    return bundle(**{name: tuple(value or ()) if _is_many(bundle, name) else value for name, value in given.items()})


def _is_many(bundle: Any, name: str) -> bool:
    return isinstance(bundle.__dataclass_fields__[name].default, tuple)


def callback(leaf: Leaf, before: "options.Flags", made: list["options.Globals"]) -> Callable[..., object]:
    """The function for Typer: the leaf's own parameters plus the global ones, merged over `before`.

    It appends its `Globals` to `made`, so that a later error is printed in the requested format.
    """
    from yak.commands import options

    signature = inspect.signature(leaf.function, eval_str=True)
    declared = list(signature.parameters.values())[1:]
    bundles = {p.name: p.annotation for p in declared if _is_bundle(p)}
    own = [each for p in declared for each in (_unbundled(p.annotation) if _is_bundle(p) else [_unflagged(p)])]
    taken = {name for parameter in own for name in _own_names(parameter)} | {
        "--" + p.name.replace("_", "-") for p in own
    }
    shared = options.global_parameters(taken)

    def run(**values: Any) -> object:
        after = options.Flags(**{name: values.pop(options.PREFIX + name) for name in shared})
        g = options.Globals.resolve(before.overlaid_by(after), contexts_for=leaf.contexts_for)
        made.append(g)
        for name, bundle in bundles.items():
            values[name] = _bundled(bundle, values)
        return leaf.function(g, **values)

    parameters = [
        *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own),
        *(
            inspect.Parameter(options.PREFIX + name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in shared.items()
        ),
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = leaf.function.__doc__
    run.__name__ = getattr(leaf.function, "__name__", "run")
    return run


def typer_app(
    leaf: Leaf, before: "options.Flags | None" = None, made: list["options.Globals"] | None = None
) -> "typer.Typer":
    """The Typer application of a single command."""
    import typer

    from yak.commands.help_format import YakCommand
    from yak.commands.options import Flags

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    add_leaf(app, None, leaf, before or Flags(), made if made is not None else [], YakCommand)
    return app


def add_leaf(
    app: "typer.Typer",
    name: str | None,
    leaf: Leaf,
    before: "options.Flags",
    made: list["options.Globals"],
    cls: Any,
    *,
    hidden: bool = False,
) -> None:
    """Add a command to a Typer application, with `-h`, 100 columns and the help layout of yak."""
    app.command(
        name,
        cls=cls,
        hidden=hidden,
        epilog="\n".join(leaf.examples),
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "ignore_unknown_options": leaf.allow_unknown,
        },
    )(callback(leaf, before, made))
