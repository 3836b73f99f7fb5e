"""A small authorization server, for the examples only: there is no login, and any client may come.

It does what a client and a protected server need of one: metadata (RFC 8414), registration
(RFC 7591), the code flow with PKCE, refresh tokens, client credentials, and JWT access tokens
(RFC 9068) for the resource that was asked for. A real one asks people who they are, keeps what it
knows in a database, and is run by people who answer for it.
"""

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

PERSON = "ada"
PROGRAMS = {"nightly": "only for the example"}
"""Clients that log in without a person, and their secrets."""

Fields = dict[str, str]


class AuthorizationServer(ThreadingHTTPServer):
    """Listens on this machine, at any port that is free."""

    def __init__(self, lifetime: int = 300) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.key = ECKey.generate_key("P-256", {"kid": "example"})
        self.lifetime = lifetime
        self.grants: dict[str, Fields] = {}
        """What codes and refresh tokens are good for; each of them once."""

    def metadata(self) -> dict[str, Any]:
        """Say what this server can do."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }

    def agree(self, asked: Fields) -> str:
        """Make the redirect that brings a code. A real server would ask the person first."""
        answer = {"code": self._keep(asked), "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: Fields, program: str | None) -> dict[str, Any] | None:
        """Give tokens for what a client has; `None` if that is nothing."""
        if form["grant_type"] == "client_credentials":
            return self._tokens(program, program, form) if program else None
        grant = self.grants.pop(form.get("code") or form.get("refresh_token", ""), None)
        if grant is None:
            return None
        if "code" in form and grant["code_challenge"] != _challenge(form["code_verifier"]):
            return None
        given = self._tokens(PERSON, grant["client_id"], grant)
        return {**given, "refresh_token": self._keep(grant)}

    def _keep(self, grant: Fields) -> str:
        secret = secrets.token_urlsafe()
        self.grants[secret] = grant
        return secret

    def _tokens(self, subject: str | None, client: str | None, asked: Fields) -> dict[str, Any]:
        now, scope = int(time.time()), asked.get("scope", "")
        claims = {
            "iss": self.url,
            "aud": asked["resource"],
            "sub": subject,
            "client_id": client,
            "scope": scope,
            "iat": now,
            "exp": now + self.lifetime,
            "jti": secrets.token_urlsafe(),
        }
        token = jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "example"}, claims, self.key)
        given = {"access_token": token, "token_type": "Bearer", "scope": scope}
        return {**given, "expires_in": self.lifetime}


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: AuthorizationServer

    def do_GET(self) -> None:
        """Show a document, or stand in for the page where people log in."""
        url = urlsplit(self.path)
        match url.path:
            case "/.well-known/oauth-authorization-server":
                self._answer(200, self.server.metadata())
            case "/keys":
                self._answer(200, {"keys": [self.server.key.as_dict(private=False)]})
            case "/authorize":
                self.send_response(302)
                self.send_header("Location", self.server.agree(dict(parse_qsl(url.query))))
                self.end_headers()
            case _:
                self._answer(404, {})

    def do_POST(self) -> None:
        """Register a client, or give it tokens."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            self._answer(201, {**json.loads(body), "client_id": secrets.token_urlsafe(8)})
            return
        given = self.server.exchange(dict(parse_qsl(body.decode())), self._program())
        self._answer(200 if given else 400, given or {"error": "invalid_grant"})

    def _program(self) -> str | None:
        """Find out which program asks, by its secret."""
        _, _, pair = self.headers.get("Authorization", "").partition(" ")
        name, _, secret = b64decode(pair).decode().partition(":")
        name, secret = (dict(parse_qsl(f"x={text}")).get("x", "") for text in (name, secret))
        return name if name in PROGRAMS and PROGRAMS[name] == secret else None

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: there are codes in the URLs."""


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def authorization_server(**options: int) -> Iterator[AuthorizationServer]:
    """Run one in a thread, for the length of the block."""
    with AuthorizationServer(**options) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
