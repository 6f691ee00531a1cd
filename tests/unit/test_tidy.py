"""The repo's manners, as tests. A rule here is a ratchet: what stands in a list may shrink and never grow."""

import ast
import re
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from yak.commands import registry
from yak.tui.keys import SCREENS

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("yak", "commands", "tui", "spark")
FILE_LINES_MAX = 900
FUNCTION_LINES_MAX = 60

# Files above the limit: path -> its length when it was added here.
LONG_FILES: dict[str, int] = {}
# "path::function" -> the length of its body when it was let in.
LONG_FUNCTIONS: dict[str, int] = {}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "misc", "common", "stuff"}


def python_files(*folders: str) -> list[Path]:
    """Every .py file under these folders, each once (the symlinked packages are visited under their real name)."""
    found: list[Path] = []
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            through_link = any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(ROOT))
            if not through_link and "__pycache__" not in path.parts:
                found.append(path)
    return sorted(found)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Facts(NamedTuple):
    """What the rules ask of a file. The trees of all files would slow down every later collection of garbage."""

    has_docstring: bool
    functions: list[tuple[str, int]]
    """Name and lines of the body, its docstring left out (a command's signature is its table of flags)."""
    imports: set[str]
    """Every dotted name that it imports, with `from a import b` counted as `a` and `a.b`."""
    relative_imports: list[int]
    """Their lines."""


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a module, those within others behind them: a tenth of the nodes that `ast.walk` visits."""
    waiting: deque[ast.AST] = deque(tree.body)
    while waiting:
        node = waiting.popleft()
        yield node
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting += getattr(node, part, ())


@cache
def facts_of(path: Path) -> Facts:
    tree = ast.parse(path.read_text(), filename=str(path))
    facts = Facts(bool(ast.get_docstring(tree)), [], set(), [])
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            facts.functions.append((node.name, function_lines(node)))
        elif isinstance(node, ast.Import):
            facts.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                facts.relative_imports.append(node.lineno)
            if node.module:
                facts.imports.add(node.module)
                facts.imports.update(f"{node.module}.{alias.name}" for alias in node.names)
    return facts


def module_name(path: Path) -> str:
    """`commands/produce.py` is `yak.commands.produce`, `yak/ids.py` is `yak.ids`."""
    relative = path.relative_to(ROOT)
    parts = relative.parent.parts if path.name == "__init__.py" else relative.with_suffix("").parts
    return ".".join(parts if parts[0] == "yak" else ("yak", *parts))


@cache
def named_modules(path: Path) -> set[str]:
    """What a file imports, and the modules it names in its text; the tables of commands and screens have one for each."""
    found = facts_of(path).imports | set(re.findall(r"yak(?:\.\w+)+", path.read_text()))
    found |= {each.module for each in registry.ENTRIES} if path.name == "registry.py" else set()
    return found | ({f"yak.tui.screens.{each.name}" for each in SCREENS} if path.name == "keys.py" else set())


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = 1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0
    return (node.end_lineno or node.lineno) - node.body[first].lineno + 1


def too_long(lengths: dict[str, int], limit: int, let_in: dict[str, int]) -> list[str]:
    """What is over its limit, and what was let in and no longer needs to be."""
    wrong = [f"{name}: {lines} lines" for name, lines in lengths.items() if lines > let_in.get(name, limit)]
    wrong += [f"{name}: take it off the list" for name in let_in if lengths.get(name, 0) <= limit]
    return wrong


def test_assertions_change_nothing() -> None:
    """PYTHONOPTIMIZE removes them, and what they call."""
    changes = re.compile(r"assert\b[^\n]*\.(?:add|append|kill|pop|remove|send|step|stop|write)\(")
    wrong = [
        f"{name_of(path)}: {found[0]}"
        for path in python_files(*PRODUCT)
        for found in changes.finditer(path.read_text())
    ]
    assert wrong == []


def test_files_stay_short() -> None:
    lengths = {
        name_of(path): len(path.read_text().splitlines()) for path in python_files(*PRODUCT, "packaging", "docs")
    }
    assert too_long(lengths, FILE_LINES_MAX, LONG_FILES) == []


def test_functions_stay_short() -> None:
    lengths: dict[str, int] = {}
    for path in python_files(*PRODUCT, "packaging", "docs"):
        for name, lines in facts_of(path).functions:
            full_name = f"{name_of(path)}::{name}"
            lengths[full_name] = max(lines, lengths.get(full_name, 0))
    assert too_long(lengths, FUNCTION_LINES_MAX, LONG_FUNCTIONS) == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in python_files(*PRODUCT, "packaging", "docs", "tests", "benchmarks")
        if not facts_of(path).has_docstring
    ]
    # A test's sentences say what it is about; shared parts of tests must say so themselves.
    assert [name for name in silent if not Path(name).name.startswith("test_")] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name_of(path) for path in python_files(*PRODUCT, "packaging") if path.stem in VAGUE_NAMES] == []


def test_packaging_is_not_a_package_for_it_would_hide_the_real_one() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()


def test_tests_are_no_packages_and_their_names_are_unique() -> None:
    files = python_files("tests")
    assert [name_of(path) for path in files if path.name == "__init__.py"] == []
    names = Counter(path.name for path in files if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_symlinked_packages_are_imported_by_their_one_name() -> None:
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in python_files(*PRODUCT, "packaging", "docs", "tests", "benchmarks")
        for name in facts_of(path).imports
        if name.split(".")[0] in {"tui", "commands", "spark"}
    ]
    assert wrong == []


def test_imports_are_absolute() -> None:
    relative = [
        f"{name_of(path)}:{line}" for path in python_files(*PRODUCT) for line in facts_of(path).relative_imports
    ]
    assert relative == []


def test_code_contains_no_todo_comments() -> None:
    mark = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    marked = [
        f"{name_of(path)}:{number}"
        for path in python_files(*PRODUCT, "packaging")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if mark.search(line)
    ]
    assert marked == []


def test_every_module_is_reached_from_a_test() -> None:
    modules = {module_name(path): path for path in python_files(*PRODUCT)}
    reached: set[Path] = set()
    waiting = python_files("tests")
    while waiting:
        for name in named_modules(waiting.pop()):
            path = modules.get(name)
            if path is not None and path not in reached:
                reached.add(path)
                waiting.append(path)
    lost = [name_of(path) for path in modules.values() if path not in reached and path.name != "__init__.py"]
    assert lost == [], "no test and nothing that a test uses imports these"


def test_assertions_are_on() -> None:
    # Our own bugs must stop a node; `python -O` would let them pass, here and in the executable.
    assert __debug__
    assert "optimize=0," in (ROOT / "packaging" / "yak.spec").read_text()


@pytest.mark.parametrize("folder", ["yak", "docs", "packaging", "tests", "benchmarks"])
def test_no_file_names_a_place_on_someones_machine(folder: str) -> None:
    place = re.compile(r"/(home|Users)/[a-z]+/|/work/")
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".lua", ".spec"}]
    assert [
        name_of(path) for path in files if path.name != Path(__file__).name and place.search(path.read_text())
    ] == []
