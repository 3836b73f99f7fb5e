"""What differs between operating systems, and nothing else: files, locks, processes, signals.

Strategies are chosen by what the system can do (`capabilities`), so that tests can make one system
take the ways of another. A module asks for the system's name only where an interface has no
counterpart, so that type checkers know which names there are; the functions of Windows then do what
the others' docstrings say, as far as they can. What only Windows has is in `system.windows`.
"""
