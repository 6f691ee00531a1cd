"""Fault injection for tests: whether brokers allow it, and which faults they have."""

from yak.client.reach import split_address
from yak.config.listeners import is_loopback
from yak.local.checks.finding import Finding


def check_faults(servers: str, *, timeout_s: float) -> list[Finding]:
    """A finding when a broker allows fault injection: a warning if it has faults, or if other machines reach it."""
    from yak.client.faults import list_faults
    from yak.errors import YakError

    allowed, counts = [], {}
    for address in (each.strip() for each in servers.split(",")):
        try:
            counts[address] = len(list_faults(address, timeout_s=timeout_s))
        except YakError:  # it allows none, or does not answer, which the other checks say
            continue
        allowed.append(address)
    if not allowed:
        return []
    said = f"{', '.join(allowed)} can inject faults (yak.fault.injection.enable)"
    if total := sum(counts.values()):
        return [Finding("faults", "warn", f"{said}, and inject {total} now", "yak faults clear")]
    if not all(is_loopback(split_address(address)[0]) for address in allowed):
        return [Finding("faults", "warn", said, "yak.fault.injection.enable=false, and a restart")]
    return [Finding("faults", "ok", f"{said}, and inject none")]
