"""The benchmarks, which no other test runs, import what YAK and the folder have."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "benchmarks"


def missing(path: Path) -> list[str]:
    """The imported names of YAK, or of the folder, that do not exist."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        first, *_ = words = node.module.split(".")
        place = (ROOT if first == "yak" else BENCHMARKS).joinpath(*words)
        if first != "yak" and not (BENCHMARKS / first).is_dir() and not (BENCHMARKS / f"{first}.py").exists():
            continue
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        text = source.read_text() if source.exists() else ""
        found += [
            f"{node.module}.{alias.name}"
            for alias in node.names
            if not re.search(rf"\b{alias.name}\b", text) and not place.joinpath(f"{alias.name}.py").exists()
        ]
    return found


def test_each_benchmark_imports_only_what_exists() -> None:
    assert {path.name: names for path in BENCHMARKS.rglob("*.py") if (names := missing(path))} == {}
