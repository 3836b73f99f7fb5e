"""Finds what a Python file uses of FastMCP and the official SDK, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from attrs import define, field, frozen

from trio_mcp.registry.equivalents import EQUIVALENTS

_PACKAGES: Final = frozenset({"fastmcp", "mcp", "mcp_types"})
_MODULES: Final = frozenset({"fastmcp", "mcp", "types", "exceptions", "middleware", "transports"})
"""Modules of theirs whose names are used with a dot."""
_CLASSES: Final = {
    "FastMCP": "server",
    "MCPServer": "server",
    "Server": "low-level server",
    "Context": "context",
    "Client": "client",
}
"""The classes whose attributes are looked up, and how these are called in `EQUIVALENTS`."""
_KEYWORDS: Final = {
    "server": "server option",
    "low-level server": "server option",
    None: "field",
}
_DECORATORS: Final = frozenset({"tool", "resource", "prompt", "completion"})
_CALLERS: Final = frozenset({"tool", "call_tool"})
"""The decorators of what runs a tool."""
_RUNNERS: Final = frozenset({"run", "http_app", "streamable_http_app", "sse_app"})
_ASYNCIO: Final = frozenset(
    {"asyncio", "aiohttp", "aiosqlite", "asyncpg", "motor", "aiofiles", "aioredis", "redis.asyncio"}
)


@frozen(order=True)
class Use:
    """Something that a file uses: `kind` and `name` are those of `EQUIVALENTS`."""

    line: int
    kind: str
    name: str


def find_uses(source: str, path: str) -> list[Use]:
    """Find all uses in the source of a file, in the order of its lines.

    Raises:
        SyntaxError: It is not Python.
    """
    tree = ast.parse(source, path)
    reader = _Reader()
    reader.learn(tree)
    return sorted(set(reader.uses(tree)))


@define
class _Reader:
    """What the names of one file stand for. Scopes are not told apart: a server is called alike."""

    _imported: dict[str, str] = field(factory=dict)  # local names, and what they are imported as
    _values: dict[str, str] = field(factory=dict)  # expressions, and the kind of what they are

    def learn(self, tree: ast.Module) -> None:
        """Learn which names stand for modules, classes and their instances."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    if _is_theirs(name.name):
                        self._imported[name.asname or name.name.partition(".")[0]] = name.name
            elif isinstance(node, ast.ImportFrom) and _is_theirs(node.module):
                for name in node.names:
                    self._imported[name.asname or name.name] = name.name
        for node in ast.walk(tree):
            self._learn_values(node)
        if not any(_is_from(node, "trio_mcp") for node in ast.walk(tree)):
            self._learn_decorators(tree)

    def _learn_decorators(self, tree: ast.Module) -> None:
        """Learn what has tools, and may come from another file."""
        for node in ast.walk(tree):
            for mark in _marks(node) if isinstance(node, _Function) else ():
                if isinstance(mark, ast.Attribute) and mark.attr == "tool":
                    self._learn(mark.value, "server")

    def _learn_values(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._learn(target, self._kind_made(node.value))
        elif isinstance(node, ast.AnnAssign):
            self._learn(node.target, self._kind_named(node.annotation))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._learn(node.optional_vars, self._kind_made(node.context_expr))
        elif isinstance(node, ast.arg):
            self._learn(ast.Name(node.arg), self._kind_named(node.annotation))

    def _learn(self, target: ast.expr, kind: str | None) -> None:
        if kind is not None:
            self._values[ast.unparse(target)] = kind

    def _kind_made(self, value: ast.expr) -> str | None:
        if not isinstance(value, ast.Call):
            return None
        function = value.func
        if isinstance(function, ast.Attribute) and function.attr.startswith("from_"):
            function = function.value  # `FastMCP.from_openapi(...)` makes one, too
        return _CLASSES.get(self._theirs(function) or "")

    def _kind_named(self, annotation: ast.expr | None) -> str | None:
        """Return the kind of what is annotated so, `Context | None` for example."""
        for node in ast.walk(annotation) if annotation is not None else ():
            kind = _CLASSES.get(self._theirs(node) or "")
            if kind is not None:
                return kind
        return None

    def _theirs(self, node: ast.AST) -> str | None:
        """Return the name that an expression has in their packages, if it is one of theirs."""
        if isinstance(node, ast.Name) and node.id in self._imported:
            return self._imported[node.id].rpartition(".")[2]
        return (
            node.attr if isinstance(node, ast.Attribute) and self._is_module(node.value) else None
        )

    def _is_context(self, parameter: ast.arg) -> bool:
        return self._kind_named(parameter.annotation) == "context"

    def _is_module(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and self._imported.get(node.id) in _MODULES

    def uses(self, tree: ast.Module) -> Iterator[Use]:
        """Yield what is used, now that it is known what the names stand for."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from _imports(node)
            elif isinstance(node, ast.Attribute):
                kind = self._values.get(ast.unparse(node.value))
                kind = kind or _CLASSES.get(self._theirs(node.value) or "")
                if kind is not None:
                    yield Use(node.lineno, kind, node.attr)
                elif self._is_module(node.value):
                    yield Use(node.lineno, "import", node.attr)
            elif isinstance(node, ast.Subscript):
                if isinstance(node.slice, ast.Tuple) and self._theirs(node.value) == "Context":
                    yield Use(node.lineno, "generic", "Context[…, …]")
            elif isinstance(node, ast.Call):
                yield from self._keywords(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = {mark.attr for mark in _marks(node) if isinstance(mark, ast.Attribute)}
                if node.decorator_list:
                    yield from _defaults(node)
                takes_context = any(map(self._is_context, node.args.args))  # added by `add_tool`
                if marks & _DECORATORS or takes_context:
                    yield from _implicit(node)
                if marks & _CALLERS or takes_context:
                    yield from _raised(node)

    def _keywords(self, call: ast.Call) -> Iterator[Use]:
        kind = self._kind_of_keywords(call.func)
        for keyword in call.keywords if kind is not None else ():
            name = keyword.arg
            if name is None or (kind == "field" and name not in EQUIVALENTS[kind]):
                continue  # most fields are called alike
            handles = name.removeprefix("on_")  # `Server(on_call_tool=…)`, or its decorator before
            if handles != name and handles in EQUIVALENTS["low-level server"]:
                yield Use(keyword.lineno, "low-level server", handles)
            else:
                yield Use(keyword.lineno, str(kind), name)

    def _kind_of_keywords(self, function: ast.expr) -> str | None:
        name = self._theirs(function)
        if name is not None:
            return _KEYWORDS.get(_CLASSES.get(name))
        if not isinstance(function, ast.Attribute):
            return None
        if self._values.get(ast.unparse(function.value)) != "server":
            return None
        if function.attr in _RUNNERS or function.attr.startswith("run_"):
            return "run option"
        return f"{function.attr} option" if function.attr in _DECORATORS else None


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
    if isinstance(node, ast.Import):
        for name in node.names:
            if name.name in _ASYNCIO:
                yield Use(node.lineno, "library", name.name)
    elif node.module in _ASYNCIO:
        yield Use(node.lineno, "library", str(node.module))
    elif _is_theirs(node.module):
        for name in node.names:
            if name.name not in _MODULES:
                yield Use(node.lineno, "import", name.name)


def _is_from(node: ast.AST, package: str) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package


def _is_theirs(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _PACKAGES


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _marks(function: _Function) -> Iterator[ast.expr]:
    """Yield the decorators of a function, without their arguments."""
    for mark in function.decorator_list:
        yield getattr(mark, "func", mark)


def _defaults(function: _Function) -> Iterator[Use]:
    for default in (*function.args.defaults, *function.args.kw_defaults):
        if isinstance(default, ast.Call) and isinstance(default.func, ast.Name):
            yield Use(default.lineno, "default", default.func.id)


def _implicit(function: _Function) -> Iterator[Use]:
    """Yield each `None` that is a default of something that cannot be `None`."""
    its = function.args
    positional = zip(reversed(its.args), reversed(its.defaults), strict=False)
    for parameter, default in (*positional, *zip(its.kwonlyargs, its.kw_defaults, strict=True)):
        if isinstance(default, ast.Constant) and default.value is None and parameter.annotation:
            said = ast.unparse(parameter.annotation)
            if not any(word in said for word in ("None", "Optional", "Any", "object")):
                yield Use(parameter.lineno, "implicit", "None")


def _raised(function: _Function) -> Iterator[Use]:
    """Yield what a tool raises of Python's own exceptions, and errors of the protocol."""
    for node in ast.walk(function):
        raised = getattr(node.exc, "func", node.exc) if isinstance(node, ast.Raise) else None
        if isinstance(raised, ast.Name) and raised.id in EQUIVALENTS["raised"]:
            yield Use(raised.lineno, "raised", raised.id)
