"""Generated records: text with fields such as `{{i}}`, `{{uuid}}` or `{{int 1 100}}`, filled for each record.

`fields` defines every field, `template` parses and fills text, `messages` generates whole records, `words` holds the
names and words to draw from.
"""
