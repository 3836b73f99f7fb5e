"""Bearer tokens from the environment: arguments are for all users of a machine to see."""

from __future__ import annotations

import os

from trio_mcp.cli.failures import Failure


def token_from(variable: str) -> str:
    """Find the token in a variable of the environment.

    Raises:
        Failure: There is none.
    """
    token = os.environ.get(variable, "").strip()
    if not token:
        raise Failure(f"there is no token in the variable {variable}; set it and start again")
    return token
