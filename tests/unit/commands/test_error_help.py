"""Every slug that the source uses is explained."""

import ast
import re
from pathlib import Path

import pytest

from yak.client import errors as client_errors
from yak.commands.help import EXPLANATIONS
from yak.spark.source import errors as source_errors

ROOT = Path(__file__).parents[3]
SLUG = re.compile(r"[a-z]+(-[a-z]+)*")
ERRORS = {"YakError", "UsageError", "StartRefused", "Unreachable", "CheckFailed", "WaitTimeout", "SourceError"}
EFFECTS = {"Refused", "Refuse"}
CALL = re.compile(rf"\b({'|'.join(ERRORS | EFFECTS)})\b")
"""Without it a file has no such call, and need not be parsed."""


def used_slugs() -> dict[str, str]:
    found: dict[str, str] = {}
    folders = [
        ROOT / "commands",
        ROOT / "tui",
        ROOT / "spark",
        *(each for each in (ROOT / "yak").iterdir() if each.is_dir() and not each.is_symlink()),
    ]
    for path in [path for folder in folders for path in folder.rglob("*.py")] + list((ROOT / "yak").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if CALL.search(text) else ():
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            slug = None
            if name in ERRORS and node.args:
                slug = node.args[0]
            elif name in EFFECTS | ERRORS:
                slug = next((each.value for each in node.keywords if each.arg == "code"), None)
            if isinstance(slug, ast.Constant) and isinstance(slug.value, str) and SLUG.fullmatch(slug.value):
                found[slug.value] = f"{path.relative_to(ROOT)}:{node.lineno}"
    found |= {
        value: "yak/spark/source/errors.py"
        for name, value in vars(source_errors).items()
        if name.isupper() and isinstance(value, str)
    }
    return found | dict.fromkeys(client_errors._SLUGS.values(), "yak/client/errors.py")


def test_every_slug_of_the_source_is_explained():
    missing = {slug: where for slug, where in used_slugs().items() if slug not in EXPLANATIONS}
    assert not missing, f"explain them in commands/error_help.toml: {missing}"


def test_no_explanation_outlives_its_error():
    sources = [path for folder in ("commands", "tui", "spark", "yak") for path in (ROOT / folder).rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert [slug for slug in EXPLANATIONS if f'"{slug}"' not in text] == []


def test_explanations_are_in_alphabetical_order():
    assert list(EXPLANATIONS) == sorted(EXPLANATIONS)


@pytest.mark.parametrize("slug", sorted(EXPLANATIONS))
def test_every_explanation_has_its_three_parts(slug):
    found = EXPLANATIONS[slug]
    assert SLUG.fullmatch(slug)
    assert found.message.endswith(".")
    assert found.why.endswith(".")
    assert found.try_
    assert all(found.try_)


def test_help_prints_an_explanation(yak, golden):
    ran = yak("help", "unknown-topic")
    assert ran.code == 0
    golden("errors/help-unknown-topic.txt", ran.out)
    golden("errors/help-unknown-topic.json", yak("help", "unknown-topic", "-o", "json").out)


def test_help_for_an_unknown_term_names_the_closest_one(yak):
    ran = yak("help", "unreachabel")
    assert ran.code == 2
    assert 'closest: "unreachable"' in ran.err


def test_help_on_more_than_a_command_is_refused(yak):
    for words in (("produce", "foo"), ("topics", "list", "foo"), ("topics", "foo")):
        ran = yak("help", *words)
        assert (ran.code, ran.out) == (2, "")
        assert f'there is no help on "{" ".join(words)}"' in ran.err
