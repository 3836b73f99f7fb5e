"""The findings of an examination."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Literal

from attrs import asdict, define, field, frozen

from trio_mcp.cli.failures import one_line
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import Era

Severity = Literal["error", "warning", "note"]
"""It breaks a rule of the protocol, or no host can cope with it; it breaks a recommendation, or
troubles people; it is good to know."""


@frozen
class Finding:
    """Something that is wrong, for programs and for people."""

    severity: Severity
    code: str
    message: str
    way_out: str
    eras: set[Era] = field(factory=set, eq=False)
    """Where it was found, if both eras were examined for it."""


_KINDS: Final[dict[Severity, dict[str, str]]] = {
    "error": {
        "does-not-start": "run its command by itself, and see what it says",
        "no-answer": "answer every request, with an error if need be",
        "no-revision": "answer `initialize`, `server/discover`, or both",
        "dies": "catch what goes wrong with one request; the server must outlive it",
        "does-not-read": "read all the time, also while you write or wait for an answer",
        "bad-handshake": "answer as the schema of the revision says",
        "version-negotiation": "offer another version instead of an unknown one",
        "bad-result": "answer as the schema of the revision says",
        "bad-list": "answer as the schema of the revision says",
        "endless-list": "give each page a cursor of its own, and the last one none",
        "wrong-status": "use the HTTP status that the protocol has for it",
        "no-error": "answer with an error what cannot be done",
        "bad-error": "give each error a code (an integer) and a message (a text)",
        "bad-message": "write each message as JSON in UTF-8 (on stdio: as one line) with "
        '"jsonrpc": "2.0"',
        "stdout-noise": "write messages only to stdout; everything else (print, banners) belongs "
        "on stderr",
        "stray-answer": "answer with the id of the request as it came, type included",
        "repeated-answer": "answer each request once",
        "asks-modern-client": "answer `input_required` instead of sending requests",
        "ignores-signals": "exit when stdin ends, and at SIGTERM",
        "bad-description": "describe it as the schema of the revision says",
        "invalid-schema": "mend it: it must be valid JSON Schema, of type object",
        "bad-header": "mend x-mcp-header: clients over HTTP must refuse the tool",
        "no-access": "log in as it says; until then, nothing else can be examined",
        "no-challenge": 'say `WWW-Authenticate: Bearer resource_metadata="…"`, so that clients can '
        "log in",
        "takes-any-token": "verify each token: signature, issuer, audience and times",
        "no-origin-check": "refuse foreign Origins with 403, or any web page can use the server",
    },
    "warning": {
        "wrong-error": "use the error code that the protocol has for it",
        "unknown-session": "answer 404: that tells a client that its session has ended, and to "
        "begin a new one",
        "large-request": "take requests of several megabytes: arguments may hold whole files",
        "undeclared": "declare the capability, or hosts will not use it",
        "slow-start": "answer first, then load and connect; npx and uvx look for the package at "
        "each start: name an installed program instead",
        "slow-exit": "exit as soon as stdin ends",
        "no-exit": "exit when stdin ends, or hosts leave processes behind",
        "leaves-processes": "end them before exiting: a host may end no more than the process that "
        "it started",
        "tool-name": "use 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'",
        "duplicate": "give each one a name of its own",
        "doubtful-schema": "write it more simply, so that clients can check with it",
        "no-description": "describe it: that is all a model knows of it",
        "unknown-required": "describe it among the properties",
        "no-resource-metadata": "publish it (RFC 9728): without it, only who is given a token by "
        "hand can log in",
    },
    "note": {
        "unknown-tool": "answer -32602: no model can do better with a name that does not exist",
        "ignored-cursor": "answer -32602, so that a client notices its mistake",
        "silent-on-bad-json": "answer -32700, so that a client notices its mistake",
        "silent-on-bad-request": "answer -32600 or -32602: its sender waits for an answer",
        "slow-first-start": "if the first start fetches or compiles things, do that beforehand: "
        "hosts may give up",
        "exit-status": "exit with status 0 when stdin ends: nothing has gone wrong",
        "no-version": "give the server a version: people need it to report what is wrong",
        "undescribed-arguments": "describe them: a model has nothing else to go by",
        "contradiction": "a tool that only reads destroys nothing: drop one of the hints",
        "heavy": "say less, or offer fewer tools: models read it with every request",
    },
}
"""By severity and code, what to do about a finding."""


@frozen
class Server:
    """The name and version that the server gives."""

    name: str
    version: str


@frozen
class Chain:
    """The layers around the functions of some entries, outermost first."""

    layers: tuple[str, ...]
    entries: tuple[str, ...]
    """Their kinds and names."""


@define
class Report:
    """The findings so far."""

    target: str
    server: Server | None = None
    modern: str | None = None
    """The newest modern revision that it speaks."""
    legacy: str | None = None
    """The legacy revision that was agreed on."""
    starts: list[float] = field(factory=list)
    """The seconds of each start, up to the first answer."""
    exit_seconds: float | None = None
    offers: dict[str, int] = field(factory=dict)
    """The numbers of tools, resources and so on."""
    chains: Sequence[Chain] = ()
    """The layers around its functions, if it is a registry that can be imported."""
    findings: list[Finding] = field(factory=list)
    stderr: str = ""
    """The end of what it wrote to stderr, if something is wrong with the process."""
    era: Era | None = None
    """The current era, while both are examined for the same things."""

    @property
    def start_seconds(self) -> float | None:
        return self.starts[0] if self.starts else None

    def add(self, code: str, message: str, *, severity: Severity | None = None) -> None:
        usual = next(kind for kind, codes in _KINDS.items() if code in codes)
        finding = Finding(severity or usual, code, message, _KINDS[usual][code])
        if finding in self.findings:
            finding = self.findings[self.findings.index(finding)]
        else:
            self.findings.append(finding)
        if self.era is not None:
            finding.eras.add(self.era)

    def only_in(self, finding: Finding) -> Era | None:
        """Return the era of a finding that is not in the other era as well."""
        if self.modern is None or self.legacy is None or len(finding.eras) != 1:
            return None
        return next(iter(finding.eras))

    def has(self, code: str, words: str = "") -> bool:
        """Whether there is a finding with a code and these words."""
        return any(found.code == code and words in found.message for found in self.findings)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def sorted(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: list(_KINDS).index(finding.severity))

    def as_json(self) -> dict[str, Json]:
        return {
            "target": self.target,
            "server": None if self.server is None else asdict(self.server),
            "revisions": {"modern": self.modern, "legacy": self.legacy},
            "startSeconds": _rounded(self.start_seconds),
            "exitSeconds": _rounded(self.exit_seconds),
            "offers": self.offers,
            "chains": [
                {"layers": [*chain.layers], "entries": [*chain.entries]} for chain in self.chains
            ],
            "findings": [
                {
                    "severity": found.severity,
                    "code": found.code,
                    "message": found.message,
                    "onlyIn": self.only_in(found),
                    "wayOut": found.way_out,
                }
                for found in self.sorted()
            ],
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "stderr": self.stderr,
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def shown(value: Json) -> str:
    return shorten(json.dumps(value, ensure_ascii=False))


def shorten(value: object, limit: int = 100) -> str:
    """Write a value for a message, on one line and not too long."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return one_line(text, limit)


def some(values: Sequence[object], limit: int = 3) -> str:
    """List the first few values for a message."""
    more = f" and {len(values) - limit} more" if len(values) > limit else ""
    return f"{', '.join(map(shorten, values[:limit]))}{more}"
