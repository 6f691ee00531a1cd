"""`yak ui --web` itself, on a cluster that runs, in headless Chromium: every screen is clicked on and read."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import running_cluster
from yak.local.cluster import UpSettings
from yak.tui.keys import SCREENS

BY_DIGIT = sorted((entry for entry in SCREENS if entry.digit), key=lambda entry: "1234567890".index(entry.digit))


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = UpSettings(port=0, brokers=1, ephemeral=True)
    with running_cluster(tmp_path_factory.mktemp("cluster") / "data", settings) as cluster:
        yield cluster.status().bootstrap


class YakUi:
    """`yak ui WORDS` as a process; `told` is what it wrote on its standard error."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "yak.commands", "ui", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)},
        )
        assert self.process.stderr is not None
        self.output = ""
        while not (found := re.search(r"http://\S+", self.output)):
            line = self.process.stderr.readline()
            assert line, self.output
            self.output += line
        self.address = found[0]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        self.output += self.process.stderr.read()
        return self.process.wait(20)


@pytest.fixture
def ui(bootstrap: str, tmp_path: Path) -> Iterator[YakUi]:
    started = YakUi("--web", "--port", "0", "-b", bootstrap, folder=tmp_path)
    yield started
    started.stop()


def test_a_visitor_clicks_through_the_screens(ui, visit):
    visited = visit(ui.address, width=1280)
    visited.see("1/1 up")
    assert len(BY_DIGIT) > 1
    for entry in [*BY_DIGIT[1:], BY_DIGIT[0]]:
        visited.click(f"{entry.digit} {entry.label}")
        visited.see(re.compile(rf"{entry.digit} {entry.label}\s+▶"))
    visited.page.keyboard.press("?")
    visited.see("Keys of dashboard")
    assert visited.complaints == []


def test_a_csv_that_is_uploaded_is_chosen_in_the_producer(ui, visit):
    visited = visit(ui.address, width=1280)
    visited.see("1/1 up")
    rows = {"name": "orders.csv", "mimeType": "text/csv", "buffer": b"user,total\nu-1,12\nu-2,34\n"}
    visited.page.set_input_files("#file", files=[rows])
    visited.see("orders.csv is uploaded")
    visited.click("4 Producer")
    visited.click("CSV file")
    visited.page.keyboard.press("f")
    visited.see("Choose a CSV file")
    visited.page.set_input_files("#file", files=[{**rows, "name": "second.csv"}])
    visited.see(re.compile(r"second\.csv\s+25 B"))
    visited.page.keyboard.press("Enter")  # the cursor stands on what came last
    visited.miss("Choose a CSV file")
    visited.see("u-2")
    assert "second.csv" in visited.page.locator("#terminal").inner_text()
    visited.miss("orders.csv")  # also in the notice of its upload, which goes after a while


def test_ctrl_c_ends_yak_ui_and_its_tabs_without_further_output(ui, visit):
    visited = visit(ui.address, width=1280)
    visited.see("1/1 up")
    assert ui.stop() == 0
    visited.page.locator("#ended").filter(has_text="yak ui was stopped.").wait_for()
    assert ui.output.splitlines() == [f"open    {ui.address}", "Ctrl+C stops it and ends its tabs"]


def test_leaving_the_app_ends_the_session(ui, visit):
    visited = visit(ui.address, width=1280)
    visited.see("1/1 up")
    visited.page.keyboard.press("Q")
    visited.page.locator("#ended").filter(has_text="You left the UI.").wait_for()


def test_command_line_options_apply_to_each_browser_tab(bootstrap, tmp_path, visit):
    arguments = ("--web", "--port", "0", "-b", bootstrap, "--readonly", "--ascii", "--token", "s3cret", "activity")
    started = YakUi(*arguments, folder=tmp_path)
    try:
        for _ in range(2):
            visited = visit(started.address, width=1280)
            visited.see("[up] 1/1 up")
            visited.see(re.compile(r"0 Activity\s+>"))
            assert "●" not in visited.page.locator("#terminal").inner_text()
            assert visited.page.request.post(started.address.partition("/?")[0] + "/upload", data="a").status == 403
    finally:
        started.stop()


def test_a_demo_is_one_cluster_for_all_tabs_and_goes_with_the_server(tmp_path, visit):
    started = YakUi("--web", "--demo", "--port", "0", folder=tmp_path)
    try:
        for _ in range(2):
            visit(started.address, width=1280).see("3/3 up")
        assert len(list(tmp_path.glob("yak-ui-demo-*"))) == 1
    finally:
        assert started.stop() == 0
    assert list(tmp_path.glob("yak-ui-*")) == []
    assert "making topics" in started.output
