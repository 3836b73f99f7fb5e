"""The pages that people see on the way: one that asks for consent, and one for what went wrong.

They run no script, fetch nothing, and can be in no frame. All that a client says of itself is
shown as text that nothing vouches for.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.auth.proxy.clients import ProxyClient, is_local
from trio_mcp.auth.proxy.web import Header, WebResponse

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c2024; --dim: #60646c; --line: #d9d9e0;
  --back: #f9f9fb; --card: #fff; --accent: #0d74ce; --on-accent: #fff; --warn: #fff7c2;
  --on-warn: #4f3422 }
@media (prefers-color-scheme: dark) { :root { --text: #edeef0; --dim: #b0b4ba; --line: #363a3f;
  --back: #111113; --card: #18191b; --accent: #70b8ff; --on-accent: #111113; --warn: #2d2305;
  --on-warn: #ffe7b3 } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem;
  background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 28rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; padding: 1.75rem }
h1 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 1rem; overflow-wrap: anywhere }
p { margin: 0 0 1rem; overflow-wrap: anywhere }
dl { margin: 0 0 1.25rem; border-top: 1px solid var(--line) }
dl div { padding: .6rem 0; border-bottom: 1px solid var(--line) }
dt { color: var(--dim); font-size: .85rem }
dd { margin: 0; overflow-wrap: anywhere }
code { font: .9em ui-monospace, monospace }
.warning { background: var(--warn); color: var(--on-warn); border-radius: 8px; padding: .75rem 1rem;
  font-size: .9rem }
form { display: flex; gap: .75rem; flex-wrap: wrap }
button { flex: 1 1 8rem; min-height: 2.75rem; font: inherit; font-weight: 600; border-radius: 8px;
  border: 1px solid var(--line); background: var(--card); color: var(--text); cursor: pointer }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
"""

_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()


# Without form-action: Chromium holds all redirects that follow a form against it, and where the
# provider and the client will send the browser cannot be known.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def _page(status: int, title: str, body: str, headers: Iterable[Header]) -> WebResponse:
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )
    kind = b"text/html; charset=utf-8"
    return WebResponse(status, text.encode(), kind, (*_HEADERS, *headers))


def error_page(status: int, title: str, advice: str) -> WebResponse:
    """Return a page that says what went wrong, and what to do about it."""
    return _page(status, title, f"<p>{escape(advice)}</p>", ())


def consent_page(
    client: ProxyClient,
    *,
    redirect: str,
    server: str,
    provider: str,
    scopes: Iterable[str],
    login: str,
    headers: Iterable[Header],
) -> WebResponse:
    """Return the page that asks a person whether a client may act for them.

    Args:
        client: The client.
        redirect: Where it will have the code sent.
        server: What this server is called.
        provider: What the provider is called, where the person will log in.
        scopes: What the client asks for.
        login: The sealed login, for the form.
        headers: Further headers of the response.
    """
    name = client.name or "A client without a name"
    parts = urlsplit(redirect)
    where = "a program on this computer" if is_local(redirect) else parts.hostname or redirect
    rows = [
        ("Client", escape(name)),
        ("Described by", escape(client.host)) if client.host else None,
        ("Access goes to", f"{escape(where)}<br><code>{escape(redirect)}</code>"),
        ("It may", "<br>".join(map(escape, scopes))) if scopes else None,
    ]
    listed = "".join(f"<div><dt>{row[0]}</dt><dd>{row[1]}</dd></div>" for row in rows if row)
    body = (
        f"<p>If you allow this, you go on to {escape(provider)} to log in, and "
        f"<b>{escape(name)}</b> can use <b>{escape(server)}</b> in your name.</p>"
        f"<dl>{listed}</dl>"
        f'<p class="warning">{escape(_warning(client, redirect))}</p>'
        '<form method="post" action="/consent">'
        f'<input type="hidden" name="ticket" value="{escape(login)}">'
        '<button type="submit" class="main" name="answer" value="allow">Allow</button>'
        '<button type="submit" name="answer" value="deny">Cancel</button></form>'
    )
    title = f"Allow {name} to use {server}?"
    return _page(200, title, body, headers)


def _warning(client: ProxyClient, redirect: str) -> str:
    begun = "Go on only if you have just started this yourself."
    if client.host is None:
        return f"The name is what the client calls itself; it has not been verified. {begun}"
    if is_local(redirect):
        return f"Any program on this computer could say that it is this client. {begun}"
    return begun
