"""franz-go: logins by each mechanism and by a delegation token, with TLS and without; skipped without Go or its module proxy."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from support.login_broker import OAUTHBEARER, PASSWORDS, PROTOCOLS, LoginBroker, access_token
from test_logins import ADMIN, PASSWORD

SOURCE = Path(__file__).parent / "franz_go"
BUILD_SECONDS = 280.0
QUICKLY = ("-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""Without optimization and data for debuggers: a first build takes two thirds of the processor time."""
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
    command = ["go", "build", *QUICKLY, "-o", str(built), "."]
    done = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with LoginBroker(tmp_path_factory.mktemp("go-logins")) as started:
        yield started


def run(program: Path, broker: LoginBroker, protocol: str, mechanism: str, user: str, secret: str) -> str:
    """The output of a login and a round trip."""
    command = [str(program), broker.addresses[protocol], f"go-{mechanism}-{protocol}", mechanism, user]
    if protocol == "SASL_SSL":
        command.append(str(broker.authority))
    ran = subprocess.run(command, input=f"{secret}\n", capture_output=True, text=True, timeout=SECONDS, check=False)
    return ran.stdout + ran.stderr


@pytest.mark.timeout(BUILD_SECONDS + 60)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_franz_go_logs_in_with_a_password(program: Path, broker: LoginBroker, mechanism: str, protocol: str) -> None:
    assert run(program, broker, protocol, mechanism, ADMIN, PASSWORD) == "read hello\n"


@pytest.mark.timeout(BUILD_SECONDS + 60)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_franz_go_with_a_wrong_password_is_refused(program: Path, broker: LoginBroker, mechanism: str) -> None:
    assert "SASL_AUTHENTICATION_FAILED" in run(program, broker, PROTOCOLS[0], mechanism, ADMIN, "wrong")


@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_franz_go_logs_in_by_oauthbearer(program: Path, broker: LoginBroker) -> None:
    for protocol in PROTOCOLS:
        assert run(program, broker, protocol, OAUTHBEARER, "", access_token()) == "read hello\n"
    refused = run(program, broker, PROTOCOLS[0], OAUTHBEARER, "", access_token(number=1))
    assert "read" not in refused
    assert "no key of the set verifies the token's signature" in broker.log()


@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_franz_go_logs_in_by_a_delegation_token(program: Path, broker: LoginBroker) -> None:
    token_id, password = broker.delegation_token()
    for protocol in PROTOCOLS:
        assert run(program, broker, protocol, "token", token_id, password) == "read hello\n"
    broker.yak("tokens", "expire", token_id, "--yes")
    assert "SASL_AUTHENTICATION_FAILED" in run(program, broker, PROTOCOLS[0], "token", token_id, password)
