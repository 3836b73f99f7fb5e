"""Checks of the descriptions of tools, resources and prompts."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from trio_mcp.cli.doctor.report import Report, shorten, some
from trio_mcp.cli.schemas import field_of
from trio_mcp.registry.kinds import PROMPT, TOOL, ListedKind
from trio_mcp.schema import SchemaError
from trio_mcp.schema.bounds import check_schema
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.headers import mirrored_parameters
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import ToolDescription

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HEAVY_BYTES: Final = 60_000
_MAX_NAMES: Final = 8


def check_descriptions(report: Report, kind: ListedKind, items: list[Json]) -> None:
    noun, payload, key = kind.noun, kind.description_type, kind.attribute
    described: list[Any] = []
    for item in items:
        try:
            described.append(from_wire(item, payload))
        except ValueError as error:
            why, sent = shorten(error), shorten(json.dumps(item))
            what = f"a {noun} is not as the schema says ({why}): {sent}"
            report.add("bad-description", what)
    for name, number in Counter(getattr(item, key) for item in described).items():
        if not name:
            report.add("bad-description", f"a {noun} has an empty {key}")
        if number > 1:
            report.add("duplicate", f"{number} {noun}s are called {shorten(name)!r}")
    if kind in (TOOL, PROMPT):
        bare = [item.name for item in described if not (item.description or "").strip()]
        _names(report, "no-description", kind.items, bare)
    if kind is TOOL:
        _check_tools(report, described)
        size = len(json.dumps(items))
        if size > _HEAVY_BYTES:
            report.add("heavy", f"the list of tools is {size // 1000} kB long")


def _check_tools(report: Report, tools: list[ToolDescription]) -> None:
    bare = []
    for tool in tools:
        if tool.name and not _TOOL_NAME.fullmatch(tool.name):
            report.add("tool-name", f"tool {shorten(tool.name)!r} has a name that hosts may refuse")
        _check_schema(report, tool.name, "inputSchema", tool.input_schema)
        if tool.output_schema is not None:
            _check_schema(report, tool.name, "outputSchema", tool.output_schema)
        hints = tool.annotations
        if hints is not None and hints.read_only_hint and hints.destructive_hint:
            what = f"tool {shorten(tool.name)!r} is said to only read, and to destroy"
            report.add("contradiction", what)
        for name, field in field_of(tool.input_schema).properties.items():
            if not str(field.own.get("description") or "").strip():
                bare.append(f"{tool.name}.{name}")
    _names(report, "undescribed-arguments", "arguments", bare)


def _check_schema(report: Report, tool: str, key: str, schema: dict[str, Json]) -> None:
    where = f"tool {shorten(tool)!r}: its {key}"
    problem = _invalid(schema)
    if problem is not None:
        report.add("invalid-schema", f"{where} is not valid JSON Schema: {problem}")
        return
    if key == "inputSchema" and schema.get("type") != "object":
        report.add("invalid-schema", f"{where} must have the type 'object'")
    try:
        check_schema(schema)
    except SchemaError as error:
        report.add("doubtful-schema", f"{where} is valid, but {shorten(error, 200)}")
    whole = field_of(schema)
    absent = [name for name in whole.required if name not in whole.properties]
    if absent and not schema.keys() & {"patternProperties", "allOf", "$ref"}:
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
        return f"{shorten(error.message, 200)} at {error.json_path}"
    except RecursionError:
        return "it is nested too deeply"
    return None


def _names(report: Report, code: str, what: str, names: list[str]) -> None:
    if names:
        report.add(code, f"{what} without a description: {some(names, _MAX_NAMES)}")
