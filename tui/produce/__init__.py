"""The Producer screen's logic, without a terminal: placeholders, sending with delivery statistics, CSV files."""
