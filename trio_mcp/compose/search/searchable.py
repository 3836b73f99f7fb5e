"""A registry in which tools are found by words, and called by way of another tool."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import trio
from attrs import asdict, evolve, frozen

from trio_mcp.compose.search.finder import Finder, Rank
from trio_mcp.compose.search.lines import shown
from trio_mcp.public import public_in
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.as_tools import PromptTarget, ResourceTarget
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.context import inside
from trio_mcp.registry.delegation import Target, inward, seen_from
from trio_mcp.registry.functions import takes
from trio_mcp.registry.kinds import Table
from trio_mcp.registry.mounting import View
from trio_mcp.registry.provider import Provider
from trio_mcp.registry.resources import Resource
from trio_mcp.registry.tools import Tool, make_tool, published
from trio_mcp.schema import ArgumentError, SchemaError
from trio_mcp.threads import offload
from trio_mcp.version import __version__
from trio_mcp.wire.closest import close_names
from trio_mcp.wire.jsonrpc import Json

_LONGEST_QUERY: Final = 1000
_MOST_RESULTS: Final = 20
_LONGEST_NAME: Final = 1000
_AT_ONCE: Final = 50
"""So many things that a caller does not see are passed over without letting others run."""

Reach = Callable[[Target], Target | None]


@public_in("trio_mcp.compose")
def searchable(
    provider: Registry | Provider,
    *,
    pinned: Collection[str] = (),
    rank: Rank | None = None,
    results: int = 5,
    resources: bool = False,
    prompts: bool = False,
    about: str | None = None,
) -> Registry:
    """Offer what a provider has as two tools: one that finds tools, and one that calls them.

    A model that is shown hundreds of tools chooses badly, and pays for all of their descriptions.
    Here it sees `search_tools` and `call_tool`. A search takes words, and returns names, a line
    about each, and their parameters. A call is as if the tool had been called itself: arguments,
    visibility, scopes, progress, questions, tasks, time limit, cancellation and log are its own.

    Serve what is returned, or mount it. It has the names, instructions and options of a registry
    that it is made of; middleware around requests belongs to a registry that it is mounted in.
    Resources and prompts stay in their lists.

    Args:
        provider: A `Registry`, with all that is mounted in it, or another `Provider`.
        pinned: The names, or `tag:` and a tag, of tools that stay in the list. They are found as
            well.
        rank: Ranks what there is, in place of comparing words (BM25): gets the query and a mapping
            of descriptions by name, which is the same object until something changes, and returns
            names, the best first. It may be async; else it runs in a worker thread. If it fails,
            words are compared.
        results: How many tools a search returns, unless it says so itself; 20 at most.
        resources: Whether resources are found as well, and read by a tool `read_resource`, for
            hosts that know tools only.
        prompts: Whether prompts are found as well, and written by a tool `get_prompt`.
        about: What there is to be found, in a sentence for the model.

    Raises:
        SchemaError: There is no tool to be pinned of such a name, a pinned tool has the name of one
            of these, or there is middleware around requests, which would be lost.
        TypeError: The provider is none, or the function cannot be called with a query and a
            mapping.
        ValueError: The number of results is none.

    Example:
        >>> library = Registry("library")
        >>> @library.tool
        ... async def borrow(title: str) -> str:
        ...     "Lend a book to a reader."
        ...     return f"{title} is yours for four weeks"
        >>> registry = searchable(library)
        >>> list(registry.tools)
        ['search_tools', 'call_tool']
        >>> async def main() -> None:
        ...     print(await registry.call("search_tools", {"query": "lend books"}))
        ...     arguments = {"name": "borrow", "arguments": {"title": "Emma"}}
        ...     print(await registry.call("call_tool", arguments))
        >>> trio.run(main)
        borrow(title: string)
          Lend a book to a reader.
        Emma is yours for four weeks
    """
    if not isinstance(provider, Registry | Provider):
        raise TypeError(
            "searchable takes a Registry, a Remote for a server elsewhere, or another Provider, "
            f"not {provider!r:.100}"
        )
    if type(results) is not int or not 1 <= results <= _MOST_RESULTS:
        raise ValueError(f"results must be a number from 1 to {_MOST_RESULTS}, not {results!r:.50}")
    if rank is not None and not (callable(rank) and takes(rank, 2)):
        raise TypeError(f"rank must be a function of a query and a mapping, not {rank!r:.100}")
    if isinstance(pinned, str):
        raise SchemaError("pinned must be a list, even of one name: put it in brackets")
    registry = _front(provider)
    catalogue, tables = catalogue_of(registry), list[Table](["tools"])
    tables += ["resources", "resource_templates"] if resources else []
    tables += ["prompts"] if prompts else []
    if isinstance(provider, Registry):
        rank = None if rank is None else provider._prepared(rank)
        provider = catalogue_of(provider)
    reach = _Reaching(catalogue, provider)
    search = _Search(Finder(provider, tables, rank), reach, results)
    told = _SEARCH if about is None else f"{_SEARCH} {about}"
    _add(registry, "search_tools", told, _searching(results), function=search)
    _add(
        registry, "call_tool", _CALL, _naming("tool"), delegate=reach.tool, meta=_longest(provider)
    )
    if resources:
        _add(registry, "read_resource", _READ, _URI, delegate=reach.resource)
    if prompts:
        _add(registry, "get_prompt", _WRITE, _naming("prompt"), delegate=reach.prompt)
    catalogue.mount(provider, _Pinned(None, frozenset(pinned), {kind: {} for kind in _KINDS}))
    return registry


_KINDS: Final = ("tools", "resources", "prompts")


def _front(provider: Registry | Provider) -> Registry:
    """Make the registry that stands before a provider."""
    if not isinstance(provider, Registry):
        return Registry(provider.name, __version__)
    own = catalogue_of(provider)
    if own.options.around_requests:
        raise SchemaError(
            f"{provider.name!r} has middleware around requests, which would be lost: give that to "
            "another registry, and mount there what searchable(...) returns"
        )
    options = asdict(own.options, recurse=False)
    for name in ("visible", "selection", "lifespan", "around_requests", "around_calls"):
        del options[name]  # they hold inside
    registry = Registry(
        **asdict(provider.info, recurse=False),
        instructions=provider.instructions,
        tool_timeout=own.tool_timeout,
        scopes=sorted(own.scopes),
        lenient_arguments=provider._lenient_arguments,
        **options,
    )
    catalogue_of(registry).handshake_members = own.handshake_members
    return registry


@frozen
class _Pinned(View):
    """Only some tools appear; resources and prompts all do."""

    def shows(self, table: Table, item: Any) -> bool:
        return table != "tools" or super().shows(table, item)


# -- the tools ------------------------------------------------------------------------------


def _text(description: str, longest: int) -> dict[str, Json]:
    return {"type": "string", "minLength": 1, "maxLength": longest, "description": description}


_ARGUMENTS: Final = {"type": "object", "description": "Its arguments, by name."}
_SEARCH: Final = "Find tools by words. Each is shown with its parameters; call it with call_tool."
_CALL: Final = "Call a tool that search_tools has found, with arguments for its parameters."
_READ: Final = "Read a resource that search_tools has found."
_WRITE: Final = "Get the text of a prompt that search_tools has found."


def _searching(results: int) -> dict[str, Json]:
    return {
        "query": _text("What a tool should do, and to what: a few words.", _LONGEST_QUERY),
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MOST_RESULTS,
            "default": results,
            "description": "How many to show.",
        },
        "details": {
            "type": "boolean",
            "default": False,
            "description": "Whether to show whole descriptions and schemas.",
        },
    }


def _naming(noun: str) -> dict[str, Json]:
    name = _text(f"The name of the {noun}, as it was found.", _LONGEST_NAME)
    return {"name": name, "arguments": _ARGUMENTS}


_URI: Final = {"uri": _text("Its URI, with values in place of variables in braces.", 10_000)}


def _longest(provider: Provider) -> dict[str, Json]:
    """Return the `_meta` that says how long the calls may take that may take longest."""
    limits = [provider.tool_timeout, *(tool.timeout for tool in provider.tools.values())]
    return published(max((limit for limit in limits if limit is not None), default=None))


def _add(
    registry: Registry,
    name: str,
    description: str,
    properties: dict[str, Json],
    *,
    meta: dict[str, Json] | None = None,
    **fields: Any,
) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [next(iter(properties))],
        "additionalProperties": False,
    }

    async def function(**arguments: Json) -> None:
        raise NotImplementedError  # something else is run in its place

    tool = make_tool(
        function,
        usual_timeout=catalogue_of(registry).tool_timeout,
        name=name,
        description=description,
        input_schema=schema,
        meta=meta,
        annotations={"readOnlyHint": True} if "function" in fields else None,
    )
    lenient = registry._lenient_arguments
    catalogue_of(registry).register("tools", evolve(tool, lenient=lenient, **fields))


@frozen(eq=False)
class _Search:
    """The function of `search_tools`."""

    finder: Finder
    reach: _Reaching
    results: int

    async def __call__(self, **arguments: Any) -> str:
        raise NotImplementedError  # `forward` takes its place

    async def forward(self, call: Any) -> str:
        query: str = call.arguments["query"]
        limit = call.arguments.get("limit", self.results)
        exchange, found = call.exchange, list[Target]()
        await self.reach.catalogue.ready_for(call.make_context())
        ranked = await self.finder.find(query, exchange.threads)
        origin, view = exchange.entry.origin, exchange.view()
        inner = _within(view, self.reach.provider)
        for number, name in enumerate(ranked, 1):
            table, own = self.finder.place_of(name)
            item = self.reach.provider.table(table).get(own)
            if item is not None and (inner is None or inner.shows(item)):  # no entry is made yet
                target = self.reach.at(table, own, is_called=False)
                target = None if target is None else seen_from(origin, target)
                if target is not None and (view is None or view.shows(target.entry)):
                    found.append(target)
            if len(found) >= limit:
                break
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        if not found:
            return f"Nothing is found by {query[:100]!r}. Try other words: what is done, to what."
        return await offload(partial(shown, details=call.arguments.get("details", False)), found)


def _within(view: Any, provider: Provider) -> Any:
    """Return what a caller sees, as the rules of a mounted provider are asked about it."""
    if view is None or view.caller is None:
        return view
    return evolve(view, caller=inside(view.caller, provider, view.caller.tool))


@frozen(eq=False)
class _Reaching:
    """Finds what is to be called (its methods are a `Delegate` each)."""

    catalogue: Catalogue
    """Of the registry that the tools are in."""
    provider: Provider

    def at(
        self, table: Table, name: str, arguments: Json = None, *, is_called: bool = True
    ) -> Target | None:
        """Return the target for something that the provider has, by its name there."""
        item = self.provider.table(table).get(name)
        if item is None:
            return None
        target = Target(table, item, arguments, is_called=is_called)
        mounts = (mount for mount in self.catalogue.mounts if mount.provider is self.provider)
        return next((mount.reached(target) for mount in mounts), None)

    def tool(self, tool: Tool, arguments: dict[str, Json], reach: Reach) -> Target:
        return self._named(tool, "tools", arguments, reach, Target)

    def prompt(self, tool: Tool, arguments: dict[str, Json], reach: Reach) -> Target:
        return self._named(tool, "prompts", arguments, reach, PromptTarget)

    def _named(
        self, tool: Tool, table: Table, arguments: dict[str, Json], reach: Reach, kind: type[Target]
    ) -> Target:
        given = _checked(tool, arguments)
        named, noun = given["name"], table.removesuffix("s")

        def reached(name: str) -> Target | None:
            own = self.at(table, name)
            made = own and kind(table, own.entry, given.get("arguments", {}))
            return None if made is None else reach(made)

        # What is called by its name where the provider is mounted may also be called by its own.
        names = (inward(tool.origin, table, named), named)
        for found in map(reached, dict.fromkeys(names)):
            if found is not None:
                return found
        if not self.catalogue.tools.keys().isdisjoint(names) and table == "tools":
            raise ArgumentError(f"{named!r} is not called by way of {tool.name}, but by itself.")
        close = map(reached, close_names(named, self.provider.table(table), 3))
        meant = next((target.entry.name for target in close if target is not None), None)
        hint = "search_tools finds what there is." if meant is None else f"Did you mean {meant!r}?"
        raise ArgumentError(f"There is no {noun} {named[:200]!r}. {hint}")

    def resource(self, tool: Tool, arguments: dict[str, Json], reach: Reach) -> Target:
        asked = _checked(tool, arguments)["uri"]
        uri = inward(tool.origin, "resources", asked)
        found = self.catalogue.find_resource(uri)
        if found is not None:
            entry, keywords = found
            table: Table = "resources" if isinstance(entry, Resource) else "resource_templates"
            target = reach(ResourceTarget(table, entry, keywords, uri))
            if target is not None:
                return target
        raise ArgumentError(f"There is no resource {asked[:500]!r}; search_tools finds what is.")


def _checked(tool: Tool, arguments: dict[str, Json]) -> dict[str, Any]:
    """Hold the arguments of a tool against its schema, except for those that are passed on."""
    inner = arguments.get("arguments")
    if inner is None:  # as some models write that there are none
        arguments = {name: arguments[name] for name in arguments if name != "arguments"}
    passed_on = {"arguments": inner} if isinstance(inner, dict) else {}
    bound = tool.bind({**arguments, "arguments": {}} if passed_on else arguments)
    if not isinstance(bound, dict):
        raise ArgumentError("What is to be called cannot be named at such a length.")
    return {**bound, **passed_on}
