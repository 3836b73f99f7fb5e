"""Programs that measure a client, each in a process of its own: ours, and the official one.

Each connects, measures, and prints what it found as one line of JSON (see `measure`).
"""
