"""What differs between operating systems, and nothing else: files, locks, processes, signals.

Strategy: a way of doing something is chosen by what the system can do (`capabilities`), so that any
system can be told to take the ways of another one, and tests do. Only where an interface of one
system has no counterpart does a module ask for the system's name, so that type checkers know which
names it has. What only Windows has is below `system.windows`.
"""
