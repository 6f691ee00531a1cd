"""What mkdocs adds to docs/ when it builds the site: the reference, the pages at the top of the repository, llms.txt.

mkdocs calls the functions `on_*` (mkdocs.org/dev-guide/plugins, "Events"); mkdocs.yml names this file.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import generate_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

from yak.commands import registry

ROOT = Path(__file__).resolve().parent.parent
FROM_TOP = {"index.md": "README.md", "LICENSE.md": "LICENSE"} | {
    name: name for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
}
"""Pages of the site that are files at the top of the repository."""
_AT_TOP = {source: page for page, source in FROM_TOP.items()}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCE_OPTIONS = re.compile(r"^( *```\w+) .+$", re.MULTILINE)
_MARK = re.compile(r"^ *<!-- (?:not )?run\b.*? -->\n", re.MULTILINE | re.DOTALL)


class Build:
    """What a build has made so far: the Markdown of each page by its path, and the navigation."""

    def __init__(self) -> None:
        self.markdown: dict[str, str] = {}
        self.nav = Navigation([], [])


build = Build()


def repository_links(text: str, page: str) -> str:
    """Links between files of the repository as links of the site; `page` is the text's page.

    A link to a file that is no page becomes its plain text. Images need no change: only README's are at another place.
    """
    folder = "" if page in FROM_TOP else posixpath.join("docs", posixpath.dirname(page))

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:") or page.startswith(f"{generate_reference.FOLDER}/"):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in _AT_TOP:
            path = f"docs/{_AT_TOP[path]}"
        if not path.startswith("docs/") or (ROOT / path).is_dir():
            return words if (ROOT / path).exists() else found[0]
        relative = posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(page) or ".")
        return f"[{words}]({relative}{anchor})"

    text = _LINK.sub(link, text)
    return text.replace('"docs/images/', '"images/') if page == "index.md" else text


def list_indents(text: str) -> str:
    """The indents of list items in steps of four, as Python-Markdown needs them; GitHub takes two and three as well."""
    lines, fence = [], None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if fence is None:
            added = -indent % 4
            if line.lstrip().startswith("```"):
                fence = indent, added
        else:
            added = fence[1]
            if line.strip() == "```" and indent == fence[0]:
                fence = None
        lines.append(" " * added + line if line.strip() else line)
    return "\n".join(lines)


def with_children(nav: Any) -> Any:
    """The navigation of mkdocs.yml with a page below `Commands` for each command, and below `Decisions` for each ADR."""
    if isinstance(nav, list):
        return [with_children(each) for each in nav]
    if isinstance(nav, dict):
        below = {
            "Commands": [f"{generate_reference.FOLDER}/commands/{each.name}.md" for each in registry.ENTRIES],
            "Decisions": [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))],
        }
        return {name: [value, *below[name]] if name in below else with_children(value) for name, value in nav.items()}
    return nav


def description(markdown: str) -> str:
    """The first sentence below a page's title, without its marks."""
    below = re.sub(r"\A\s*# .*\n", "", markdown)
    prose = (part for part in below.split("\n\n") if re.match(r"\**[A-Za-z`\[]", part.strip()))
    text = " ".join(_LINK.sub(r"\1", next(prose, "")).replace("**", "").split())
    return re.split(r"(?<=[.:])\s", text, maxsplit=1)[0].rstrip(":")


def llms_lines(done: Build, name: str, what: str) -> Iterator[str]:
    """llms.txt (llmstxt.org): the site's name, what it is, and each page's Markdown by section of the navigation."""
    yield from (f"# {name}", "", f"> {what}", "")
    for item in done.nav.items:
        if isinstance(item, Section):
            yield from (f"## {item.title}", "", *_page_lines(item, done.markdown), "")


def _page_lines(section: Section, markdown: Mapping[str, str]) -> Iterator[str]:
    for item in section.children:
        if isinstance(item, Section):
            yield from _page_lines(item, markdown)
        elif isinstance(item, Page):
            said = description(markdown[item.file.src_uri])
            yield f"- [{item.title}]({item.file.src_uri})" + (f": {said}" if said else "")


# ----------------------------------------------------------------------------------------------------- mkdocs' events


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation."""
    build.markdown.clear()
    config.nav = with_children(config.nav)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    texts = generate_reference.pages()
    texts |= {page: (ROOT / source).read_text(encoding="utf-8") for page, source in FROM_TOP.items()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - theirs
    """Turn the repository's links into the site's, and drop what marks blocks for the tests that run them."""
    text = _MARK.sub("", repository_links(markdown, page.file.src_uri))
    build.markdown[page.file.src_uri] = text
    return list_indents(_FENCE_OPTIONS.sub(r"\1", text))


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001 - theirs
    """Keep the navigation for llms.txt."""
    build.nav = nav
    return nav


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write llms.txt, and the Markdown of each page, which it names."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(
        "\n".join(llms_lines(build, config.site_name, config.site_description or "")), "utf-8"
    )
    for page, text in build.markdown.items():
        (site / page).parent.mkdir(parents=True, exist_ok=True)
        (site / page).write_text(text, "utf-8")
