"""packaging/manual.py: a man page for every command with every option, and completions that the shells can read."""

import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import load_program
from yak.commands import registry
from yak.commands.tree import command_tree

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def manual() -> ModuleType:
    return load_program(ROOT / "packaging" / "manual.py")


@pytest.fixture(scope="module")
def share(manual: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share")
    assert manual.main(["--out", str(folder)]) == 0
    return folder


def test_every_command_has_a_page_that_names_its_options(share: Path) -> None:
    for command in command_tree():
        text = (share / "man" / "man1" / f"yak-{command['name']}.1").read_text().replace("\\-", "-")
        for each in command.get("commands", [command]):
            options = [name for one in each["parameters"] for name in one["names"] if one["kind"] == "option"]
            missing = [name for name in options if not re.search(rf"^\.B .*{re.escape(name)}\b", text, re.MULTILINE)]
            assert missing == [], each["name"]
    first = (share / "man" / "man1" / "yak.1").read_text()
    assert [entry.name for entry in registry.ENTRIES if f"yak\\-{entry.name} (1)" not in first] == []


def test_synopsis_of_a_command_has_its_own_arguments(share: Path) -> None:
    text = (share / "man" / "man1" / "yak-isr.1").read_text()
    synopsis = text.partition(".SH SYNOPSIS\n")[2].partition(".SH DESCRIPTION")[0]
    assert synopsis == ".B yak isr\n[OPTIONS] [TOPIC]\n"
    assert text.count("[TOPIC]") == 1


def test_values_of_options_are_named_as_in_their_help(share: Path) -> None:
    text = (share / "man" / "man1" / "yak-produce.1").read_text().replace("\\-", "-")
    assert ".B -m, --message TEXT\n" in text
    assert ".B -p, --partition N\n" in text
    pages = (share / "man" / "man1").iterdir()
    assert [page.name for page in pages if re.search(r"<(list\[)?(str|int|float)", page.read_text())] == []


def test_text_in_a_page_cannot_be_a_command_of_roff(manual: ModuleType) -> None:
    assert manual.escaped(".so file\n'b\\x -p …") == "\\&.so file\n\\(aqb\\ex \\-p \\[u2026]"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_formats_every_page_without_a_warning(share: Path) -> None:
    pages = [str(path) for path in sorted((share / "man" / "man1").iterdir())]
    ran = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", *pages], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_its_shell_reads(manual: ModuleType, share: Path, shell: str) -> None:
    script = share / manual.COMPLETIONS[shell]
    assert "_YAK_COMPLETE=complete_" + shell in script.read_text()
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(script)], check=True)
