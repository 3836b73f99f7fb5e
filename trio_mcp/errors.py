"""Every exception that users meet.

Those of servers are defined in `wire`, and those of stores in `store`, so that a server imports no
more than it needs; those of clients are defined here.
"""

import signal
from typing import ClassVar

from attrs import define

from trio_mcp.store.errors import StoreError as StoreError
from trio_mcp.store.errors import StoreFull as StoreFull
from trio_mcp.store.errors import StoreUnavailable as StoreUnavailable
from trio_mcp.store.errors import StoreUnusable as StoreUnusable
from trio_mcp.wire.errors import LifespanError as LifespanError
from trio_mcp.wire.errors import McpError as McpError
from trio_mcp.wire.errors import ResourceNotFound as ResourceNotFound
from trio_mcp.wire.errors import SchemaError as SchemaError
from trio_mcp.wire.errors import ToolError as ToolError


class ConfigError(ValueError):
    """A configuration such as `mcp.json` is wrong. The message names file, server and key."""


class ClientError(Exception):
    """Anything that goes wrong between a client and its server."""


class CannotStart(ClientError):
    """The server's command does not exist, or cannot be executed."""


class AlreadyConnected(ClientError):
    """The stream is in use, or what `connect` returned was entered before."""


class NotConnected(ClientError):
    """The client was used outside of its `async with` block, or after the connection ended."""


@define(repr=False, slots=False)
class ServerExited(NotConnected):
    """The server process ended.

    Attributes:
        returncode: Its exit status; negative for a signal.
        stderr: The end of what it wrote to stderr.
    """

    returncode: int
    stderr: str = ""

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did: a `signal.Signals` if it has a name."""
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode)
        except ValueError:  # most real-time signals have no name
            return -self.returncode

    def __str__(self) -> str:
        ended_by = self.signal
        how = f"status {self.returncode}"
        if ended_by is not None:
            how = f"signal {getattr(ended_by, 'name', ended_by)}"
        is_silent = self.returncode == 0 and not self.stderr.strip()
        hint = ": does its command serve, as `trio-mcp serve FILE` does?" if is_silent else ""
        return f"the server exited with {how}{hint}{_tail(self.stderr)}"


@define(repr=False, slots=False)
class ServerUnavailable(NotConnected):
    """A server of a group, or behind a proxy, is not connected. It is tried again in time.

    Attributes:
        server: Its name.
        cause: Why it is not connected, if known.
    """

    server: str
    cause: Exception | None = None

    def __str__(self) -> str:
        why = "it has not connected yet" if self.cause is None else str(self.cause)
        return f"server {self.server!r} is not available: {why}"


@define(repr=False, slots=False)
class PipeClosed(NotConnected):
    """The server closed one of its pipes, but did not exit.

    Attributes:
        stderr: The end of what it wrote to stderr.
    """

    how: ClassVar[str] = "the server closed a pipe"

    stderr: str = ""

    def __str__(self) -> str:
        return f"{self.how}{_tail(self.stderr)}"


class OutputClosed(PipeClosed):
    """The server closed its output, but did not exit."""

    how = "the server closed its output"


class WriteFailed(PipeClosed):
    """The server takes no more input, but did not exit."""

    how = "the server takes no more input"


class CannotReach(ClientError):
    """The server cannot be reached over HTTP: no such host, no listener, or TLS failed."""


class ConnectionLost(ClientError):
    """The HTTP connection broke before the answer. The request may have been carried out."""


class ResponseTooLarge(ClientError):
    """The server's answer, or all pages of a list, are longer than `Limits.max_message_bytes`."""


@define(repr=False, slots=False)
class HttpError(ClientError):
    """The server refused a request with an HTTP status.

    Attributes:
        status: The HTTP status.
    """

    status: int
    message: str

    def __str__(self) -> str:
        return self.message


@define(repr=False, slots=False)
class Unauthorized(HttpError):
    """The server requires credentials, or different ones (401, 403, 407).

    Attributes:
        www_authenticate: What it says about them: the value of `WWW-Authenticate`.
    """

    www_authenticate: str | None = None


@define(repr=False, slots=False)
class AuthorizationError(ClientError):
    """Authorization failed: something was refused, or is invalid.

    The message never has a token, a code or a secret in it.

    Attributes:
        error: The authorization server's error code (`access_denied`, `invalid_grant`), if it
            refused.
    """

    message: str
    error: str | None = None

    def __str__(self) -> str:
        return self.message


class ProviderTokenError(AuthorizationError, ToolError):
    """There is no token of the provider for a caller: the login has ended, or it is refused.

    In a tool that does not catch it, its text is the answer, as with any `ToolError`.
    """


class LoginRequired(AuthorizationError):
    """A person has to log in, and there is no way to ask one."""


@define(repr=False, slots=False)
class RateLimited(HttpError):
    """You sent the server too many requests (429).

    Attributes:
        retry_after: Seconds to wait, if it says so.
    """

    retry_after: float | None = None


class RequestTooLarge(HttpError):
    """The request is longer than the server allows (413)."""


class SessionExpired(HttpError):
    """The server has ended the session (404). It may or may not have carried out the request."""


@define(repr=False, slots=False)
class CallTimeout(ClientError, TimeoutError):
    """The server did not answer in time.

    Attributes:
        what: What was asked.
        seconds: How long the client waited.
        stderr: The end of what the server wrote to stderr.
        setting: What sets how long it waits, unless the call itself said so.
    """

    what: str
    seconds: float
    stderr: str = ""
    setting: str = ""

    def __str__(self) -> str:
        hint = f" (to wait longer: {self.setting})" if self.setting else ""
        return f"{self.what}: no answer within {self.seconds:g} s{hint}{_tail(self.stderr)}"


class ProtocolError(ClientError):
    """The server answered with something that is not MCP."""


class InvalidResult(ProtocolError):
    """A tool's result does not fit the output schema that the server published for it."""


class UnknownTool(ClientError):
    """The server has no such tool."""


class ToolDisabled(ClientError):
    """The tool was disabled on this side (`RemoteTool.enabled`)."""


class InvalidArguments(ClientError):
    """The arguments do not fit the tool's schema."""


class ToolFailed(ClientError):
    """The tool ran and failed; the text says how."""


class SkillError(ClientError):
    """A skill must not be used.

    Attributes:
        origin: The server that has it, as given to `SkillsClient`.
        uri: The skill, or the file.
    """

    def __init__(self, origin: str, uri: str, why: str) -> None:
        super().__init__(f"{uri} of {origin}: {why}")
        self.origin = origin
        self.uri = uri


class InvalidSkill(SkillError):
    """Its entry is not what an entry must be, or is too large, or cannot be verified."""


class UnverifiedSkill(SkillError):
    """A file is not what the entry says. Get the entry again; the user has to approve it again."""


class InvalidPage(ClientError):
    """What a server sent is not a page, or wants what no page may have."""


def _tail(stderr: str) -> str:
    return f"; its last words:\n{stderr.rstrip()}" if stderr.strip() else ""
