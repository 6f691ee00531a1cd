"""franz-go: logins by each mechanism, and by a delegation token; skipped without Go or its module proxy."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from test_logins import ADMIN, PASSWORD, start, yak

from tests.unit.security.issuer import key_set_of, member, token

SOURCE = Path(__file__).parent / "franz_go"
BUILD_SECONDS = 280.0
SECONDS = 60.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program."""
    if shutil.which("go") is None:
        pytest.skip("Go is not on PATH")
    built = tmp_path_factory.mktemp("franz-go") / "program"
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    fetched = subprocess.run(["go", "mod", "download"], cwd=SOURCE, env=environment, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"franz-go cannot be fetched: {fetched.stderr[-300:]}")
    command = ["go", "build", "-o", str(built), "."]
    done = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("go-logins")
    (folder / "keys.json").write_bytes(key_set_of(member("ES256", "one")))
    started = start(
        folder,
        *("--metadata", "raft", "-c", "num.partitions=1", "-c", "delegation.token.secret.key=secret"),
        *("-c", "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"),
        *("-c", f"sasl.oauthbearer.jwks.endpoint.url=file://{folder}/keys.json"),
    )
    yield started
    started.process.kill()
    started.process.wait()


def run(program: Path, broker: SimpleNamespace, mechanism: str, user: str, secret: str) -> str:
    """The output of a login and a round trip."""
    command = [str(program), broker.address, f"go-{mechanism}", mechanism, user]
    ran = subprocess.run(command, input=f"{secret}\n", capture_output=True, text=True, timeout=SECONDS, check=False)
    return ran.stdout + ran.stderr


@pytest.mark.timeout(BUILD_SECONDS + 60)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_franz_go_logs_in_with_a_password(program: Path, broker: SimpleNamespace, mechanism: str) -> None:
    assert run(program, broker, mechanism, ADMIN, PASSWORD) == "read hello\n"
    assert "SASL_AUTHENTICATION_FAILED" in run(program, broker, mechanism, ADMIN, "wrong")


@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_franz_go_logs_in_by_oauthbearer(program: Path, broker: SimpleNamespace) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert run(program, broker, "OAUTHBEARER", "", token("ES256", "one", now_ms=now_ms)) == "read hello\n"
    refused = run(program, broker, "OAUTHBEARER", "", token("ES256", "one", number=1, now_ms=now_ms))
    assert "read" not in refused
    assert "no key of the set verifies the token's signature" in Path(broker.log).read_text()


@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_franz_go_logs_in_by_a_delegation_token(program: Path, broker: SimpleNamespace) -> None:
    yak(broker, "tokens", "create", "--token-file", str(broker.folder / "go.token"))
    token_id, _, password = (broker.folder / "go.token").read_text().strip().partition(":")
    assert run(program, broker, "token", token_id, password) == "read hello\n"
    yak(broker, "tokens", "expire", token_id, "--yes")
    assert "SASL_AUTHENTICATION_FAILED" in run(program, broker, "token", token_id, password)
