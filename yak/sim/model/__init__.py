"""The replication protocol and its metadata as a small model, checked by visiting every state within bounds."""
