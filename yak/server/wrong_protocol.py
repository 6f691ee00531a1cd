"""Recognize a peer that uses another protocol, by an invalid length prefix or the lack of TLS."""

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


def describe_plain_bytes(head: bytes) -> tuple[str, str]:
    """(kind for the counters, hint for the log) for the first bytes of a peer that should speak TLS, and does not."""
    if head.startswith(_HTTP_METHODS):
        return "plain-http", "HTTP on a TLS listener of Kafka: use the HTTP port"
    if head[:1] == b"\0":
        return "plain-kafka", "a plain Kafka request on a TLS listener: the client needs security.protocol=SSL"
    return "not-tls", f"the first bytes are no TLS: {head[:8].hex(' ')}"


def describe_bad_length(length: int, head: bytes, length_max: int) -> tuple[str, str]:
    """(kind for the counters, hint for the log) for the first bytes of a refused frame."""
    if head.startswith(_HTTP_METHODS):
        return "http", "HTTP on the Kafka port: use the HTTP port, or point a Kafka client here"
    if head[:2] == b"\x16\x03":
        return "tls", "TLS on the Kafka port: this listener is plain text (security.protocol=PLAINTEXT)"
    if head.startswith(b"SSH-"):
        return "ssh", "SSH on the Kafka port"
    if length > length_max:
        return "frame-too-large", f"a request of {length} bytes; socket.request.max.bytes is {length_max}"
    return "bad-length", f"a request of {length} bytes is invalid"
