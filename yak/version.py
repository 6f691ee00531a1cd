"""The version of this package: here and in pyproject.toml, and nowhere else."""

__version__ = "0.1.0"
