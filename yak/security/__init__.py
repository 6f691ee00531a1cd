"""How a client proves who it is: SCRAM and PLAIN, as pure exchanges without sockets, clocks or random source.

`yak.security.scram` has the mechanisms, the stored credentials and both ends of an exchange, `yak.security.plain` the one
message of PLAIN. The broker's side of a connection is `yak.broker.login`. No text of an error, log line or `repr` of this
package contains a password or a key.
"""

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without a login (Kafka's KafkaPrincipal.ANONYMOUS)."""


def principal_of(user: str) -> str:
    """The principal of a user (Kafka's KafkaPrincipal)."""
    return f"User:{user}"
