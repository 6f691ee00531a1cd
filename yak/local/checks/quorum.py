"""The metadata quorum of a cluster without Redis: whether it has a leader, and all its voters run."""

from yak.local.checks.finding import Finding


def check_quorum(servers: str, *, timeout_s: float) -> Finding | None:
    """The finding of the first broker that answers; None when the cluster has no quorum, or no broker answers."""
    from yak.client.quorum_changes import describe_quorum
    from yak.errors import Unreachable, YakError

    for address in servers.split(","):
        try:
            state = describe_quorum(address.strip(), timeout_s=timeout_s)
        except Unreachable as error:
            if error.code == "quorum-no-leader":
                return Finding("quorum", "FAIL", f"{error.message}: changes are refused", "yak up, or start its voters")
            continue
        except YakError:
            return None
        voters = ", ".join(map(str, state.voter_ids))
        said = f"node {state.leader_id} leads in epoch {state.epoch}, voters {voters}"
        away = sorted(set(state.voter_ids) - state.running_voters())
        if away:
            nodes = ", ".join(map(str, away))
            return Finding("quorum", "warn", f"{said}; not running: {nodes}", "yak quorum describe --replication")
        return Finding("quorum", "ok", said)
    return None
