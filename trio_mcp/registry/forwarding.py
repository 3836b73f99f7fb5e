"""Entries whose requests are passed on as they are: those of a provider that is not a registry.

Each of them has an `Answer`: an async function that gets the parameters of the request, as the
provider would have got them itself, and the caller's `Context`. It returns the members of the
result, which reach the caller untouched; an `McpError` reaches it with its code, message and data.

The parameters are those of the request, `_meta` among them, with the provider's own names in place
of those that the caller knows. All of `Context` works: `progress`, `log`, `ask` (a question as
JSON, and its answer), `capabilities`, `connection_id`, `principal`.

Questions go one of two ways. `Context.ask` asks a caller of any revision. To a caller of a modern
one an answer may also be the provider's own question (`resultType: "input_required"`), as it came.
The caller's answers come with the next request, as `inputResponses`, and with them the
`requestState` that the provider gave. On its way through the caller's hands it is sealed, and bound
to the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypedDict, Unpack, overload

from attrs import frozen

from trio_mcp.layers.call import Call
from trio_mcp.public import public_in
from trio_mcp.registry.completions import Completer
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Handler, Keywords
from trio_mcp.registry.kinds import (
    COMPLETION,
    PROMPT,
    RESOURCE,
    TEMPLATE,
    TOOL,
    EntryKind,
    kind_of,
)
from trio_mcp.registry.prompts import Prompt
from trio_mcp.registry.resources import Resource, ResourceTemplate
from trio_mcp.registry.tools import Tool
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import compile_validator
from trio_mcp.wire.answers import RawResult
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.offers import PromptDescription, ResourceTemplateDescription
from trio_mcp.wire.payloads import ToolDescription

Answer = Callable[[dict[str, Json], Context], Awaitable[Mapping[str, Json]]]


class PassOn(Protocol):
    """Passes on calls during which hardly anything is said. What they need, they find in the call.

    That is: the caller's parameters (`call.exchange.params`), which must not be changed; the
    arguments that are meant; what the provider's lifespan yielded (`call.state`); and the caller's
    context, to be made once there is something to say.
    """

    def forward(self, call: Call) -> Awaitable[Mapping[str, Json]] | None:
        """Pass a call on, and return the members of its result, to be awaited.

        Returns:
            `None` for a call that needs the context from the beginning.
        """

    def begin(self, call: Call, deadline: float, on_news: Callable[[Any], object]) -> Any:
        """Pass a call on as `forward` does, and do not wait (`Relaying.begin`)."""

    def receive(self, call: Call, sent: Any) -> Awaitable[Mapping[str, Json]]:
        """Return the members of the result of what `begin` has sent, to be awaited."""


@public_in("trio_mcp.compose")
@frozen
class ArgumentRef:
    """What a completion is for: an argument of a prompt, or a variable of a template.

    Args:
        ref: What it belongs to, by the provider's own name: `ref` of `completion/complete`.
        argument: Its name.
    """

    ref: dict[str, Json]
    argument: str

    @property
    def name(self) -> str:
        """What the completion is called in the log."""
        return f"{self.argument} of {self.ref.get('name') or self.ref.get('uri')}"


class ForwardOptions(TypedDict, total=False):
    """The options of `forwarded_entry`, which documents them."""

    pass_on: PassOn | None
    check: bool
    timeout: float | None
    scopes: frozenset[str]


@overload
def forwarded_entry(
    description: ToolDescription, answer: Answer, **options: Unpack[ForwardOptions]
) -> Tool: ...


@overload
def forwarded_entry(
    description: ResourceDescription, answer: Answer, **options: Unpack[ForwardOptions]
) -> Resource: ...


@overload
def forwarded_entry(
    description: ResourceTemplateDescription, answer: Answer, **options: Unpack[ForwardOptions]
) -> ResourceTemplate: ...


@overload
def forwarded_entry(
    description: PromptDescription, answer: Answer, **options: Unpack[ForwardOptions]
) -> Prompt: ...


@overload
def forwarded_entry(
    description: ArgumentRef, answer: Answer, **options: Unpack[ForwardOptions]
) -> Completer: ...


@public_in("trio_mcp.compose")
def forwarded_entry(
    description: Any,
    answer: Answer,
    *,
    pass_on: PassOn | None = None,
    check: bool = False,
    timeout: float | None = None,
    scopes: frozenset[str] = frozenset(),
) -> Handler:
    """Make an entry whose requests are passed on.

    Its kind is that of the description: of a tool, a resource, a template or a prompt, as lists
    show it; or an `ArgumentRef`, for what `Provider.find_completer` returns. Make a resource as
    well for a URI that is in no list, to return it from `Provider.find_unlisted`. A template that
    cannot be read backwards here is listed, and its resources are found in that way.

    Args:
        description: As the provider lists it.
        answer: Gets the parameters of a request for the entry, and returns the members of the
            result.
        pass_on: Of a tool, the same for calls that need no context. To make one takes longer than
            the rest.
        check: Of a tool, whether arguments are checked against the input schema here. Otherwise
            only the provider does so, and says in its own words what is wrong.
        timeout: Seconds that an answer may take; `None` for the provider's `tool_timeout`.
        scopes: What a caller's access token must allow.

    Raises:
        SchemaError: Arguments are to be checked, and the input schema cannot be used for that.
        TypeError: The description is of nothing that can be passed on.
    """
    kind = kind_of(description)
    if kind is None:
        raise TypeError(f"there are no entries for a {type(description).__name__}")
    fields = _FIELDS[kind](description)
    if check:
        fields["validate"] = compile_validator(description.input_schema)
        fields["checks_arguments"] = fields["publishes_timeout"] = True
    made: Handler = kind.entry_type(
        name=getattr(description, kind.attribute),
        function=ForwardedCall(answer, partial(kind.params, description), kind.usual, pass_on),
        context_parameter="context",
        timeout=timeout,
        scopes=scopes,
        **fields,
    )
    return made


class ForwardedCall:
    """The function of a forwarded entry."""

    def __init__(
        self,
        answer: Answer,
        params: Callable[..., dict[str, Json]],
        usual: Mapping[str, Json],
        pass_on: PassOn | None,
    ) -> None:
        self._answer = answer
        self._params = params
        self._usual = usual
        self._pass_on = pass_on
        self.forward = None if pass_on is None else self._forward
        self.begin = None if pass_on is None else pass_on.begin

    async def __call__(self, context: Context, **arguments: Json) -> RawResult:
        params = {**context.params, **self._params(context, **arguments)}
        return RawResult({**self._usual, **await self._answer(params, context)})

    def _forward(self, call: Call) -> Awaitable[RawResult]:
        """Answer a call of a tool, and make a context only if it is needed."""
        pass_on, exchange = self._pass_on, call.exchange
        assert pass_on is not None
        sent = exchange.sent
        if sent is not None:
            exchange.sent = None  # which knows the call: a cycle
            return _raw(pass_on.receive(call, sent))
        running = pass_on.forward(call)
        return self(call.make_context(), **call.arguments) if running is None else _raw(running)


async def _raw(running: Awaitable[Mapping[str, Json]]) -> RawResult:
    return RawResult(dict(await running))


# -- what the entries of each kind are made of ----------------------------------------------


def _tool_fields(description: ToolDescription) -> dict[str, Any]:
    return {
        "description": description,
        "validate": _ANY_OBJECT,
        "checks_arguments": False,
        "publishes_timeout": False,
        "structure": _as_arguments,
        "unstructure": None,
        "check_output": None,
    }


_UNCACHED: Final[Mapping[str, Any]] = {"cache_ttl": 0.0, "cache_scope": "private"}


def _resource_fields(description: ResourceDescription) -> dict[str, Any]:
    return {"description": description, **_UNCACHED}


def _template_fields(description: ResourceTemplateDescription) -> dict[str, Any]:
    template = UriTemplate.parse_or_ignore(description.uri_template)
    variables: dict[str, Json] = {name: {} for name in template.variables}
    return {
        "description": description,
        "template": template,
        "variables": variables,
        "arguments": _NO_TEXTS,
        **_UNCACHED,
    }


def _prompt_fields(description: PromptDescription) -> dict[str, Any]:
    parameters: dict[str, Json] = {argument.name: {} for argument in description.arguments or ()}
    return {"description": description, "parameters": parameters, "arguments": _ANY_TEXTS}


class _AnyObject:
    """Takes any object: only the provider judges what is in it (a `Validator`)."""

    def is_plain(self, arguments: Json) -> bool:
        return arguments.__class__ is dict

    def __call__(self, arguments: Json) -> str | None:
        return None if arguments.__class__ is dict else "The arguments must be an object."


_ANY_OBJECT: Final[Any] = _AnyObject()


def _as_arguments(arguments: dict[str, Json]) -> Keywords:
    return {"arguments": arguments}


@frozen
class _Texts:
    """Arguments that travel as text, and are passed on as they are."""

    structure: Callable[[dict[str, Json]], Keywords]

    def takes_long(self, texts: dict[str, Json]) -> bool:
        return False

    def bind(self, texts: dict[str, Json]) -> Keywords:
        return self.structure(texts)


_ANY_TEXTS: Final = _Texts(_as_arguments)
_NO_TEXTS: Final = _Texts(lambda _: {})


_FIELDS: Final[Mapping[EntryKind, Callable[[Any], dict[str, Any]]]] = {
    TOOL: _tool_fields,
    RESOURCE: _resource_fields,
    TEMPLATE: _template_fields,
    PROMPT: _prompt_fields,
    COMPLETION: lambda _: {"parameters": frozenset({"value"})},
}
