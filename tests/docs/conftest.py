"""What is collected in this folder."""

collect_ignore = ["test_clean_clone.py"]
"""Installs packages, so it is run when it is named: `make clone`."""
