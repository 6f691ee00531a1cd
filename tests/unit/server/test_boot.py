"""What a broker knows of its own start."""

from pathlib import Path

import pytest

from yak.config.broker_configs import BrokerConfig
from yak.server import boot
from yak.server.clock import Clock
from yak.server.disk import RealDisk
from yak.server.options import ServeOptions


def start(folder: Path, **options: object) -> tuple[boot.LoadedState, object]:
    given = ServeOptions(data_dirs=(str(folder),), **options)  # type: ignore[arg-type]
    config = BrokerConfig.from_settings(given.broker_settings())
    clock = Clock()
    opened = boot.open_data(RealDisk(), given, config, clock, lambda *_: None)
    try:
        return opened, boot.make_broker(opened, given, config, clock).identity
    finally:
        opened.log_store.release()


def test_kernel_boot_id_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("some-id\n")
    assert boot.kernel_boot_id(str(tmp_path / "boot_id")) == "some-id"
    assert boot.kernel_boot_id(str(tmp_path / "absent")) is None


def test_a_start_after_the_machine_went_down_is_registered_as_lossy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "first")
    opened, identity = start(tmp_path)
    assert not identity.lossy  # type: ignore[attr-defined]
    (tmp_path / "t-0").mkdir()
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "second")
    opened, identity = start(tmp_path)
    assert identity.lossy  # type: ignore[attr-defined]
    assert opened.log_store.report.lossy


def test_rack_is_part_of_the_broker_identity(tmp_path: Path) -> None:
    _, identity = start(tmp_path, rack="zone-a", role="follower")
    assert (identity.rack, identity.role) == ("zone-a", "follower")  # type: ignore[attr-defined]
