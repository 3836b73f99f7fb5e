"""What tools, resources, prompts and completions have in common: a function that is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

from attrs import field, frozen

from trio_mcp.layers import compose
from trio_mcp.layers.binding import RefusedArguments
from trio_mcp.layers.call import Call
from trio_mcp.layers.call import Handler as CallHandler
from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async
from trio_mcp.schema import ArgumentError, FunctionSchema, compile_validator
from trio_mcp.wire.answers import Answer
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import Revision

if TYPE_CHECKING:
    from trio_mcp.layers.concurrency import Slots
    from trio_mcp.layers.forwarding import Relaying
    from trio_mcp.layers.injecting import Injection
    from trio_mcp.registry.middleware import McpCall
    from trio_mcp.registry.mount_info import MountInfo

Keywords = dict[str, Any]
Refusal = ArgumentError | RefusedArguments
"""Why arguments were refused: before the call ran, or when it was running already."""

NO_EXTENSIONS: Final[Mapping[str, Any]] = MappingProxyType({})


class Texts(Protocol):
    """Turns arguments that travel as text into keyword arguments (`TextArguments`)."""

    def takes_long(self, texts: dict[str, Json]) -> bool: ...

    def bind(self, texts: dict[str, Json]) -> Keywords: ...


@frozen(eq=False, kw_only=True, repr=False)
class Handler:
    """A function of the author's that answers requests."""

    kind: ClassVar[Literal["tool", "resource", "prompt", "completion", "method"]]
    name: str
    """What it is asked for by: a name, or a URI."""
    function: Callable[..., Any]
    timeout: float | None = None
    """Seconds that it may run; `None` for the registry's or the server's default."""
    context_parameter: str | None = None
    injection: Injection | None = None
    """Fills the parameters that come from functions; `None` where there are none."""
    slots: Slots | None = None
    """Bounds how many run at the same time; `None` for any number."""
    scopes: frozenset[str] = frozenset()
    """What a caller's access token must allow, where callers have one."""
    state: str | None = None
    """What its state belongs to (a `StateScope`); `None` where nothing is kept between calls."""
    extensions: Mapping[str, Any] = NO_EXTENSIONS
    """By identifier, what it was registered with for extensions, as each of them has checked it."""
    visible: tuple[Callable[[Context], bool], ...] = ()
    """Its rules of visibility: a caller sees it if all of them return true."""
    extra_fields: Mapping[str, Json] = NO_EXTENSIONS
    """Of an entry of a server elsewhere: members of its description that this library does not
    know, to be listed as they are."""
    middleware: tuple[Any, ...] = ()
    """What the registry runs around its calls, the first one outermost."""
    origin: MountInfo | None = None
    """Where it comes from; `None` for what was registered in the registry itself."""
    label: str = field(init=False)
    """What it is, for its callers, the log and its tasks: `Tool add`."""
    is_async: bool = field(init=False)
    gets_context: bool = field(init=False)
    """Whether anything gets a context, and so may say something before the result."""
    layers: tuple[str, ...] = field(init=False)
    """The names of the layers around its function, outermost first."""
    run: CallHandler = field(init=False)
    """Runs the function, in all that authors have put around it; returns what it returns."""
    chain: CallHandler = field(init=False)
    """Does the same, and makes a `Result` of it."""
    relay: Relaying | None = field(init=False)
    """Does without its layers, where another server answers and they do nothing else."""

    def __attrs_post_init__(self) -> None:
        # Worked out once, so that calls only look it up.
        keep = partial(object.__setattr__, self)
        keep("label", self._label())
        keep("is_async", is_async(self.function))
        inside = self.origin is not None and self.origin.item.gets_context
        own = (self.context_parameter, self.injection, self.state)
        asks = any(part is not None for part in own)
        keep("gets_context", asks or bool(self.middleware) or inside)
        for name, value in zip(("layers", "run", "chain", "relay"), compose(self), strict=True):
            keep(name, value)

    def __repr__(self) -> str:
        return f"<{self.label}: {' > '.join(self.layers)}>"

    def _label(self) -> str:
        return f"{self.kind.capitalize()} {self.name}"

    def renamed_fields(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what it has where it is mounted under another name, or raise `SchemaError`."""
        return fields

    def shown(self, call: Call) -> McpCall:
        """Return what middleware gets of a call."""
        from trio_mcp.registry.middleware import McpCall  # if there is any

        assert self.kind != "method"  # of an extension
        return McpCall(
            kind=self.kind,
            name=self.name,
            arguments=call.arguments,
            context=call.make_context,
            description=getattr(self, "description", None),
        )

    def handed_on(self, call: Call, shown: McpCall) -> Call:
        """Return the call that middleware hands on, or raise `TypeError`."""
        from trio_mcp.registry.middleware import McpCall, check_handed_on

        check_handed_on(shown, McpCall)
        return call.with_arguments(dict(shown.arguments), lambda: shown.context)

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        """Return the members of the result of a call by a name, or raise `InvalidResult`."""
        raise NotImplementedError

    def reads_files(self, value: Any) -> bool:
        """Whether `to_result` has to read files for it."""
        return False

    def failed(self, text: str) -> Answer:
        """Return the answer that describes a failure in words."""
        return McpError(INTERNAL_ERROR, text)

    def refused(self, error: Refusal, revision: Revision, id: Id) -> Answer:
        return McpError(INVALID_PARAMS, str(error), self.refusal_data(error, id))

    def refusal_data(self, error: Refusal, id: Id) -> dict[str, Json]:
        """Return the `data` of the error: which tool or prompt, and which argument of it."""
        data: dict[str, Json] = {self.kind: self.name, "requestId": id}
        return data if error.argument is None else {**data, "argument": error.argument[:200]}

    def missing(self, asked: str, error: Exception) -> str:
        """Return the URI of the resource that its function did not find."""
        return str(error)


_LONG: Final = 20_000
"""So many characters of text are read as JSON at once."""


class TextArguments:
    """Typed arguments that travel as text: those of prompts, and the variables of templates.

    A text that the parameter takes as it is stays as it is; any other is read as JSON. So `"3"` is
    a number to an `int` and a string to a `str`.
    """

    def __init__(self, described: FunctionSchema) -> None:
        schema = described.input_schema
        rest = {key: value for key, value in schema.items() if key == "$defs"}
        self._takes = {
            name: compile_validator({**rest, **property_}, inferred=True)
            for name, property_ in schema.get("properties", {}).items()
        }
        self._validate = compile_validator(described.checked_schema, inferred=True)
        self._structure = described.structure

    def takes_long(self, texts: dict[str, Json]) -> bool:
        # Any text may be the JSON of a large value.
        return sum(len(text) for text in texts.values() if isinstance(text, str)) > _LONG

    def bind(self, texts: dict[str, Json]) -> Keywords:
        """Turn texts into keyword arguments, or raise `ArgumentError`."""
        arguments = {name: self._value(name, text) for name, text in texts.items()}
        problem = self._validate(arguments)
        if problem is not None:
            raise ArgumentError(problem)
        return self._structure(arguments)

    def _value(self, name: str, text: Json) -> Json:
        takes = self._takes.get(name)
        if not isinstance(text, str) or takes is None or takes(text) is None:
            return text
        from trio_mcp.schema.lenient import json_or_text  # few prompts and templates need it

        return json_or_text(text)
