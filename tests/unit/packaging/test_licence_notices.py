"""packaging/notices.py: the licences of what the executable carries."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_notices_name_the_requirements_of_the_terminal_ui_too() -> None:
    spec = importlib.util.spec_from_file_location("yak_packaging_notices", ROOT / "packaging" / "notices.py")
    assert spec is not None
    assert spec.loader is not None
    notices = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notices)
    names = {dist.name.lower() for dist in notices.bundled()}
    assert names >= {"trio", "textual", "linkify-it-py", "httpx", "textual-serve", "aiohttp", "yarl"}
    assert not names & {"yak-broker", "pyspark", "pytest"}
