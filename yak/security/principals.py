"""Principals: the users that connections belong to, as `Type:name` (Kafka's KafkaPrincipal)."""

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that proves nothing (KafkaPrincipal.ANONYMOUS)."""
