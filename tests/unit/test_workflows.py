"""The files of .github and the hooks: they cannot run here, so their parts are compared with the repository."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((GITHUB / "workflows").glob("*.yml"))}
JOBS = [(f"{name}: {job}", each) for name, flow in WORKFLOWS.items() for job, each in flow["jobs"].items()]
STEPS = [(name, step) for name, job in JOBS for step in job["steps"]]
RUNS = [(name, step["run"]) for name, step in STEPS if "run" in step]


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_job_has_a_time_limit_and_no_more_rights_than_it_names(name: str, job: dict[str, Any]) -> None:
    assert job["timeout-minutes"] <= 120
    assert WORKFLOWS[name.partition(":")[0]]["permissions"] == {"contents": "read"}
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("name", "script"), RUNS, ids=[name for name, _ in RUNS])
def test_script_of_a_step_is_shell_and_names_what_is_there(name: str, script: str) -> None:
    # An expression in a script would let a branch's name run as shell.
    assert "${{" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    makefile = (ROOT / "Makefile").read_text()
    for words in re.findall(r"\bmake ([a-z -]+)", script):
        assert [word for word in words.split() if f"\n{word}:" not in makefile] == []
    for path in re.findall(r"(?<![\w./-])((?:packaging|\.ci)/[\w./-]+)", script):
        assert (ROOT / path).exists(), path


def test_every_python_of_the_classifiers_is_tried_on_linux_and_macos() -> None:
    matrix = WORKFLOWS["ci.yml"]["jobs"]["check"]["strategy"]["matrix"]
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert set(named) <= set(matrix["python"])
    assert set(matrix["python"]) == {"3.11", "3.12", "3.13", "3.14"}
    assert {each.partition("-")[0] for each in matrix["system"]} == {"ubuntu", "macos"}


def test_release_publishes_without_a_token_what_was_checked_and_attested() -> None:
    jobs = WORKFLOWS["release.yml"]["jobs"]
    publishing = jobs["pypi"]
    assert publishing["permissions"] == {"id-token": "write"}
    assert publishing["environment"] == "pypi"
    assert "secrets." not in str(publishing)
    uses = [step["uses"].partition("@")[0] for _, step in STEPS if "uses" in step]
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "pypa/gh-action-pypi-publish"} <= set(uses)
    assert "sha256sum" in str(jobs["collect"])
    needed = {
        job: [each["needs"]] if isinstance(each.get("needs"), str) else each.get("needs", [])
        for job, each in jobs.items()
    }

    def before(job: str) -> set[str]:
        return {job}.union(*(before(each) for each in needed[job]))

    assert all("check" in before(job) for job in jobs)
    assert before("github") == set(jobs)


@pytest.mark.parametrize(("tag", "words"), [("v1.2.3", "v1.2.3 --"), ("v1.2.3rc1", "v1.2.3rc1 --prerelease --")])
def test_release_candidate_is_not_the_latest_release(tag: str, words: str, tmp_path: Path) -> None:
    jobs = WORKFLOWS["release.yml"]["jobs"]
    for name in ("gh", "python3"):
        (tmp_path / name).write_text("#!/bin/sh\necho $*\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "GITHUB_REF_NAME": tag,
        "GITHUB_SERVER_URL": "",
        "GITHUB_REPOSITORY": "",
    }
    script = jobs["github"]["steps"][-1]["run"]
    ran = subprocess.run(["bash", "-e"], input=script, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.startswith(f"release create {words}")
    (push,) = (step for step in jobs["image"]["steps"] if step.get("id") == "push")
    (latest,) = (line for line in push["with"]["tags"].splitlines() if "latest" in line)
    assert [f"!contains(github.ref_name, '{letter}')" in latest for letter in "abc"] == [True] * 3


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_finds_nothing() -> None:
    paths = [str(path) for path in (GITHUB / "workflows").glob("*.yml")]
    ran = subprocess.run(["actionlint", *paths], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize("form", ["bug.yml", "feature.yml"])
def test_issue_form_has_the_fields_that_github_requires(form: str) -> None:
    read = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / form).read_text())
    assert read["name"]
    assert read["description"]
    ids = [each["id"] for each in read["body"]]
    assert len(set(ids)) == len(ids)
    assert all(each["type"] == "textarea" and each["attributes"]["label"] for each in read["body"])


def test_hooks_call_programs_of_the_environment() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    development = (ROOT / "pyproject.toml").read_text()
    for hook in repo["hooks"]:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/")
        tool = program.rpartition("/")[2]
        assert tool == "python" or f'"{tool}>=' in development
        assert [word for word in hook["entry"].split() if word.endswith(".py") and not (ROOT / word).exists()] == []
