"""Compliance suites: tests for classes that implement an interface of this package."""
