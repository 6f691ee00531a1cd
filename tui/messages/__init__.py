"""Messages that are read to be looked at: a reader in a thread, what it keeps, and the forms in which a record is shown. No Textual in it."""
