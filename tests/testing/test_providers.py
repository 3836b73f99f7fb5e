"""The suite for providers, run on each kind of them."""

import pytest
from attrs import evolve

from tests.compose.openapi.support import Service, document, get
from tests.compose.test_remote import Library
from tests.registry.elsewhere import Elsewhere
from trio_mcp import Registry, Remote
from trio_mcp.compose import Provider
from trio_mcp.testing import ProviderSuite


class TestCatalogue(ProviderSuite):
    calls = (("refuse_nothing", {}),)
    reads = ("shelf://one", "book://Emma")

    @pytest.fixture
    def provider(self) -> Registry:
        registry = Library().registry

        @registry.tool
        async def refuse_nothing() -> str:
            return "yes"

        return registry


class TestRemote(ProviderSuite):
    calls = (("talk", {}),)
    reads = ("shelf://one", "book://Emma")

    @pytest.fixture(params=["modern", "legacy"])
    def provider(self, request: pytest.FixtureRequest) -> Provider:
        return Remote(Library().registry, name="library", era=request.param, wait=60)


class TestOpenApi(ProviderSuite):
    calls = (("it", {}),)

    @pytest.fixture
    def provider(self) -> Registry:
        return Service().registry(document({"/it": get()}))


class TestForwarding(ProviderSuite):
    calls = (("echo", {"text": "hi"}),)
    reads = ("note://one", "note://by-id/3", "note://hidden/one")

    @pytest.fixture
    def provider(self) -> Provider:
        return Elsewhere()


async def test_a_provider_that_offers_nothing_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="it offers nothing"):
        await ProviderSuite().test_a_client_sees_what_it_offers(Provider("empty"), "modern")


async def test_a_provider_whose_descriptions_have_other_names_does_not_pass() -> None:
    provider, tool = Provider("liar"), Elsewhere().tool("echo")
    await provider.replace("tools", [evolve(tool, name="other")])
    with pytest.raises(AssertionError):
        await ProviderSuite().test_descriptions_name_what_they_are_listed_as(provider)
