"""The table of methods: which revision has which, as the official schemas say."""

import json

import pytest

from tests.support import official
from trio_mcp.wire import revisions
from trio_mcp.wire.methods import BY_REVISION

OURS = {"shutdown"}
"""Not of MCP."""
TASKS = "tasks/"
"""Experimental in 2025-11-25, and not served."""


def requests_in(revision: str, sender: str) -> set[str]:
    """The requests that the official schema of a revision lets one side send."""
    schema = json.loads((official.SCHEMAS / f"{revision}.json").read_text())
    definitions = schema.get("$defs") or schema["definitions"]
    names = [definition["$ref"].split("/")[-1] for definition in definitions[sender]["anyOf"]]
    return {definitions[name]["properties"]["method"]["const"] for name in names}


@pytest.mark.skipif(not official.available(), reason=official.MISSING)
@pytest.mark.parametrize("revision", revisions.ALL, ids=lambda each: each.name)
def test_a_revision_has_the_requests_that_its_schema_has(revision):
    wanted = requests_in(revision.name, "ClientRequest")
    rows = BY_REVISION[revision].values()
    has = {row.name for row in rows if row.sender == "client"}
    assert has - OURS == {name for name in wanted if not name.startswith(TASKS)}
