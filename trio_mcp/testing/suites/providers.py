"""What every provider does, as tests: a test class that inherits `ProviderSuite` runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final, Literal

import pytest
import trio

from trio_mcp import Client, McpError, Registry, connect
from trio_mcp.compose import Provider
from trio_mcp.public import public_in

Offered = dict[str, list[str]]

_SECONDS: Final = 30
"""For anything that a test waits for."""
_NOTHING: Final[Offered] = {"tools": [], "resources": [], "resource_templates": [], "prompts": []}
_FOR_BOTH_ERAS: Final = pytest.mark.parametrize("era", ["modern", "legacy"])


@public_in("trio_mcp.testing")
class ProviderSuite:
    """The tests of a `Provider`, to be inherited by a test class.

    The class, or its module, provides the fixture `provider`: a `Provider`, or a `Registry`, that
    is mounted nowhere and offers anything at all when it is ready. The tests mount it, and are
    clients of the registry that it is mounted in.

    Attributes:
        calls: Tools that can be called, by the provider's own names, with arguments.
        reads: URIs of resources that can be read, as the provider has them.

    Example:
        >>> class TestPrices(ProviderSuite):
        ...     calls = (("price_of_rue", {}),)
        ...
        ...     @pytest.fixture
        ...     def provider(self) -> Provider:
        ...         return Prices("prices")
    """

    calls: ClassVar[tuple[tuple[str, Mapping[str, Any]], ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()

    # -- lists --------------------------------------------------------------------------------

    @_FOR_BOTH_ERAS
    async def test_a_client_sees_what_it_offers(
        self, provider: Registry | Provider, era: Literal["modern", "legacy"]
    ) -> None:
        registry = _with(provider, "p")
        async with _client(registry, era=era) as client:
            listed = await _listed(client)
            assert listed == _offered(registry)
            assert listed != _NOTHING, "it offers nothing: there is nothing to test"

    async def test_its_names_are_its_own_without_a_prefix(
        self, provider: Registry | Provider
    ) -> None:
        registry = _with(provider, None)
        async with _client(registry) as client:
            own = await _listed(client)
        assert own == _offered(provider)

    async def test_a_prefix_comes_before_its_names(self, provider: Registry | Provider) -> None:
        registry = _with(provider, "p")
        async with _client(registry) as client:
            listed = await _listed(client)
        own = _offered(provider)
        for kind in ("tools", "prompts"):
            assert listed[kind] == [f"p_{name}" for name in own[kind]]
        for kind in ("resources", "resource_templates"):
            assert len(listed[kind]) == len(own[kind])
            assert not set(listed[kind]) & set(own[kind])

    async def test_descriptions_name_what_they_are_listed_as(
        self, provider: Registry | Provider
    ) -> None:
        async with _client(_with(provider, None)):
            for name, tool in provider.tools.items():
                assert tool.description.name == tool.name == name
            for name, prompt in provider.prompts.items():
                assert prompt.description.name == prompt.name == name
            for name, resource in provider.resources.items():
                assert resource.description.uri == resource.name == name
            for name, template in provider.resource_templates.items():
                assert template.description.uri_template == template.name == name

    # -- where it is mounted ------------------------------------------------------------------

    async def test_it_is_served_again(self, provider: Registry | Provider) -> None:
        registry = _with(provider, "p")
        async with _client(registry) as client:
            first = await _listed(client)
        async with _client(registry) as client:
            assert await _listed(client) == first

    async def test_it_is_in_several_places(self, provider: Registry | Provider) -> None:
        inner, outer = _with(provider, "i"), Registry("outer")
        outer.mount(inner, "o")
        outer.mount(provider, "a")
        async with _client(outer) as client:
            listed = await _listed(client)
        own = _offered(provider)
        for kind in ("tools", "prompts"):
            names = [f"{prefix}_{name}" for prefix in ("o_i", "a") for name in own[kind]]
            assert sorted(listed[kind]) == sorted(names)

    async def test_nothing_is_left_when_it_is_unmounted(
        self, provider: Registry | Provider
    ) -> None:
        registry = _with(provider, "p")
        async with _client(registry):
            registry.unmount(provider)
            assert _offered(registry) == _NOTHING

    async def test_what_is_not_chosen_does_not_appear(self, provider: Registry | Provider) -> None:
        registry = Registry("suite")
        registry.mount(provider, "p", only=[])
        async with _client(registry):
            assert _offered(registry) == _NOTHING

    # -- requests -----------------------------------------------------------------------------

    @_FOR_BOTH_ERAS
    async def test_its_tools_can_be_called(
        self, provider: Registry | Provider, era: Literal["modern", "legacy"]
    ) -> None:
        async with _client(_with(provider, "p"), era=era) as client:
            for name, arguments in self.calls:
                result = await client.call_tool(f"p_{name}", dict(arguments))
                assert result.success, f"{name}: {result.text}"

    @_FOR_BOTH_ERAS
    async def test_its_resources_can_be_read(
        self, provider: Registry | Provider, era: Literal["modern", "legacy"]
    ) -> None:
        async with _client(_with(provider, None), era=era) as client:
            for uri in self.reads:
                found = await client.read_resource(uri)
                assert [content.uri for content in found.contents][:1] == [uri]

    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("tools/call", {"name": "p_no-such-thing", "arguments": {}}),
            ("prompts/get", {"name": "p_no-such-thing"}),
            ("resources/read", {"uri": "no-such-scheme://p/no-such-thing"}),
        ],
    )
    async def test_what_it_does_not_offer_is_refused(
        self, provider: Registry | Provider, method: str, params: dict[str, Any]
    ) -> None:
        async with _client(_with(provider, "p")) as client:
            with pytest.raises(McpError):
                await client.request(method, params)


def _with(provider: Registry | Provider, prefix: str | None) -> Registry:
    registry = Registry("suite")
    registry.mount(provider, prefix)
    return registry


@asynccontextmanager
async def _client(registry: Registry, **options: Any) -> AsyncIterator[Client]:
    with trio.fail_after(_SECONDS):
        async with connect(registry, **options) as client:
            yield client


def _offered(registry: Registry | Provider) -> Offered:
    return {kind: list(getattr(registry, kind)) for kind in _NOTHING}


async def _listed(client: Client) -> Offered:
    there, found = client.capabilities, {kind: list[str]() for kind in _NOTHING}
    if "tools" in there:
        await client.refresh_tools()
        found["tools"] = list(client.tools)
    if "resources" in there:
        found["resources"] = [resource.uri for resource in await client.list_resources()]
        templates = await client.list_resource_templates()
        found["resource_templates"] = [template.uri_template for template in templates]
    if "prompts" in there:
        found["prompts"] = [prompt.name for prompt in await client.list_prompts()]
    return found
