"""What cannot be sent is refused when it is registered, by the name of the option (C3)."""

from typing import Any

import pytest

from trio_mcp import Annotations, Icon, Registry, SchemaError, ToolAnnotations, connect
from trio_mcp.registry import catalogue_of
from trio_mcp.wire.revisions import ALL

pytestmark = pytest.mark.requirement("C3")

ICON = {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]}


async def use() -> str:
    return "used"


async def complete(value: str) -> list[str]:
    return [value]


class Things:
    """A registry, and one way to register each kind of thing in it."""

    def __init__(self) -> None:
        self.registry = Registry("test")

    def tool(self, **options: Any) -> None:
        self.registry.add_tool(use, **options)

    def resource(self, **options: Any) -> None:
        self.registry.add_resource("a:b", use, **options)

    def template(self, **options: Any) -> None:
        async def read(name: str) -> str:
            return name

        self.registry.add_resource("a:{name}", read, **options)

    def prompt(self, **options: Any) -> None:
        self.registry.add_prompt(use, **options)

    def itself(self, **options: Any) -> None:
        Registry("other", **options)

    @property
    def is_empty(self) -> bool:
        offers = self.registry
        return not (offers.tools or offers.resources or offers.prompts or offers.resource_templates)


KINDS = ("tool", "resource", "template", "prompt", "itself")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("icons", "words"),
    [
        (["url"], r"icons\[0\] must be Icon\(…\), or a dict with some of 'src', .*, not 'url'"),
        ("url", r"icons must be a list, such as .*, not 'url'"),
        (5, "icons must be a list, such as .*, not 5"),
        ([ICON, {"url": "x"}], r"icons\[1\] has no 'url'; there are src, mimeType, sizes, theme"),
        ([{"mimetype": "x"}], r"icons\[0\] has no 'mimetype'; did you mean 'mimeType'\?"),
        ([{"mimeType": "x"}], r"icons\[0\]: .*'src'"),
        ([Icon(b"x")], r"icons\[0\].src must be a text, not b'x'"),  # type: ignore[arg-type]
        ([{**ICON, "sizes": "48x48"}], r"icons\[0\].sizes must be a list, each a text, not '48x"),
        ([{**ICON, "theme": "blue"}], r"icons\[0\].theme must be 'light' or 'dark', not 'blue'"),
    ],
)
def test_icons(kind: str, icons: Any, words: str) -> None:
    things = Things()
    with pytest.raises(SchemaError, match=words):
        getattr(things, kind)(icons=icons)
    assert things.is_empty


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("meta", {"a": {1}}, "meta cannot be sent as JSON"),
        ("meta", {1: 2}, "meta cannot be sent as JSON"),
        ("meta", {"a": [float("nan")]}, "meta cannot be sent as JSON .NaN"),
        ("meta", [1], r"meta must be an object \(a dict\), not \[1\]"),
        ("title", 5, "title must be a text, not 5"),
        ("title", "\ud800", r"title must be a text, not '\\ud800'"),
        ("description", b"", "description must be a text, not b''"),
        ("timeout", "3", "timeout must be more than 0 seconds, not '3'"),
        (
            "timeout",
            10**400,
            "timeout must be more than 0 seconds, not 10",
        ),  # no float, no deadline
        ("meta", {"a": 10**400}, "meta cannot be sent as JSON .*infinity"),  # no reader takes it
        ("title", [10**5000], "title must be a text, not <list whose repr raises ValueError>"),
        ("scopes", [["read"]], "scopes cannot have"),
    ],
)
def test_what_all_have(kind: str, option: str, value: Any, words: str) -> None:
    things = Things()
    with pytest.raises(SchemaError, match=f"(Tool|Resource|Prompt) '.*': {words}"):
        getattr(things, kind)(**{option: value})
    assert things.is_empty


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"annotations": {"readOnlyHint": "yes"}}, "annotations.read_only_hint must be True or F"),
        ({"annotations": {"readonlyHint": True}}, "'readonlyHint'; did you mean 'readOnlyHint'"),
        ({"annotations": ToolAnnotations(title=5)}, "annotations.title must be a text"),  # type: ignore[arg-type]
        ({"annotations": Annotations()}, r"annotations must be ToolAnnotations\(…\), or a dict"),
        ({"annotations": True}, "annotations must be .*, not True"),
        ({"input_schema": "x"}, r"input_schema must be an object \(a dict\), not 'x'"),
        (
            {"input_schema": {"type": "object", "properties": {"a": {"default": {1}}}}},
            "input_schema cannot be sent as JSON",
        ),
        ({"output_schema": {"examples": [float("inf")]}}, "output_schema cannot be sent|finite"),
        ({"max_concurrent": "3"}, "max_concurrent must be 1 or more, not '3'"),
        ({"parameters": ["a"]}, r"parameters must be a list of Parameter\(…\), not \['a'\]"),
        ({"parameters": 5}, r"parameters must be a list of Parameter\(…\), not 5"),
    ],
)
def test_tools(options: Any, words: str) -> None:
    things = Things()
    with pytest.raises(SchemaError, match=f"Tool 'use': .*({words})"):
        things.tool(**options)
    assert things.is_empty


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"annotations": {"audience": ["bot"]}}, "annotations.audience must be .*, not .'bot'."),
        ({"annotations": {"priority": 2}}, "annotations: 'priority' must be <= 1"),
        ({"annotations": {"priority": "x"}}, "annotations.priority must be a number, not 'x'"),
        ({"annotations": ToolAnnotations()}, "annotations must be Annotations"),
        ({"mime_type": 5}, "mime_type must be a text, not 5"),
        ({"cache_ttl": "1"}, "cache_ttl must be at least 0 seconds and finite, not '1'"),
        ({"cache_scope": "all"}, "cache_scope must be 'public' or 'private', not 'all'"),
        ({"size": "1"}, "size must be a whole number, not '1'"),
        ({"size": -1}, "size must be a number of bytes, not -1"),
    ],
)
def test_resources(options: Any, words: str) -> None:
    things = Things()
    with pytest.raises(SchemaError, match=f"Resource 'a:b': {words}"):
        things.resource(**options)
    assert things.is_empty


def test_completions() -> None:
    registry = Registry("test")

    @registry.prompt
    async def review(code: str) -> str:
        return code

    with pytest.raises(SchemaError, match="timeout must be more than 0 seconds, not 0"):
        registry.add_completion(complete, prompt="review", argument="code", timeout=0)
    with pytest.raises(SchemaError, match="a completion is a function or a list of values, not 'a"):
        registry.add_completion("ab", prompt="review", argument="code")
    assert not catalogue_of(registry).completers


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"title": 5}, "title must be a text, not 5"),
        ({"instructions": ["x"]}, "instructions must be a string"),
        ({"instructions": "\ud800"}, "instructions must be a string"),
        ({"website_url": 5}, "website_url must be a text"),
        ({"version": 1.0}, "version must be a text, not 1.0"),
        ({"tool_timeout": "3"}, "tool_timeout must be more than 0 seconds, not '3'"),
        ({"page_size": "3"}, "page_size must be 1 or more, not '3'"),
        ({"cache_ttl": "3"}, "cache_ttl must be at least 0"),
        ({"cache_ttl": 1e306}, "cache_ttl must be at least 0"),  # no float, in milliseconds
        ({"cache_scope": "all"}, "cache_scope must be 'public' or 'private'"),
        ({"state_ttl": 0}, "state_ttl must be more than 0 seconds"),
        ({"state_keys": "key"}, "state_keys must be a list"),
        ({"state_keys": []}, "there must be a key in state_keys"),
        ({"state_keys": ["k" * 32]}, "one of the state_keys is not usable: a key is 32 bytes"),
    ],
)
def test_a_registry(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Registry("test", **options)
    with pytest.raises(TypeError, match="lifespan must be a function, not int"):
        Registry("test", lifespan=5)  # type: ignore[arg-type]
    for name in ("extensions", "middleware"):
        with pytest.raises(TypeError, match=f"{name} must be a list"):
            Registry("test", **{name: 5})  # type: ignore[arg-type]


class Silent:
    """Nothing that can be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("value", [Silent(), [[Silent()]], {"a": Silent()}])
def test_what_has_no_repr_is_refused_by_the_name_of_its_option(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"title must be a text, not <.* whose repr raises"):
        Things().tool(title=value)


async def test_a_page_may_be_larger_than_any_list() -> None:
    registry = Registry("test", page_size=2**70)
    registry.add_tool(use)
    async with connect(registry) as client:
        assert list(client.tools) == ["use"]


@pytest.mark.parametrize("revision", ALL, ids=lambda each: each.name)
async def test_what_is_accepted_is_listed(revision: Any) -> None:
    """Whatever becomes of the author's own objects."""
    meta: dict[str, Any] = {"example.com/a": [1, 2]}
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"default": [1]}}}
    hints: dict[str, Any] = {"audience": ["user"]}
    things = Things()
    things.registry.add_tool(
        lambda a: "",
        name="raw",
        annotations={"readOnlyHint": True},
        icons=[ICON],
        meta=meta,
        input_schema=schema,
    )
    things.tool(annotations=ToolAnnotations(read_only_hint=True), icons=(Icon("https://a"),))
    things.tool(name="declared", parameters=[])
    things.resource(annotations=hints, icons=[ICON], meta=meta, size=5)
    things.template(annotations=Annotations(priority=1.0), icons=[ICON], meta=meta)
    things.prompt(icons=[ICON], meta=meta)
    meta["example.com/a"].append({1})
    schema["properties"]["a"]["default"].append({1})
    hints["audience"].append("no one")
    async with connect(things.registry, revision=revision.name) as client:
        tools = (await client.request("tools/list"))["tools"]
        resources = (await client.request("resources/list"))["resources"]
        templates = (await client.request("resources/templates/list"))["resourceTemplates"]
        prompts = (await client.request("prompts/list"))["prompts"]
    assert [tool["name"] for tool in tools] == ["raw", "use", "declared"]
    assert tools[0]["inputSchema"]["properties"]["a"]["default"] == [1]
    assert resources[0]["annotations"] == {"audience": ["user"]}
    assert len(templates) == len(prompts) == 1
    if revision.name >= "2025-11-25":
        assert tools[0]["annotations"] == {"readOnlyHint": True}
        assert tools[0]["icons"] == [ICON]
        assert prompts[0]["_meta"] == {"example.com/a": [1, 2]}
