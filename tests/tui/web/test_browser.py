"""The page in a real browser: headless Chromium, driven by Playwright, reads the screen as a screen reader would."""

import re
from pathlib import Path

import pytest

SCREEN = ".xterm-accessibility-tree"


def test_page_requests_only_its_own_server(web, visit):
    server = web(token="s3cret")
    visited = visit(server.address)
    visited.see("tiny app is here")
    visited.see("the page is looked at")
    for place, text in (("meadow", "green grass grows"), ("river", "cold water runs"), ("stable", "warm hay lies")):
        visited.click(place)
        visited.see(text)
    assert [url for url in visited.requests if re.sub(r"^ws", "http", url).split("/")[2] != server.host] == []
    assert any(url.startswith("ws://") for url in visited.requests)
    assert visited.complaints == []
    assert visited.page.url == f"{server.url}/?reader=1"  # the token is gone from what is copied and remembered


def test_ctrl_v_pastes_from_the_browsers_clipboard(web, visit):
    visited = visit(web().address)
    visited.see("tiny app is here")
    visited.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visited.page.evaluate("navigator.clipboard.writeText('some words')")
    visited.page.keyboard.press("Control+v")
    visited.see("pasted 10")


def test_the_terminal_is_drawn_in_our_font_and_fills_the_page(web, visit):
    visited = visit(web().address)
    visited.see("tiny app is here")
    visited.page.wait_for_function("document.body.classList.contains('-first-byte')")
    assert visited.page.evaluate("document.fonts.check(\"16px 'Roboto Mono'\")")
    assert not visited.page.locator("#starting").is_visible()
    box, bar = visited.page.locator("#terminal").bounding_box(), visited.page.locator("#bar").bounding_box()
    assert (box["width"], box["height"] + bar["height"]) == (1000, 600)
    found = visited.page.locator(SCREEN).filter(has_text=re.compile(r"size \d+x\d+")).inner_text()
    columns, rows = map(int, re.search(r"size (\d+)x(\d+)", found).groups())
    assert columns > 100
    assert rows == visited.page.locator(f"{SCREEN} > div").count() > 25


def test_background_of_the_theme_fills_the_page_around_the_cells(web, visit):
    from playwright.sync_api import expect

    visited = visit(web().address)
    visited.see("tiny app is here")
    around = visited.page.locator(".xterm-viewport")
    assert around.bounding_box() == visited.page.locator("#terminal").bounding_box()
    for key, background in (("", "rgb(18, 18, 18)"), ("l", "rgb(224, 224, 224)"), ("a", "rgb(0, 0, 0)")):
        if key:
            visited.page.keyboard.press(key)
        expect(around).to_have_css("background-color", background, timeout=20_000)


def test_a_csv_is_uploaded_by_the_button_and_by_a_drop(web, visit):
    server = web()
    visited = visit(server.address)
    visited.see("tiny app is here")
    with visited.page.expect_file_chooser() as chooser:
        visited.page.click("#attach")
    chooser.value.set_files(files=[{"name": "orders.csv", "mimeType": "text/csv", "buffer": b"id,total\n1,2\n"}])
    visited.page.locator("#said").filter(
        has_text="orders.csv is uploaded (13 B): choose it in the Producer (key f)"
    ).wait_for()
    visited.see("came orders.csv")
    dropped = visited.page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.items.add(new File(['a,b\\n'], 'dropped.csv')); return t; }"
    )
    visited.page.dispatch_event("#terminal", "dragenter", {"dataTransfer": dropped})
    visited.page.locator("#drop").wait_for(state="visible")
    visited.page.dispatch_event("#terminal", "drop", {"dataTransfer": dropped})
    visited.see("came dropped.csv")
    assert not visited.page.locator("#drop").is_visible()
    (directory,) = server.upload_directories()
    assert {path.name: path.read_text() for path in directory.iterdir()} == {
        "orders.csv": "id,total\n1,2\n",
        "dropped.csv": "a,b\n",
    }
    visited.page.keyboard.press("u")  # the terminal has the keyboard again
    visited.see("dropped.csv=4")


def test_too_large_upload_shows_the_reason(web, visit, tmp_path):
    visited = visit(web().address)
    visited.see("tiny app is here")
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    visited.page.set_input_files("#file", large)
    visited.page.locator("#said").filter(has_text="large.csv is not uploaded: a file may have 64 MiB").wait_for()


def test_an_export_is_saved_as_a_file(web, visit):
    visited = visit(web().address)
    visited.see("tiny app is here")
    with visited.page.expect_download() as download:  # begins to listen; the file may be there before the next line
        visited.page.keyboard.press("x")
        visited.see("exported")
    assert download.value.suggested_filename.endswith("äxport.csv")
    assert Path(download.value.path()).read_text() == "line\n" * 50_000


def test_ended_page_has_the_reason_and_reload_starts_again(web, visit):
    visited = visit(web(token="s3cret").address)
    visited.see("tiny app is here")
    visited.page.keyboard.press("f")
    said = visited.page.locator("#ended")
    said.wait_for(state="visible")
    assert "Session ended" in said.inner_text()
    assert "error[tiny]: the tiny app failed" in said.inner_text()
    visited.page.keyboard.press("Enter")  # the button to reload has the keyboard
    visited.see("tiny app is here")
    assert not said.is_visible()


@pytest.mark.parametrize(
    ("how", "text"), [("terminate", "yak ui was stopped."), ("kill", "The connection to yak ui is lost.")]
)
def test_a_server_that_ends_is_said_in_the_page(web, visit, how, text):
    server = web()
    visited = visit(server.address)
    visited.see("tiny app is here")
    getattr(server.process, how)()
    said = visited.page.locator("#ended")
    said.wait_for(state="visible")
    assert text in said.inner_text()


def test_without_the_token_a_visitor_reads_what_is_missing(web, visit):
    server = web(token="s3cret")
    visited = visit(server.url + "/")
    assert "This needs the token." in visited.page.locator("body").inner_text()
