"""The official JSON schemas of all revisions, as judges of what the server sends.

They lie beside the checkout, not in it. Where they are not there, messages go unjudged, and
`test_official_schemas_judge_messages` says so.
"""

import json
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft7Validator, Draft202012Validator, validator_for

SCHEMAS = Path(__file__).parents[3] / "shared" / "schema"
MISSING = f"the official schemas are not in {SCHEMAS}: docs/contributing/setting-up.md says how to get them"

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "shutdown": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
}

MAY_ASK = ("tools/call", "prompts/get", "resources/read")
"""What a modern server may answer with a question."""


def available() -> bool:
    """Whether the schemas are there."""
    return SCHEMAS.is_dir()


@cache
def _definitions(revision: str) -> tuple[str, dict[str, Any]]:
    schema = json.loads((SCHEMAS / f"{revision}.json").read_text())
    key = "$defs" if "$defs" in schema else "definitions"
    return key, schema


@cache
def validator(revision: str, definition: str) -> Draft7Validator | Draft202012Validator:
    key, schema = _definitions(revision)
    whole = {"$schema": schema["$schema"], "$ref": f"#/{key}/{definition}", key: schema[key]}
    return validator_for(whole, validate_formats=False)


def judge(
    message: Any, revision: str, method: str | None = None, added: Collection[str] = ()
) -> None:
    """Fail unless a message that the server sent is valid in a revision.

    Args:
        message: One message, parsed; or a batch.
        revision: The revision that it was sent in.
        method: What it answers, if it is a response.
        added: The notifications and result types that an extension adds.
    """
    if not available():
        return
    if isinstance(message, list):
        for each in message:
            judge(each, revision)
        return
    _key, schema = _definitions(revision)
    definitions = schema[_key]
    if "error" in message:
        name = "JSONRPCError" if "JSONRPCError" in definitions else "JSONRPCErrorResponse"
        # Some revisions have no error without an id, and none with one that is null.
        validator(revision, name).validate(message)
    elif "result" in message:
        name = "JSONRPCResponse" if revision < "2025-11-25" else "JSONRPCResultResponse"
        validator(revision, name).validate(message)
        kind = RESULTS.get(method or "", "Result")
        if message["result"].get("resultType") == "input_required":
            assert method in MAY_ASK, f"{method} must not be answered with a question"
            kind = "InputRequiredResult"
        elif message["result"].get("resultType") in added:
            kind = "Result"
        validator(revision, kind if kind in definitions else "Result").validate(message["result"])
    elif "id" in message:
        validator(revision, "ServerRequest").validate(message)
    elif message["method"] in added:
        validator(revision, "JSONRPCNotification").validate(message)
    else:
        validator(revision, "ServerNotification").validate(message)
