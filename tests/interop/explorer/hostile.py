"""A server that means harm to whoever looks at it: too much of everything, and none of it as it should
be. It speaks on stdio, and only as much as the explorer needs to hear."""

import json
import sys
from typing import Any

HUGE = "<b>huge</b>" * 100_000
MODERN = "2026-07-28"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"in": value}
    return value


def doubling() -> dict[str, Any]:
    """A schema of a few lines, which would have more parts than there is memory."""
    twice = [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]} | {
        "$defs": {"a": {"allOf": twice, "properties": {"b": {"$ref": "#/$defs/a"}}}}
    }


def wide() -> dict[str, Any]:
    """A schema that needs ten fields in each of ten fields, and so on."""
    names = [f"f{number}" for number in range(10)]
    ten = {"type": "object", "properties": {name: {"$ref": "#"} for name in names}}
    return {**ten, "required": names}


SCHEMAS: dict[str, Any] = {
    "wide": wide(),
    "doubling": doubling(),
    "fields": {"type": "object", "properties": {f"f{at}": {} for at in range(50_000)}},
    "choices": {"properties": {"a": {"enum": list(range(100_000))}}, "required": ["a"]},
    "nested": {"properties": {"a": deep(2000)}},
    "wrong": {"type": 5, "properties": [1], "required": {"a": 1}, "$defs": None},
    "wronger": {"properties": {"a": None, "b": {"type": [10**30, {}], "enum": "x", "oneOf": [3]}}},
    "strange": {
        "properties": {"__proto__": {"type": "string"}, "constructor": {"type": "toString"}}
    },
    "lost": {"$ref": "#/%zz/~9"},
    "none": 7,
}
TOOLS: list[Any] = [
    {"name": HUGE, "title": HUGE, "description": HUGE, "inputSchema": {}},
    {"name": None},
    7,
    *({"name": name, "inputSchema": schema} for name, schema in SCHEMAS.items()),
    {"name": "flood", "inputSchema": {}},
    {"name": "garbage", "inputSchema": {}},
]
GARBAGE: list[Any] = [
    5,
    [],
    {"id": {}, "result": 1},
    {"method": 7},
    {"method": "notifications/progress", "params": 3},
    {"method": "notifications/message", "params": [None]},
    {"id": 10**30, "method": "constructor", "params": None},
    {"error": "no"},
]


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")


def call(id: Any, name: str) -> Any:
    if name == "flood":
        for number in range(4_000):
            params = {"level": HUGE[:100], "data": number}
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
            params = {"progressToken": id, "progress": number, "message": HUGE[:1000]}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        for number in range(200):
            question = {"message": HUGE[:20_000], "requestedSchema": wide()}
            asked = {"method": "elicitation/create", "params": question}
            send({"jsonrpc": "2.0", "id": f"q{number}", **asked})
    for each in GARBAGE if name == "garbage" else ():
        send(each)
    content = [
        {"type": "constructor"},
        5,
        {"type": "text", "text": 5},
        {"type": "image", "data": "%"},
    ]
    return {"content": content, "structuredContent": deep(2000), "_meta": [HUGE]}


def answer(message: Any) -> Any:
    method = message["method"]
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": HUGE, "version": 3, "websiteUrl": "javascript:alert(1)"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS, "nextCursor": "again"}
    if method == "tools/call":
        return call(message["id"], message["params"]["name"])
    return None


def main() -> None:
    sys.setrecursionlimit(10_000)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message)
            error = {"error": {"code": -32601, "message": HUGE}}
            outcome = error if result is None else {"result": result}
            send({"jsonrpc": "2.0", "id": message["id"], **outcome})
            sys.stdout.flush()


if __name__ == "__main__":
    main()
