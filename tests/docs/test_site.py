"""The site shows every public name. `make docs` judges the rest."""

import ast
import inspect
import pickle
import re
from importlib import import_module
from pathlib import Path

import pytest

import trio_mcp
import trio_mcp.aio
import trio_mcp.errors
from docs._ext import classes, generated
from docs._ext.menu import Menu
from tests.docs import prose
from tests.support.processes import ROOT
from trio_mcp import Client, ClientConnection, GroupServer, Limits, Remote, TextContent, ToolError
from trio_mcp.compose import RemoteOptions
from trio_mcp.errors import ServerExited
from trio_mcp.testing import ConnectOptions, ServeOptions

DOCS = ROOT / "docs"


def documented() -> list[str]:
    """The names that the reference documents, with the modules they are imported from."""
    names = []
    for page in sorted((DOCS / "reference").glob("*.rst")):
        module = ""
        for kind, name in re.findall(r"^\.\. ([\w:]+):: ([\w.]+)$", page.read_text(), re.MULTILINE):
            if kind == "currentmodule":
                module = name
            elif kind.startswith(("auto", "py:data")):
                names.append(f"{module}.{name}")
    return names


PACKAGES = [
    "trio_mcp",
    *("trio_mcp.auth", "trio_mcp.compose", "trio_mcp.compose.openapi", "trio_mcp.extending"),
    *("trio_mcp.middleware", "trio_mcp.schema", "trio_mcp.transports"),
]
"""Where public names are imported from."""
ERRORS = [
    name
    for name, value in vars(trio_mcp.errors).items()
    if isinstance(value, type) and issubclass(value, Exception)
]
NAMELESS = {"ClientState", "CallNext", "RequestNext"}
"""Unions and functions' types, which have no names of their own."""


@pytest.mark.parametrize(
    "names",
    [ERRORS, *(import_module(each).MODULES for each in PACKAGES)],
    ids=["errors", *PACKAGES],
)
def test_every_public_name_is_in_the_reference_once(names) -> None:
    elsewhere = ("trio_mcp.aio.",)  # the same names again, for asyncio
    found = [name.rpartition(".")[2] for name in documented() if not name.startswith(elsewhere)]
    assert [name for name in names if found.count(name) != 1] == []


def test_every_name_for_asyncio_is_in_the_reference_and_says_where_it_is_from() -> None:
    names = {name.rpartition(".")[2] for name in documented() if name.startswith("trio_mcp.aio.")}
    assert names == {*trio_mcp.aio.__all__, "http_app", "from_fastapi"}
    for name in names:
        assert getattr(trio_mcp.aio, name).__module__ == "trio_mcp.aio"


def test_what_is_public_says_where_it_is_imported_from() -> None:
    for package in PACKAGES:
        module = import_module(package)
        for name in module.MODULES:
            public = getattr(module, name)
            if name in ERRORS:
                assert public is getattr(trio_mcp.errors, name)
            elif name not in NAMELESS:
                assert f"{public.__module__}.{public.__qualname__}" == f"{package}.{name}"
    for name in ERRORS:
        assert getattr(trio_mcp.errors, name).__module__ == "trio_mcp.errors"


@pytest.mark.parametrize(
    "package",
    ["testing", "extensions.apps", "extensions.skills", "extensions.tasks"],
)
def test_what_a_package_of_its_own_has_says_that_it_is_from_there(package: str) -> None:
    module = import_module(f"trio_mcp.{package}")
    names = getattr(module, "__all__", None) or [each for each in vars(module) if each[0].isupper()]
    named = [getattr(module, name) for name in names if name not in ("CallNext", "RequestNext")]
    found = [each for each in named if inspect.isclass(each) or inspect.isfunction(each)]
    assert found
    for each in found:
        assert f"{each.__module__}.{each.__qualname__}" == f"trio_mcp.{package}.{each.__name__}"


def test_what_is_public_can_be_pickled() -> None:
    for each in (ServerExited(-9, "tail"), ToolError("no"), TextContent("hi"), Limits):
        again = pickle.loads(pickle.dumps(each))
        assert again == each or (type(again), again.args) == (type(each), each.args)


@pytest.mark.parametrize(
    ("options", "function", "given"),
    [
        (RemoteOptions, Remote, {"target", "tasks", "wait"}),
        (ConnectOptions, trio_mcp.connect, {"target"}),
        (ServeOptions, trio_mcp.serve_http, {"registry", "task_status"}),
    ],
)
def test_options_that_are_passed_on_are_all_that_there_are(options, function, given) -> None:
    assert {*options.__annotations__, *given} == {*inspect.signature(function).parameters}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_programs_see_the_same_names(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text())
    typed = next(node for node in ast.walk(tree) if isinstance(node, ast.If)).body
    seen = {(node.names[0].name, node.module) for node in typed if isinstance(node, ast.ImportFrom)}
    assert seen == {(name, f"trio_mcp.{where}") for name, where in module.MODULES.items()}


def test_what_a_first_server_and_a_first_client_need_is_at_the_top() -> None:
    assert len(trio_mcp.MODULES) <= 85


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_plumbing_is_not_reachable_on_a_client() -> None:
    assert public(Client) == {
        *("answer", "call_tool", "capabilities", "complete", "era", "extensions", "get_prompt"),
        *("instructions", "is_connected", "list_all"),
        *("list_prompts", "list_resource_templates", "list_resources", "messages", "stray_output"),
        *("notify", "ping", "read_resource", "refresh_tools", "request", "revision", "server_info"),
        *("set_log_level", "set_roots", "state", "states", "stderr", "subscribe", "tools"),
    }
    assert public(ClientConnection) == {"messages", "states"}
    assert public(GroupServer) == {"client", "name", "state", "tools"}


REFERENCE = {"promises.md"}
"""Pages that are looked into, not read: they may be as long as they must."""


@pytest.mark.requirement("T4")
def test_no_page_of_prose_is_longer_than_2000_words() -> None:
    long = {page for page, words in prose.pages() if words > prose.LIMIT} - REFERENCE
    assert long == set(), "split or cut these pages: `python -m tests.docs.prose` counts"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Call a tool\n\nIt takes `a=1`, and 2 others - [see](that.md).\n", 10),
        ("Before.\n\n```python\nnot counted\n```\n\nAfter.\n", 2),
        ("| Name | What |\n|---|---|\n| `x` | a number |\n", 5),
        (":::{note}\n:class: wide\nRead on.\n:::\n", 2),
        (":::{toctree}\n:caption: Build\n\nguides/tools\n:::\n", 0),
    ],
)
def test_words_are_counted_as_they_are_read(text: str, words: int) -> None:
    assert prose.words_of(text) == words


@pytest.mark.requirement("T4")
def test_the_parts_of_the_menu_are_folded_but_the_one_that_is_read() -> None:
    menu = Menu(
        parts={"Build": ["tools"], "Reference": ["client"]},
        below={"client": ["classes/Client"]},
        titles={"tools": "Tools", "client": "Clients", "classes/Client": "Client"},
    )
    shown = {page: menu.seen_from(page, lambda other: f"{other}.html") for page in menu.titles}
    folds = re.compile(r"<details( open)?><summary[^>]*>(\w+)</summary><ul")
    assert folds.findall(shown["tools"]) == [(" open", "Build"), ("", "Reference")]
    for page in ("client", "classes/Client"):
        assert folds.findall(shown[page]) == [("", "Build"), (" open", "Reference")]
        assert 'current-page"><a class="reference internal" href="' + page in shown[page]
        assert "classes/Client.html" in shown[page]
    assert "classes/Client.html" not in shown["tools"]


@pytest.mark.requirement("T4")
def test_groups_of_a_part_have_headings_of_their_own_in_one_fold() -> None:
    menu = Menu(
        parts={"Run: Over HTTP": ["http"], "Run: Behind a proxy": ["nginx"], "Clients": ["client"]},
        below={},
        titles={"http": "HTTP", "nginx": "nginx", "client": "Clients"},
    )
    shown = menu.seen_from("nginx", lambda other: f"{other}.html")
    assert re.findall(r"<details( open)?><summary[^>]*>(\w+)<", shown) == [
        (" open", "Run"),
        ("", "Clients"),
    ]
    assert re.findall(r'"menu-group">([^<]+)<', shown) == ["Over HTTP", "Behind a proxy"]
    assert shown.index("Over HTTP") < shown.index("http.html") < shown.index("Behind a proxy")


@pytest.mark.requirement("T4")
def test_each_class_has_a_page_of_its_own_and_a_row_in_the_place_where_it_is_named() -> None:
    subjects = [page.read_text() for page in sorted((DOCS / "reference").glob("*.rst"))]
    pages = [page for subject in subjects for page in classes.pages_of(subject)]
    assert len({page.path.lower() for page in pages}) == len(pages) > 100
    for subject in subjects:
        shown = classes.with_tables(subject)
        assert "autoclass" not in shown
        for page in classes.pages_of(subject):
            assert shown.count(f"   {page.path}\n") == 1
            assert page.row in shown
            assert f"from {page.module} import {page.name}\n" in page.text


def test_classes_are_shown_in_a_table_for_each_run_of_them() -> None:
    subject = (
        "Client\n======\n\n.. currentmodule:: trio_mcp\n\n"
        ".. autofunction:: connect\n\n.. autoclass:: Client\n   :exclude-members: tools\n\n"
        ".. autoclass:: trio_mcp.compose.Backoff\n\nState\n-----\n\n.. autoclass:: Connected\n"
    )
    client, backoff, connected = classes.pages_of(subject)
    assert (backoff.module, backoff.name) == ("trio_mcp.compose", "Backoff")
    assert client.text.endswith(".. autoclass:: Client\n   :exclude-members: tools\n")
    shown = classes.with_tables(subject)
    assert shown.count(".. list-table::") == 2
    order = ["autofunction:: connect", client.row, backoff.row, "State\n-----\n", connected.row]
    assert sorted(order, key=shown.index) == order


# -- generated tables -------------------------------------------------------------------------


def test_every_table_that_is_made_from_the_code_stands_on_one_page() -> None:
    pages = [page.read_text() for page in sorted((DOCS / "reference").glob("*.md"))]
    shown = [name for page in pages for name in generated.BLOCK.findall(page)]
    assert sorted(shown) == sorted(generated.GENERATED)


@pytest.mark.requirement("T4")
def test_the_pages_have_every_variable_logger_error_and_code_of_the_package() -> None:
    assert {"MCP_SERVER_URL", "NOTIFY_SOCKET", "TRIO_MCP_DEBUG"} <= generated.find_variables()
    assert {"trio_mcp", "trio_mcp.http", "trio_mcp.audit"} <= generated.find_loggers()
    assert {-32700, -32000, -32602} <= generated.find_codes()
    assert sorted(generated.find_errors()) == sorted(ERRORS)
    for name, found in (
        ("variables", generated.find_variables()),
        ("loggers", generated.find_loggers()),
        ("codes", generated.find_codes()),
        ("errors", ERRORS),
    ):
        table = generated.GENERATED[name]()
        assert len(table.splitlines()) == 2 + len(found)
        assert [one for one in found if f"`{one}`" not in table and name != "codes"] == []


def test_a_variable_that_the_page_does_not_explain_breaks_the_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(generated.VARIABLES, "TRIO_MCP_DEBUG")
    with pytest.raises(ValueError, match="TRIO_MCP_DEBUG"):
        generated.variables()


@pytest.mark.requirement("T4")
def test_the_page_of_commands_has_each_with_its_options() -> None:
    page = generated.commands()
    named = re.findall(r"^## trio-mcp ([\w-]+)$", page, re.MULTILINE)
    assert set(named) >= {"serve", "call", "inspect", "doctor", "login", "install"}
    assert "`--tool-timeout FLOAT`" in page
