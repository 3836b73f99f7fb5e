"""Whether what a server offers is described as it should be: tools, resources, prompts."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Final

from trio_mcp.cli.doctor.report import Report, cut
from trio_mcp.cli.schemas import field_of
from trio_mcp.schema import SchemaError
from trio_mcp.schema.bounds import check_schema
from trio_mcp.wire.headers import mirrored_parameters
from trio_mcp.wire.jsonrpc import Json

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HEAVY_BYTES: Final = 60_000
_MOST_NAMES: Final = 8

_IDENTITY: Final = {
    "tools": "name",
    "resources": "uri",
    "resourceTemplates": "uriTemplate",
    "prompts": "name",
}
_NOUN: Final = {
    "tools": "tool",
    "resources": "resource",
    "resourceTemplates": "resource template",
    "prompts": "prompt",
}
_NAMED: Final = ("resources", "resourceTemplates")
"""What needs a name besides its identity."""


def check_descriptions(report: Report, kind: str, items: list[Json]) -> None:
    """Check all items of a list."""
    key, noun = _IDENTITY[kind], _NOUN[kind]
    names: Counter[str] = Counter()
    for item in items:
        name = item.get(key) if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            report.add("bad-description", f"a {noun} has no {key}: {cut(json.dumps(item))}")
            continue
        names[name] += 1
        if kind in _NAMED and not isinstance(item.get("name"), str):
            report.add("bad-description", f"{noun} {cut(name)!r} has no name")
    for name, number in names.items():
        if number > 1:
            report.add("duplicate", f"{number} {noun}s are called {cut(name)!r}")
    described = [each for each in items if isinstance(each, dict) and each.get(key) in names]
    if kind == "tools":
        _check_tools(report, described)
    elif kind == "prompts":
        _check_prompts(report, described)


def _check_tools(report: Report, tools: list[dict[str, Json]]) -> None:
    for tool in tools:
        name = tool["name"]
        if not _TOOL_NAME.fullmatch(name):
            report.add("tool-name", f"tool {cut(name)!r} has a name that hosts may refuse")
        _check_schema(report, name, "inputSchema", tool.get("inputSchema"))
        if tool.get("outputSchema") is not None:
            _check_schema(report, name, "outputSchema", tool["outputSchema"])
        _check_hints(report, name, tool.get("annotations"))
    _names(report, "no-description", "tools", [each["name"] for each in tools if _bare(each)])
    bare = [
        f"{tool['name']}.{key}"
        for tool in tools
        for key, each in field_of(tool.get("inputSchema")).properties.items()
        if _bare(each.schema)
    ]
    _names(report, "undescribed-arguments", "arguments", bare)
    size = len(json.dumps(tools))
    if size > _HEAVY_BYTES:
        report.add("heavy", f"the list of tools is {size // 1000} kB long")


def _check_prompts(report: Report, prompts: list[dict[str, Json]]) -> None:
    _names(report, "no-description", "prompts", [each["name"] for each in prompts if _bare(each)])
    for prompt in prompts:
        arguments = prompt.get("arguments") or []
        good = isinstance(arguments, list) and all(
            isinstance(each, dict) and isinstance(each.get("name"), str) for each in arguments
        )
        if not good:
            where = f"prompt {cut(prompt['name'])!r}"
            report.add("bad-description", f"{where} has arguments without a name")


def _check_schema(report: Report, tool: str, key: str, schema: Json) -> None:
    where = f"tool {cut(tool)!r}: its {key}"
    if not isinstance(schema, dict):
        report.add("invalid-schema", f"{where} is no JSON object")
        return
    problem = _invalid(schema)
    if problem is not None:
        report.add("invalid-schema", f"{where} is no valid JSON Schema: {problem}")
        return
    if key == "inputSchema" and schema.get("type") != "object":
        report.add("invalid-schema", f"{where} must have the type 'object'")
    try:
        check_schema(schema)
    except SchemaError as error:
        report.add("doubtful-schema", f"{where} is valid, but {cut(error, 200)}")
    whole = field_of(schema)
    absent = [name for name in whole.required if name not in whole.properties]
    if absent and not any(each in schema for each in ("patternProperties", "allOf", "$ref")):
        report.add(
            "unknown-required", f"{where} requires {', '.join(absent)}, and does not say what"
        )
    if key == "inputSchema":
        try:
            mirrored_parameters(schema)
        except ValueError as error:
            report.add("bad-header", f"{where}: {error}")


def _invalid(schema: dict[str, Json]) -> str | None:
    """Say what is wrong with a schema, by the metaschema of its dialect."""
    import jsonschema

    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"{cut(error.message, 200)} at {error.json_path}"
    except RecursionError:
        return "it is nested too deeply"
    return None


def _check_hints(report: Report, tool: str, hints: Json) -> None:
    if isinstance(hints, dict) and hints.get("readOnlyHint") and hints.get("destructiveHint"):
        report.add("contradiction", f"tool {cut(tool)!r} is said to only read, and to destroy")


def _bare(item: Json) -> bool:
    """Whether something has no description."""
    text = item.get("description") if isinstance(item, dict) else None
    return not (isinstance(text, str) and text.strip())


def _names(report: Report, code: str, what: str, names: list[str]) -> None:
    if names:
        shown = ", ".join(cut(each) for each in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        report.add(code, f"{what} without a description: {shown}{more}")
