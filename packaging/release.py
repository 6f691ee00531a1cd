"""The steps of a release that can be checked.

    python packaging/release.py prepare 0.2.0       set the version, and give the changelog's news its number and date
    python packaging/release.py check [v0.2.0]      version, changelog and tag say the same; nothing is uncommitted
    python packaging/release.py notes v0.2.0 [URL]  the changelog's section, for the release's page; links go to URL
    python packaging/release.py add-urls URL        name the repository in the package's metadata, before it is built

Standard library only: it runs before anything is installed.
"""

import argparse
import datetime as dt
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_UNRELEASED = "## [Unreleased]"
_MAX_NOTES_CHARS = 125_000
"""GitHub refuses a release whose body is longer."""


class NotReady(Exception):
    """A release would be wrong; the message says why."""


def prepare(root: Path, version: str, today: dt.date) -> None:
    """Set the version everywhere, and put the news under it. Raises `NotReady` and changes nothing then."""
    if not _VERSION.fullmatch(version):
        raise NotReady(f"{version} is no version: it is like 1.2.3 or 1.2.3rc1")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    if f"## [{version}]" in text:
        raise NotReady(f"CHANGELOG.md has {version} already")
    if not section(text, "Unreleased"):
        raise NotReady("CHANGELOG.md has nothing under [Unreleased]")
    new = text.replace(_UNRELEASED, f"{_UNRELEASED}\n\n## [{version}] - {today.isoformat()}", 1)
    _replace(root / "pyproject.toml", r'(?m)^version = ".*"$', f'version = "{version}"')
    _replace(root / "yak" / "version.py", r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"')
    _replace(root / "packaging/devcontainer/devcontainer-feature.json", r'"version": ".*"', f'"version": "{version}"')
    changelog.write_text(new)


def check(root: Path, tag: str | None) -> str:
    """The version, if a release of it would be right. Raises `NotReady`."""
    with (root / "pyproject.toml").open("rb") as file:
        version = str(tomllib.load(file)["project"]["version"])
    if f'__version__ = "{version}"' not in (root / "yak" / "version.py").read_text():
        raise NotReady(f"pyproject.toml says {version}, yak/version.py does not")
    if tag is not None and tag != f"v{version}":
        raise NotReady(f"the tag is {tag}, the version {version}: it should be v{version}")
    text = (root / "CHANGELOG.md").read_text()
    if not re.search(rf"(?m)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text):
        raise NotReady(f"CHANGELOG.md has no section [{version}] with a date")
    notes(text, version)
    if section(text, "Unreleased"):
        raise NotReady("CHANGELOG.md has news under [Unreleased]: they belong to the release")
    command = ["git", "status", "--porcelain"]
    changed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    if changed:
        raise NotReady(f"there are uncommitted changes:\n{changed.rstrip()}")
    return version


def notes(changelog: str, version: str) -> str:
    """The text of a release's page. Raises `NotReady`."""
    found = section(changelog, version)
    if not found:
        raise NotReady(f"CHANGELOG.md says nothing about {version}")
    if len(found) > _MAX_NOTES_CHARS:
        raise NotReady(
            f"CHANGELOG.md has {len(found):,} characters about {version}: "
            f"the page of a release on GitHub holds at most {_MAX_NOTES_CHARS:,}; shorten the section"
        )
    return found


def with_links_to(text: str, folder: str) -> str:
    """The text with its links to files of the repository below the address of a folder: a release's page has no files."""
    return re.sub(r"\]\((?!https?:|#)", f"]({folder}/", text)


def section(changelog: str, name: str) -> str:
    """The text below a heading of the changelog; empty if there is none."""
    parts = re.split(r"(?m)^## \[([^\]]+)\].*$", changelog)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "").strip()


def add_urls(root: Path, url: str) -> None:
    """Name the repository in pyproject.toml. The sources do not: a fork publishes under its own address."""
    _address(url)
    table = {
        "Repository": url,
        "Documentation": f"{url}/tree/main/docs",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    lines = "".join(f'{name} = "{address}"\n' for name, address in table.items())
    _replace(root / "pyproject.toml", r"(?m)^\[project\.scripts\]$", f"[project.urls]\n{lines}\n[project.scripts]")


def _address(url: str) -> str:
    if not re.fullmatch(r"https://[^\s\"']+", url):
        raise NotReady(f"{url} is no address of a repository")
    return url


def _replace(path: Path, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, lambda _: new, path.read_text(), count=1)
    if not count:
        raise NotReady(f"{path.name} has no line {pattern}")
    path.write_text(text)


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one step; returns the exit code."""
    parser = argparse.ArgumentParser(description="The steps of a release that can be checked.")
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("prepare").add_argument("version")
    steps.add_parser("check").add_argument("tag", nargs="?")
    written = steps.add_parser("notes")
    written.add_argument("tag")
    written.add_argument("url", nargs="?")
    steps.add_parser("add-urls").add_argument("url")
    given = parser.parse_args(argv)
    try:
        if given.step == "prepare":
            prepare(root, given.version, dt.datetime.now(dt.UTC).date())
        elif given.step == "check":
            print(f"{check(root, given.tag)} can be released")
        elif given.step == "notes":
            text = notes((root / "CHANGELOG.md").read_text(), given.tag.removeprefix("v"))
            print(text if given.url is None else with_links_to(text, f"{_address(given.url)}/blob/{given.tag}"))
        else:
            add_urls(root, given.url)
    except NotReady as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
