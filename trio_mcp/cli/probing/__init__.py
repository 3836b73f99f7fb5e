"""Talking to a server message by message, whatever it answers: for `doctor` and `bench`.

Unlike the client, it neither hides nor mends what a server does wrong.
"""
