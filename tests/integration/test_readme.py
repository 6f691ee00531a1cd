"""Every command and every line of Python that the README shows, run as written, in its order, in one empty folder."""

import re
import shlex

import pytest
from support import doc_page
from support.doc_page import ROOT, Block, Reader

README = ROOT / "README.md"
BUILDS = re.compile(r"^(?:make |\. \.venv/)")
"""Lines that install or build, and the one that follows them: these have tests of their own, or are the whole of CI."""


def blocks() -> list[Block]:
    return doc_page.blocks(README)


def test_every_block_works_as_written_and_in_this_order(reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    printed: dict[str, str] = {}
    for block in blocks():
        if block.language not in {"sh", "python"}:
            continue
        if all(BUILDS.match(line) for line in block.commands):
            with capsys.disabled():
                print(f"\nREADME.md:{block.line} is not run, it installs or builds: {'; '.join(block.commands)}")
            continue
        printed[block.commands[0]] = reader.type(README, block)
    tour = next(text for command, text in printed.items() if command.startswith("yak up -d"))
    assert "OUT OF SYNC" not in tour
    assert "first acknowledged write" in tour
    assert re.findall(r'"key": "u1", "value": "{\\"total\\": (\d+)}"', tour) == ["12", "30"]
    after = next(text for command, text in printed.items() if re.match("yak consume (?!.*--group)", command))
    assert '{"total": 7}' in after
    assert "u2" in after


def test_no_block_mixes_what_is_run_with_what_is_not() -> None:
    mixed = [
        block.line
        for block in blocks()
        if block.language == "sh" and len({bool(BUILDS.match(line)) for line in block.commands}) != 1
    ]
    assert mixed == []


def test_every_make_target_that_the_readme_names_is_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)`", text))
    named |= {shlex.split(line)[1] for block in blocks() for line in block.commands if line.startswith("make ")}
    known = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named - known == set()


def test_every_language_of_a_readme_block_is_one_that_is_checked() -> None:
    assert {block.language for block in blocks()} <= {"sh", "python", "text"}


def test_the_settings_table_is_the_programs() -> None:
    from yak.commands.settings import SETTINGS

    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`YAK_.*?) \| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    known = {setting.variable: setting for setting in SETTINGS}
    assert rows
    for variables, aliases, flags, defaults in rows:
        for variable, flag in zip(re.findall(r"`(.*?)`", variables), re.findall(r"`(.*?)`", flags), strict=True):
            setting = known[variable]
            assert flag == setting.flag
            assert set(re.findall(r"`(.*?)`", aliases)) == set(setting.aliases)
            default = setting.default
            assert default in (None, "") or (f"{default:g}" if isinstance(default, float) else str(default)) in defaults
