"""What the command tests share: a clean environment, golden files, and a way to run a command in this process."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from yak.commands import main as program

GOLDEN = Path(__file__).parent / "golden"


@dataclass
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No settings from outside, and an empty folder to stand in."""
    for name in list(os.environ):
        if name.startswith("YAK_") and name != "YAK_UPDATE_GOLDEN":
            monkeypatch.delenv(name)
    for name in (
        "BROKER_ID", "REDIS_HOST", "REDIS_PORT", "LEASE_TIME_SECONDS", "RENEW_INTERVAL_SECONDS", "FORCE_COLOR",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def yak(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `yak WORDS…` in this process."""
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*args: str) -> Ran:
        capfdbinary.readouterr()
        code = program.run(list(args))
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare with a golden file; YAK_UPDATE_GOLDEN=1 writes it instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("YAK_UPDATE_GOLDEN") or not path.exists():
            assert os.environ.get("YAK_UPDATE_GOLDEN"), f"{path} is missing; YAK_UPDATE_GOLDEN=1 writes it"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} changed; YAK_UPDATE_GOLDEN=1 accepts it"

    return check
