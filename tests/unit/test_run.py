"""The runner of `make test`: a test that fails beside others fails the run, unless it passes alone and is listed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import flaky
from tests import run as runner

RUNNER = Path(__file__).parents[1] / "run.py"
TESTS = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({count}))
def test_example(number):
    seen = pathlib.Path(f"seen-{{number}}")
    was_seen = seen.exists()
    seen.touch()
    assert {condition}
"""


def run(folder: Path, condition: str, *, count: int = 1, files: int = 1, flaky_tests: str = "fail") -> tuple[int, str]:
    for number in range(files):
        text = TESTS.replace("seen-", f"seen-{number}-").format(condition=condition, count=count)
        (folder / f"test_example{number or ''}.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, str(RUNNER), "-q", "--rootdir", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": ""}  # starts faster
        | {"YAK_TESTS_FLAKY": flaky_tests},
    )
    return ran.returncode, ran.stdout


def test_test_that_passes_alone_fails_the_run(tmp_path):
    code, said = run(tmp_path, "was_seen")
    assert code == 1
    assert (
        "error[flaky-tests]: 1 failed beside the others and passed alone:\n  test_example.py::test_example[0]\n  try:"
        in said
    )


def test_flaky_test_is_only_reported_where_ci_requests_that(tmp_path):
    code, said = run(tmp_path, "was_seen", flaky_tests="reported")
    assert code == 0
    assert "error[flaky-tests]: 1 failed beside the others and passed alone:" in said


LISTED = {"tests/test_a.py::test_example[*]": "the kernel", "tests/test_b.py::test_other": "the weather"}


@pytest.mark.parametrize(
    ("tests", "code", "said", "unsaid"),
    [
        (["tests/test_a.py::test_example[1]"], 0, ["test_example[1]\n  why:  the kernel"], "error"),
        (["tests/test_a.py::test_example"], 1, ["1 failed", "test_example\n  try:"], "listed in tests/flaky.toml:"),
        (
            ["tests/test_a.py::test_example[1]", "tests/test_c.py::test_example[1]"],
            1,
            [
                "why:  the kernel",
                "error[flaky-tests]: 1 failed beside the others",
                "\n  tests/test_c.py::test_example[1]",
            ],
            "weather",
        ),
    ],
    ids=["listed", "pattern of parameters", "one of two"],
)
def test_flaky_test_fails_the_run_unless_listed(tests, code, said, unsaid):
    found, text = runner.verdict(tests, LISTED)
    assert found == code
    assert [each for each in said if each not in text] == []
    assert unsaid not in text


def test_listed_flaky_tests_exist_in_a_whole_run():
    """`tests/conftest.py` asks for those that do not, after collection."""
    found = ["tests/test_a.py::test_example[1-x]", "tests/test_b.py::test_others"]
    assert flaky.unused(LISTED, found) == ["tests/test_b.py::test_other"]
    for pattern in flaky.load():
        path, _, name = pattern.partition("::")
        tree = ast.parse(Path(path).read_text())
        names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name.partition("[")[0] in names


@pytest.mark.parametrize("text", ['"tests/a.py::test_example" = " "', '"tests/a.py::test_example" = 3', "nonsense"])
def test_flaky_list_without_a_reason_is_refused(tmp_path, text):
    (tmp_path / "flaky.toml").write_text(text)
    with pytest.raises(ValueError, match=r"no reason|end of document"):
        flaky.load(tmp_path / "flaky.toml")


def test_repeated_test_failure_fails_the_run(tmp_path):
    code, said = run(tmp_path, "False")
    assert code == 1
    assert "once more, alone" in said
    assert "FLAKY" not in said


def test_failures_in_many_files_are_no_coincidence(tmp_path):
    code, said = run(tmp_path, "was_seen", files=6)
    assert code == 1
    assert "once more" not in said


def test_all_tests_of_a_file_may_fail_by_one_coincidence(tmp_path):
    code, said = run(tmp_path, "was_seen", count=6, flaky_tests="reported")
    assert code == 0
    assert "6 failed beside the others; once more, alone:" in said


def test_passing_tests_run_once(tmp_path):
    code, said = run(tmp_path, "not was_seen")
    assert code == 0
    assert "once more" not in said


def test_run_that_does_not_end_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("YAK_TESTS_LONGEST_S", "3")
    code, said = run(tmp_path, "__import__('time').sleep(60)")
    assert code == 1
    assert "error[tests-hang]: the tests did not end in 3 s" in said


@pytest.mark.parametrize(
    ("lint", "tests", "code", "said"),
    [
        ("echo wrong; exit 2", 0, 1, "error[lint]: make lint failed:\nwrong"),
        ("echo wrong; exit 2", 4, 4, "error[lint]: make lint failed:\nwrong"),
        ("echo wrong", 0, 0, "lint passed"),
        ("echo wrong", 1, 1, "lint passed"),
    ],
)
def test_lint_beside_the_tests_fails_the_run_as_they_do(lint, tests, code, said, monkeypatch, capfd):
    begin = runner.Lint
    monkeypatch.setattr(runner, "Lint", lambda: begin(("sh", "-c", lint)))
    monkeypatch.setattr(runner, "run_tests", lambda words: tests if words == ["-q"] else 99)
    assert runner.main(["--lint", "-q"]) == code
    assert said in capfd.readouterr().out


def test_tests_write_bytecode_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run(tmp_path, "not __import__('sys').dont_write_bytecode")[0] == 0
