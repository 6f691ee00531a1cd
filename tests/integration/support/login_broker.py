"""A broker with every mechanism on a listener of SASL_PLAINTEXT and one of SASL_SSL, and what its clients log in with."""

import re
import time
from pathlib import Path
from typing import Self

from support.tls import Certificates
from test_logins import ADMIN, PASSWORD, start, yak

from tests.unit.security.issuer import key_set_of, member, token

PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class LoginBroker:
    """The broker. A context manager."""

    def __init__(self, folder: Path, **configs: object) -> None:
        """Configs are Kafka's names with `_` for `.`."""
        self.folder = folder
        self._keys = folder / "keys.json"
        self._keys.write_bytes(key_set_of(member("RS256", "one")))
        self.certificates = Certificates(folder / "certs")
        pairs = self.certificates.configs(
            listeners=",".join(f"{each}://127.0.0.1:0" for each in PROTOCOLS),
            inter_broker_listener_name=PROTOCOLS[0],
            num_partitions=1,
            delegation_token_secret_key="secret of the brokers",
            sasl_enabled_mechanisms=",".join((*PASSWORDS, OAUTHBEARER)),
            sasl_oauthbearer_jwks_endpoint_url=f"file://{self._keys}",
            **configs,
        )
        words = [word for name, value in pairs.items() for word in ("-c", f"{name.replace('_', '.')}={value}")]
        self._started = start(folder, "--metadata", "raft", *words)
        log = Path(self._started.log).read_text()
        self.addresses = {each: re.findall(rf"\b{each}://(127.0.0.1:\d+)", log)[-1] for each in PROTOCOLS}
        self.authority = self.certificates.folder / "ca.pem"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.process.kill()
        self._started.process.wait()
        assert "Traceback" not in self.log()

    def log(self) -> str:
        """All that the broker printed."""
        return Path(self._started.log).read_text()

    def yak(self, *words: str, user: str = ADMIN, password: str = PASSWORD, stdin: str = "") -> str:
        """The standard output of a `yak` command."""
        return str(yak(self._started, *words, user=user, password=password, stdin=stdin).stdout)

    def delegation_token(self) -> tuple[str, str]:
        """The id and the password of a new delegation token of the admin."""
        path = self.folder / "delegation.token"
        self.yak("tokens", "create", "--token-file", str(path))
        token_id, _, password = path.read_text().strip().partition(":")
        return token_id, password


def access_token(*, number: int = 0) -> str:
    """A token of the issuer; with another number one of a key that the broker does not know."""
    return token("RS256", "one", number=number, now_ms=time.time_ns() // 1_000_000, scope="kafka")
