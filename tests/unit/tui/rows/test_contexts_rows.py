"""Contexts as rows, and the form that adds one."""

import shlex

import pytest

from yak.errors import UsageError
from yak.tui.formatter import Formatter
from yak.tui.rows.contexts import COLUMNS, add_command, context_rows, is_set, values_of

FORM = {"name": "staging", "servers": "a, b:1", "accent": "none", "token": "", "production": "false"}


def test_each_context_says_whether_it_answers_and_how_it_is_marked():
    contexts = {
        "prod": {"bootstrap_servers": "p:1", "production": True, "accent": "red"},
        "local": {"bootstrap_servers": "l:1"},
        "new": {"bootstrap_servers": "n:1"},
    }
    rows = [
        [cell.text for cell in row.cells]
        for row in context_rows(contexts, "local", {"local": "", "prod": "connection refused"}, Formatter())
    ]
    assert rows == [
        ["▶", "local", "", "● answers", "l:1"],
        ["", "new", "", "asking ...", "n:1"],
        ["", "prod", "PROD red", "○ no: connection refused", "p:1"],
    ]
    assert all(len(row) == len(COLUMNS) for row in rows)


@pytest.mark.parametrize(("said", "is_"), [(True, True), ("true", True), ("Yes", True), (False, False), ("no", False)])
def test_production_may_be_a_text(said, is_):
    assert is_set({"production": said}, "production") is is_
    assert not is_set({}, "production")


def test_the_form_becomes_values_and_a_command_line_without_the_secret():
    assert values_of(FORM) == {"bootstrap_servers": "a:9092,b:1"}
    assert add_command(FORM) == "yak context add staging -b a:9092,b:1"
    marked = {**FORM, "accent": "red", "token": "hush", "production": "true"}
    assert values_of(marked) == {
        "bootstrap_servers": "a:9092,b:1", "production": True, "accent": "red", "http_token": "hush",
    }  # fmt: skip
    line = add_command(marked)
    assert "hush" not in line
    assert shlex.split(line)[-6:] == ["--set", "production=true", "--set", "accent=red", "--set", "http_token=TOKEN"]


@pytest.mark.parametrize("wrong", [{"name": "-"}, {"servers": ","}, {"servers": "a:x"}])
def test_invalid_input_is_refused(wrong):
    with pytest.raises(UsageError):
        add_command({**FORM, **wrong})
