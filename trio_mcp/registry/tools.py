"""A tool: a function, its description, and the checks at its border.

Everything that can be worked out beforehand is worked out when the tool is made, so that a call
only looks up and runs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import trio
from attrs import evolve, field, frozen

from trio_mcp.registry.checks import (
    annotations_of,
    check_bound,
    check_payload,
    check_schema_texts,
    check_timeout,
    icons_of,
    json_of,
    scopes_of,
)
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import NO_EXTENSIONS, Handler, Keywords, Unbound
from trio_mcp.registry.invalid import holds_many
from trio_mcp.registry.options import Icons
from trio_mcp.registry.results import Prepared, Returnable, prepare_result, reads_files
from trio_mcp.registry.slots import Slots
from trio_mcp.schema import (
    TAKES_LONG,
    ArgumentError,
    SchemaError,
    Validator,
    check_function,
    compile_validator,
    describe_function,
)
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.headers import Path, mirrored_parameters
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.payloads import CONTENT_BLOCKS, CallToolResult, ToolAnnotations, ToolDescription
from trio_mcp.wire.revisions import META_TIMEOUT
from trio_mcp.wire.safe_repr import safe_repr

if TYPE_CHECKING:
    from trio_mcp.schema.parameters import Parameter

RESULT_TYPES: Final = frozenset({CallToolResult, Returnable, *CONTENT_BLOCKS.values()})
"""What a tool returns to say itself what its caller gets; such a result has no schema."""

LONGEST_NAME: Final = 128
NAME_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_.-]+")


@frozen(eq=False, kw_only=True)
class Tool(Handler):
    """A registered tool. Made by `Registry.tool` and `Registry.add_tool`."""

    kind: ClassVar[Literal["tool"]] = "tool"
    description: ToolDescription
    """As `tools/list` shows it."""
    _validate: Validator
    _structure: Callable[[dict[str, Json]], Keywords]
    unstructure: Callable[[Any], Json] | None
    """Makes the function's results JSON-able; `None` where they are already."""
    check_output: Callable[[Json], str | None] | None
    """Says what is wrong with a structured result; `None` where there is no output schema."""
    checks_arguments: bool = True
    """Whether arguments are held against the input schema here."""
    returns_blocks: bool = False
    """Whether its annotation says that it returns a list of content blocks."""
    _mirrored: Mapping[str, Path] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """See once whether a call is nothing but a call of the function."""
        super().__attrs_post_init__()
        as_it_is = self.unstructure is None and self.check_output is None
        object.__setattr__(self, "is_direct", self.is_direct and as_it_is)

    @property
    def mirrored(self) -> Mapping[str, Path]:
        """The arguments that headers repeat over HTTP: for each header, the path to its value."""
        if self._mirrored is None:  # found when it is asked for: only modern HTTP does
            found: Mapping[str, Path] = {}
            # A forwarded tool may have faulty marks: clients over HTTP leave it out, and send none.
            with suppress(ValueError):
                found = mirrored_parameters(self.description.input_schema)
            object.__setattr__(self, "_mirrored", found)
            return found
        return self._mirrored

    @property
    def object_output(self) -> bool:
        """Whether its results are JSON objects, by its output schema."""
        return (self.description.output_schema or {}).get("type") == "object"

    def bind(self, arguments: Json) -> Keywords | Unbound:
        """Check arguments and turn them into the function's keyword arguments.

        What would take long is left to `run`.

        Raises:
            ArgumentError: They do not fit; the message is for the caller.
        """
        if self._validate.is_plain(arguments):  # most of them, by the shortest way
            return self._structure(arguments)
        if arguments.__class__ is not dict:
            raise ArgumentError(f"The arguments must be an object, not {json_type(arguments)}.")
        problem = self._validate.at_once(arguments)
        if problem is TAKES_LONG:
            return Unbound(f"tool {self.name}", partial(self._bind, arguments))
        return self._structured(arguments, problem)

    @property
    def structure(self) -> Callable[[dict[str, Json]], Keywords]:
        """Turns arguments that fit into the function's keyword arguments."""
        return self._structure

    def with_schema(
        self,
        description: ToolDescription,
        structure: Callable[[dict[str, Json]], Keywords],
    ) -> Tool:
        """Return the same tool with other arguments."""
        schema = description.input_schema
        check_headers(schema)
        made = compile_validator(schema, inferred=True) if self.checks_arguments else self._validate
        return evolve(self, description=description, structure=structure, validate=made)

    def run(
        self,
        keywords: Keywords | Unbound,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | None = None,
    ) -> Awaitable[Any]:
        """Run the function, as every handler.

        Returns:
            What it returned. What would take long to convert and to check comes `Prepared`.
        """
        running = super().run(keywords, make_context, limiter)
        as_it_is = self.unstructure is None and self.check_output is None
        return running if as_it_is else self._prepare(running)

    async def _prepare(self, running: Awaitable[Any]) -> Any:
        value = await running
        # Arguments that were checked in a thread have brought it here once already.
        if isinstance(value, Prepared) or not (holds_many(value) or reads_files(value)):
            return value
        return await trio.to_thread.run_sync(prepare_result, self, value, abandon_on_cancel=True)

    def _bind(self, arguments: dict[str, Json]) -> Keywords:
        return self._structured(arguments, self._validate(arguments))

    def _structured(self, arguments: dict[str, Json], problem: str | None) -> Keywords:
        if problem is not None:
            raise ArgumentError(problem)
        return self._structure(arguments)


def make_tool(
    function: Callable[..., Any],
    *,
    usual_timeout: float | None = None,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Json] | None = None,
    output_schema: Mapping[str, Json] | None = None,
    parameters: Sequence[Parameter] | None = None,
    annotations: ToolAnnotations | Mapping[str, Any] | None = None,
    icons: Icons | None = None,
    meta: Mapping[str, Json] | None = None,
    timeout: float | None = None,
    max_concurrent: int | None = None,
    scopes: Sequence[str] = (),
    task: Any = False,
    extensions: Mapping[str, Any] = NO_EXTENSIONS,
) -> Tool:
    """Make a tool of a function. The arguments are those of `Registry.tool`."""
    check_function(function)
    if task is not False:
        from trio_mcp.wire.extensions import TASKS  # few registries have extensions

        extensions = {**extensions, TASKS: task}
    name = checked_name(str(getattr(function, "__name__", "")) if name is None else name)
    try:
        check_timeout(timeout)
        check_bound("max_concurrent", max_concurrent)
        needed = scopes_of(scopes)
        _check_parameters(parameters)
        inferred = describe_function(
            function,
            context_type=Context,
            parameters=parameters,
            input_schema=json_of("input_schema", input_schema),
            result_types=RESULT_TYPES,
        )
        check_headers(inferred.input_schema)
        accepted = inferred.input_schema
        returned = inferred.output_schema
        if output_schema is not None:
            from trio_mcp.schema.bounds import check_schema  # no start waits for the exception

            returned = json_of("output_schema", output_schema) or {}
            check_schema(returned)
        limit = usual_timeout if timeout is None else timeout
        shown = ToolDescription(
            name=name,
            input_schema=accepted,
            title=title,
            description=inferred.description if description is None else description,
            output_schema=returned,
            annotations=annotations_of(ToolAnnotations, annotations),
            icons=icons_of(icons),
            meta=published(limit) | (json_of("meta", meta) or {}) or None,
        )
        check_payload(shown)
        check_schema_texts("the input schema", accepted)
        check_schema_texts("the output schema", returned)
    except SchemaError as error:
        raise SchemaError(f"Tool {name!r}: {error}") from None
    return Tool(
        name=name,
        label=f"Tool {name}",
        function=function,
        description=shown,
        timeout=timeout,
        slots=None if max_concurrent is None else Slots(max_concurrent),
        context_parameter=inferred.context_parameter,
        scopes=needed,
        extensions=extensions,
        validate=_validator(inferred.checked_schema, is_inferred=input_schema is None),
        structure=inferred.structure,
        unstructure=inferred.unstructure,
        check_output=None
        if returned is None
        else _validator(
            returned, is_inferred=output_schema is None, noun="result", shows_values=False
        ),
        returns_blocks=inferred.lists_results,
    )


def _validator(schema: Mapping[str, Json], *, is_inferred: bool, **words: Any) -> Validator:
    """Make what checks values by a schema that has been checked itself.

    One that was written by hand is compiled at once: that may find something wrong with it.
    """
    validator = compile_validator(schema, inferred=True, **words)
    if not is_inferred:
        validator.compile()
    return validator


def published(timeout: float | None) -> dict[str, Json]:
    """Return what tells clients how long a call may take, where that is not for `Limits` to say."""
    return {} if timeout is None or timeout == inf else {META_TIMEOUT: timeout}


def checked_name(name: Any) -> str:
    """Return the name of a tool.

    Raises:
        SchemaError: No tool can have it.
    """
    if isinstance(name, str) and len(name) <= LONGEST_NAME and NAME_CHARACTERS.fullmatch(name):
        return name
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
    if is_list and all(isinstance(each, Parameter) for each in parameters):
        return
    raise SchemaError(f"parameters must be a list of Parameter(…), not {safe_repr(parameters)}")


def check_headers(input_schema: Json) -> None:
    """Refuse marks for HTTP headers that would make clients leave the tool out.

    Raises:
        SchemaError: There are such.
    """
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
