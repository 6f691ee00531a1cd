"""Messages that differ: text with fields such as `{{i}}`, `{{uuid}}` or `{{int 1 100}}`, filled anew for each one.

`fields` knows every field, `template` reads text and fills it, `messages` makes whole messages, `words` holds the names
and words that are drawn from.
"""
