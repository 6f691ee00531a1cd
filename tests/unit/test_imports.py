"""Who may import whom, beyond what `make lint` says: the contracts are alive, and the core has no random source of its own."""

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
CYCLE_MODULES_MAX = 15
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"
CORE = (
    "protocol",
    "ports",
    "storage",
    "replication",
    "partitions",
    "lifecycle",
    "cluster",
    "core",
    "quorum",
    "groups",
    "coordination",
    "broker",
    "views",
    "config",
)
SHELL = {
    "attempts",
    "private_files",
    "http_fetch",
    "aio",
    "trio",
    "server",
    "sim",
    "client",
    "local",
    "testing",
    "commands",
    "tui",
    "spark",
}
REAL_WORLD_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "date.today",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid4",
    "id",
    "hash",
    "open",
    "print",
}


def contracts() -> dict[str, dict[str, list[str]]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return {contract["id"]: contract for contract in tomllib.load(file)["tool"]["importlinter"]["contracts"]}


def core_files() -> list[Path]:
    return sorted(path for name in CORE for path in (ROOT / "yak" / name).rglob("*.py"))


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def real_world(tree: ast.Module) -> list[str]:
    """Lines of a module that ask the machine, and not a port, for something: files, clock, random numbers, addresses."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in REAL_WORLD_CALLS:
            found.append(f"{node.lineno}: {dotted(node.func)}()")
        elif (
            isinstance(node, ast.Attribute)
            and dotted(node).startswith("os.")
            and not dotted(node).startswith("os.path")
        ):
            found.append(f"{node.lineno}: {dotted(node)}")
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found.append(f"{node.lineno}: from os import")
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Set):
            found.append(f"{node.lineno}: the order of a set")
    return found


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def loaded_by(statement: str) -> set[str]:
    """What `sys.modules` holds after a statement in a fresh Python, started in the repo's root as a developer would."""
    program = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("path", core_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_core_module_uses_only_the_ports(path: Path) -> None:
    assert real_world(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "t = datetime.now()",
        "u = uuid.uuid4()",
        "os.remove(p)",
        "n = os.path.join(a, b); os.rename(a, b)",
        "f = open(p)",
        "k = id(x)",
        "for x in {1, 2}: pass",
    ],
)
def test_line_that_accesses_the_machine_is_found(line: str) -> None:
    assert len(real_world(ast.parse(line))) == 1


def test_every_package_of_the_core_is_under_the_ban_list() -> None:
    listed = set(contracts()["pure-core"]["source_modules"])
    there = {
        f"yak.{path.stem}"
        for path in (ROOT / "yak").iterdir()
        if path.stem not in SHELL and not path.name.startswith(("_", ".")) and (path.is_dir() or path.suffix == ".py")
    }
    assert there - listed == set()


def test_the_contracts_see_through_the_symlinks_and_catch_what_they_forbid(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("yak", "commands", "tui", "spark"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "yak" / "storage" / "planted.py").write_text("import time\nimport yak.core.events\n")
    (tmp_path / "commands" / "planted.py").write_text("import asyncio\n")
    run = subprocess.run(
        [str(LINT_IMPORTS), "--no-logo", "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    said = " ".join(run.stdout.split())
    assert "yak.storage.planted -> time" in said
    assert "yak.storage.planted -> yak.core.events" in said
    assert "yak.commands.planted -> asyncio" in said


def test_the_broker_talks_to_redis_in_one_file() -> None:
    speakers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "yak" / "server").rglob("*.py")
        if imports_of(path) & {"hiredis", "redis"}
    ]
    assert len(speakers) <= 1, speakers


def test_the_symlinked_packages_load_under_one_name_only() -> None:
    assert loaded_by("import yak.commands.main") & {"commands", "tui", "spark"} == set()


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    heavy = {"trio", "redis", "hiredis", "kio", "confluent_kafka", "rich", "typer", "pydantic", "psutil", "asyncio"}
    assert loaded_by("import yak.commands.main") & heavy == set()


@pytest.mark.parametrize("module", ["yak.client.admin", "yak.tui.app", "yak.local.cluster"])
def test_clients_start_without_kio(module: str) -> None:
    """Its messages are imported for the first request that needs them: 10 to 20 ms of each command's start."""
    assert "kio" not in loaded_by(f"import {module}")


def test_a_test_cluster_starts_its_brokers_before_the_heavy_libraries_load() -> None:
    heavy = {"trio", "redis", "kio", "confluent_kafka", "hypothesis", "asyncio", "ssl"}
    assert loaded_by("import yak.testing.session") & heavy == set()


@pytest.mark.parametrize(
    "program",
    [
        "from yak.errors import ErrorCode",
        "from yak.client.raw_connection import _import_encoder as load; load()",
        "import yak.sim.cluster",
    ],
)
def test_modules_that_kio_imports_and_yak_never_uses_are_not_loaded(program: str) -> None:
    """hypothesis writes into the working directory when it is imported there for the first time, for three seconds."""
    loaded = loaded_by(program)
    assert "kio" in loaded
    assert loaded & {"hypothesis", "pytest", "asyncio"} == set()


def test_the_web_ui_starts_without_a_broker() -> None:
    """Its check of the Host header once brought the broker's APIs along, and a third of its import's processor time."""
    loaded = loaded_by("import yak.tui.web.launch")
    assert loaded & {"trio", "kio", "confluent_kafka", "yak.broker", "yak.server.http.guard"} == set()


IMPORT_EACH = """
import importlib, json, os, sys
cycles = json.loads(sys.argv[1])
for name in (name for cycle in cycles for name in cycle):
    importlib.import_module(name)
failed = False
for cycle in cycles:
    for name in cycle:
        child = os.fork()
        if child == 0:
            # what is in no cycle with it works or fails by itself, and stays
            for each in cycle:
                package, _, leaf = each.rpartition(".")
                del sys.modules[each]
                if package in sys.modules:
                    delattr(sys.modules[package], leaf)
            try:
                importlib.import_module(name)
            except ImportError as error:
                print(f"{name}: {error}", flush=True)
                os._exit(1)
            os._exit(0)
        failed = os.waitpid(child, 0)[1] != 0 or failed
sys.exit(failed)
"""


def cycles_of_imports(*, is_parent_imported: bool = True) -> list[list[str]]:
    """Modules that import each other, if only for types.

    `is_parent_imported`: a module counts as an import of its package, which is loaded first. `yak` itself imports nothing
    when it is loaded.
    """
    graph = grimp.build_graph("yak")
    known = sorted(graph.modules)
    ahead = {name: sorted(graph.find_modules_directly_imported_by(name)) for name in known}
    if is_parent_imported:
        for name in known:
            ahead[name] += [name.rpartition(".")[0]] * (name.count(".") > 1)
    behind: dict[str, list[str]] = {name: [] for name in known}
    for name, others in ahead.items():
        for other in others:
            behind[other].append(name)
    order: list[str] = []
    seen: set[str] = set()
    for root in known:
        waiting = [] if root in seen else [(root, iter(ahead[root]))]
        seen.add(root)
        while waiting:
            name, others_left = waiting[-1]
            following = next((other for other in others_left if other not in seen), None)
            if following is None:
                order.append(name)
                waiting.pop()
            else:
                seen.add(following)
                waiting.append((following, iter(ahead[following])))
    group_of: dict[str, str] = {}
    for root in reversed(order):  # Kosaraju: what reaches a root backwards, and has no group yet, is in a cycle with it
        names = [root]
        while names:
            name = names.pop()
            if name not in group_of:
                group_of[name] = root
                names += [other for other in behind[name] if other not in group_of]
    groups: dict[str, list[str]] = {}
    for name in known:
        groups.setdefault(group_of[name], []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def test_every_module_can_be_imported_first() -> None:
    """A cycle of imports works or fails by who comes first; tests and tools may start anywhere."""
    cycles = cycles_of_imports()
    assert "yak.broker.fetches" in {name for names in cycles for name in names}
    program = [sys.executable, "-c", IMPORT_EACH, json.dumps(cycles)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cycles_of_imports_are_small_and_within_one_package() -> None:
    """A change of one module needs the knowledge of its whole cycle, types included."""
    cycles = cycles_of_imports(is_parent_imported=False)
    assert [names for names in cycles if len(names) > CYCLE_MODULES_MAX] == []
    assert [names for names in cycles if len({name.split(".")[1] for name in names}) > 1] == []


@cache
def names_in(path: Path) -> set[str]:
    """The names that a module defines or imports, at any depth: a test of `sys.platform` may stand around them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def missing_imports(path: Path) -> list[str]:
    """What a file imports from modules of this tree that do not have it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] not in {"yak", "tests"}:
            continue
        module = ROOT / node.module.replace(".", "/")  # type: ignore[union-attr]
        package = module / "__init__.py"
        file = package if package.exists() else module.with_suffix(".py")
        known = names_in(file) if file.exists() else set()
        for alias in node.names:
            is_module = (module / alias.name).is_dir() or (module / f"{alias.name}.py").exists()
            if alias.name not in known and not is_module:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.module} has no {alias.name}")
    return found


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "packaging", "tests"])
def test_programs_that_no_test_imports_import_what_exists(folder: str) -> None:
    """mypy reads the product only, and pytest does not import these."""
    programs = [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.startswith("test_")]
    assert [each for path in programs for each in missing_imports(path)] == []
