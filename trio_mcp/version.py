"""The version of this library, written once."""

__version__ = "0.1.0"
