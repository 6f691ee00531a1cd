"""Groups of consumers, without a clock or a socket: decisions as records, and the state that the records make."""
