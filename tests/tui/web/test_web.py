"""The server of `yak ui --web` as a browser meets it, with aiohttp in the browser's place and a tiny app in YAK's."""

import asyncio
import os
import re
import signal
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from tests.tui.web.conftest import WebServer, open_tab
from yak.security.certificates import create_certificates
from yak.tui.web import server as server_module
from yak.tui.web.options import WebOptions

FETCHED = {
    "html": r"""(?:src|href|action|data-[\w-]*url)\s*=\s*["']?([^"'\s>]+)""",
    "css": r"""(?:url\(\s*["']?|@import\s+["'])([^"')]+)""",
    "javascript": r"""["'`]((?:(?:https?|wss?):)?//[\w-]+\.[^"'`]+)""",
}


def named_files(content_type: str, text: str) -> list[str]:
    """What a browser would fetch for this text; in a script, every address of another host that stands in a string."""
    kind = next(name for name in FETCHED if name in content_type)
    return re.findall(FETCHED[kind], re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) if kind == "css" else text)


def is_foreign(address: str) -> bool:
    return re.match(r"(?:[a-z]+:)?//", address) is not None


async def crawl(session: aiohttp.ClientSession, url: str) -> tuple[set[str], set[str]]:
    """Every path that the page leads to, and every foreign address that stands where one would be fetched."""
    waiting, seen, foreign = ["/"], set(), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        async with session.get(url + path) as answer:
            assert answer.status == 200, path
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if answer.content_type.startswith("text/"):
                for name in named_files(answer.content_type, await answer.text()):
                    (foreign.add if is_foreign(name) else waiting.append)(name)
            else:
                assert await answer.read()
    return seen, foreign


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to hold")


def given_to(pid: int) -> list[list[str]]:
    """The environment and the arguments of a process."""
    return [Path(f"/proc/{pid}/{name}").read_bytes().decode().split("\0") for name in ("environ", "cmdline")]


# ------------------------------------------------------------------------------------------------------------ the page


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("text/html", '<link rel="stylesheet" href="https://fonts.googleapis.com/css?family=Roboto%20Mono">'),
        ("text/html", "<script src=//cdn.example.org/x.js></script>"),
        ("text/css", "@import 'https://example.org/x.css';"),
        ("text/css", "a { background: url(//example.org/x.png) }"),
        ("text/javascript", 'fetch("https://example.org/x")'),
        ("text/javascript", "new WebSocket('wss://example.org/')"),
    ],
)
def test_a_foreign_address_would_be_found(content_type, text):
    assert [name for name in named_files(content_type, text) if is_foreign(name)]


async def test_the_page_and_all_it_names_come_from_this_server(plain):
    async with aiohttp.ClientSession() as session:
        seen, foreign = await crawl(session, plain.url)
    assert foreign == set()
    assert {"/static/terminal/js/textual.js", "/static/yak/page.js", "/static/terminal/css/xterm.css"} <= seen
    assert [name for name in seen if name.endswith(".ttf")] != []


async def test_content_security_policy_allows_only_this_server(plain):
    async with aiohttp.ClientSession() as session, session.get(plain.url) as answer:
        headers = answer.headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == f"'self' ws://{plain.host} wss://{plain.host}"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "yak"


async def test_static_folders_are_not_listed_and_missing_files_are_404(plain):
    async with aiohttp.ClientSession() as session:
        for path in ("/static/yak/", "/static/terminal", "/static/yak/../server.py", "/nosuch"):
            async with session.get(plain.url + path) as answer:
                assert answer.status in (403, 404), path
        async with session.get(f"{plain.url}/nosuch", headers={"Accept": "text/html"}) as answer:
            content_type, text = answer.content_type, await answer.text()
    assert content_type == "text/html"
    assert "Not Found" in text


async def test_icon_has_the_path_that_browsers_request_without_a_page(plain):
    async with aiohttp.ClientSession() as session, session.get(f"{plain.url}/favicon.ico") as answer:
        found = answer.status, answer.content_type

    assert found == (200, "image/svg+xml")


# ------------------------------------------------------------------------------------------------------------ who may


async def test_with_a_token_nothing_is_given_without_it(web):
    server = web(token="s3cret")

    async with aiohttp.ClientSession() as session:
        for query in ("", "?token=", "?token=S3cret", "?token=s3cret%20"):
            for path in ("/", "/static/yak/page.js", "/static/terminal/js/textual.js", "/download/x", "/nosuch"):
                async with session.get(server.url + path + query) as answer:
                    assert answer.status == 401, path + query
                    assert "Set-Cookie" not in answer.headers
                    assert "s3cret" not in await answer.text()
            async with session.post(f"{server.url}/upload{query}", data=b"a") as answer:
                assert answer.status == 401
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{server.url}/ws{query}")
            assert refused.value.status == 401
    (directory,) = server.upload_directories()
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("host", [None, "evil.example"])
async def test_wrong_token_is_refused_late_also_under_another_host_name(web, host):
    server, now = web(token="s3cret"), asyncio.get_running_loop().time

    async with aiohttp.ClientSession(headers={} if host is None else {"Host": host}) as session:
        begun = now()
        async with session.get(f"{server.url}/?token=S3cret") as answer:
            assert answer.status == (401 if host is None else 421)
        assert now() - begun >= server_module.WRONG_TOKEN_SECONDS


async def test_the_token_comes_once_and_a_cookie_stands_for_it_afterwards(web, tab):
    server = web(token="s3cret")

    jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses, as browsers do
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(server.address) as answer:
            assert answer.status == 200
            (cookie,) = answer.headers.getall("Set-Cookie")
        for path in ("/", "/static/yak/page.js"):
            async with session.get(server.url + path) as answer:
                assert answer.status == 200
                assert "Set-Cookie" not in answer.headers
        async with session.post(f"{server.url}/upload?name=a.csv", data=b"a") as answer:
            assert answer.status == 201
        async with tab(session, server.url) as opened:
            await opened.begun()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "s3cret" not in cookie
    assert cookie.startswith(f"yak_ui_{server.host.rpartition(':')[2]}=")


async def test_a_cookie_of_another_run_is_not_taken(web):
    first, second = web(token="s3cret"), web(token="s3cret")

    async with aiohttp.ClientSession() as session:
        async with session.get(first.address) as answer:
            value = answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]
        cookie = f"yak_ui_{second.host.rpartition(':')[2]}={value}"
        async with session.get(second.url, headers={"Cookie": cookie}) as answer:
            found = answer.status

    assert found == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8090", 421),
        ("", 421),
        ("localhost:1", 200),
        ("192.168.7.7:8090", 200),
        ("[::1]:8090", 200),
        (os.uname().nodename, 200),
    ],
)
async def test_only_names_of_this_machine_are_answered(plain, host, status):
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/static/yak/page.js"):
            async with session.get(plain.url + path, headers={"Host": host}) as answer:
                assert answer.status == status, path


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
async def test_a_page_of_another_site_opens_no_tab_and_uploads_nothing(plain, origin):
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{plain.url}/ws", headers={"Origin": origin})
        async with session.post(f"{plain.url}/upload", data=b"a", headers={"Origin": origin}) as answer:
            found = refused.value.status, answer.status

    assert found == (403, 403)


async def test_our_own_page_may(plain, tab):
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{plain.url}/upload", data=b"a", headers={"Origin": plain.url}) as answer:
            assert answer.status == 201
        async with tab(session, plain.url, headers={"Origin": plain.url}) as opened:
            await opened.begun()


# ------------------------------------------------------------------------------------------------------------ sessions


async def test_a_tab_draws_takes_keys_clicks_and_pastes_and_ends_when_the_app_does(plain, tab, gone):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.socket.send_json(["focus"])
        pid = await opened.begun()
        await opened.see("the page is looked at")
        for row, text in ((5, "green grass grows"), (8, "cold water runs"), (11, "warm hay lies")):
            await opened.click(5, row)
            await opened.see(text)
        await opened.socket.send_json(["resize", {"width": 100, "height": 30}])
        await opened.see("size 100x30")
        await opened.type("\x1b[200~some\nlines\x1b[201~")
        await opened.see("pasted 10")
        await opened.socket.send_json(["ping", "7"])
        assert await opened.hear("pong") == "7"
        await opened.socket.send_json(["blur"])
        await opened.see("no focus")
        await opened.type("q")
        said = await opened.ended()
    assert said == {"reason": "You left the UI.", "detail": ""}
    assert gone(pid)


async def test_a_key_typed_right_after_escape_is_not_read_as_alt_and_that_key(plain, tab):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.begun()
        await opened.type("\x1b")
        await opened.type("u")
        found = await opened.see("files:")

    assert "left a field" in found


async def test_page_focus_is_repeated_after_the_start(plain, tab):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.socket.send_json(["focus"])
        await opened.begun()
        await opened.see("the page is looked at")
        await opened.type("u")
        found = await opened.see("files:")

    assert "no focus" not in found


async def test_a_size_that_no_screen_has_is_not_taken(plain, tab):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.begun()
        await opened.socket.send_json(["resize", {"width": 10**9, "height": -1}])
        await opened.see("size 1000x5")


async def test_an_app_that_fails_says_why_in_its_tab_and_in_the_terminal(web, tab):
    server = web()

    async with aiohttp.ClientSession() as session, tab(session, server.url) as opened:
        await opened.begun()
        await opened.type("f")
        found = await opened.ended()

    assert found == {
        "reason": "The UI ended by an error.",
        "detail": "error[tiny]: the tiny app failed\n  why:  it was told to",
    }
    assert "warning: a tab's UI said: error[tiny]: the tiny app failed" in server.stop()


async def test_a_command_that_is_no_app_says_why(web, tab):
    server = web(arguments=["--nothing"], program="nosuch.py")

    async with aiohttp.ClientSession() as session, tab(session, server.url) as opened:
        found = await opened.ended()

    assert found["reason"] == "The UI ended by an error."
    assert "nosuch.py" in server.stop()


@pytest.mark.parametrize("message", ["{", "7", '["nosuch"]', '["resize", {"width": "wide"}]', "[" * 100_000])
async def test_nonsense_ends_its_own_tab_only(plain, tab, gone, message):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as other:
        await other.begun()
        async with tab(session, plain.url) as opened:
            pid = await opened.begun()
            await opened.socket.send_str(message)
            said = await opened.ended()
        await other.click(5, 5)
        await other.see("green grass grows")
    assert said["reason"] == "The page sent an unknown message."
    assert gone(pid)


@pytest.mark.parametrize("arguments", [[], ["--deaf"]], ids=["well", "deaf"])
async def test_a_closed_tab_takes_its_process_along(web, tab, gone, arguments):
    server = web(arguments=arguments)

    async with aiohttp.ClientSession() as session, tab(session, server.url) as opened:
        pid = await opened.begun()
    assert gone(pid)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [([], signal.SIGINT), ([], signal.SIGTERM), ([], signal.SIGHUP), (["--deaf"], signal.SIGTERM)],
    ids=["int", "term", "hup", "deaf"],
)
async def test_a_signal_ends_the_server_its_tabs_and_their_processes_quietly(web, tab, gone, arguments, number):
    server = web(arguments=arguments)

    async with (
        aiohttp.ClientSession() as session,
        tab(session, server.url) as first,
        tab(session, server.url) as second,
        session.post(f"{server.url}/upload?name=a.csv", data=b"a") as answer,
    ):
        upload = Path((await answer.json())["path"])
        pids = [await each.begun() for each in (first, second)]
        server.process.send_signal(number)
        ends = [await each.hear("ended") for each in (first, second)]
        await asyncio.to_thread(server.process.wait, 20)
    assert [end["reason"] for end in ends] == ["yak ui was stopped."] * 2
    assert server.process.returncode == 0
    assert [gone(pid) for pid in pids] == [True, True]
    assert upload.parent.name.startswith("yak-ui-uploads-")
    assert not upload.parent.exists()
    assert "Traceback" not in server.stop()


async def test_a_killed_server_leaves_no_process_behind(web, tab, gone):
    server = web()

    async with aiohttp.ClientSession() as session, tab(session, server.url) as opened:
        pid = await opened.begun()
        server.process.kill()
        await asyncio.to_thread(server.process.wait, 20)
    assert gone(pid)


async def test_tab_beyond_the_limit_is_refused_with_the_reason(web, tab):
    server = web(sessions_max=1)

    async with aiohttp.ClientSession() as session:
        async with tab(session, server.url) as first:
            await first.begun()
            async with tab(session, server.url) as second:
                said = await second.ended()
            async with session.get(server.url, headers={"Accept": "text/html"}) as answer:
                status, text = answer.status, await answer.text()
        async with asyncio.timeout(20):
            while (await session.get(server.url)).status != 200:
                pass
        async with tab(session, server.url) as third:
            await third.begun()
    assert said["reason"] == "1 tabs are open, and more are not served."
    assert status == 503
    assert said["reason"] in text


# ------------------------------------------------------------------------------------------------------ files to and fro


async def test_upload_is_private_and_notifies_its_tab(plain, tab):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.begun()
        name = await opened.hear("instance_id")
        form = aiohttp.FormData(quote_fields=False)  # browsers do not
        form.add_field("note", "no file")
        form.add_field("file", b"a,b\n1,2\n", filename="../../etc/or ders.csv", content_type="text/csv")
        async with session.post(f"{plain.url}/upload?session={name}", data=form) as answer:
            assert answer.status == 201
            upload = await answer.json()
        await opened.see("came or ders.csv")
        await opened.type("u")
        await opened.see("or ders.csv=8")
    path = Path(upload["path"])
    assert upload == {"path": str(path), "name": "or ders.csv", "bytes": 8}
    assert path.read_bytes() == b"a,b\n1,2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent in plain.upload_directories()


def test_a_file_of_64_mib_is_taken_and_one_byte_more_is_not(web):
    server = web()
    piece = bytes(1024 * 1024)

    async def body(count: int, rest: bytes):
        for _ in range(count):
            yield piece
        yield rest

    async def scenario():
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{server.url}/upload?name=fits.csv", data=body(63, piece)) as answer:
                fits = answer.status, (await answer.json())["bytes"]
            async with session.post(f"{server.url}/upload?name=over.csv", data=body(64, b"x")) as answer:
                over = answer.status, (await answer.json())["error"]
            huge = {"Content-Length": str(64 * 1024 * 1024 + 1), "Expect": "100-continue"}
            async with session.post(f"{server.url}/upload?name=huge.csv", headers=huge, data=b"") as answer:
                return fits, over, (answer.status, (await answer.json())["error"])

    fits, over, huge = asyncio.run(scenario())
    assert fits == (201, 64 * 1024 * 1024)
    assert over == huge == (413, "upload-too-large")
    (directory,) = server.upload_directories()
    assert [path.name for path in directory.iterdir()] == ["fits.csv"]


async def test_an_upload_that_breaks_off_leaves_nothing(web):
    server = web()

    host, _, port = server.host.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /upload?name=half.csv HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 1000\r\n\r\nhalf".encode()
    )
    await writer.drain()
    (directory,) = server.upload_directories()
    async with asyncio.timeout(20):
        await until(lambda: os.listdir(directory) != [])
        writer.close()
        await until(lambda: os.listdir(directory) == [])
    del reader


async def test_readonly_refuses_uploads(web):
    server = web(readonly=True)

    async with aiohttp.ClientSession() as session:
        async with session.get(server.url) as answer:
            page = await answer.text()
        async with session.post(f"{server.url}/upload", data=b"a") as answer:
            status, code = answer.status, (await answer.json())["error"]
    assert (status, code) == (403, "readonly")
    assert 'id="attach"' not in page
    assert "read-only" in page


async def test_export_is_downloaded_once_as_an_attachment(plain, tab):
    async with aiohttp.ClientSession() as session, tab(session, plain.url) as opened:
        await opened.begun()
        await opened.type("x")
        key = await opened.hear("deliver_file_start")
        async with session.get(f"{plain.url}/download/{key}") as answer:
            headers, text = answer.headers, await answer.text()
        async with session.get(f"{plain.url}/download/{key}") as again:
            second = again.status
        await opened.see("exported")
    assert text == "line\n" * 50_000
    assert headers["Content-Disposition"] == (
        "attachment; filename=\"the _big_ _xport.csv\"; filename*=UTF-8''the%20%22big%22%20%C3%A4xport.csv"
    )
    assert second == 404


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="what a process was given is read from /proc")
@pytest.mark.exec_yak  # /proc has the environment of a forked process before its start
async def test_children_know_where_uploads_are_and_not_the_token(web, tab):
    server = web(token="s3cret")

    async with aiohttp.ClientSession() as session, tab(session, server.url, token="s3cret") as opened:
        pid = await opened.begun()
        environment, command = await asyncio.to_thread(given_to, pid)
    (directory,) = server.upload_directories()
    assert f"YAK_UI_UPLOADS={directory}" in environment
    assert [line for line in environment if "s3cret" in line or line.startswith("YAK_UI_TOKEN")] == []
    assert [word for word in command if "s3cret" in word] == []


@pytest.mark.parametrize(
    ("token", "readonly", "is_public"), [(None, True, True), ("s3cret", True, False), (None, False, False)]
)
def test_tabs_of_a_read_only_server_without_a_token_know_that_they_are_public(token, readonly, is_public):
    server = server_module.WebServer(WebOptions(token=token, readonly=readonly), ["yak"], warn=print)
    server.uploads.close()
    assert ("YAK_UI_PUBLIC" in server.sessions._environment) is is_public


async def test_certificate_serves_https_and_encrypted_sockets(web: Callable[..., WebServer], tmp_path: Path) -> None:
    create_certificates(str(tmp_path / "certs"), ["localhost", "127.0.0.1"], 9, [], force=False, now=datetime.now(UTC))
    server = web(certificate=str(tmp_path / "certs" / "broker.pem"), token="a-long-token")
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(server.address) as answer:
            assert answer.status == 200
            assert "secure" in answer.headers["Set-Cookie"].lower()
        async with open_tab(session, server.url, "a-long-token") as tab:
            await tab.begun()

    assert server.url.startswith("https://")
    assert "nothing is encrypted" not in server.stop()
