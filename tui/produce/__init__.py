"""The Producer screen's logic, without a terminal: templates, sending with delivery statistics, CSV files."""
