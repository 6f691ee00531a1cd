"""Lists of broker addresses, as users type them."""

DEFAULT_PORT = 9092


def parse_addresses(text: str) -> str:
    """`host:port,host:port`, blanks dropped, port 9092 added where it is missing. Raises ValueError."""
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no address given")
    return ",".join(_with_port(address) for address in addresses)


def _with_port(address: str) -> str:
    if address.count(":") > 1 and not address.startswith("["):
        return f"[{address}]:{DEFAULT_PORT}"  # a bare IPv6 address
    host, _, port = address.rpartition(":")
    if not host or address.endswith("]"):
        return f"{address}:{DEFAULT_PORT}"
    if not port.isdigit() or not 0 < int(port) <= 65_535:
        raise ValueError(f'"{port}" in {address} is not a port')
    return address
