"""The README's picture and its last lines are of one run, name nobody, and load nothing."""

import html
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
PICTURES = [ROOT / "docs" / "images" / f"demo-{name}.svg" for name in ("light", "dark")]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_picture", ROOT / "docs" / "make_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(picture: str) -> list[str]:
    texts = re.findall(r'<text class="yak-r\d+"[^>]*>([^<]*)</text>', picture)
    return [word for text in texts for word in html.unescape(text).replace("\N{NO-BREAK SPACE}", " ").split()]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_picture_shows_the_run_whose_output_is_stored_beside_it(path: Path, maker: ModuleType) -> None:
    transcript = maker.TRANSCRIPT.read_text(encoding="utf-8")
    story = transcript[: transcript.index("\nWhat to type next")]
    assert words(path.read_text(encoding="utf-8")) == ["$", "make", "demo", *story.split()]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_the_picture_is_small_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert "url(http" not in text
    assert "@font-face" not in text


def test_readme_shows_the_result_of_the_recorded_run(maker: ModuleType) -> None:
    readme = maker.README.read_text(encoding="utf-8")
    shown = maker.block(maker.TRANSCRIPT.read_text(encoding="utf-8"))
    assert maker.with_block(readme, shown) == readme, "run: make picture"
    assert "lost 0, duplicated 0" in shown
    assert "lost 0, committed and read again 0" in shown


def test_the_recording_is_of_that_run_and_plays_in_its_time(maker: ModuleType) -> None:
    head, *events = map(json.loads, maker.RECORDING.read_text(encoding="utf-8").splitlines())
    assert (head["version"], head["width"]) == (2, maker.COLUMNS)
    assert {kind for _, kind, _ in events} == {"o"}
    times = [seconds for seconds, _, _ in events]
    assert times == sorted(times)
    assert times[-1] > 1
    output = maker.joined([(seconds, text) for seconds, _, text in events])
    assert maker.TRANSCRIPT.read_text(encoding="utf-8").startswith(maker.plain(output))
    assert "/tmp/" not in output


def test_demo_transcript_and_pictures_contain_no_local_path(maker: ModuleType) -> None:
    text = maker.TRANSCRIPT.read_text(encoding="utf-8") + "".join(path.read_text("utf-8") for path in PICTURES)
    assert re.findall(r"/(?:home|root|Users|tmp|work)/\S*", text) == []


def test_the_first_screen_of_the_readme_fits_a_terminal(maker: ModuleType) -> None:
    screen = maker.README.read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    assert len(screen) <= 40
    assert [line for line in screen if len(line) > 80] == []


def test_picture_has_the_first_of_several_scenarios_and_the_readme_every_result(maker: ModuleType) -> None:
    first = "told\n\nOK    there\n      acked 1, lost 0\n      start 3 ms\n      from the kill of the leader 2 ms\n\n"
    second = "told too\n\nOK    read\n      acked 7, lost 0\n      start 4 ms\n\n"
    output = f"{first}\x1b[1mWhat to type next\x1b[0m\n  yak up\n\n{second}\x1b[1mWhat to type next\x1b[0m\n  yak up\n"
    assert maker.until_verdict(output) == first.rstrip("\n").splitlines()
    shown = maker.block(f"{maker.plain(output)}\nYAK 1.0: a machine\n")
    assert shown.startswith(
        "```text\nOK    there\n      acked 1, lost 0\n      from the kill of the leader 2 ms\n"
        "OK    read\n      acked 7, lost 0\n```\n"
    )
    assert "of YAK 1.0, made by `make picture`, on\na machine.)" in shown


def test_colours_and_blanks_become_a_picture(maker: ModuleType) -> None:
    output = "\x1b[1;32mOK\x1b[0m    there\n      acked 1\n\nWhat to type next\n  yak up\n"
    assert maker.plain(output).splitlines()[:2] == ["OK    there", "      acked 1"]
    picture = maker.svg(output, maker.THEMES["dark"])
    assert words(picture) == ["$", "make", "demo", "OK", "there", "acked", "1"]
    assert re.search(r'x="73\.2"[^>]*>acked', picture)
