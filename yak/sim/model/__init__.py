"""The replication protocol and its metadata as a small model: every state within bounds is visited, none by chance."""
