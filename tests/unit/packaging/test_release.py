"""packaging/release.py: what keeps a wrong release from being made."""

import datetime as dt
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import load_program

ROOT = Path(__file__).resolve().parents[3]
TODAY = dt.date(2026, 1, 2)


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load_program(ROOT / "packaging" / "release.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with news, committed."""
    (tmp_path / "yak").mkdir()
    (tmp_path / "yak" / "version.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "0.1.0"\n\n[project.scripts]\nx = "x:x"\n'
    )
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n- News.\n\n## [0.1.0] - 2025-01-01\n\n- Old.\n"
    )
    feature = tmp_path / "packaging" / "devcontainer" / "devcontainer-feature.json"
    feature.parent.mkdir(parents=True)
    feature.write_text('{\n  "id": "x",\n  "version": "0.1.0"\n}\n')
    commit(tmp_path)
    return tmp_path


def commit(project: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project, check=True)


def test_prepared_and_committed_version_can_be_released_with_its_notes(release, project, capsys):
    release.prepare(project, "0.2.0", TODAY)
    commit(project)
    assert release.main(["check", "v0.2.0"], project) == 0
    assert "## [0.2.0] - 2026-01-02" in (project / "CHANGELOG.md").read_text()
    assert '"version": "0.2.0"\n' in (project / "packaging/devcontainer/devcontainer-feature.json").read_text()
    capsys.readouterr()
    assert release.main(["notes", "v0.2.0"], project) == 0
    assert capsys.readouterr().out == "- News.\n"


@pytest.mark.parametrize(("version", "why"), [("0.2", "no version"), ("0.1.0", "already"), ("v0.2.0", "no version")])
def test_version_that_cannot_be_prepared_changes_nothing(release, project, version, why):
    with pytest.raises(release.NotReady, match=why):
        release.prepare(project, version, TODAY)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True)
    assert status.stdout == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("yak/version.py", "0.2.0", "0.3.0", "version.py does not"),
        ("CHANGELOG.md", "- 2026-01-02", "", "no section"),
        ("CHANGELOG.md", "- News.", "", "says nothing"),
        ("CHANGELOG.md", "- News.", "- " + "x" * 124_999, "has 125,001 characters about 0.2.0: .* at most 125,000"),
        ("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- More.\n", "under"),
        ("pyproject.toml", "[project.scripts]", "[project.scripts] ", "uncommitted"),
    ],
)
def test_release_that_would_be_wrong_is_refused(release, project, file, old, new, why):
    release.prepare(project, "0.2.0", TODAY)
    commit(project)
    path = project / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(release.NotReady, match=why):
        release.check(project, "v0.2.0")


def test_links_of_the_notes_go_to_the_files_of_the_tag(release, project, capsys):
    path = project / "CHANGELOG.md"
    path.write_text(path.read_text().replace("- Old.", "- [a](docs/a.md#b), [c](https://example.org/c).", 1))
    assert release.main(["notes", "v0.1.0", "https://example.org/a/b"], project) == 0
    linked = "- [a](https://example.org/a/b/blob/v0.1.0/docs/a.md#b), [c](https://example.org/c).\n"
    assert capsys.readouterr().out == linked
    assert release.main(["notes", "v0.1.0", "example.org"], project) == 1


def test_release_with_the_longest_notes_that_github_takes_is_accepted(release, project):
    path = project / "CHANGELOG.md"
    path.write_text(path.read_text().replace("- News.", "- " + "x" * 124_998, 1))
    release.prepare(project, "0.2.0", TODAY)
    commit(project)
    assert release.check(project, "v0.2.0") == "0.2.0"


def test_tag_of_another_version_is_refused(release, project, capsys):
    release.prepare(project, "0.2.0", TODAY)
    commit(project)
    assert release.main(["check", "v0.3.0"], project) == 1
    assert "it should be v0.2.0" in capsys.readouterr().err


def test_urls_are_those_of_the_repository_that_publishes(release, project):
    release.add_urls(project, "https://example.org/a/b")
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert table["urls"]["Issues"] == "https://example.org/a/b/issues"
    assert table["scripts"] == {"x": "x:x"}
    with pytest.raises(release.NotReady):
        release.add_urls(project, "example.org")


def test_project_itself_has_the_lines_that_a_release_changes(release, tmp_path):
    feature = "packaging/devcontainer/devcontainer-feature.json"
    for name in ("pyproject.toml", "CHANGELOG.md", "yak/version.py", feature):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    release.prepare(tmp_path, "99.0.0", TODAY)
    release.add_urls(tmp_path, "https://example.org/a/b")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert (project["version"], len(project["urls"])) == ("99.0.0", 4)
    assert release.notes((tmp_path / "CHANGELOG.md").read_text(), "99.0.0")
