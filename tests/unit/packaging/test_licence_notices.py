"""packaging/notices.py: the licences of what the executable carries."""

from pathlib import Path

from tests.programs import load_program

ROOT = Path(__file__).resolve().parents[3]


def test_notices_name_the_requirements_of_the_terminal_ui_too() -> None:
    notices = load_program(ROOT / "packaging" / "notices.py")
    names = {dist.name.lower() for dist in notices.bundled()}
    assert names >= {"trio", "textual", "linkify-it-py", "httpx", "textual-serve", "aiohttp", "yarl"}
    assert not names & {"yak-broker", "pyspark", "pytest"}
