"""Reading records for display: a reader in a thread, its buffer, and the formats of a record. No Textual."""
