"""How a command gets in at a URL as a program that an authorization server knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from trio_mcp.cli.failures import Usage, require

if TYPE_CHECKING:
    from trio_mcp import ClientCredentials

SECRET_NEEDS_ISSUER: Final = (
    "--client-secret-env needs --issuer, for nobody else to be shown the secret"  # noqa: S105
)


def as_client(
    client_id: str, secret: str | None, key: str | None, *, issuer: str | None
) -> ClientCredentials:
    """Get in by a client's own credentials. The token is kept in memory only.

    Args:
        client_id: The client.
        secret: Its secret.
        key: The file with its private key.
        issuer: The authorization server that knows it.

    Raises:
        Usage: The options do not go together, or the key is none.
        Failure: A package is missing.
        OSError: The file cannot be read.
    """
    if (secret is None) == (key is None):
        raise Usage("--client-id needs --client-secret-env or --client-key, and not both")
    if secret is not None and issuer is None:
        raise Usage(SECRET_NEEDS_ISSUER)
    require_auth()
    from trio_mcp import ClientCredentials

    try:
        return ClientCredentials(
            client_id=client_id,
            client_secret=secret,
            private_key=None if key is None else Path(key).read_bytes(),
            issuer=issuer,
        )
    except ValueError as error:
        raise Usage(str(error).replace("private_key:", f"--client-key {key}:")) from None


def require_auth() -> None:
    """Make sure that the packages are there that getting in needs.

    Raises:
        Failure: They are not.
    """
    require("joserfc", "getting in", "auth")
