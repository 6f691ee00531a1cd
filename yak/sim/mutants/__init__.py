"""Mutations of the broker: each removes one rule, and the checks must notice. This package has the list and the hook.

The product knows nothing of mutants: a mutant replaces attributes of the product's classes while a seed runs, and
restores them.
"""
