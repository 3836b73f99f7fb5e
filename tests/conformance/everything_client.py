"""A client that does what each client scenario of the conformance suite asks for.

The suite runs it once for each scenario, with the URL of a server of its own as the last argument,
and names the scenario and the revision in the environment:

    MCP_CONFORMANCE_SCENARIO=tools_call python -m tests.conformance.everything_client URL

It always finds out by itself which era the server is of. When it has done everything without a
mistake, the last line that it prints is `DONE`; the suite looks only at what the server saw.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

    from trio_mcp import Client
    from trio_mcp.extending import ClientExtension

DONE = "done"
PATIENCE = 100.0
"""Seconds. The suite runs many of these clients at once, and ends those that take too long."""

Json = Any
Answer = Callable[[dict[str, Json]], Awaitable[dict[str, Json]]]


# -- connecting ------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    url: str,
    elicitation: Answer | None = None,
    *,
    listen: bool = True,
    auth: httpx2.Auth | None = None,
    extensions: Sequence[ClientExtension] = (),
) -> AsyncIterator[Client]:
    """Connect, as a client that can be asked for everything."""
    from trio_mcp import Handlers, HttpOptions, connect

    handlers = Handlers(
        elicitation=elicitation or decline, sampling=write, roots=["file:///test/root"]
    )
    # The suite's servers are on this machine.
    http = HttpOptions(trust_env=False, listen=listen, auth=auth)
    limits: Any = {"connect_timeout": PATIENCE, "tool_timeout": PATIENCE}
    async with connect(
        url, handlers=handlers, http=http, extensions=extensions, **limits
    ) as client:
        meant = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", client.revision)
        assert (client.era == "modern") == (meant >= "2026"), f"it speaks {client.revision}"
        yield client


async def decline(params: dict[str, Json]) -> dict[str, Json]:
    """Answer a form with a no."""
    return {"action": "decline"}


async def write(params: dict[str, Json]) -> dict[str, Json]:
    """Write something, as a model would."""
    said = {"type": "text", "text": "Paris"}
    return {"role": "assistant", "content": said, "model": "test-model", "stopReason": "endTurn"}


async def accept_defaults(params: dict[str, Json]) -> dict[str, Json]:
    """Accept a form as it is shown, with its defaults."""
    fields = params["requestedSchema"]["properties"]
    filled = {name: each["default"] for name, each in fields.items() if "default" in each}
    return {"action": "accept", "content": filled}


def arguments_for(schema: dict[str, Json]) -> dict[str, Json]:
    """Make arguments that fit a simple schema."""
    examples = {"string": "example", "integer": 1, "number": 1.5, "boolean": True, "array": []}
    properties = schema.get("properties", {})
    return {
        name: examples.get(properties[name].get("type"), {}) for name in schema.get("required", [])
    }


# -- scenarios -------------------------------------------------------------------------------------


async def shake_hands(url: str) -> None:
    """Connect, and nothing else."""
    async with connected(url):
        pass


async def add_numbers(url: str) -> None:
    """Call a tool with numbers."""
    async with connected(url) as client:
        result = await client.call_tool("add_numbers", {"a": 5, "b": 3})
        assert "8" in result.text, result


async def fill_in_defaults(url: str) -> None:
    """Answer a form with its defaults."""
    async with connected(url, accept_defaults) as client:
        await client.call_tool("test_client_elicitation_defaults")


async def come_back(url: str) -> None:
    """Call a tool whose stream closes before the result is there.

    The suite's server puts the result into the next stream that the client asks for, whatever it
    is meant for, and takes that for its return. So this client asks for no other one.
    """
    async with connected(url, listen=False) as client:
        result = await client.call_tool("test_reconnection")
        assert "completed" in result.text, result


async def list_tools(url: str) -> None:
    """Ask for the tools, even where the server does not say that it has any."""
    async with connected(url) as client:
        await client.list_all("tools/list", "tools")


async def check_arguments(url: str) -> None:
    """Check arguments against a schema that refers to the network."""
    async with connected(url) as client:
        client.tools["lookup_user"].problem_with({"id": "someone", "profile": {}})


async def echo_schema(url: str) -> None:
    """Send a tool's schema back, just as it came."""
    async with connected(url) as client:
        schema = client.tools["json_schema_2020_12_tool"].input_schema
        await client.call_tool("json_schema_echo", {"schema": schema})


async def answer_and_repeat(url: str) -> None:
    """Answer questions that come as results, and call something else before the answer is sent."""

    async def confirm(params: dict[str, Json]) -> dict[str, Json]:
        await client.call_tool("test_mrtr_unrelated")
        return {"action": "accept", "content": {"confirmed": True}}

    async with connected(url, confirm) as client:
        for name in ("test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_no_result_type"):
            result = await client.call_tool(name)
            assert result.text.endswith("-ok"), result


async def use_everything(url: str) -> None:
    """Send every kind of request that names something."""
    async with connected(url) as client:
        for name in client.tools:
            await client.call_tool(name)
        for resource in await client.list_resources():
            await client.read_resource(resource.uri)
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt.name)


async def call_as_told(url: str) -> None:
    """Call the tools that the suite names, with its arguments.

    One of them is null, which its schema does not allow, so it would not get past `call_tool`.
    """
    calls = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]
    async with connected(url) as client:
        for each in calls:
            await client.request("tools/call", each)


async def call_all_tools(url: str) -> None:
    """Call every tool that the client knows of."""
    async with connected(url) as client:
        for name, tool in client.tools.items():
            await client.call_tool(name, arguments_for(tool.input_schema))


# -- skills ----------------------------------------------------------------------------------------


async def list_skills(url: str) -> None:
    """See what skills there are, and load none."""
    from trio_mcp.extensions.skills import SkillsClient

    skills = SkillsClient("suite")
    async with connected(url, extensions=[skills]):
        [skill] = await skills.list()
        assert skill.problem is None


async def refuse_skill(url: str) -> None:
    """Find that a skill is not what its entry says, which is what the scenario wants."""
    from trio_mcp.errors import UnverifiedSkill
    from trio_mcp.extensions.skills import SkillsClient

    skills = SkillsClient("suite")
    async with connected(url, extensions=[skills]):
        [skill] = await skills.list()
        try:
            loaded = await skills.load(skill)
        except UnverifiedSkill as error:
            print(error)
        else:
            await loaded.read("references/FORMS.md")
            raise AssertionError("it was loaded")


# -- getting in ------------------------------------------------------------------------------------


async def agree(url: str) -> None:
    """Be a person's browser: go to the page, and wherever it leads. The page says yes by itself."""
    import httpx2

    async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
        await browser.get(url)


def told() -> dict[str, Json]:
    """What the suite tells the client about itself."""
    said: dict[str, Json] = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    return said


async def call_with(auth: httpx2.Auth, url: str) -> None:
    """Get in, look what tools there are, and call them."""
    async with connected(url, auth=auth) as client:
        for name in client.tools:
            await client.call_tool(name)


async def log_in(url: str, **options: Any) -> None:
    """Get in as a person."""
    from trio_mcp.auth import Fetching, OAuth

    options = {"fetching": Fetching(trust_env=False), "open_browser": agree, **options}
    await call_with(OAuth(**options), url)


async def log_in_by_document(url: str) -> None:
    """Get in as a person, with a document that says who the client is."""
    await log_in(url, client_metadata_url="https://conformance-test.local/client-metadata.json")


async def log_in_as_registered(url: str) -> None:
    """Get in as a person, with a client that was registered before."""
    given = told()
    await log_in(url, client_id=given["client_id"], client_secret=given["client_secret"])


async def log_in_twice(url: str) -> None:
    """Get in, and again where the server's authorization server has become another."""
    from trio_mcp.auth import Fetching, OAuth

    auth = OAuth(open_browser=agree, fetching=Fetching(trust_env=False))
    async with connected(url, auth=auth) as client:
        for _ in range(2):
            await client.refresh_tools()
        await client.call_tool("test-tool")


async def be_refused(url: str) -> None:
    """Find that there is no getting in, which is what the scenario wants."""
    from trio_mcp.errors import ClientError

    try:
        await log_in(url)
    except ClientError as error:
        print(error)
    else:
        raise AssertionError("it got in")


async def show_secret(url: str) -> None:
    """Get in as a program with a secret."""
    from trio_mcp.auth import ClientCredentials, Fetching

    given, fetching = told(), Fetching(trust_env=False)
    id, secret = given["client_id"], given["client_secret"]
    await call_with(ClientCredentials(client_id=id, client_secret=secret, fetching=fetching), url)


async def sign(url: str) -> None:
    """Get in as a program with a key."""
    from trio_mcp.auth import ClientCredentials, Fetching

    given = told()
    auth = ClientCredentials(
        client_id=given["client_id"],
        private_key=given["private_key_pem"],
        algorithm=given["signing_algorithm"],
        fetching=Fetching(trust_env=False),
    )
    await call_with(auth, url)


async def be_vouched_for(url: str) -> None:
    """Get in by the word of an enterprise."""
    from trio_mcp.auth import EnterpriseManaged, Fetching

    given = told()

    async def identity() -> str:
        return str(given["idp_id_token"])

    auth = EnterpriseManaged(
        identity=identity,
        token_endpoint=given["idp_token_endpoint"],
        idp_client_id=given["idp_client_id"],
        client_id=given["client_id"],
        client_secret=given["client_secret"],
        fetching=Fetching(trust_env=False),
    )
    await call_with(auth, url)


async def be_a_workload(url: str) -> None:
    """Get in by the word of a platform."""
    from trio_mcp.auth import Fetching, WorkloadIdentity

    given = told()

    async def assertion(issuer: str) -> str:
        return str(given["valid_jwt"])

    fetching = Fetching(trust_env=False)
    auth = WorkloadIdentity(assertion=assertion, client_id=given["client_id"], fetching=fetching)
    await call_with(auth, url)


LOGINS = (
    "2025-03-26-oauth-endpoint-fallback",
    "2025-03-26-oauth-metadata-backcompat",
    "dpop",
    "dpop-nonce",
    "iss-not-advertised",
    "iss-supported",
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "offline-access-not-supported",
    "offline-access-scope",
    "scope-from-scopes-supported",
    "scope-from-www-authenticate",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-none",
    "token-endpoint-auth-post",
)
REFUSALS = (
    "iss-normalized",
    "iss-supported-missing",
    "iss-unexpected",
    "iss-wrong-issuer",
    "metadata-issuer-mismatch",
    "resource-mismatch",
    "scope-retry-limit",
)

SCENARIOS: dict[str, Callable[[str], Awaitable[None]]] = {
    "initialize": shake_hands,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": fill_in_defaults,
    "sse-retry": come_back,
    "request-metadata": list_tools,
    "json-schema-ref-no-deref": check_arguments,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": answer_and_repeat,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_all_tools,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": refuse_skill,
    "sep-2640-client-verify-frontmatter": refuse_skill,
    "sep-2640-client-verify-size": refuse_skill,
    **{f"auth/{name}": log_in for name in LOGINS},
    **{f"auth/{name}": be_refused for name in REFUSALS},
    "auth/authorization-server-migration": log_in_twice,
    "auth/basic-cimd": log_in_by_document,
    "auth/client-credentials-basic": show_secret,
    "auth/client-credentials-jwt": sign,
    "auth/cross-app-access-complete-flow": be_vouched_for,  # what 0.1.16 calls the next one
    "auth/enterprise-managed-authorization": be_vouched_for,
    "auth/pre-registration": log_in_as_registered,
    "auth/wif-jwt-bearer": be_a_workload,
}


def main() -> None:
    """Run the scenario that the environment names."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    scenario = SCENARIOS.get(name)
    if scenario is None:  # before anything slow is imported, so that the others have the machine
        sys.exit(f"This client does not know the scenario {name!r}.")
    import trio

    trio.run(scenario, sys.argv[-1])
    print(DONE)


if __name__ == "__main__":
    main()
