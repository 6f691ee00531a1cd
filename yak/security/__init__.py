"""The identity of a client and the protection of its connection: TLS, certificates, principals and logins.

`yak.security.scram` has the mechanisms of SCRAM, the stored credentials and both ends of an exchange,
`yak.security.plain` the one message of PLAIN, and `yak.security.oauth_messages` those of OAUTHBEARER, pure and without
sockets. `yak.security.access_tokens` verifies signed tokens. The broker's side of a login is `yak.broker.login`. No
text of an error, log line or `repr` of this package contains a password, a token or a key.
"""

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that proves nothing (KafkaPrincipal.ANONYMOUS)."""


def principal_of(user: str) -> str:
    """The principal of a user (Kafka's KafkaPrincipal)."""
    return f"User:{user}"
