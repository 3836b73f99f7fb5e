"""The command that tries a real provider, at one that is certified."""

from pathlib import Path

import pytest

from tests.auth.real import PROVIDERS, proxy, variables
from tests.interop.auth.support import SECRET, provider_for
from tests.store.redis_server import free_port
from tests.support.processes import ENVIRONMENT, python, run


@pytest.mark.needs("node")
@pytest.mark.requirement("P4")
async def test_a_provider_is_tried_by_one_command(npm: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}/mcp"
    async with provider_for(npm, url) as issuer:
        known = {"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": "our-server"}
        browser = " ".join(python("-m", "tests.interop.auth.person", "%s", "&"))
        environment = {
            **ENVIRONMENT,
            **known,
            "OIDC_CLIENT_SECRET": SECRET,
            "BROWSER": browser,
            "no_proxy": "*",
        }
        command = python("-m", "tests.auth.real", "oidc", "--port", str(port))
        done = await run(command, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    for line in ("ok  logged in: subject alice", "ok  renewed", "ok  logged out"):
        assert line in said
    assert SECRET not in said + done.stderr.decode()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_missing_is_said(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables(provider).values():
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit) as end:
        proxy(provider, "http://localhost:8000/mcp")
    message = str(end.value)
    assert all(variable in message for variable in variables(provider).values())
    assert "http://localhost:8000/auth/callback" in message
