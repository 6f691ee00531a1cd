"""Lists of broker addresses, as users type them."""

from yak.client.numbers import parse_long

DEFAULT_PORT = 9092


def parse_addresses(text: str) -> str:
    """`host:port,host:port`, blanks dropped, port 9092 added where it is missing. Raises ValueError."""
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no address given")
    return ",".join(_with_port(address) for address in addresses)


def _with_port(address: str) -> str:
    protocol, separator, rest = address.partition("://")
    if separator:
        raise ValueError(f"an address is host:port, as in {rest}, without {protocol}://")
    if address.count(":") > 1 and not address.startswith("["):
        return f"[{address}]:{DEFAULT_PORT}"  # a bare IPv6 address
    if ":" not in address or address.endswith("]"):
        address = f"{address}:{DEFAULT_PORT}"
    host, _, port = address.rpartition(":")
    if not host:
        raise ValueError(f"{address} has no host")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"{host} is no host name: its parts have 1 to 63 characters") from None
    if not 0 < (parse_long(port) or 0) <= 65_535:
        raise ValueError(f'"{port}" in {address} is not a port')
    return address
