"""`import yak` costs nothing, and gives every public name when it is asked for."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import yak

ROOT = Path(yak.__file__).parents[1]
HEAVY = {"confluent_kafka", "asyncio", "trio", "typing", "yak.client", "concurrent.futures", "importlib"}


def modules_after(statement):
    """What a fresh Python has loaded that it had not before."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    return set(ran.stdout.split())


def test_importing_yak_imports_nothing_else():
    assert modules_after("import yak") == {"yak", "yak.version"}


@pytest.mark.parametrize("name", yak.__all__)
def test_every_public_name_is_there_and_documented(name):
    found = getattr(yak, name)
    assert name in dir(yak)
    assert found.__doc__


def test_the_names_for_type_checkers_are_the_names_that_are_given():
    tree = ast.parse(Path(yak.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    imported = {
        alias.name: (node.module if node.module != "yak" else "")
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == yak._HOMES
    assert sorted(yak.__all__) == sorted(imported)


def test_a_name_that_is_not_there_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        _ = yak.Broker


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["help", "exit-codes"]])
def test_commands_that_contact_no_broker_do_not_load_librdkafka(arguments):
    program = (
        "import sys\nfrom yak.commands.main import main\n"
        f"sys.argv = ['yak', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    loaded = set(ran.stderr.split())
    assert "yak.commands.main" in loaded
    assert loaded & {"confluent_kafka", "asyncio", "yak.client.api", "yak.aio"} == set()
