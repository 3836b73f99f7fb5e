"""Talking to a server, wherever it runs."""
