"""The caller of a request that one broker forwards to another over HTTP: its principal, its address, and a proof.

The forwarding broker has checked the caller's login; its own address and certificate say nothing about the caller. So the
other broker takes both from the header `yak-forwarded`. An HMAC under a secret of the brokers (`ClusterSecret.derive`)
covers header, receiving broker, method, target and time. A client can neither make such a header nor use one for another
request. Who reads plain HTTP between brokers could send one again for a minute, as it could a password.
"""

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Final

from yak.server.http.authentication import Caller
from yak.server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.broker.broker import Broker
    from yak.ids import NodeId
    from yak.protocol.peer_proof import ClusterSecret
    from yak.server.http.context import Context

HEADER: Final = "yak-forwarded"
CLOCKS_MS_MAX: Final = 60_000
"""How far the clocks of two brokers may differ, and how long a header is valid."""
_PURPOSE: Final = "http forwarding"


def forwarding_header(broker: "Broker", caller: Caller, to: "NodeId", method: str, target: str) -> dict[str, str]:
    """The header of a request to another broker; none before this broker knows the cluster's secret."""
    secret = broker.peers.secret
    if secret is None:
        return {}
    document = [caller.principal, caller.peer, broker.wall_ms]
    content = base64.urlsafe_b64encode(json.dumps(document).encode())
    return {HEADER: f"{content.decode()}.{_sign(secret, broker.peers.cluster_id, to, method, target, content)}"}


def forwarded_caller(context: "Context", request: "Request") -> Caller | None:
    """The caller that another broker names; None without the header.

    Raises Problem 403 `not-allowed` for a header that no broker of the cluster made for this request.
    """
    given = request.headers.get(HEADER)
    if given is None:
        return None
    try:
        principal, peer = _verified(context.broker, request, given)
    except ValueError as error:
        client = request.client
        fields: dict[str, object] = {"peer": "" if client is None else client.host, "reason": str(error)}
        context.shell.rate_limit.write("warning", "http-forward-refused", fields)
        message = f"the header {HEADER} is for the brokers of this cluster: {error}"
        raise Problem(403, "not-allowed", message, f"send the request without {HEADER}") from None
    return Caller(principal, request.headers.get("authorization"), peer)


def _verified(broker: "Broker", request: "Request", given: str) -> tuple[str, str]:
    """Principal and address. Raises ValueError."""
    content, _, proof = given.partition(".")
    secret = broker.peers.secret
    query = request.scope["query_string"]
    target = request.scope["raw_path"].decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    raw = content.encode("latin-1")
    if secret is None or not hmac.compare_digest(
        proof.encode("latin-1"),
        _sign(secret, broker.peers.cluster_id, broker.node_id, request.method, target, raw).encode(),
    ):
        raise ValueError("its proof is wrong")
    principal, peer, wall_ms = json.loads(base64.urlsafe_b64decode(raw))
    if abs(broker.wall_ms - wall_ms) > CLOCKS_MS_MAX:
        raise ValueError(f"its time differs by more than {CLOCKS_MS_MAX // 1000} s from the clock of this broker")
    return str(principal), str(peer)


def _sign(secret: "ClusterSecret", cluster_id: str, to: "NodeId", method: str, target: str, content: bytes) -> str:
    signer = hmac.new(secret.derive(_PURPOSE), digestmod=hashlib.sha256)
    for part in (cluster_id.encode(), str(to).encode(), method.encode(), target.encode("latin-1"), content):
        signer.update(len(part).to_bytes(4, "big") + part)
    return signer.hexdigest()
