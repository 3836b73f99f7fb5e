"""A registry whose tasks are kept in the file that the environment names."""

import os

from tests.extensions.tasks import jobs
from trio_mcp import Registry


def make() -> Registry:
    """Make it."""
    return jobs.make(store=os.environ["STORE"])
