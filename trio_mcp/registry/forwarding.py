"""Entries whose requests are passed on as they are: those of a part that is not a registry.

Each of them has an `Answer`: an async function that gets the parameters of the request, as the part
would have got them itself, and the caller's `Context`. It returns the members of the result, which
reach the caller untouched; an `McpError` reaches it with its code, message and data.

The parameters are those of the request, `_meta` among them, with the part's own names in place of
those that the caller knows. All of `Context` works: `progress`, `log`, `ask` (a question as JSON,
and its answer), `capabilities`, `connection_id`, `principal`.

Questions go one of two ways. `Context.ask` asks a caller of any revision. To a caller of a modern
one an answer may also be the part's own question (`resultType: "input_required"`), as it came. The
caller's answers come with the next request, as `inputResponses`, and with them the `requestState`
that the part gave. On its way through the caller's hands it is sealed, and bound to the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from attrs import frozen

from trio_mcp.public import public
from trio_mcp.registry.completions import Completer
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Forwarded, Keywords
from trio_mcp.registry.prompts import Prompt
from trio_mcp.registry.resources import Resource, ResourceTemplate
from trio_mcp.registry.tools import Tool
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import compile_validator
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.offers import PromptDescription, ResourceTemplateDescription
from trio_mcp.wire.payloads import ResourceDescription, ToolDescription

Answer = Callable[[dict[str, Json], Context], Awaitable[Mapping[str, Json]]]

PassOn = Callable[[dict[str, Json], Json, Any], Awaitable[Mapping[str, Json]] | None]
"""Passes on a call during which nothing can be said or asked: gets the caller's parameters, which
it must not change, the arguments that are meant, and what the part's lifespan yielded. Returns the
members of the result, to be awaited; `None` for a call that needs the caller's context."""


class _AnyObject:
    """Takes any object: only the part judges what is in it (a `Validator`)."""

    def is_plain(self, arguments: Json) -> bool:
        """Whether it is one."""
        return arguments.__class__ is dict

    def at_once(self, arguments: Json) -> str | None:
        """Say what is wrong."""
        return None if arguments.__class__ is dict else "The arguments must be an object."

    __call__ = at_once


_ANY_OBJECT: Final[Any] = _AnyObject()


@public
def forwarded_tool(
    description: ToolDescription,
    answer: Answer,
    *,
    pass_on: PassOn | None = None,
    check: bool = False,
    timeout: float | None = None,
    scopes: frozenset[str] = frozenset(),
) -> Tool:
    """Make a tool whose calls are passed on.

    Args:
        description: As the part lists it.
        answer: Gets the parameters of `tools/call`, and returns the members of its result.
        pass_on: The same for calls that need no context. To make one takes longer than the rest.
        check: Whether arguments are held against the input schema here. Otherwise only the part
            does so, and says in its own words what is wrong.
        timeout: Seconds that a call may take; `None` for the part's `tool_timeout`.
        scopes: What a caller's access token must allow.

    Raises:
        SchemaError: Arguments are to be checked, and the input schema cannot be used for that.
    """
    schema = description.input_schema
    return Tool(
        name=description.name,
        label=f"Tool {description.name}",
        function=ForwardedCall(answer, description.name, pass_on),
        context_parameter="context",
        description=description,
        timeout=timeout,
        scopes=scopes,
        validate=compile_validator(schema) if check else _ANY_OBJECT,
        checks_arguments=check,
        structure=_as_arguments,
        unstructure=None,
        check_output=None,
    )


class ForwardedCall:
    """The function of a forwarded tool."""

    def __init__(self, answer: Answer, name: str, pass_on: PassOn | None) -> None:
        self._answer = answer
        self._name = name
        self._pass_on = pass_on

    async def __call__(self, arguments: Json, context: Context) -> Forwarded:
        """Have the part answer a call."""
        params = {**context.params, "name": self._name, "arguments": arguments}
        return Forwarded(dict(await self._answer(params, context)))

    def forward(
        self,
        params: dict[str, Json],
        arguments: Json,
        state: Any,
        make_context: Callable[[], Context],
    ) -> Awaitable[Forwarded]:
        """Do the same, and make a context only if it is needed."""
        if self._pass_on is not None:
            running = self._pass_on(params, arguments, state)
            if running is not None:
                return _forwarded(running)
        return self(arguments, make_context())


async def _forwarded(running: Awaitable[Mapping[str, Json]]) -> Forwarded:
    return Forwarded(dict(await running))


def _as_arguments(arguments: dict[str, Json]) -> Keywords:
    return {"arguments": arguments}


@public
def forwarded_resource(
    description: ResourceDescription,
    answer: Answer,
    *,
    timeout: float | None = None,
    scopes: frozenset[str] = frozenset(),
) -> Resource:
    """Make a resource whose reads are passed on.

    Make one as well for a URI that is in no list, to return it from `Part.find_unlisted`.

    Args:
        description: As the part lists it.
        answer: Gets the parameters of `resources/read`, and returns the members of its result.
        timeout: Seconds that it may take; `None` for the part's `tool_timeout`.
        scopes: What a caller's access token must allow.
    """
    return Resource(
        name=description.uri,
        label=f"Resource {description.uri}",
        function=partial(_read, answer),
        context_parameter="context",
        description=description,
        timeout=timeout,
        scopes=scopes,
        cache_ttl=0.0,
        cache_scope="private",
    )


async def _read(answer: Answer, context: Context) -> Forwarded:
    params = {**context.params, "uri": context.tool}
    result = await answer(params, context)
    return Forwarded({"ttlMs": 0, "cacheScope": "private", **result})


@public
def forwarded_template(
    description: ResourceTemplateDescription,
    answer: Answer,
    *,
    timeout: float | None = None,
    scopes: frozenset[str] = frozenset(),
) -> ResourceTemplate:
    """Make a resource template whose reads are passed on; else as `forwarded_resource`.

    A template that cannot be read backwards here is listed, and its resources are found by
    `Part.find_unlisted`.
    """
    template = _template_of(description.uri_template)
    return ResourceTemplate(
        name=description.uri_template,
        label=f"Resource {description.uri_template}",
        function=partial(_read, answer),
        context_parameter="context",
        description=description,
        timeout=timeout,
        scopes=scopes,
        template=template,
        variables={name: {} for name in template.variables},
        arguments=_NO_TEXTS,
        cache_ttl=0.0,
        cache_scope="private",
    )


@public
def forwarded_prompt(
    description: PromptDescription,
    answer: Answer,
    *,
    timeout: float | None = None,
    scopes: frozenset[str] = frozenset(),
) -> Prompt:
    """Make a prompt whose requests are passed on.

    Args:
        description: As the part lists it.
        answer: Gets the parameters of `prompts/get`, and returns the members of its result.
        timeout: Seconds that it may take; `None` for the part's `tool_timeout`.
        scopes: What a caller's access token must allow.
    """
    return Prompt(
        name=description.name,
        label=f"Prompt {description.name}",
        function=partial(_get, answer, description.name),
        context_parameter="context",
        description=description,
        timeout=timeout,
        scopes=scopes,
        parameters={each.name: {} for each in description.arguments or ()},
        arguments=_ANY_TEXTS,
    )


async def _get(answer: Answer, name: str, arguments: Json, context: Context) -> Forwarded:
    params = {**context.params, "name": name, "arguments": arguments}
    return Forwarded(dict(await answer(params, context)))


@public
def forwarded_completer(
    ref: dict[str, Json], argument: str, answer: Answer, *, timeout: float | None = None
) -> Completer:
    """Make what completes an argument by passing the request on, for `Part.find_completer`.

    Args:
        ref: What the argument belongs to, by the part's own name.
        argument: Its name.
        answer: Gets the parameters of `completion/complete`, and returns the members of its result.
        timeout: Seconds that it may take; `None` for the part's `tool_timeout`.
    """
    what = f"{argument} of {ref.get('name') or ref.get('uri')}"
    return Completer(
        name=what,
        label=f"Completion of {what}",
        function=partial(_complete, answer, ref, argument),
        context_parameter="context",
        timeout=timeout,
        parameters=frozenset({"value"}),
    )


async def _complete(
    answer: Answer, ref: dict[str, Json], argument: str, value: str, context: Context
) -> Forwarded:
    params = {**context.params, "ref": ref, "argument": {"name": argument, "value": value}}
    return Forwarded(dict(await answer(params, context)))


@frozen
class _Texts:
    """Arguments that travel as text, and are passed on as they are."""

    structure: Callable[[dict[str, Json]], Keywords]

    def takes_long(self, texts: dict[str, Json]) -> bool:
        """Whether `bind` would hold up an event loop."""
        return False

    def bind(self, texts: dict[str, Json]) -> Keywords:
        """Turn texts into keyword arguments."""
        return self.structure(texts)


_ANY_TEXTS: Final = _Texts(_as_arguments)
_NO_TEXTS: Final = _Texts(lambda _: {})


@frozen
class _Unreadable:
    """A URI template that no URI is held against."""

    variables: tuple[str, ...] = ()

    def match(self, uri: str) -> None:
        """Find nothing."""


def _template_of(text: str) -> Any:
    try:
        return UriTemplate.parse(text)
    except ValueError:
        return _Unreadable()
