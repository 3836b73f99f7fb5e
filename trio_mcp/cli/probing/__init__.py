"""Talking to a server message by message, whatever it answers: for `doctor` and `bench`.

The client hides what a server does wrong, and mends what it can. Here nothing is hidden.
"""
