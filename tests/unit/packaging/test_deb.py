"""packaging/deb.py and packaging/systemd: what the Debian package lays out, and how the service is confined."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import load_program

ROOT = Path(__file__).resolve().parents[3]
UNIT = ROOT / "packaging" / "systemd" / "yak@.service"


@pytest.fixture(scope="module")
def deb() -> ModuleType:
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        return load_program(ROOT / "packaging" / "deb.py")
    finally:
        sys.path.pop(0)


def unit() -> configparser.RawConfigParser:
    """The unit's sections; a repeated key has all its values, one a line."""

    class Values(dict[str, object]):
        def __setitem__(self, key: str, value: object) -> None:
            if isinstance(value, list) and key in self:
                self[key].extend(value)  # type: ignore[attr-defined]
            else:
                super().__setitem__(key, value)

    parser = configparser.RawConfigParser(dict_type=Values, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


def test_package_has_program_manual_completions_unit_and_conffiles(deb: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "yak").write_text("#!/bin/sh\n")
    (folder / "yak").chmod(0o755)
    tree = tmp_path / "tree"
    deb.stage(tree, folder)
    deb.add_control(tree, "1.2.3", "amd64", "2.36")
    for name in (
        "usr/share/man/man1/yak-serve.1.gz",
        "usr/share/bash-completion/completions/yak",
        "usr/share/zsh/vendor-completions/_yak",
        "usr/share/fish/vendor_completions.d/yak.fish",
        "lib/systemd/system/yak@.service",
        "usr/lib/sysusers.d/yak.conf",
    ):
        assert (tree / name).stat().st_mode & 0o777 == 0o644, name
    assert (tree / "usr" / "bin" / "yak").resolve() == tree / "usr" / "lib" / "yak" / "yak"
    assert (tree / "usr" / "lib" / "yak" / "yak").stat().st_mode & 0o777 == 0o755
    assert (tree / "DEBIAN" / "conffiles").read_text() == "/etc/yak/broker.properties\n/etc/yak/yak.env\n"
    assert "Version: 1.2.3\nArchitecture: amd64\n" in (tree / "DEBIAN" / "control").read_text()
    if shutil.which("dpkg-deb") is not None:
        built = subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(tmp_path / "yak.deb")])
        assert built.returncode == 0


def test_release_candidate_is_older_than_its_release(deb: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    deb.add_control(tmp_path, "1.2.3rc1", "amd64", "2.36")
    assert "Version: 1.2.3~rc1\n" in (tmp_path / "DEBIAN" / "control").read_text()


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_package_script_is_shell_that_stops_at_errors(name: str) -> None:
    script = ROOT / "packaging" / "debian" / name
    assert "\nset -e\n" in script.read_text()
    subprocess.run(["sh", "-n", str(script)], check=True)


def test_service_runs_as_its_user_with_one_writable_folder() -> None:
    service = unit()["Service"]
    assert service["User"] == "yak"
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectory"] == "yak/%i"
    assert "--data-dir /var/lib/yak/%i" in service["ExecStart"]
    assert service["CapabilityBoundingSet"] == ""
    assert service["NoNewPrivileges"] == "yes"
    # The broker reads the machine's boot id and memory there.
    assert "ProcSubset" not in service


def test_service_waits_for_a_controlled_shutdown_and_does_not_repeat_a_usage_error() -> None:
    from yak.server.main import _STOP_SECONDS_MAX

    service = unit()["Service"]
    assert int(service["TimeoutStopSec"]) > _STOP_SECONDS_MAX
    assert service["RestartPreventExitStatus"] == "2"
    assert service["SuccessExitStatus"] == "143"


def test_service_reloads_on_sighup_and_has_started_when_the_broker_says_so() -> None:
    service = unit()["Service"]
    assert service["ExecReload"] == "kill -HUP $MAINPID"
    assert (service["Type"], service["TimeoutStartSec"]) == ("notify", "infinity")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_and_little_exposure(tmp_path: Path) -> None:
    copy = tmp_path / "yak@1.service"
    lines = [line for line in UNIT.read_text().splitlines() if not line.startswith("Documentation=")]
    copy.write_text("\n".join(lines).replace("/usr/bin/yak serve", "/bin/true serve"))
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(UNIT)]
    assert subprocess.run(command, capture_output=True).returncode == 0
