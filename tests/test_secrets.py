"""What is written of an object (its `repr`, which ends up in logs and tracebacks) is not a secret."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import attrs
import httpx2
import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import trio_mcp
from trio_mcp import HttpOptions, HttpPolicy, connect
from trio_mcp.auth import (
    ClientCredentials,
    ClientRegistration,
    DPoP,
    EnterpriseManaged,
    Introspection,
    Login,
    OAuth,
    ResourceServer,
    Token,
    WorkloadIdentity,
    github,
)
from trio_mcp.compose.config import read_servers
from trio_mcp.extensions.tasks import Tasks
from trio_mcp.middleware import RateLimit
from trio_mcp.transports import ProcessOptions

SECRET = "hunter2-4711"
KEY = Fernet.generate_key().decode()
PRIVATE_KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)
URL = f"https://user:{SECRET}@api.example/mcp?key={SECRET}"
RESOURCE = {"resource": "https://mcp.example/mcp", "issuers": ["https://login.example"]}


async def gives_it(*_: object) -> str:
    return SECRET


def server(**entry: Any) -> Any:
    return read_servers({"mcpServers": {"shop": entry}})


MADE: dict[str, Callable[[], Any]] = {
    "ProcessOptions": lambda: ProcessOptions(env={"TOKEN": SECRET}),
    "HttpOptions": lambda: HttpOptions(
        headers={"X-Key": SECRET}, proxy=f"http://user:{SECRET}@proxy:3128"
    ),
    "HttpOptions(auth)": lambda: HttpOptions(auth=httpx2.BasicAuth("user", SECRET)),
    "HttpPolicy": lambda: HttpPolicy(tokens={SECRET: "alice"}),
    "HttpPolicy(auth)": lambda: HttpPolicy(
        auth=ResourceServer(
            **RESOURCE,
            dpop=DPoP(nonces=True, nonce_keys=[KEY]),
            verifier=Introspection(
                endpoint="https://login.example/about", client_id="us", client_secret=SECRET
            ),
        )
    ),
    "ClientCredentials": lambda: ClientCredentials(client_id="us", client_secret=SECRET),
    "ClientCredentials(key)": lambda: ClientCredentials(client_id="us", private_key=PRIVATE_KEY),
    "WorkloadIdentity": lambda: WorkloadIdentity(assertion=gives_it),
    "EnterpriseManaged": lambda: EnterpriseManaged(
        identity=gives_it,
        token_endpoint="https://login.example/token",
        idp_client_id="us",
        idp_client_secret=SECRET,
        client_id="us",
        client_secret=SECRET,
    ),
    "OAuth": lambda: OAuth(client_id="us", client_secret=SECRET),
    "OAuthProxy": lambda: github(
        client_id="us",
        client_secret=SECRET,
        resource="https://mcp.example/mcp",
        secrets=[f"{SECRET}, and some more"],
    ),
    "Login": lambda: Login(
        issuer="https://login.example",
        resource="https://mcp.example/mcp",
        client=ClientRegistration(client_id="us", client_secret=SECRET),
        token=Token(access_token=SECRET, refresh_token=SECRET),
        dpop_key={"d": SECRET},
    ),
    "Tasks": lambda: Tasks(store=f"redis://user:{SECRET}@store:6379/0"),
    "RateLimit": lambda: RateLimit(1.0, name="calls", store=f"redis://user:{SECRET}@store:6379/0"),
    "connect": lambda: connect(URL),
    "a server's variables": lambda: server(command="shop", env={"TOKEN": SECRET}),
    "a server's arguments": lambda: server(command="shop", args=["--token", SECRET]),
    "a server's headers": lambda: server(url="https://api.example", headers={"X-Key": SECRET}),
    "a server's URL": lambda: server(url=URL),
}


@pytest.mark.requirement("J7")
@pytest.mark.parametrize("name", MADE)
def test_options_with_credentials_are_written_without_them(name: str) -> None:
    made = MADE[name]()
    for written in (repr(made), str(made), f"{made}", repr([made]), repr({"x": made})):
        assert SECRET not in written
        assert KEY not in written
        assert "PRIVATE KEY" not in written


def test_the_names_of_variables_and_headers_are_written() -> None:
    assert "env={'TOKEN': …}" in repr(ProcessOptions(env={"TOKEN": SECRET}))
    (config,) = server(url="https://api.example", headers={"X-Key": SECRET})
    assert "headers={'X-Key': …}" in repr(config)


SECRETIVE = re.compile(
    r"_?(env|headers?|answer_headers|tokens?|proxy|credentials|cookies?|authorization|proof|store"
    r"|fernet|given|\w*(secrets?|passwords?|_token|private_key|nonce_keys))"
)
"""What fields are called that may hold credentials, if only in a URL."""
OPEN_TYPES = ("Authorization", "Token", "bool", "ReplayStore", "EventStore")
"""What has a `repr` of its own that tells nothing, or that is looked at here as well."""
OPEN = {
    "trio_mcp.auth.proxy.keys.SigningKeys._store",  # which is open
    "trio_mcp.auth.proxy.upstream.Endpoints.authorization",  # a URL that anybody may know
    "trio_mcp.auth.proxy.upstream.Endpoints.token",
    "trio_mcp.compose.openapi.service.Service._given",  # a client, or what makes one
    "trio_mcp.schema.signatures.Signature.given",  # parameters
    "trio_mcp.store.quota.Quota._store",
    "trio_mcp.store.used.UsedOnce._store",
    "trio_mcp.transports.http.explorer.ExplorerPage.headers",  # the same for all
    "trio_mcp.transports.http.sharing.recording.Recorder._store",
    "trio_mcp.wire.notifications.ProgressParams.progress_token",  # which names a request
}


def classes() -> Iterator[type]:
    """All attrs classes of the package whose `repr` is written by attrs."""
    seen = set()
    for module in pkgutil.walk_packages(trio_mcp.__path__, "trio_mcp."):
        if ".windows" in module.name or module.name.endswith("__main__"):
            continue
        for found in vars(import_module(module.name)).values():
            ours = inspect.isclass(found) and found.__module__.startswith("trio_mcp")
            if ours and attrs.has(found) and found not in seen:
                seen.add(found)
                yield found


@pytest.mark.long
@pytest.mark.requirement("J7")
def test_no_class_writes_a_field_that_is_called_like_a_secret() -> None:
    written = {
        f"{found.__module__}.{found.__qualname__}.{field.name}": str(field.type)
        for found in classes()
        for field in attrs.fields(found)
        if field.repr is True
        and SECRETIVE.fullmatch(field.name)
        and not any(name in str(field.type) for name in OPEN_TYPES)
    }
    assert {name: kind for name, kind in written.items() if name not in OPEN} == {}
    assert written.keys() >= OPEN, "nothing stands here in vain"
