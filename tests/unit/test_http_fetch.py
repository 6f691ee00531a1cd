"""One HTTP request with bounds: bodies, errors, redirects, slow and endless answers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from yak.http_fetch import WebFetch, fetch
from yak.sim.disk import SimDisk


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/ok")
            self.end_headers()
            return
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        if self.path == "/large":
            for _ in range(20):
                self.wfile.write(b"x" * (1 << 16))
        elif self.path == "/slow":
            while not self.server.stopped.wait(0.05):
                self.wfile.write(b"x")
        elif self.path == "/silent":
            self.server.stopped.wait(5)
        else:
            self.wfile.write(self.headers["Accept"].encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body + self.headers["Authorization"].encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.stopped = threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.stopped.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_get_returns_the_body(url):
    assert fetch(f"{url}/ok") == b"application/json"
    assert WebFetch(f"{url}/ok").run(SimDisk()) == b"application/json"


def test_post_sends_data_and_headers(url):
    assert fetch(f"{url}/ok", data=b"a=b", headers={"Authorization": "Basic x"}) == b"a=bBasic x"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/missing", "404"),
        ("/loop", "302"),
        ("/large", "more than"),
        ("/slow", "did not end"),
        ("/silent", "timed out"),
    ],
)
def test_other_answers_raise_os_error(url, path, reason):
    with pytest.raises(OSError, match=reason):
        fetch(url + path, timeout_s=0.3)


@pytest.mark.parametrize(
    "bad", ["http://127.0.0.1:1/", "http://127.0.0.1:x/", "http://", "ftp://127.0.0.1/", "file:///etc/passwd", "x", ""]
)
def test_bad_url_raises_os_error(bad):
    with pytest.raises(OSError):  # noqa: PT011 - any
        fetch(bad, timeout_s=1)
