"""`yak up` that is interrupted while a broker starts, or refused before."""

import os
import signal

from yak.commands.main import run
from yak.errors import YakError
from yak.local.cluster import LocalCluster


def test_a_ctrl_c_that_ends_a_broker_during_the_start_is_no_error_of_the_broker(monkeypatch, tmp_path, capsys):
    def up(self, settings):
        os.kill(os.getpid(), signal.SIGINT)
        raise YakError("broker-ended", "node 1 ended before it was ready (signal 2)")

    monkeypatch.setattr(LocalCluster, "up", up)
    assert run(["up", "--data-dir", str(tmp_path / "data")]) == 130
    assert "broker-ended" not in capsys.readouterr().err


def test_refused_seed_topic_of_an_ephemeral_cluster_leaves_no_folder(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["up", "--ephemeral", "--seed-topic", "orders:none"]) == 2
    assert "bad-seed-topic" in capsys.readouterr().err
    assert list(tmp_path.glob("yak-*")) == []
