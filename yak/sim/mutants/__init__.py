"""Known-bad variants of the broker: each lacks one rule, and the checks must notice. Data, and the hook that switches them on.

Nothing of the product knows of this: a mutant exchanges attributes of its classes while a seed runs, and puts them back.
"""
