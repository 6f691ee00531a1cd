"""`yak doctor`: finds problems of clients with a cluster, and of brokers with this machine."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.commands.app import OUTPUT, WHAT, command, flag
from yak.commands.options import Globals
from yak.commands.settings import SETTINGS
from yak.view.formats import counted

if TYPE_CHECKING:
    from yak.local.checks.finding import Finding

_SIGNS = {"ok": "✓", "warn": "▲", "FAIL": "✗", "skip": "-"}
_ASCII_SIGNS = {"ok": "+", "warn": "!", "FAIL": "x", "skip": "-"}
_COLOURS = {"ok": "32", "warn": "33", "FAIL": "1;31", "skip": "2"}
_TIMEOUT_S = 3.0
_BUNDLE_SETTINGS = ("bootstrap_servers", "redis_url", "data_dir", "host", "port", "lease_time_seconds", "context")


@command(examples=("yak doctor", "yak doctor -b broker.example.org:9092", "yak doctor -o json"))
def doctor(
    g: Globals,
    data_dir: str | None = flag("--data-dir", "Check this directory.  [./yak-data]", WHAT, metavar="DIR"),
    bundle: str | None = flag("--bundle", "Write findings, versions and logs into a zip.", OUTPUT, metavar="FILE"),
) -> int | None:
    """Check that clients can reach and use a cluster."""
    directory = str(g.settings.get("data_dir", flag=data_dir).value)
    findings: list[Finding] = []
    for check in _checks(g, directory):
        for finding in check():
            findings.append(finding)
            if g.out.for_people:
                _show(g, finding)
    failed = [finding for finding in findings if finding.state == "FAIL"]
    if not g.out.for_people:
        g.out.table([finding.as_json() for finding in findings], ("check", "state", "detail", "try"))
    else:
        warned = sum(1 for finding in findings if finding.state == "warn")
        g.out.note(f"{len(findings)} checks: {len(failed)} failed, {counted(warned, 'warning')}")
    if bundle is not None:
        from yak.local.checks.bundle import write_bundle

        settings = {
            setting.name: g.settings.value(setting.name) for setting in SETTINGS if setting.name in _BUNDLE_SETTINGS
        }
        write_bundle(bundle, findings, settings, directory)
        g.out.note(f"wrote {bundle}")
    return 4 if failed else None


def _checks(g: Globals, data_dir: str) -> list[Callable[[], "list[Finding]"]]:
    from yak.local.checks import machine, network, store
    from yak.server.options import usual_renew_ms

    timeout_s = min(_TIMEOUT_S, g.timeout_s)
    local = machine.read_status(data_dir)
    servers = g.settings.get("bootstrap_servers")
    addresses = g.servers_of_local(local) if local is not None and servers.origin == "default" else g.bootstrap_servers
    redis = g.settings.get("redis_url")
    own_redis = local is not None and local.redis_url is not None and redis.origin == "default"
    redis_url = local.redis_url if local is not None and local.redis_url and own_redis else str(redis.value)
    is_started_by_up = own_redis and local is not None and local.redis_running is not None
    start_with = machine.start_again(local.data_dir) if local is not None and is_started_by_up else ""
    lease, given = g.settings.value("lease_time_seconds"), g.settings.value("renew_interval_seconds")
    renew = given if given is not None else usual_renew_ms(round(lease * 1000)) / 1000
    host, port = str(g.settings.value("host")), int(g.settings.value("port"))

    def check_metadata() -> "list[Finding]":
        found = store.check_quorum(addresses, timeout_s=timeout_s) if redis.origin == "default" else None
        if found is not None:
            return [found]
        is_configured = own_redis or redis.origin != "default"
        return store.check_store(redis_url, is_configured=is_configured, timeout_s=timeout_s, start_with=start_with)

    return [
        lambda: network.check_network(addresses, timeout_s),
        lambda: [machine.check_local_cluster(data_dir)],
        check_metadata,
        lambda: network.check_faults(addresses, timeout_s=timeout_s),
        lambda: [machine.check_lease(lease, renew)],
        lambda: [machine.check_port(host, port)],
        lambda: [machine.check_disk(data_dir)],
        lambda: [machine.check_fsync(data_dir)],
        lambda: [machine.check_open_files()],
        lambda: [machine.check_terminal()],
    ]


def _show(g: Globals, finding: "Finding") -> None:
    signs = _SIGNS if (g.out.stdout.encoding or "").lower().startswith("utf") else _ASCII_SIGNS
    mark = g.out.paint(f"{signs[finding.state]} {finding.state:<5}", _COLOURS[finding.state])
    g.out.line(f"{mark} {finding.check:<14} {finding.detail}")
    if finding.try_:
        g.out.line(f"{'':<23}try: {finding.try_}")
    g.out.stdout.flush()
