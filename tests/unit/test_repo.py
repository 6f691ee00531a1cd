"""The repo as a stranger meets it: make, its environment, the pinned versions, the wheel, the notices."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYMLINKED = ("commands", "tui", "spark")
TARGETS = (
    "setup",
    "demo",
    "demo-spark",
    "test",
    "lint",
    "dist",
    "wheel",
    "wheels",
    "deb",
    "bench-kafka",
    "bench-self",
    "help",
    "clean",
)


def load(name: str) -> ModuleType:
    """A script of packaging/, as a module."""
    spec = importlib.util.spec_from_file_location(f"yak_packaging_{name}", ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pyproject() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """packaging/bootstrap.py over a project of its own in a temporary folder."""
    module = load("bootstrap")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "VENV_PYTHON", tmp_path / ".venv" / "bin" / "python")
    return module


@pytest.fixture
def installed(bootstrap: ModuleType) -> ModuleType:
    """The same, with an environment that looks made; nothing is stamped yet."""
    folder = bootstrap.VENV / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "yak"):
        (folder / name).touch()
    return bootstrap


def stamp(module: ModuleType, what: str) -> None:
    (module.VENV / f"yak-{what}.stamp").write_text(module.stamp_key(what))


# ------------------------------------------------------------------------------------------- make and the environment


def test_make_help_lists_every_target():
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [target for target in TARGETS if not re.search(rf"^  make {target} ", run.stdout, re.MULTILINE)] == []


def test_make_without_a_fitting_python_says_what_to_install(tmp_path):
    for name in ("sh", "env"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    shutil.copy(ROOT / "Makefile", tmp_path)
    make = shutil.which("make") or ""
    run = subprocess.run([make, "setup"], cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert run.returncode == 2
    assert "error[no-python]: Python 3.11 or newer was not found" in run.stderr
    assert "make setup PYTHON=" in run.stderr


@pytest.mark.parametrize(
    ("system", "machine", "version", "code"),
    [
        ("linux", "x86_64", (3, 10), "old-python"),
        ("win32", "AMD64", (3, 12), "unsupported-machine"),
        ("linux", "riscv64", (3, 13), "unsupported-machine"),
        ("freebsd14", "x86_64", (3, 11), "unsupported-machine"),
    ],
)
def test_machine_that_cannot_run_yak_is_refused_with_an_error_in_three_parts(bootstrap, system, machine, version, code):
    with pytest.raises(bootstrap.Refused) as refused:
        bootstrap.check_machine(system, machine, version)
    what, why, try_ = refused.value.lines
    assert what.startswith(f"error[{code}]: ")
    assert why.startswith("  why:  ")
    assert try_.startswith("  try:  ")


@pytest.mark.parametrize(
    ("system", "machine"),
    [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")],
)
def test_the_supported_machines_pass(bootstrap, system, machine):
    bootstrap.check_machine(system, machine, (3, 11))
    bootstrap.check_machine(system, machine, (3, 14))


def test_python_that_cannot_create_an_environment_is_refused_with_what_to_install(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "_works", lambda command: False)
    with pytest.raises(bootstrap.Refused) as refused:
        bootstrap.make_venv()
    assert "-venv " in "\n".join(refused.value.lines)


def test_a_stamped_environment_is_left_alone(installed, monkeypatch):
    stamp(installed, "dev")
    monkeypatch.setattr(installed, "install", lambda pip, what: pytest.fail("it installed again"))
    assert installed.main(["bootstrap.py", "dev"]) == 0
    assert installed.main(["bootstrap.py", "demo"]) == 0


def test_demo_environment_is_not_sufficient_for_development(installed):
    stamp(installed, "demo")
    assert installed.is_current("demo")
    assert not installed.is_current("dev")


def test_spark_demo_environment_needs_more_than_the_demo_environment(installed):
    stamp(installed, "demo")
    assert not installed.is_current("spark")
    stamp(installed, "spark")
    assert installed.is_current("spark")
    assert not installed.is_current("dev")
    (installed.VENV / "yak-spark.stamp").unlink()
    stamp(installed, "dev")
    assert installed.is_current("spark")


def test_every_set_of_the_environment_installs_extras_that_there_are():
    extras = pyproject()["project"]["optional-dependencies"]
    module = load("bootstrap")
    assert set(module.EXTRAS) == set(module.NEEDED_BY)
    assert {each for text in module.EXTRAS.values() for each in text.strip("[]").split(",")} <= set(extras)


def test_the_executable_leaves_spark_to_another_python():
    text = (ROOT / "packaging" / "yak.spec").read_text()
    assert [name for name in ("pyspark", "pyarrow", "pandas", "numpy") if f'"{name}"' not in text] == []


def test_a_changed_pin_or_requirement_makes_it_stale_and_a_lint_rule_does_not(installed):
    stamp(installed, "dev")
    project = installed.ROOT / "pyproject.toml"
    project.write_text(project.read_text().replace("line-length = 120", "line-length = 100"))
    assert installed.is_current("dev")
    project.write_text(project.read_text().replace('"trio>=', '"trio>=0.'))
    assert not installed.is_current("dev")
    stamp(installed, "dev")
    (installed.ROOT / "constraints.txt").write_text("trio==0.1\n")
    assert not installed.is_current("dev")


def test_a_failed_install_leaves_no_stamp(installed, monkeypatch):
    failing = [sys.executable, "-c", "import sys; print('no matching distribution'); sys.exit(1)"]
    monkeypatch.setattr(installed, "make_venv", lambda: failing)
    assert installed.main(["bootstrap.py", "dev"]) == 2
    assert not installed.is_current("dev")


def test_ci_runs_make_test_and_needs_no_input():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -eu\n" in text
    assert "exec </dev/null" in text
    assert text.endswith("\nexec make test\n")
    subprocess.run(["bash", "-n", str(script)], check=True)


# ---------------------------------------------------------------------------------------------------------- versions


def test_every_requirement_is_pinned():
    project = pyproject()["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    names = [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower().replace("_", "-") for line in wanted]
    assert [name for name in names if name not in pins() and name != project["name"]] == []


def test_all_packages_that_the_installed_project_requires_are_pinned():
    installed = {dist.metadata.json["name"].lower().replace("_", "-") for dist in load("notices").bundled()}
    assert installed - set(pins()) == set()


def test_pins_are_names_and_versions_and_nothing_else():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []
    assert lines == sorted(lines, key=str.lower)


@pytest.mark.parametrize("name", ["Makefile", ".ci/run", "constraints.txt", "pyproject.toml", "packaging/bootstrap.py"])
def test_the_users_own_pip_configuration_decides_where_packages_come_from(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"--(extra-)?index-url|--trusted-host|--find-links|https?://", text)


# ------------------------------------------------------------------------------------------------------ what we ship


@pytest.mark.parametrize("name", SYMLINKED)
def test_a_top_level_package_is_reached_by_a_relative_link(name):
    assert (ROOT / "yak" / name).readlink() == Path("..") / name


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that nothing old in build/ can land in the wheel."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("yak", *SYMLINKED, "tests", "packaging", "docs"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path) -> zipfile.Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "out", "."]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (built,) = (tree / "out").glob("*.whl")
    return zipfile.Path(built)


def test_only_yak_lands_in_site_packages(wheel):
    version = pyproject()["project"]["version"]
    assert {path.name for path in wheel.iterdir()} == {"yak", f"yak_broker-{version}.dist-info"}


def test_the_wheel_holds_every_module_and_data_file_and_real_copies_of_the_linked_packages(tree, wheel):
    shipped = set(wheel.root.namelist())
    wanted = set()
    for top in ("yak", *SYMLINKED):
        for path in (tree / top).rglob("*"):
            below_link = any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(tree))
            if path.suffix in {".py", ".lua", ".tcss", ".typed", ".html", ".js", ".css", ".svg"} and not below_link:
                name = path.relative_to(tree).as_posix()
                wanted.add(name if top == "yak" else f"yak/{name}")
    assert {"yak/py.typed", "yak/tui/web/templates/app.html", "yak/tui/web/static/page.js"} <= wanted
    assert wanted - shipped == set()
    assert (wheel / "yak" / "commands" / "__init__.py").read_text() == (tree / "commands" / "__init__.py").read_text()


def test_pytest_finds_the_plugin_in_the_wheel_and_the_wheel_does_not_ask_for_pytest(wheel):
    (notes,) = (path for path in wheel.iterdir() if path.name.endswith(".dist-info"))
    assert "[pytest11]\nyak = yak.testing.plugin\n" in (notes / "entry_points.txt").read_text()
    asked = [line for line in (notes / "METADATA").read_text().splitlines() if line.startswith("Requires-Dist: pytest")]
    assert [line for line in asked if "extra ==" not in line] == []
    assert asked != []


def test_the_version_is_said_once():
    text = (ROOT / "yak" / "version.py").read_text()
    assert f'__version__ = "{pyproject()["project"]["version"]}"' in text
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_notices_name_every_distribution_with_its_text():
    notices = load("notices")
    text = notices.notices()
    assert [dist.name for dist in notices.bundled() if f"{dist.name} {dist.version}" not in text] == []
    for said in (
        "GNU LESSER GENERAL PUBLIC LICENSE",
        "librdkafka - Apache Kafka C driver library",
        "Valkey contributors",
    ):
        assert said in text
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in text
