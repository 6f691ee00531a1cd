"""Consumer groups from outside: listing and describing them, their offsets, how far behind they are, and reading as a member."""
