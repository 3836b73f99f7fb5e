"""A tool: a function, its description, and the checks at its border.

Everything that can be worked out beforehand is worked out when the tool is made, so that a call
only looks up and runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import inf
from typing import Any, ClassVar, Final, Literal, Unpack

from attrs import evolve, frozen

from trio_mcp.layers.binding import UncheckedArguments
from trio_mcp.layers.concurrency import Slots
from trio_mcp.loggers import logger_of
from trio_mcp.registry.checks import (
    annotations_of,
    check_bound,
    check_payload,
    check_schema_texts,
    json_of,
)
from trio_mcp.registry.context import Context
from trio_mcp.registry.describing import check_names, handler_fields, shown_fields
from trio_mcp.registry.handlers import Handler, Keywords, Refusal
from trio_mcp.registry.options import ToolOptions
from trio_mcp.schema import (
    ArgumentError,
    FunctionSchema,
    SchemaError,
    Validator,
    check_function,
    compile_validator,
    describe_function,
)
from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.returns import wrapped
from trio_mcp.threads import is_large
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.headers import Path, mirrored_parameters
from trio_mcp.wire.jsonrpc import Id, Json, json_type, sendable_text
from trio_mcp.wire.payloads import Content, ToolAnnotations, ToolDescription
from trio_mcp.wire.revisions import META_TIMEOUT, Revision
from trio_mcp.wire.safe_repr import safe_repr
from trio_mcp.wire.subschemas import DEFINITIONS

LONGEST_NAME: Final = 128
NAME_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_.-]+")

logger = logger_of("trio_mcp.tools")


@frozen(eq=False, kw_only=True, repr=False, slots=False)
class Tool(Handler):
    """A registered tool. Made by `Registry.tool` and `Registry.add_tool`."""

    # No slots: with them, cached properties need a `__getattr__`, and all attributes are found
    # slowly by a class that has one. Each call reads a dozen.
    kind: ClassVar[Literal["tool"]] = "tool"
    description: ToolDescription
    """As `tools/list` shows it."""
    unstructure: Callable[[Any], Json] | None
    """Makes the function's results JSON-able; `None` where they are already."""
    check_output: Callable[[Json], str | None] | None
    """Says what is wrong with a structured result; `None` where there is no output schema."""
    returns_blocks: bool = False
    """Whether its annotation says that it returns a list of content blocks."""
    _validate: Validator
    structure: Callable[[dict[str, Json]], Keywords]
    """Turns arguments that fit into the function's keyword arguments."""
    checks_arguments: bool = True
    """Whether arguments are checked against the input schema here."""
    lenient: bool = True
    """Whether a text is read as JSON where the schema has no use for a text."""
    publishes_timeout: bool = True
    """Whether its description says how long a call may take."""
    delegate: Callable[..., Any] | None = None
    """Finds what its calls are for, if they are for something else (a `Delegate`)."""

    @cached_property
    def mirrored(self) -> Mapping[str, Path]:
        """The arguments that headers repeat over HTTP: for each header, the path to its value."""
        # A forwarded tool may have faulty marks: clients over HTTP leave it out, and send none.
        with suppress(ValueError):
            return mirrored_parameters(self.description.input_schema)
        return {}

    @property
    def object_output(self) -> bool:
        """Whether its results are JSON objects, by its output schema."""
        return (self.description.output_schema or {}).get("type") == "object"

    @cached_property
    def wrapped_output(self) -> dict[str, Json] | None:
        """The output schema where results are objects, if it is of something else: a list, say.

        Then `result` of such an object is what the function returned. `None` also where it cannot
        be written so.
        """
        schema = self.description.output_schema
        if schema is None or self.object_output or is_large(schema):
            return None
        return wrapped(schema)

    def bind(self, arguments: Json) -> Keywords | UncheckedArguments:
        """Check arguments, or raise `ArgumentError`, and turn them into keyword arguments.

        Large ones are left to a thread.
        """
        if self._validate.is_plain(arguments):  # most of them, by the shortest way
            return self.structure(arguments)
        if arguments.__class__ is not dict:
            raise ArgumentError(f"The arguments must be an object, not {json_type(arguments)}.")
        if is_large(arguments):
            return UncheckedArguments(f"tool {self.name}", partial(self._bind, arguments))
        return self._bind(arguments)

    def with_schema(
        self,
        description: ToolDescription,
        structure: Callable[[dict[str, Json]], Keywords],
    ) -> Tool:
        """Return the same tool with other arguments, or raise `SchemaError`."""
        if self.delegate is not None:
            raise SchemaError("its arguments cannot be others: they say what it is to call")
        schema = description.input_schema
        check_headers(schema)
        made = compile_validator(schema, inferred=True) if self.checks_arguments else self._validate
        return evolve(self, description=description, structure=structure, validate=made)

    def dereferenced(self) -> Tool:
        """Return the same tool, whose schemas are shown with as few references as can be."""
        shown = self.description
        given = {"input_schema": shown.input_schema, "output_schema": shown.output_schema}
        found = {
            name: schema for name, schema in given.items() if schema and schema.keys() & DEFINITIONS
        }
        if not found:
            return self
        from trio_mcp.schema.written_out import written_out  # few schemas need it

        made: dict[str, Any] = {name: written_out(schema) for name, schema in found.items()}
        return evolve(self, description=evolve(shown, **made))

    def renamed_fields(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        name, shown = fields["name"], fields["description"]
        if len(name) > LONGEST_NAME:
            raise SchemaError(
                f"Tool name {name!r:.300} is too long: {LONGEST_NAME} characters are allowed. "
                "Mount with a shorter prefix"
            )
        if not self.publishes_timeout:
            return fields
        meta = {**published(fields["timeout"]), **(shown.meta or {})} or None
        return {**fields, "description": evolve(shown, meta=meta)}

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        if value.__class__ is str and self.check_output is None:  # most of them, the shortest way
            return {"content": [{"type": "text", "text": value}]}
        from trio_mcp.registry.results import is_plain, plain_result  # no start waits for it

        if is_plain(self, value):
            return plain_result(self, value, revision)
        from trio_mcp.registry.content_results import content_result

        return content_result(self, value, revision)

    def reads_files(self, value: Any) -> bool:
        from trio_mcp.registry.results import reads_files

        return reads_files(value)

    def failed(self, text: str) -> Answer:
        return Result(tool_failure(text))

    def refused(self, error: Refusal, revision: Revision, id: Id) -> Answer:
        if revision.argument_errors_are_results:
            return self.failed(sendable_text(error))
        return super().refused(error, revision, id)

    def _bind(self, arguments: dict[str, Json]) -> Keywords:
        problem = self._validate(arguments)
        if problem is not None:
            arguments = self._read(arguments, problem)
        return self.structure(arguments)

    def _read(self, arguments: dict[str, Json], problem: str) -> dict[str, Json]:
        """Return arguments in which texts were read as JSON, or raise `ArgumentError`."""
        if self.lenient:
            from trio_mcp.schema.lenient import read_texts  # most arguments fit

            read = read_texts(self.description.input_schema, arguments, self._validate)
            if read is not None:
                logger.debug("%s: read as JSON, though they are texts: %s", self.label, read[1])
                return read[0]
        raise ArgumentError(problem)


def tool_failure(text: str) -> dict[str, Json]:
    """Make the members of the result of a tool that failed, for the model to read."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def make_tool(
    function: Callable[..., Any],
    *,
    usual_timeout: float | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Make a tool of a function. The options are those of `Registry.tool`."""
    check_names(options, ToolOptions)
    check_function(function)
    given = options.get("name")
    name = checked_name(str(getattr(function, "__name__", "")) if given is None else given)
    with errors_at(f"Tool {name!r}"):
        parameters, max_concurrent = options.get("parameters"), options.get("max_concurrent")
        check_bound("max_concurrent", max_concurrent)
        _check_parameters(parameters)
        described = describe_function(
            function,
            context_type=Context,
            parameters=parameters,
            input_schema=json_of("input_schema", options.get("input_schema")),
            result_types=(Content,),
        )
        check_headers(described.input_schema)
        returned = _output_schema(described, options.get("output_schema"))
        handler = handler_fields(function, described, options)
        shown = shown_fields(described, options)
        limit = usual_timeout if handler["timeout"] is None else handler["timeout"]
        shown["meta"] = published(limit) | (shown["meta"] or {}) or None
        description = ToolDescription(
            name=name,
            input_schema=described.input_schema,
            output_schema=returned,
            annotations=annotations_of(ToolAnnotations, options.get("annotations")),
            **shown,
        )
        check_payload(description)
        check_schema_texts("the input schema", described.input_schema)
        check_schema_texts("the output schema", returned)
    task = options.get("task", False)
    if task is not False:
        from trio_mcp.wire.extensions import TASKS  # few registries have extensions

        handler["extensions"] = {**handler["extensions"], TASKS: task}
    return Tool(
        name=name,
        description=description,
        slots=None if max_concurrent is None else Slots(max_concurrent),
        validate=_validator(described.checked_schema, options.get("input_schema") is None),
        structure=described.structure,
        unstructure=described.unstructure,
        check_output=None
        if returned is None
        else _validator(
            returned, options.get("output_schema") is None, noun="result", shows_values=False
        ),
        returns_blocks=described.lists_results,
        **handler,
    )


def _output_schema(
    described: FunctionSchema, given: Mapping[str, Json] | None
) -> dict[str, Json] | None:
    if given is None:
        return described.output_schema
    from trio_mcp.schema.bounds import check_schema  # no start waits for the exception

    schema = json_of("output_schema", given) or {}
    check_schema(schema)
    return schema


def _validator(schema: Mapping[str, Json], is_inferred: bool, **words: Any) -> Validator:
    """Make a validator. A schema written by hand is compiled at once: that may find a mistake."""
    validator = compile_validator(schema, inferred=True, **words)
    if not is_inferred:
        validator.compile()
    return validator


def published(timeout: float | None) -> dict[str, Json]:
    """Return the `_meta` that says how long a call may take, where `Limits` does not say so."""
    return {} if timeout is None or timeout == inf else {META_TIMEOUT: timeout}


def checked_name(name: Any) -> str:
    """Return the name of a tool, or raise `SchemaError` if none can have it."""
    if isinstance(name, str) and len(name) <= LONGEST_NAME and NAME_CHARACTERS.fullmatch(name):
        return str.__str__(name)  # a member of an enumeration has a text of its own for messages
    raise SchemaError(
        f"Tool name {name!r:.200} is not valid: "
        "it needs 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'. "
        "Give the tool another one with name=..."
    )


def _check_parameters(parameters: Any) -> None:
    if parameters is None:
        return
    from trio_mcp.schema.parameters import Parameter  # many classes, which few tools need

    is_list = isinstance(parameters, Sequence) and not isinstance(parameters, str)
    if is_list and all(isinstance(parameter, Parameter) for parameter in parameters):
        return
    raise SchemaError(f"parameters must be a list of Parameter(…), not {safe_repr(parameters)}")


def check_headers(input_schema: Json) -> None:
    """Raise `SchemaError` for marks for HTTP headers that make clients leave the tool out."""
    try:
        mirrored_parameters(input_schema)
    except ValueError as error:
        raise SchemaError(f"{error}; clients over HTTP would leave the tool out") from None


def unknown_tool(name: Json, known: Sequence[str]) -> McpError:
    """Make the error for a tool that does not exist, with the closest name that does."""
    if name is None:
        return McpError(INVALID_PARAMS, "Missing tool name")
    if not isinstance(name, str):
        got = json_type(name)
        return McpError(INVALID_PARAMS, f"The tool name must be a string, not {got}", {"got": got})
    return unknown("tool", name, known)


def unknown(what: str, name: str, known: Sequence[str]) -> McpError:
    """Make the error for something that does not exist, with the closest name that does."""
    from trio_mcp.wire.closest import closest  # no start waits for it

    message = f"Unknown {what}: {name[:200]}"
    meant = closest(name, known)
    data = {what.partition(" ")[0]: name[:200], **({} if meant is None else {"didYouMean": meant})}
    return McpError(INVALID_PARAMS, message, data)
