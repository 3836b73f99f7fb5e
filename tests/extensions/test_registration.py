"""What extensions may add, and what is refused when they are added."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio

from tests.extensions.later import LATER, Later, LaterClient, make
from trio_mcp import Registry, SchemaError, connect
from trio_mcp.extending import (
    ClientExtension,
    ExtensionMethod,
    ExtensionRequest,
    ExtensionSubscription,
    Method,
    ServerExtension,
)

pytestmark = pytest.mark.requirement("K1")


class Mixed(ServerExtension):
    """Whatever a test wants."""

    def __init__(self, identifier: Any = "com.example/mixed", **parts: Any) -> None:
        self.identifier = identifier
        self.rows: list[Any] = parts.pop("methods", [])
        self.taken: Mapping[str, Any] = parts.pop("notifications", {})
        self.told: list[Any] = parts.pop("subscriptions", [])
        for name, value in parts.items():
            setattr(self, name, value)

    def methods(self) -> Sequence[ExtensionMethod]:
        return [ExtensionMethod(row=row, handler=self.answer) for row in self.rows]

    def notifications(self) -> Mapping[str, Any]:
        return self.taken

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        return [
            ExtensionSubscription(key=key, notification="notifications/mixed", params=self.params)
            for key in self.told
        ]

    async def answer(self, request: ExtensionRequest) -> dict[str, Any]:
        return {"who": self.identifier}

    async def params(self, request: ExtensionRequest, value: str | None) -> dict[str, Any]:
        return {}


class MixedClient(ClientExtension):
    """Likewise."""

    def __init__(self, identifier: Any = "com.example/mixed", **parts: Any) -> None:
        self.identifier = identifier
        self.rows: list[Any] = parts.pop("methods", [])
        self.taken: Mapping[str, Any] = parts.pop("notifications", {})
        for name, value in parts.items():
            setattr(self, name, value)

    def methods(self) -> Sequence[Method]:
        return self.rows

    def notifications(self) -> Mapping[str, Any]:
        return self.taken


IDENTIFIERS = [
    "a/b",
    "com.example/x",
    "com.ex-ample/X_y.z-1",
    "A1.b2/0",
    "io.modelcontextprotocol/ui",
]
NO_IDENTIFIERS: list[Any] = [
    *("", "x", "/x", "com.example/", "com.example/x/y", "com..example/x", ".com/x", "com./x"),
    *("1com/x", "com.1ex/x", "com-/x", "com/-x", "com/x-", "com/x y", "com/ä", "com/x\n", "cöm/x"),
    *(None, 5, b"com/x", ["com/x"]),
]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_identifiers(identifier: str) -> None:
    Registry("any", extensions=[Mixed(identifier)])
    connect(Registry("any"), extensions=[MixedClient(identifier)])


@pytest.mark.parametrize("identifier", NO_IDENTIFIERS, ids=repr)
def test_what_is_no_identifier(identifier: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be called"):
        Registry("any", extensions=[Mixed(identifier)])
    with pytest.raises(ValueError, match="cannot be called"):
        connect(Registry("any"), extensions=[MixedClient(identifier)])


CLASHES: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"methods": [Method(name="tools/call")]}, "the protocol has a method"),
    "server's method": ({"methods": [Method(name="roots/list")]}, "the protocol has a method"),
    "other's method": ({"methods": [Method(name="later/get")]}, "another extension has a method"),
    "own method": ({"methods": [Method(name="a/b"), Method(name="a/b")]}, "has a method 'a/b'"),
    "no method": ({"methods": [Method(name="")]}, "cannot be called"),
    "question": ({"methods": [Method(name="a/b", sender="server")]}, "that clients send"),
    "no function": ({"notifications": {"notifications/a": 5}}, "must go to a function"),
    "no row": ({"methods": ["a/b"]}, "Method"),
    "revision": ({"methods": [Method(name="a/b", since="2020-01-01")]}, "no revision"),
    "notification": ({"notifications": {"notifications/progress": print}}, "the protocol has"),
    "odd notification": ({"notifications": {"progress": print}}, 'take "notifications/'),
    "other's notification": (
        {"notifications": {"notifications/later/nudge": print, "notifications/later": print}},
        "another extension has",
    ),
    "result": ({"result_types": {"complete": []}}, "the protocol has a result type"),
    "other's result": ({"result_types": {"later": []}}, "another extension has the result type"),
    "no result": ({"result_types": {"": []}}, "cannot be called"),
    "settings": ({"settings": 5}, "settings must be an object"),
    "no JSON": ({"settings": {"a": {1}}}, "cannot be sent as JSON"),
    "one name": ({"identifier": LATER}, "there is an extension of that name already"),
}
ON_SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "sends": ({"sends": ["notifications/later"]}, "another extension has"),
    "wraps": ({"wraps": ["tools/list"]}, "nothing can be run around 'tools/list'"),
    "era": ({"era": "modrn"}, "era must be 'modern', 'legacy' or None, not 'modrn'"),
    "key": ({"subscriptions": ["toolsListChanged"]}, "the protocol has a subscription"),
    "own key": ({"subscriptions": ["a", "a"]}, "there is a subscription with the key 'a'"),
    "other's key": ({"subscriptions": ["laterIds"]}, "there is a subscription with the key"),
    "no key": ({"subscriptions": [""]}, "a subscription cannot be called"),
}


@pytest.mark.parametrize("what", [*CLASHES, *ON_SERVERS])
async def test_what_a_registry_refuses(what: str) -> None:
    parts, words = {**CLASHES, **ON_SERVERS}[what]
    registry = make()
    extension = Mixed(**parts)
    with pytest.raises(SchemaError, match=words) as refused:
        registry.add_extension(extension)
    assert repr(extension.identifier) in str(refused.value)
    async with connect(registry, extensions=[LaterClient()]) as client:  # it is as it was
        assert (await client.request("later/count"))["count"] == 0
        assert list(client.capabilities["extensions"]) == [LATER]


@pytest.mark.parametrize("what", CLASHES)
def test_what_a_client_refuses(what: str) -> None:
    parts, words = CLASHES[what]
    with pytest.raises(ValueError, match=words.replace("another extension has '", "another ")):
        connect(Registry("any"), extensions=[LaterClient(), MixedClient(**parts)])


@pytest.mark.parametrize("thing", [Later, "later", LaterClient(), None])
def test_what_is_no_extension_of_servers(thing: Any) -> None:
    with pytest.raises(SchemaError, match="must be a ServerExtension"):
        Registry("any", extensions=[thing])


@pytest.mark.parametrize("thing", [LaterClient, "later", Later(), None])
def test_what_is_no_extension_of_clients(thing: Any) -> None:
    with pytest.raises(ValueError, match="must be a ClientExtension"):
        connect(Registry("any"), extensions=[thing])


async def test_none_is_added_while_the_registry_is_served() -> None:
    registry = make()
    async with connect(registry):
        with pytest.raises(RuntimeError, match="is being served"):
            registry.add_extension(Mixed())
    registry.add_extension(Mixed())


def test_a_handler_is_an_async_function() -> None:
    class Waiting(Mixed):
        def methods(self) -> Any:
            row = Method(name="a/b")
            return [ExtensionMethod(row=row, handler=lambda request: {})]  # type: ignore[arg-type, return-value]

    with pytest.raises(SchemaError, match="'a/b': its handler must be an async function"):
        Registry("any", extensions=[Waiting()])


# -- options --------------------------------------------------------------------------------------


async def paint() -> str:
    return "done"


def test_an_option_is_checked_by_its_extension() -> None:
    registry = make()
    with pytest.raises(SchemaError, match=r"Tool 'paint': .*must be True or 'always'.*'soon'"):
        registry.add_tool(paint, extensions={LATER: "soon"})
    with pytest.raises(SchemaError, match=r"Resource 'a://b': .*on a tool or a prompt"):
        registry.add_resource("a://b", paint, extensions={LATER: True})
    tool = registry.add_tool(paint, name="other", meta={"a/b": 1}, extensions={LATER: True})
    assert tool.extensions == {LATER: {"always": False}}
    assert tool.description.meta == {"a/b": 1, LATER: {"always": False}}
    prompt = registry.add_prompt(paint, extensions={LATER: "always"})
    assert prompt.description.meta == {LATER: {"always": True}}


def test_an_option_needs_its_extension() -> None:
    with pytest.raises(SchemaError, match=r"no extension 'com.example/later', there is none"):
        Registry("any").add_tool(paint, extensions={LATER: True})
    with pytest.raises(SchemaError, match=r"no extension 'x', there are com.example/later"):
        make().add_tool(paint, extensions={"x": True})
    with pytest.raises(SchemaError, match="extensions must be a dict"):
        make().add_tool(paint, name="p", extensions=[LATER])  # type: ignore[arg-type]


def test_an_extension_without_options() -> None:
    registry = Registry("any", extensions=[Mixed()])
    with pytest.raises(SchemaError, match="has no options"):
        registry.add_tool(paint, extensions={"com.example/mixed": 1})


async def test_an_extension_brings_things_along() -> None:
    class Bringing(Mixed):
        def check_option(self, kind: str, name: str, value: Any) -> Any:
            return value

        def added_to(self, registry: Registry) -> None:
            registry.add_tool(paint, extensions={self.identifier: 7})

    registry = Registry("any", extensions=[Bringing()])
    assert registry.tools["paint"].extensions == {"com.example/mixed": 7}


# -- many -----------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_thousand() -> None:
    names = [f"com.example/x{number}" for number in range(1000)]
    theirs = [
        Mixed(name, methods=[Method(name=f"{name}/get")], wraps=["tools/call"]) for name in names
    ]
    registry = Registry("many", extensions=theirs)
    registry.add_tool(paint)
    ours = [MixedClient(name, methods=[Method(name=f"{name}/get")]) for name in names]
    with trio.fail_after(600):
        async with connect(registry, extensions=ours) as client:
            assert len(client.extensions) == 1000
            answer = await client.request(f"{names[-1]}/get")
            assert answer["who"] == names[-1]
