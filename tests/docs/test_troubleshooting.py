"""The page on errors by their text: each text that it quotes still stands in the code."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import trio_mcp
from tests.support.processes import ROOT
from trio_mcp.cli.failures import Failure, missing
from trio_mcp.cli.target import load_registry
from trio_mcp.compose.config import read_servers
from trio_mcp.errors import ConfigError
from trio_mcp.schema import SchemaError, schema_of
from trio_mcp.schema.validate import compile_validator

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTED = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)


def texts_of(module: ast.Module) -> list[str]:
    """The texts of a module, with `…` for what is filled in when the program runs."""
    found = []
    nodes = list(ast.walk(module))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.sub(r"%[\w.]+", "…", node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            ]
            found.append("".join(parts))
    return found


def all_texts() -> list[str]:
    """All texts of the package."""
    package = Path(trio_mcp.__file__).parent
    modules = (ast.parse(path.read_text()) for path in package.rglob("*.py"))
    return [text for module in modules for text in texts_of(module)]


def test_every_heading_quotes_a_text() -> None:
    assert len(QUOTED) == PAGE.count("\n### ") > 25


def add(**arguments: object) -> str:
    """What a tool that adds says to such arguments."""
    properties = {"a": {"type": "number"}, "b": {"type": "number"}}
    schema = {"properties": properties, "required": ["a", "b"], "additionalProperties": False}
    return str(compile_validator({"type": "object", **schema})(arguments))


def from_file(folder: Path) -> str:
    """What is said of a file that raises an error."""
    broken = folder / "broken.py"
    broken.write_text("import no_such_module\n")
    with pytest.raises(Failure) as raised:
        load_registry(str(broken))
    return str(raised.value)


def from_type(folder: Path) -> str:
    """What is said of a type that has no schema."""
    with pytest.raises(SchemaError) as raised:
        schema_of(Failure)
    return str(raised.value)


def from_config(folder: Path) -> str:
    """What is said of a variable that is not set."""
    servers = {"shop": {"command": "${NO_SUCH_VARIABLE}"}}
    with pytest.raises(ConfigError) as raised:
        read_servers(servers, env={})
    return str(raised.value)


COMPOSED: dict[str, Callable[[Path], str]] = {
    "Argument '…' must be …, but … came": lambda folder: add(a=1, b="x"),
    "Missing required argument '…'": lambda folder: add(a=1),
    "Unexpected argument '…'": lambda folder: add(a=1, b=2, c=3),
    "the server has no tool '…'": lambda folder: missing("tool", "sum", ["add"]),
    "… cannot be imported: …": from_file,
    "… has no JSON Schema; use str, int, float, bool, list, …": from_type,
    "… needs the variable … of the environment, which is not set": from_config,
}
"""By heading, what makes a text of which the code has only parts."""


def pattern_of(quoted: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, quoted.split("…"))), re.DOTALL)


def test_the_text_of_an_error_stands_in_the_code() -> None:
    texts = all_texts()
    patterns = {text: pattern_of(text) for text in QUOTED if text not in COMPOSED}
    assert patterns
    assert [each for each in patterns if not any(map(patterns[each].search, texts))] == []


@pytest.mark.parametrize("quoted", COMPOSED)
def test_the_text_of_an_error_is_made(quoted: str, tmp_path: Path) -> None:
    assert quoted in QUOTED
    assert pattern_of(quoted).search(COMPOSED[quoted](tmp_path))
