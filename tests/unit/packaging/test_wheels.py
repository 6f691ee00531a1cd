"""packaging/wheels.py: wheels that installers accept, for the right machine, with the plugin that yak-broker has."""

import ast
import base64
import hashlib
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import load_program

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    return load_program(ROOT / "packaging" / "wheels.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A built folder in small: an executable, a library, a link to it, and the notices."""
    built = tmp_path / "yak"
    (built / "_internal" / "deep").mkdir(parents=True)
    (built / "yak").write_bytes(b"\x7fELF")
    (built / "yak").chmod(0o755)
    (built / "_internal" / "deep" / "lib.so.1").write_bytes(b"library")
    (built / "_internal" / "lib.so.1").symlink_to("deep/lib.so.1")
    (built / "_internal" / "THIRD-PARTY-NOTICES.txt").write_text("notices")
    return built


@pytest.mark.parametrize(
    ("machine", "tag"),
    [
        (("linux", "x86_64", "2.36", ""), "py3-none-manylinux_2_36_x86_64"),
        (("linux", "aarch64", "2.31", ""), "py3-none-manylinux_2_31_aarch64"),
        (("darwin", "arm64", "", "14.5"), "py3-none-macosx_14_0_arm64"),
    ],
)
def test_platform_tag_names_the_machine_and_its_c_library(wheels, machine, tag):
    assert wheels.platform_tag(*machine) == tag


def test_platform_tag_on_musl_is_refused(wheels):
    with pytest.raises(ValueError, match="no glibc"):
        wheels.platform_tag("linux", "x86_64", "", "")


def test_bin_wheel_has_the_folder_with_modes_and_a_true_record(wheels, folder, tmp_path):
    path = wheels.bin_wheel("1.2.3", folder, "py3-none-manylinux_2_36_x86_64").write(tmp_path / "out")
    assert path.name == "yak_broker_bin-1.2.3-py3-none-manylinux_2_36_x86_64.whl"
    with zipfile.ZipFile(path) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert modes["yak_broker_bin/yak/yak"] == 0o100755
    assert modes["yak_broker_bin/__init__.py"] == 0o100644
    assert contents["yak_broker_bin/yak/_internal/lib.so.1"] == b"library"
    info = "yak_broker_bin-1.2.3.dist-info"
    assert contents[f"{info}/licenses/THIRD-PARTY-NOTICES.txt"] == b"notices"
    assert b"yak = yak_broker_bin.__main__:main" in contents[f"{info}/entry_points.txt"]
    rows = [line.rsplit(",", 2) for line in contents[f"{info}/RECORD"].decode().splitlines()]
    assert {name for name, _, _ in rows} == set(contents)
    for name, digest, size in rows[:-1]:
        raw = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={raw}", str(len(contents[name])))


def test_bin_wheel_of_the_same_folder_is_the_same_bytes(wheels, folder, tmp_path):
    first, second = (
        wheels.bin_wheel("1.2.3", folder, "py3-none-macosx_14_0_arm64").write(tmp_path / name).read_bytes()
        for name in ("a", "b")
    )
    assert first == second


def test_bin_wheel_without_a_built_executable_says_what_to_run(wheels, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"run packaging/build\.py"):
        wheels.bin_wheel("1.2.3", tmp_path, "py3-none-any")


def test_pytest_wheel_requires_the_executable_alone_and_takes_the_place_of_the_other_plugin(wheels, tmp_path):
    version = wheels.project_version()
    with zipfile.ZipFile(wheels.pytest_wheel(version).write(tmp_path)) as archive:
        notes = Parser().parsestr(archive.read(f"pytest_yak-{version}.dist-info/METADATA").decode())
        points = archive.read(f"pytest_yak-{version}.dist-info/entry_points.txt").decode()
        modules = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    assert notes.get_all("Requires-Dist") == [f"yak-broker-bin=={version}"]
    # The name that yak-broker's own plugin has: pytest loads the first of a name.
    assert points == "[pytest11]\nyak = pytest_yak.plugin\n"
    assert set(modules) >= {
        f"pytest_yak/{name}.py" for name in ("plugin", "fixture_options", "shape", "session", "errors")
    }
    imported = {
        name.split(".")[0]
        for name, text in modules.items()
        if name != "pytest_yak/shape.py"  # what it imports of yak is for the brokers' side, in the executable
        for node in ast.walk(ast.parse(text))
        for name in _imported(node)
    }
    assert imported - set(sys.stdlib_module_names) == {"pytest", "pytest_yak", "yak_broker_bin"}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
