"""The kinds of entries: tools, resources, templates, prompts and completions, one row for each.

What is known of a kind stands here, and what is known of its methods in `wire/methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Literal, cast

from attrs import field, frozen

from trio_mcp.registry.changes import Kind
from trio_mcp.wire import methods
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import Method

Table = Literal["tools", "resources", "resource_templates", "prompts"]
RefType = Literal["ref/prompt", "ref/resource"]
Offered = Literal["tool", "resource", "resource template", "prompt"]
"""What extensions may have options for."""


Params = Mapping[str, Json]


@frozen(eq=False, kw_only=True, repr=False)
class EntryKind:
    """One kind of entry."""

    noun: str
    """Such as `tool`."""
    call: Method
    """Asks for one of them."""
    find: Callable[[Any, Params], Any]
    """Return the entry of a `Provider` that the parameters of such a request name, or `None`."""
    params: Callable[..., dict[str, Json]]
    """Return such parameters, for a description, the context of a call and its arguments."""
    usual: Params = field(factory=dict)
    """Members that a result has unless a provider elsewhere says otherwise."""
    entry: str
    """The class of the entries, and its module."""
    description: str
    """The class of what lists show of an entry, and its module."""
    attribute: str = "name"
    """The attribute of such a description that names the entry."""

    @property
    def entry_type(self) -> Any:
        """The class of the entries, imported when it is needed."""
        return _imported(self.entry)

    @property
    def description_type(self) -> Any:
        """The class of their descriptions, imported when it is needed."""
        return _imported(self.description)


@frozen(eq=False, kw_only=True, repr=False)
class ListedKind(EntryKind):
    """A kind of entry that has a table, and a list."""

    noun: Offered
    table: Table
    list: Method
    """Asks for all of them."""
    key: str = "name"
    """The member of a description that names an entry, as it travels."""

    @property
    def capability(self) -> Kind:
        """What a server declares that has such entries; also the list that clients watch."""
        return cast("Kind", self.list.capability)

    @property
    def items(self) -> str:
        """The member of a result of `list` that holds the entries."""
        return cast("str", self.list.items)

    @property
    def label(self) -> str:
        """The noun, at the beginning of a sentence."""
        return self.noun.capitalize()


def _imported(path: str) -> Any:
    module, name = path.split(":")
    return getattr(import_module(f"trio_mcp.{module}"), name)


def _named(table: Table) -> Callable[[Any, Params], Any]:
    def find(provider: Any, params: Params) -> Any:
        name = params.get("name")
        return provider.table(table).get(name) if isinstance(name, str) else None

    return find


def _read(provider: Any, params: Params) -> Any:
    uri = params.get("uri")
    found = provider.find_resource(uri) if isinstance(uri, str) else None
    return None if found is None else found[0]


def _completed(provider: Any, params: Params) -> Any:
    """Return what has the argument that is completed."""
    match params.get("ref"):
        case {"type": "ref/prompt", "name": str()}:
            return PROMPT.find(provider, params["ref"])
        case {"type": "ref/resource", "uri": str(uri)}:
            template = provider.table("resource_templates").get(uri)
            return RESOURCE.find(provider, params["ref"]) if template is None else template
    return None


def _params_by_name(description: Any, context: Any, *, arguments: Json) -> dict[str, Json]:
    return {"name": description.name, "arguments": arguments}


def _params_by_uri(description: Any, context: Any) -> dict[str, Json]:
    return {"uri": context.tool}


def _params_by_ref(description: Any, context: Any, *, value: str) -> dict[str, Json]:
    given = context.params  # which may say more than we know of
    return {
        "ref": {**given.get("ref", {}), **description.ref},
        "argument": {**given.get("argument", {}), "name": description.argument, "value": value},
    }


_UNCACHED: Final[Params] = {"ttlMs": 0, "cacheScope": "private"}

TOOL: Final = ListedKind(
    noun="tool",
    table="tools",
    list=methods.LIST_TOOLS,
    call=methods.CALL_TOOL,
    find=_named("tools"),
    params=_params_by_name,
    entry="registry.tools:Tool",
    description="wire.payloads:ToolDescription",
)
RESOURCE: Final = ListedKind(
    noun="resource",
    table="resources",
    list=methods.LIST_RESOURCES,
    call=methods.READ_RESOURCE,
    find=_read,
    params=_params_by_uri,
    usual=_UNCACHED,
    entry="registry.resources:Resource",
    description="wire.content:ResourceDescription",
    key="uri",
    attribute="uri",
)
TEMPLATE: Final = ListedKind(
    noun="resource template",
    table="resource_templates",
    list=methods.LIST_TEMPLATES,
    call=methods.READ_RESOURCE,
    find=_read,
    params=_params_by_uri,
    usual=_UNCACHED,
    entry="registry.resources:ResourceTemplate",
    description="wire.offers:ResourceTemplateDescription",
    key="uriTemplate",
    attribute="uri_template",
)
PROMPT: Final = ListedKind(
    noun="prompt",
    table="prompts",
    list=methods.LIST_PROMPTS,
    call=methods.GET_PROMPT,
    find=_named("prompts"),
    params=_params_by_name,
    entry="registry.prompts:Prompt",
    description="wire.offers:PromptDescription",
)
COMPLETION: Final = EntryKind(
    noun="completion",
    call=methods.COMPLETE,
    find=_completed,
    params=_params_by_ref,
    entry="registry.completions:Completer",
    description="registry.forwarding:ArgumentRef",
)

LISTED: Final[Mapping[Table, ListedKind]] = {
    kind.table: kind for kind in (TOOL, RESOURCE, TEMPLATE, PROMPT)
}
"""The kinds that have a list, by table."""
CALLED: Final[Mapping[str, EntryKind]] = {
    kind.call.name: kind for kind in (TOOL, RESOURCE, PROMPT, COMPLETION)
}
"""By the method that asks for an entry, its kind; templates are read as resources."""
CALL_METHODS: Final[Mapping[str, str]] = {each.noun: name for name, each in CALLED.items()}
"""By the kind of a handler, the method that runs it."""


def kind_of(description: object) -> EntryKind | None:
    """Return the kind of the entries that have such a description."""
    kinds = (*LISTED.values(), COMPLETION)
    return next((kind for kind in kinds if kind.description_type is type(description)), None)
