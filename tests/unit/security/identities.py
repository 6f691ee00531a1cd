"""Keys and certificates for tests, made once: an authority, another one, and what they signed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from yak.security.certificates import create_certificates

NOW = datetime.now(UTC)
NOW_MS = int(NOW.timestamp() * 1000)
HOSTS = ["localhost", "127.0.0.1"]


@dataclass(frozen=True)
class Identities:
    folder: Path

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def broker(self) -> str:
        return str(self.folder / "broker.pem")

    @property
    def client(self) -> str:
        return str(self.folder / "alice.pem")

    @property
    def configs(self) -> dict[str, str]:
        return {"ssl.keystore.location": self.broker, "ssl.truststore.location": self.ca}


def make(folder: Path, *, hosts: list[str] | None = None, days: int = 365, age_days: int = 0) -> Identities:
    made = NOW - timedelta(days=age_days)
    create_certificates(str(folder), hosts or HOSTS, days, ["alice"], force=False, now=made)
    return Identities(folder)
