"""The site: it builds offline without a warning, its links lead somewhere, and it loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOADED = {("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src"), ("form", "action")}
"""Attributes whose address a browser fetches by itself; so does it for those of `link`, except for canonical ones."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def hooks() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import site_hooks

        yield site_hooks
    finally:
        sys.path.remove(str(ROOT / "docs"))


class Page(HTMLParser):
    """The ids of an HTML page, what it links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") != "canonical":
            self.loads.append(values["href"])
        self.loads += [values[name] for name in values if (tag, name) in LOADED]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_site_loads_no_resource_from_another_host(pages: dict[Path, Page], site: Path) -> None:
    assert len(pages) > 80
    foreign = {address for page in pages.values() for address in page.loads if re.match(r"(https?:)?//", address)}
    assert foreign == set()
    sheets = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert sheets
    assert [found for text in sheets for found in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", text)] == []


def test_site_links_and_anchors_all_have_a_target(pages: dict[Path, Page], site: Path) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses are those of a site at the root of a host
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_no_block_and_no_table_is_left_as_text(site: Path) -> None:
    raw = re.compile(r"<p>(?:```|\|.*\||(?:[-*]|\d+\.) )")
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert [path.relative_to(site) for path, text in texts.items() if raw.search(text) or "```" in text] == []


def test_marks_for_tests_are_not_in_the_pages(site: Path) -> None:
    text = (site / "tutorial" / "index.md").read_text(encoding="utf-8")
    assert "yak up -d --brokers 3" in text
    assert "<!--" not in text


def test_llms_txt_names_every_page_and_its_markdown(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# YAK\n\n> A replicated, Kafka-compatible log broker")
    linked = re.findall(r"^- \[.+?\]\((.+?)\)", text, re.MULTILINE)
    assert [page for page in linked if not (site / page).is_file()] == []
    made = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    assert made - set(linked) == {"index.md"}
    assert {"## Tutorial", "## How-to", "## Reference", "## Explanation"} <= set(text.splitlines())


def test_first_page_is_the_readme_with_the_sites_links(site: Path) -> None:
    text = (site / "index.md").read_text(encoding="utf-8")
    assert "](testing.md)" in text
    assert "[MIT](LICENSE.md)" in text
    assert 'src="images/demo-light.svg"' in text
    assert re.findall(r"""(?:\]\(|["' ])docs/[^)"']*""", re.sub(r"`[^`]*`|\[[^]]*\]", "", text)) == []


@pytest.mark.parametrize(
    ("page", "link", "made"),
    [
        ("index.md", "[t](docs/testing.md#x)", "[t](testing.md#x)"),
        ("CONTRIBUTING.md", "[c](CHANGELOG.md)", "[c](CHANGELOG.md)"),
        ("http.md", "[g](../packaging/grafana/README.md)", "g"),
        ("http.md", "[r](../README.md)", "[r](index.md)"),
        ("adr/0002-x.md", "[k](../kafka-apis.md)", "[k](../kafka-apis.md)"),
        ("http.md", "[h](https://a.example/x)", "[h](https://a.example/x)"),
        ("http.md", "[gone](../nosuch.md)", "[gone](../nosuch.md)"),
        ("http.md", "![i](images/a.svg)", "![i](images/a.svg)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(hooks: ModuleType, page: str, link: str, made: str) -> None:
    assert hooks.repository_links(link, page) == made


def test_list_items_get_indents_of_four(hooks: ModuleType) -> None:
    text = "1. a\n\n   ```sh\n   b \\\n     c\n   ```\n\n   d\n- e\n  - f\n```text\n  kept\n```\n"
    made = "1. a\n\n    ```sh\n    b \\\n      c\n    ```\n\n    d\n- e\n    - f\n```text\n  kept\n```\n"
    assert hooks.list_indents(text) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# A\n\nOne [two](b.md), **three**. Four.\n", "One two, three."),
        ("# A\n\n| a |\n| --- |\n\n`yak` is: that\n", "`yak` is"),
        ("# A\n\n| a |\n", ""),
    ],
)
def test_a_page_is_described_by_its_first_sentence(hooks: ModuleType, text: str, said: str) -> None:
    assert hooks.description(text) == said
