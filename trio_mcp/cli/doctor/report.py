"""What an examination found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from attrs import asdict, define, field, frozen

from trio_mcp.cli.failures import one_line
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import Era

Severity = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


@frozen
class Finding:
    """Something that is not as it should be.

    Args:
        severity: `error`: it breaks a rule that the protocol insists on, or no host can cope with
            it; `warning`: it breaks a rule that the protocol recommends, or troubles people;
            `note`: it is good to know.
        code: What it is, for programs.
        message: What it is, for people.
        way_out: What to do about it.
        eras: Where it was found, if it was looked for in both eras.
    """

    severity: Severity
    code: str
    message: str
    way_out: str
    eras: set[Era] = field(factory=set, eq=False)


# By code: how bad it is, and the way out.
_KINDS: Final[Mapping[str, tuple[Severity, str]]] = MappingProxyType(
    {
        "does-not-start": ("error", "run its command by itself, and see what it says"),
        "no-answer": ("error", "answer every request, with an error if need be"),
        "no-revision": ("error", "answer `initialize`, `server/discover`, or both"),
        "dies": ("error", "catch what goes wrong with one request; the server must outlive it"),
        "bad-handshake": ("error", "answer as the schema of the revision says"),
        "version-negotiation": ("error", "offer another version instead of an unknown one"),
        "bad-result": ("error", "answer as the schema of the revision says"),
        "bad-list": ("error", "answer as the schema of the revision says"),
        "endless-list": ("error", "give each page a cursor of its own, and the last one none"),
        "wrong-error": ("warning", "use the error code that the protocol has for it"),
        "wrong-status": ("error", "use the HTTP status that the protocol has for it"),
        "no-error": ("error", "answer with an error what cannot be done"),
        "unknown-tool": ("note", "answer -32602: no model can do better with a name that is none"),
        "unknown-session": (
            "warning",
            "answer 404: that tells a client that its session has ended, and to begin a new one",
        ),
        "bad-error": ("error", "give each error a code (an integer) and a message (a text)"),
        "ignored-cursor": ("note", "answer -32602, so that a client notices its mistake"),
        "silent-on-bad-json": ("note", "answer -32700, so that a client notices its mistake"),
        "silent-on-bad-request": (
            "note",
            "answer -32600 or -32602: whoever sent it waits for an answer",
        ),
        "large-request": (
            "warning",
            "take requests of several megabytes: arguments may hold whole files",
        ),
        "undeclared": ("warning", "declare the capability, or hosts will not use it"),
        "bad-message": (
            "error",
            'write each message as JSON in UTF-8 (on stdio: as one line) with "jsonrpc": "2.0"',
        ),
        "stdout-noise": (
            "error",
            "write messages only to stdout; everything else (print, banners) belongs on stderr",
        ),
        "stray-answer": ("error", "answer with the id of the request as it came, type included"),
        "repeated-answer": ("error", "answer each request once"),
        "asks-modern-client": ("error", "answer `input_required` instead of sending requests"),
        "slow-start": (
            "warning",
            "answer first, then load and connect; npx and uvx look for the package at each start: "
            "name an installed program instead",
        ),
        "slow-first-start": (
            "note",
            "if the first start fetches or compiles things, do that beforehand: hosts may give up",
        ),
        "slow-exit": ("warning", "exit as soon as stdin ends"),
        "no-exit": ("warning", "exit when stdin ends, or hosts leave processes behind"),
        "ignores-signals": ("error", "exit when stdin ends, and at SIGTERM"),
        "exit-status": ("note", "exit with status 0 when stdin ends: nothing has gone wrong"),
        "leaves-processes": (
            "warning",
            "end them before exiting: a host may end no more than the process that it started",
        ),
        "bad-description": ("error", "describe it as the schema of the revision says"),
        "no-version": ("note", "give the server a version: people need it to report what is wrong"),
        "tool-name": ("warning", "use 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'"),
        "duplicate": ("warning", "give each one a name of its own"),
        "invalid-schema": ("error", "mend it: it must be valid JSON Schema, of type object"),
        "doubtful-schema": ("warning", "write it more simply, so that clients can check with it"),
        "no-description": ("warning", "describe it: that is all a model knows of it"),
        "undescribed-arguments": ("note", "describe them: a model has nothing else to go by"),
        "unknown-required": ("warning", "describe it among the properties"),
        "bad-header": ("error", "mend x-mcp-header: clients over HTTP must refuse the tool"),
        "contradiction": ("note", "a tool that only reads destroys nothing: drop one of the hints"),
        "heavy": ("note", "say less, or offer fewer tools: models read it with every request"),
        "no-access": ("error", "get in as it says; until then, nothing else can be examined"),
        "no-challenge": (
            "error",
            'say `WWW-Authenticate: Bearer resource_metadata="…"`, so that clients can get in',
        ),
        "no-resource-metadata": (
            "warning",
            "publish it (RFC 9728): without it, only who is given a token by hand can get in",
        ),
        "takes-any-token": ("error", "verify each token: signature, issuer, audience and times"),
        "no-origin-check": (
            "error",
            "refuse foreign Origins with 403, or any web page can use the server",
        ),
    }
)


@frozen
class Server:
    """Who the server says it is."""

    name: str
    version: str


@define
class Report:
    """What an examination found, as it goes on."""

    target: str
    server: Server | None = None
    modern: str | None = None
    """The newest modern revision that it speaks."""
    legacy: str | None = None
    """The legacy revision that was agreed on."""
    starts: list[float] = field(factory=list)
    """How long each start took, in seconds, up to the first answer."""
    exit_seconds: float | None = None
    offers: dict[str, int] = field(factory=dict)
    """How many tools, resources and so on."""
    findings: list[Finding] = field(factory=list)
    stderr: str = ""
    """The end of what it wrote to stderr, if something is wrong with the process."""
    era: Era | None = None
    """The era in which something is examined that is examined in the other one, too."""

    @property
    def start_seconds(self) -> float | None:
        """How long the first start took."""
        return self.starts[0] if self.starts else None

    def add(self, code: str, message: str, *, severity: Severity | None = None) -> None:
        """Take note of something; the same is noted once."""
        usual, way_out = _KINDS[code]
        finding = Finding(severity or usual, code, message, way_out)
        if finding in self.findings:
            finding = self.findings[self.findings.index(finding)]
        else:
            self.findings.append(finding)
        if self.era is not None:
            finding.eras.add(self.era)

    def only_in(self, finding: Finding) -> Era | None:
        """The era that a finding is about, if it is not about the other one that it speaks."""
        if self.modern is None or self.legacy is None or len(finding.eras) != 1:
            return None
        return next(iter(finding.eras))

    def has(self, code: str, words: str = "") -> bool:
        """Whether something of a kind was found, and told with some words."""
        return any(each.code == code and words in each.message for each in self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings of a severity there are."""
        return sum(each.severity == severity for each in self.findings)

    def sorted(self) -> list[Finding]:
        """The findings, the worst first."""
        return sorted(self.findings, key=lambda each: SEVERITIES.index(each.severity))

    def as_json(self) -> dict[str, Json]:
        """The findings for programs."""
        return {
            "target": self.target,
            "server": None if self.server is None else asdict(self.server),
            "revisions": {"modern": self.modern, "legacy": self.legacy},
            "startSeconds": _rounded(self.start_seconds),
            "exitSeconds": _rounded(self.exit_seconds),
            "offers": self.offers,
            "findings": [
                {
                    "severity": each.severity,
                    "code": each.code,
                    "message": each.message,
                    "onlyIn": self.only_in(each),
                    "wayOut": each.way_out,
                }
                for each in self.sorted()
            ],
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "stderr": self.stderr,
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def shown(value: Json) -> str:
    """Show JSON in a message, as it travels."""
    return cut(json.dumps(value, ensure_ascii=False))


def cut(value: object, most: int = 100) -> str:
    """Show a value in a message, on one line and not too long."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return one_line(text, most)
