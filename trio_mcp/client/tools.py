"""The tools of a server on the client's side: names, limits and schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import trio
from attrs import Factory, define, field

from trio_mcp.errors import InvalidArguments, ToolDisabled, UnknownTool
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry.changes import Change, ListChanged
from trio_mcp.schema import SchemaError, Validator, compile_validator
from trio_mcp.telemetry import meta_of
from trio_mcp.threads import in_thread, offload
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.methods import CALL_TOOL
from trio_mcp.wire.payloads import WRAPS_RESULT, ToolDescription
from trio_mcp.wire.revisions import META_TIMEOUT
from trio_mcp.wire.tags import tags_in

if TYPE_CHECKING:
    from trio_mcp.registry.middleware import McpRequest

logger = logger_of("trio_mcp.client")

ToolNames = Mapping[str, str] | Callable[[str], str]

_AT_ONCE: Final = 500
"""So many tools are made before others get their turn."""
_LONG_SCHEMA: Final = 10_000
"""So many bytes a schema may have to be looked through at once."""
_TOLD: Final = 10
"""So many of the tools that are left out are named in the log, which takes its time."""
_LAG: Final = 1.0
"""Seconds that the word that a tool's time is over may take to get here."""


@define(eq=False)
class _SchemaCheck:
    """Checks values by a server's schema, which is compiled when first used."""

    schema: dict[str, Json]
    what: str
    noun: str
    _validators: list[Validator] | None = None
    """One; or none, where the schema is not acceptable."""

    def problem_with(self, value: Json) -> str | None:
        """Say what is wrong with a value; `None` also if the schema is not acceptable."""
        if self._validators is None:
            try:
                self._validators = [compile_validator(self.schema, noun=self.noun)]
            except SchemaError as error:  # the server knows its own schema better than we do
                logger.warning("%s are not checked here: %s", self.what, error)
                self._validators = []
        return next((validate(value) for validate in self._validators), None)

    def fits_at_sight(self, value: Json) -> bool:
        """Whether the quick check accepts a value, as it does most after the first."""
        validators = self._validators
        return validators[0].is_plain(value) if validators else False

    async def check(self, value: Json) -> str | None:
        """Like `problem_with`, but in a worker thread if that takes long."""
        if self._validators is None and self._compiles_long():
            return await in_thread(self.problem_with, value)
        return await offload(self.problem_with, value)

    def _compiles_long(self) -> bool:
        try:
            text = encode(self.schema, is_encodable=True)
        except (TypeError, ValueError):  # nested too deeply, say
            return True
        return len(text) > _LONG_SCHEMA or b'"pattern' in text


@public
@define
class RemoteTool:
    """A tool of the server."""

    name: str
    """Its local name: the server's, unless `connect` has another one in `tool_names`."""
    description: str | None
    input_schema: dict[str, Json]
    timeout: float = 5.0
    """Seconds that `Client.call_tool` waits for it: the `tool_timeout` of `connect` (infinity for
    `None`), or a second more than the limit that the server publishes for it. May be changed."""
    enabled: bool = True
    """Whether `Client.call_tool` may call it. May be changed."""
    details: dict[str, Json] = field(factory=dict, repr=False)
    """The tool as the server describes it."""
    mcp_name: str = Factory(lambda self: self.name, takes_self=True)
    """What the server calls it."""
    output_schema: dict[str, Json] | None = field(init=False, repr=False, eq=False)
    """What its structured results look like; `None` if the server does not say."""
    _arguments_check: _SchemaCheck | None = field(init=False, default=None, repr=False, eq=False)
    _results_check: _SchemaCheck | None = field(init=False, default=None, repr=False, eq=False)

    @output_schema.default
    def _described_output(self) -> dict[str, Json] | None:
        schema = self.details.get("outputSchema")
        return schema if isinstance(schema, dict) else None

    @property
    def wraps_results(self) -> bool:
        """Whether structured content is `{"result": value}`, where the tool returned the value."""
        return (self.output_schema or {}).get(WRAPS_RESULT) is True

    @property
    def tags(self) -> frozenset[str]:
        """Its tags, which servers of trio-mcp and FastMCP write in its `_meta`."""
        return tags_in(meta_of(self.details))

    # A cached property would make each attribute of the class slow to read.
    @property
    def _arguments(self) -> _SchemaCheck:
        if self._arguments_check is None:  # most tools are never called, and there may be very many
            what = f"Tool {self.name}: arguments"
            self._arguments_check = _SchemaCheck(self.input_schema, what, "argument")
        return self._arguments_check

    @property
    def _results(self) -> _SchemaCheck:
        if self._results_check is None:
            what = f"Tool {self.name}: results"
            self._results_check = _SchemaCheck(self.output_schema or {}, what, "result")
        return self._results_check

    def problem_with(self, arguments: dict[str, Json]) -> str | None:
        """Say what is wrong with arguments, by the tool's schema; `None` if nothing is.

        Arguments for a schema that cannot be checked here are left to the server.
        """
        return self._arguments.problem_with(arguments)

    def fits_at_sight(self, arguments: dict[str, Json]) -> bool:
        """Whether arguments need no `check`, as most do not after the first."""
        check = self._arguments_check
        return check is not None and check.fits_at_sight(arguments)

    async def check(self, arguments: dict[str, Json]) -> str | None:
        """Like `problem_with`, but in a worker thread if it takes long."""
        return await self._arguments.check(arguments)

    def fits_result_at_sight(self, result: dict[str, Json]) -> bool:
        """Whether a result needs no `check_result`, as most do not."""
        if self.output_schema is None:
            return True
        return self._results.fits_at_sight(result.get("structuredContent"))

    async def check_result(self, result: dict[str, Json]) -> str | None:
        """Say what is wrong with a result, by the tool's output schema; `None` if nothing is.

        Failures, which have no structure, and results for a schema that is not acceptable are not
        checked.
        """
        if self.output_schema is None or result.get("isError"):
            return None
        if "structuredContent" not in result:
            return "the tool has an output schema, but the result has no structuredContent"
        return await self._results.check(result["structuredContent"])


class ToolTable:
    """The tools by their local names.

    Raises:
        ValueError: One of the server's names is there twice.
    """

    def __init__(self, timeout: float, max_timeout: float, names: ToolNames) -> None:
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._rename = names if callable(names) else None
        names = {} if callable(names) else names
        self._remote_names = dict(names)
        self._local_names = {remote: local for local, remote in names.items()}
        if len(self._local_names) < len(names):
            raise ValueError("tool_names: a tool of the server has two names")
        self.tools: dict[str, RemoteTool] = {}
        self.fresh_until = inf
        """When they are out of date, by Trio's clock: infinity where the server does not say."""
        self.changes = 0
        """How often the list has changed, as far as that is known."""
        self._is_listed = False

    async def made_of(self, listed: Sequence[Json]) -> dict[str, RemoteTool]:
        """Make tools of a server's list, with a checkpoint now and then."""
        found: dict[str, RemoteTool] = {}
        for start in range(0, len(listed), _AT_ONCE):
            if start:
                await trio.lowlevel.checkpoint()
            for wire in listed[start : start + _AT_ONCE]:
                self._add(wire, found)
        return found

    def _add(self, wire: Json, found: dict[str, RemoteTool]) -> None:
        match wire:
            case {"name": str(name), "inputSchema": dict()}:
                tool = self._tool(self._local_name(name), name, wire)
            case _:
                logger.warning("A tool is left out: it has no name or no inputSchema")
                return
        if self._remote_names.get(tool.name, name) != name:
            why = "another one is called that here"
            logger.warning("Tool %s is left out: %s", name, why)
        else:
            found[tool.name] = tool

    def update(
        self, found: dict[str, RemoteTool], refused: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take tools in place of those before. Those that are still there keep their settings."""
        for name, why in islice(refused.items(), _TOLD):
            logger.warning("Tool %.200s is left out: %.200s", name, why)
        if len(refused) > _TOLD:
            logger.warning("%d more tools are left out", len(refused) - _TOLD)
        for name in refused:
            del found[self._local_name(name)]
        for name, known in self.tools.items():
            tool = found.get(name)
            if tool is not None:
                tool.timeout, tool.enabled = known.timeout, known.enabled
        self.tools = found
        self._is_listed = True

    def note_change(self, change: Change) -> None:
        """Take note that the list may have changed, where the server says how long it is good."""
        if change == ListChanged("tools"):
            self.changes += 1
            self.fresh_until = inf if self.fresh_until == inf else -inf

    def _local_name(self, name: str) -> str:
        return self._local_names.get(name, name) if self._rename is None else self._rename(name)

    def _tool(self, local: str, name: str, wire: dict[str, Json]) -> RemoteTool:
        return RemoteTool(
            local,
            wire.get("description"),
            wire.get("inputSchema", {}),
            timeout=self._timeout_of(wire),
            details=wire,
            mcp_name=name,
        )

    def _timeout_of(self, wire: dict[str, Json]) -> float:
        """Return how long to wait for a tool: longer than its server's own limit."""
        limit: Json = meta_of(wire).get(META_TIMEOUT)
        if not is_number(limit):
            return self._timeout
        return max(self._timeout, min(float(limit), self._max_timeout - _LAG) + _LAG)

    def has(self, name: str) -> bool:
        """Whether the server has listed a tool by that name of its own."""
        return self._local_name(name) in self.tools

    def describe(self, request: McpRequest) -> ToolDescription | None:
        """Find the description of the tool that a request calls (`McpRequest`)."""
        if request.method != CALL_TOOL.name or request.target is None:
            return None
        tool = self.tools.get(self._local_name(request.target))
        try:
            return None if tool is None else from_wire(tool.details, ToolDescription)
        except ValueError:  # it is nothing that can be relied on
            return None

    def tool_for(self, name: str) -> RemoteTool:
        """Find the tool to call. Before they are listed, any name will do.

        Raises:
            UnknownTool: There is none of that name.
            ToolDisabled: It is disabled.
        """
        tool = self.tools.get(name)
        if not self._is_listed:
            return self._tool(name, self._remote_names.get(name, name), {})
        if tool is None:
            raise UnknownTool(f"the server has no tool {name!r}; it has: {', '.join(self.tools)}")
        if not tool.enabled:
            raise ToolDisabled(f"tool {name!r} is disabled")
        return tool

    async def checked(self, tool: RemoteTool, arguments: dict[str, Json]) -> dict[str, Json]:
        """Check arguments against a tool's schema, once the tools are listed.

        Returns:
            What to send: the same, or with those texts read as JSON for which the schema has no
            use. Models write them so, and few servers know what is meant.

        Raises:
            InvalidArguments: They do not fit its schema.
        """
        problem = await tool.check(arguments) if self._is_listed else None
        if problem is None:
            return arguments
        from trio_mcp.schema.lenient import read_texts  # most arguments fit

        read = await offload(
            lambda given: read_texts(tool.input_schema, given, tool.problem_with), arguments
        )
        if read is None:
            raise InvalidArguments(f"tool {tool.name!r}: {problem}")
        logger.debug("tool %s: read as JSON, though they are texts: %s", tool.name, read[1])
        return read[0]
