"""Textual calls a message handler of each class of a widget, so that one which calls that of its base runs it twice."""

import ast
from pathlib import Path

import yak.tui

MODULES = sorted(Path(yak.tui.__file__).parent.rglob("*.py"))
CALLED_ONCE = ("on_event", "on_meta")
"""Methods of Textual's App and drivers, and no message handlers."""


def test_message_handlers_leave_those_of_the_base_class_to_textual():
    called = {
        f"{module.name}: {node.func.attr}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "super()"
        and node.func.attr.startswith("on_")
        and node.func.attr not in CALLED_ONCE
    }
    assert MODULES
    assert not called
