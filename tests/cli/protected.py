"""A protected shop and its authorization server, on loopback, and a browser that says yes."""

from __future__ import annotations

import json
import secrets
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

from tests.auth.client.world import thumb
from tests.auth.server.support import Issuer, ec_key
from trio_mcp import HttpPolicy
from trio_mcp.auth import ResourceServer

BROWSER = """
import sys
from urllib.request import urlopen
print("this browser is chatty", flush=True)
print(urlopen(sys.argv[1]).read().decode(), file=sys.stderr)
"""


def browser(folder: Path, program: str = BROWSER) -> str:
    """Write a browser, and give back what `BROWSER` has to be."""
    path = folder / "browser.py"
    path.write_text(program)
    return f"{sys.executable} -I -S {path} %s"


@attrs.define(eq=False)
class Authority:
    """An authorization server, where a person who comes has said yes before.

    Attributes:
        url: Its issuer.
        clients: The secrets of clients that get in without a person.
        redirect: What is changed in the redirect.
        lifetime: Seconds for which a token holds.
        pages: What the person was shown.
        registrations: Who has registered.
        forms: What the token endpoint was sent.
        ended: Whether refresh tokens are good for nothing any more.
    """

    url: str = ""
    clients: dict[str, str] = attrs.field(factory=dict)
    redirect: dict[str, str] = attrs.field(factory=dict)
    lifetime: float = 600
    pages: list[dict[str, str]] = attrs.field(factory=list)
    registrations: list[dict[str, Any]] = attrs.field(factory=list)
    forms: list[dict[str, str]] = attrs.field(factory=list)
    revoked: list[str] = attrs.field(factory=list)
    ended: bool = False
    refresh: bool = True
    more: dict[str, Any] = attrs.field(factory=dict)
    issuer: Issuer = attrs.field(factory=lambda: Issuer("", ec_key()))
    tokens: list[str] = attrs.field(factory=list)
    """All secrets that were given."""
    _codes: dict[str, dict[str, str]] = attrs.field(factory=dict)

    def answer(self, path: str, form: dict[str, str], credentials: str) -> Any:
        """Answer a request: with JSON, or with a URL to go to."""
        match path:
            case "/.well-known/oauth-authorization-server":
                return {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "registration_endpoint": f"{self.url}/register",
                    "jwks_uri": f"{self.url}/keys",
                    "code_challenge_methods_supported": ["S256"],
                    **self.more,
                }
            case "/keys":
                return {"keys": [each.as_dict(private=False) for each in self.issuer.keys]}
            case "/register":
                self.registrations.append(dict(form))
                return {**form, "client_id": f"client-{len(self.registrations)}"}
            case "/authorize":
                self.pages.append(form)
                code = self._secret()
                self._codes[code] = form
                answer = {"code": code, "state": form["state"], **self.redirect}
                return f"{form['redirect_uri']}?{urlencode(answer)}"
            case "/revoke":
                self.revoked.append(form["token"])
                return {}
            case "/token":
                self.forms.append(form)
                return self._token(form, credentials)
        return None

    def _token(self, form: dict[str, str], credentials: str) -> Any:
        match form["grant_type"]:
            case "authorization_code":
                asked = self._codes.pop(form["code"])
                assert thumb(form["code_verifier"]) == asked["code_challenge"]
                who = {"client_id": asked["client_id"], "scope": asked.get("scope", "")}
            case "client_credentials":
                client, _, secret = credentials.partition(":")
                if self.clients.get(client) != secret:
                    return {"error": "invalid_client"}
                who = {"client_id": client, "sub": client, "scope": form.get("scope", "")}
            case _:
                if self.ended or form["refresh_token"] not in self.tokens:
                    return {"error": "invalid_grant"}
                who = {"client_id": "client-1", "scope": "shop"}
        access = self.issuer.token(aud=form["resource"], jti=secrets.token_hex(), **who)
        self.tokens.append(access)
        given = {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime}
        return given | ({"refresh_token": self._secret()} if self.refresh else {})

    def _secret(self) -> str:
        self.tokens.append(secrets.token_urlsafe())
        return self.tokens[-1]


class _Handler(BaseHTTPRequestHandler):
    authority: Authority

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self._answer(url.path, dict(parse_qsl(url.query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        as_json = "json" in self.headers["content-type"]
        self._answer(self.path, json.loads(body) if as_json else dict(parse_qsl(body)))

    def _answer(self, path: str, form: dict[str, str]) -> None:
        scheme, _, word = self.headers.get("authorization", "").partition(" ")
        credentials = b64decode(word).decode() if scheme == "Basic" else ""
        found = self.authority.answer(path, form, credentials)
        if isinstance(found, str):
            self.send_response(302)
            self.send_header("Location", found)
            found = {}
        else:
            self.send_response(404 if found is None else 400 if "error" in found else 200)
        body = json.dumps(found).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def authority() -> Iterator[Authority]:
    """Run an authorization server in threads of this process."""
    found = Authority()
    handler = type("Handler", (_Handler,), {"authority": found})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        found.url = found.issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=partial(server.serve_forever, 0.01))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def behind(authority: Authority, *scopes: str) -> Callable[[str], HttpPolicy]:
    """Let those in who have a token of an authorization server."""
    return lambda url: HttpPolicy(
        auth=ResourceServer(resource=url, issuers=[authority.url], scopes=scopes)
    )
