"""The host of a client, in the one spelling that ACLs and quotas compare."""

from ipaddress import IPv6Address, ip_address


def host_of(peer: str) -> str:
    """The host of a client's `address:port`, as ACLs name it; a text without a port is returned as it is."""
    return canonical_host(peer.rpartition(":")[0].strip("[]") or peer)


def canonical_host(host: str) -> str:
    """One spelling of an IP address; an IPv4 address inside IPv6 is the IPv4 address, as in Java. Other texts stay."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
