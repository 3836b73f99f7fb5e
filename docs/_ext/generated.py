"""Tables that are made from the code, as Markdown, when the site is built.

    :::{generated} variables
    :::

What the code knows stands there alone: commands with their options, loggers, variables of the
environment, errors and their codes. Where it takes a sentence to say what one of them is for, the
sentence stands here; one that is missing, or left over, breaks the build.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

import trio_mcp
import trio_mcp.errors
import trio_mcp.middleware
import trio_mcp.wire.errors

_PACKAGE = Path(trio_mcp.__file__).parent
BLOCK = re.compile(r"^:::\{generated\} (\w+)\n:::$", re.MULTILINE)
"""The place of a table on a page."""

VARIABLES = {
    "MCP_SERVER_URL": "The server for commands and for `connect` if they get none: "
    "a URL or a command.",
    "TRIO_MCP_DEBUG": "If set, commands that fail show the traceback.",
    "TRIO_MCP_LOGINS": "Where logins are kept: a file, or `keyring`.",
    "NOTIFY_SOCKET": "Where systemd hears that a server is ready, and that it stops.",
    "SSL_CERT_FILE": "A file of certificates to trust, in place of the system's.",
    "SSL_CERT_DIR": "A folder of certificates to trust, in place of the system's.",
    "BROWSER": "The browser that `trio-mcp login` opens. If it is not set, and there is no screen, "
    "the address is only shown.",
    "DISPLAY": "The screen of X11.",
    "WAYLAND_DISPLAY": "The screen of Wayland.",
    "SSH_CONNECTION": "Set by SSH: a login then prints the command that forwards its port.",
    "TRIO_MCP_WITHOUT": "For tests: what this system is to lack, as others do.",
    "TRIO_MCP_DEPTH": "Set for servers behind a proxy or gateway: how many stand before them.",
    "TRIO_MCP_DOCTOR": "Set for a server that `doctor` examines, to find what it leaves behind.",
    "TRIO_MCP_LIFELINE": "Set for a process that ends with the one that started it.",
    "TRIO_MCP_WORKER": "Set for the workers of `serve_http`: where they reach their parent.",
}
"""By name, what each variable is for."""

LOGGERS = {
    "trio_mcp": "Connections, requests and processes, and all that has no logger of its own.",
    "trio_mcp.aio": "Event loops of asyncio: tasks that ignore cancellation, failed callbacks.",
    "trio_mcp.auth": "Tokens, logins and keys that were refused, and why.",
    "trio_mcp.audit": "The audit log, if you use `AuditLog`.",
    "trio_mcp.calls": "Each call with its outcome and its time.",
    "trio_mcp.client": "Clients: what servers send that is not expected.",
    "trio_mcp.compose": "Servers that are mounted, proxied or connected in groups.",
    "trio_mcp.errors": "What `ShowErrors` shows to callers, in debug.",
    "trio_mcp.http": "The HTTP server: connections, requests that were refused, workers.",
    "trio_mcp.openapi": "Operations of a document whose schemas cannot be used.",
    "trio_mcp.registry": "What cannot be mounted as it is, and is left out.",
    "trio_mcp.reload": "`serve --reload`.",
    "trio_mcp.retry": "Calls that `Retry` makes again.",
    "trio_mcp.search": "Functions that rank tools, and fail.",
    "trio_mcp.skills": "Skills that cannot be read.",
    "trio_mcp.slow": "What `SlowCalls` finds.",
    "trio_mcp.store": "Stores that several instances share: settings that lose data, outages.",
    "trio_mcp.tasks": "Tasks that failed or were given up.",
    "trio_mcp.telemetry": "Exporters of OpenTelemetry that failed.",
    "trio_mcp.tools": "Arguments that a client sent as text and that were read as JSON, in debug.",
}
"""By name, what each logger says."""

CODES = {
    -32700: "What was sent is not JSON.",
    -32600: "It is not a JSON-RPC request, or it comes when it must not.",
    -32601: "The server does not have this method.",
    -32602: "The parameters are wrong: a tool that does not exist, a cursor that is not one.",
    -32603: "The server failed, or stops. The caller does not see more; the log has the traceback.",
    -32000: "Too much at once: requests, tasks, or what a rate allows.",
    -32002: "There is nothing at this URI, in revisions before 2026-07-28.",
    -32020: "The headers of an HTTP request say something else than its body.",
    -32021: "The client has not declared the capability or the extension that this needs.",
    -32022: "The server does not speak this revision.",
    -32042: "The user has to do something on a page first (2025-11-25).",
}
"""By code, when it is sent."""


# -- what the code has ------------------------------------------------------------------------


def modules(*words: str) -> Iterator[ast.Module]:
    """Yield the modules of the package that have one of the words in their text."""
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield ast.parse(text)


@cache
def find_loggers() -> set[str]:
    """Return the names of all loggers, that of `AuditLog` included."""
    return {attrs.fields(trio_mcp.middleware.AuditLog).logger.default} | {
        node.args[0].value
        for module in modules("logger_of")
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if isinstance(node.args[0].value, str)
        if ast.unparse(node.func).endswith("logger_of")
    }


@cache
def find_variables() -> set[str]:
    """Return the variables of the environment that the package reads or sets.

    They stand where `os.environ` is asked for them; those of our own are constants besides.
    """
    shape = re.compile(r"(MCP|TRIO_MCP)_[A-Z]+")
    found = set()
    for module in modules("environ", "MCP_"):
        constants = {
            node.target.id: node.value.value
            for node in module.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            if isinstance(node.value, ast.Constant)
        }
        found |= {text for text in constants.values() if shape.fullmatch(str(text))}
        found |= set(_asked(module, constants))
    return found


def _asked(module: ast.Module, constants: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that `environ.get` and `environ.pop` are called with."""
    loops = {
        comprehension.target.id: ast.literal_eval(comprehension.iter)
        for node in ast.walk(module)
        for comprehension in getattr(node, "generators", ())
        if isinstance(comprehension.target, ast.Name)
        if isinstance(comprehension.iter, ast.Tuple | ast.List)
        if all(isinstance(item, ast.Constant) for item in comprehension.iter.elts)
    }
    asking = {"os.environ.get", "os.environ.pop"}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in asking:
            continue
        asked = node.args[0] if node.args else None
        if isinstance(asked, ast.Constant):
            yield asked.value
        elif isinstance(asked, ast.Name) and asked.id in constants:
            yield constants[asked.id]
        elif isinstance(asked, ast.Name):
            yield from loops.get(asked.id, ())


@cache
def find_codes() -> set[int]:
    """Return the codes of JSON-RPC errors that stand in the package."""
    return {
        -node.operand.value
        for module in modules("-32")
        for node in ast.walk(module)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)
        if 32_000 <= node.operand.value < 33_000
    }


def find_errors() -> dict[str, type[Exception]]:
    """Return the exceptions that can be imported from `trio_mcp.errors`."""
    return {
        name: it
        for name, it in vars(trio_mcp.errors).items()
        if inspect.isclass(it) and issubclass(it, Exception)
    }


# -- tables -----------------------------------------------------------------------------------


def variables() -> str:
    """Return the variables of the environment."""
    said = _checked(find_variables(), VARIABLES, "variable")
    return _table(["Variable", "What it is for"], ([f"`{name}`", said[name]] for name in said))


def loggers() -> str:
    """Return the loggers."""
    said = _checked(find_loggers(), LOGGERS, "logger")
    return _table(["Logger", "What it says"], ([f"`{name}`", said[name]] for name in sorted(said)))


def codes() -> str:
    """Return the codes of JSON-RPC errors."""
    said = _checked(find_codes(), CODES, "code")
    names = {
        value: name
        for name, value in vars(trio_mcp.wire.errors).items()
        if isinstance(value, int) and name.isupper()
    }
    rows = (
        [str(code), names.get(code, "").replace("_", " ").capitalize(), said[code]]
        for code in sorted(said)
    )
    return _table(["Code", "Name", "When it is sent"], rows)


def errors() -> str:
    """Return the exceptions, with what each is a kind of."""
    return _table(
        ["Exception", "Kind of", "When"],
        (
            [f"{{py:exc}}`{name}`", f"`{kind.__base__.__name__}`", _first_line(kind)]
            for name, kind in sorted(find_errors().items())
            if kind.__base__ is not None
        ),
    )


def commands() -> str:
    """Return the commands of `trio-mcp`, with their arguments and options."""
    from cyclopts.docs import generate_markdown_docs

    from trio_mcp.cli.app import make_app

    text = generate_markdown_docs(make_app(), generate_toc=False, heading_level=1)
    options = re.sub(
        r"(?<![\w`-])--(?:[a-z][a-z-]+)?(?![\w`-])(?=[^`]*$)", r"`\g<0>`", text, flags=re.M
    )
    return options[options.index("\n## ") + 1 :]


GENERATED: Mapping[str, Callable[[], str]] = {
    make.__name__: make for make in (commands, variables, loggers, errors, codes)
}


def _checked(found: Iterable[Any], said: Mapping[Any, str], what: str) -> Mapping[Any, str]:
    """Return what is said, if it is said of all that the code has, and of nothing else."""
    missing, left = {*found} - {*said}, {*said} - {*found}
    if missing or left:
        raise ValueError(f"of each {what} say what it is for: {missing or ''}; remove {left or ''}")
    return said


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _table(headers: list[str], rows: Iterable[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def show_generated(app: Any, page: str, source: list[str]) -> None:
    """Put the tables into a page."""
    source[0] = BLOCK.sub(lambda block: GENERATED[block[1]](), source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("source-read", show_generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
