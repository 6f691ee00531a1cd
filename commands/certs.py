"""`yak certs`: a private authority with certificates for TLS, and what a certificate says."""

from typing import Annotated

from yak.commands.app import OUTPUT, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.errors import UsageError

certs = CommandGroup(
    "certs",
    examples=("yak certs create certs --hosts broker.example.org", "yak certs show certs/broker.pem"),
)

_HOSTS_DEFAULT = ("localhost", "127.0.0.1", "::1")


@certs.command(
    "create",
    examples=(
        "yak certs create certs",
        "yak certs create certs --hosts a.example.org,b.example.org --days 90",
        "yak certs create certs --client alice   adds a client to the same authority",
    ),
)
def create(
    g: Globals,
    directory: Annotated[str, argument("DIR", "Folder of the files.")],
    hosts: str | None = flag(
        "--hosts",
        f"Names and addresses that clients connect to; default: those of broker.pem, else {','.join(_HOSTS_DEFAULT)}.",
        WHAT,
        metavar="HOST,...",
    ),
    days: int = flag("--days", "Days until they expire.", WHAT, default=365, metavar="N", min=1, max=3650),
    client: list[str] | None = flag("--client", "Also a client's certificate; repeatable.", WHAT, metavar="NAME"),
    force: bool = flag("--force", "Replace existing certificates.", OUTPUT, default=False),
) -> None:
    """Create a private authority, and certificates of the cluster and of clients.

    ca.pem is the authority, for the trust store of both sides. broker.pem and NAME.pem have a private key and its
    certificate. ca.key signs further certificates: keep it away from the brokers. An authority that is in the folder
    already is used, never replaced. Without --force, --client adds a client and keeps broker.pem.
    """
    import os
    from datetime import UTC, datetime

    from yak.security.certificates import BROKER_FILE, broker_hosts, create_certificates

    clients, folder = client or [], os.path.abspath(directory)
    if hosts is None:
        names = broker_hosts(directory) or list(_HOSTS_DEFAULT)
    else:
        names = [host.strip() for host in hosts.split(",") if host.strip()]
    if not names:
        why = "clients check that the broker's certificate names the host that they connect to"
        raise UsageError("certs-name", "--hosts names no host", why=why, try_=("--hosts a,b",))
    try:
        files = create_certificates(directory, names, days, clients, force=force, now=datetime.now(UTC))
    except OSError as error:
        raise UsageError(
            "certs-not-written", f"the certificates cannot be written to {directory}", why=f"{error.strerror or error}"
        ) from error
    broker, properties = _broker_lines(folder, names[0]), _client_lines(folder, clients)
    if not g.out.for_people:
        g.out.object({"files": files, "broker": broker, "client_properties": properties})
        return
    for file in files:
        g.out.note(f"created {file}")
    if (existing := os.path.join(directory, BROKER_FILE)) not in files:
        g.out.note(f"kept {existing}, for {', '.join(names)}")
    g.out.line("# the broker: yak serve --properties FILE")
    for line in broker:
        g.out.line(line)
    g.out.line()
    g.out.line("# clients: client.properties of Kafka's tools")
    for line in properties:
        g.out.line(line)


def _broker_lines(directory: str, host: str) -> list[str]:
    """`host`: the first name of the certificate, which clients connect to."""
    return [
        "listeners=SSL://0.0.0.0:9093",
        f"advertised.listeners=SSL://{f'[{host}]' if ':' in host else host}:9093",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={directory}/broker.pem",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={directory}/ca.pem",
        "ssl.client.auth=required",
    ]


def _client_lines(directory: str, clients: list[str]) -> list[str]:
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={directory}/ca.pem"]
    if clients:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={directory}/{clients[0]}.pem"]
    return lines


@certs.command("show", examples=("yak certs show certs/broker.pem", "yak certs show certs/ca.pem -o json"))
def show(g: Globals, file: Annotated[str, argument("FILE", "File in PEM.")]) -> None:
    """Show subject, names, dates, issuer and fingerprint of each certificate in a file."""
    from yak.security.certificates import read_certificates

    found = read_certificates(file)
    rows = [
        {
            "subject": each.subject,
            "names": list(each.names),
            "not_before": f"{each.not_before:%Y-%m-%dT%H:%M:%SZ}",
            "not_after": f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}",
            "issuer": each.issuer,
            "serial": each.serial,
            "sha256": each.sha256,
            "is_authority": each.is_authority,
        }
        for each in found
    ]
    if not g.out.for_people:
        g.out.table(rows, ("subject", "not_after", "issuer", "sha256"))
        return
    for index, row in enumerate(rows):
        if index:
            g.out.line()
        for name, value in row.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            g.out.line(f"{name.replace('_', ' '):<14}{text}")
