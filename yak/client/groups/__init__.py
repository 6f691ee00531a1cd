"""Consumer groups from the client side: list, describe, offsets, lag, and reading as a member."""
