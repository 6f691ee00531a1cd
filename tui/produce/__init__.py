"""What the Producer screen does, without a terminal: templates, sending with an account, CSV files."""
