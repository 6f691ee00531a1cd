"""The example suites: the same three tests in each language, pinned, at an address that one variable gives."""

import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
TESTS = {
    "go": ("orders_test.go", r"^func Test"),
    "java": ("src/test/java/orders/OrdersTest.java", r"^    @Test"),
    "node": ("orders.test.js", r"^test\("),
    "python": ("test_orders.py", r"^def test_"),
    "rust": ("tests/orders.rs", r"^#\[tokio::test\]"),
}


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("yak_examples_run", EXAMPLES / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("language", sorted(TESTS))
def test_a_suite_has_three_tests_and_takes_its_address_from_one_variable(language, runner):
    name, pattern = TESTS[language]
    text = (EXAMPLES / language / name).read_text()
    assert len(re.findall(pattern, text, re.MULTILINE)) == 3
    assert len(re.findall(r'"?\bKAFKA_BOOTSTRAP_SERVERS"?[,) ][^i]', text)) == 1
    assert "/api/failover" in text
    assert set(runner.SUITES) == set(TESTS)


def test_versions_are_pinned_and_no_lock_file_names_a_registry():
    package = json.loads((EXAMPLES / "node/package.json").read_text())
    assert all(re.fullmatch(r"[\d.]+", version) for version in package["devDependencies"].values())
    assert "resolved" not in (EXAMPLES / "node/package-lock.json").read_text()
    cargo = (EXAMPLES / "rust/Cargo.toml").read_text().partition("[dependencies]")[2]
    assert re.findall(r'"([=\d][^"]*\d)"', cargo) == re.findall(r'"(=[\d.]+)"', cargo) != []
    pinned = [line for line in (EXAMPLES / "python/requirements.txt").read_text().splitlines() if "==" in line]
    assert len(pinned) == 2
    pom = ET.parse(EXAMPLES / "java/pom.xml").getroot()
    name_of = {"m": "http://maven.apache.org/POM/4.0.0"}
    assert len(pom.findall(".//m:dependency/m:version", name_of)) == len(pom.findall(".//m:dependency", name_of)) == 2
    assert len(pom.findall(".//m:plugin/m:version", name_of)) == len(pom.findall(".//m:plugin", name_of))
    assert not list(EXAMPLES.glob("*/Cargo.lock")) or "Cargo.lock" in (EXAMPLES.parent / ".gitignore").read_text()


def test_a_suite_without_its_tool_or_registry_is_skipped_with_the_reason(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "WORK", tmp_path)
    monkeypatch.setitem(runner.SUITES, "go", runner.Suite(("no-such-tool",), ("true",)))
    assert runner.run_suite("go", {}) == ("skipped", "no-such-tool is not installed")
    monkeypatch.setitem(runner.SUITES, "go", runner.Suite(("false",), ("true",)))
    result, reason = runner.run_suite("go", {"PATH": "/usr/bin:/bin"})
    assert result == "skipped"
    assert reason.startswith("cannot fetch its requirements: false ended with 1")
    monkeypatch.setitem(runner.SUITES, "go", runner.Suite(("true",), ("false",)))
    assert runner.run_suite("go", {"PATH": "/usr/bin:/bin"})[0] == "failed"


def test_an_unknown_language_is_a_usage_error():
    run = subprocess.run([sys.executable, EXAMPLES / "run.py", "cobol"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "no such suite: cobol" in run.stderr
