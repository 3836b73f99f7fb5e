"""What may import what: the table in the documentation, and the imports in the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.test_readme import table
from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "contributing" / "packages.md"
PACKAGE = ROOT / "trio_mcp"
PACKAGES = {each.parent.name for each in PACKAGE.glob("*/__init__.py")}
PUBLIC = "the public names"
GROUND = (
    ["version"],
    ["public"],
    ["errors"],
    ["background"],
    ["backoff"],
    ["checks"],
    ["extras"],
    ["loggers"],
    ["threads"],
    ["telemetry"],
    ["counters"],
)
"""Modules that any package may import."""
PURE = ("wire", "schema", "peer/inbound.py", "peer/outbound.py")
PUBLIC_PACKAGES = (
    "auth",
    "compose",
    "compose.openapi",
    "extending",
    "middleware",
    "schema",
    "transports",
)
"""Packages whose public names are imported from them, and not from `trio_mcp`."""
NOT_PURE = {"anyio", "asyncio", "multiprocessing", "select", "signal", "socket", "subprocess"}
NOT_PURE |= {"trio"}


def allowed() -> dict[str, set[str]]:
    """By package, what the table says that it may import."""
    found = {}
    for package, text in table(PAGE, "Package"):
        packages = set(re.findall(r"`(\w+)`", text))
        found[package.strip("`")] = packages | ({PUBLIC} if PUBLIC in text else set())
    return found


@cache
def parts_of(file: Path) -> list[ast.Import | ast.ImportFrom | ast.Compare]:
    """All that is looked at below. To parse every file takes a second."""
    kinds = ast.Import | ast.ImportFrom | ast.Compare
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]


@cache
def is_public(module: str, name: str) -> bool:
    """Whether a name of a package is public there."""
    package = module.removeprefix("trio_mcp.")
    return package in PUBLIC_PACKAGES and name in import_module(module).MODULES


def imported(file: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, wherever in it, and the line."""
    for node in parts_of(file):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            assert node.module is not None
            if all(is_public(node.module, each.name) for each in node.names):
                yield "trio_mcp", node.lineno
                continue
            inside = node.module == "trio_mcp"
            names = [each.name for each in node.names if (PACKAGE / each.name).is_dir()]
            yield from ((f"trio_mcp.{each}", node.lineno) for each in names if inside)
            if not inside or len(names) < len(node.names):
                yield node.module, node.lineno
        elif isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)


def uses(package: str) -> dict[str, str]:
    """What a package imports of ours, and the first place where it does."""
    found: dict[str, str] = {}
    for file in sorted((PACKAGE / package).rglob("*.py")):
        for module, line in imported(file):
            first, *rest = module.split(".")
            if first != "trio_mcp" or rest[:1] in ([package], *GROUND):
                continue
            used = rest[0] if rest else PUBLIC
            found.setdefault(used, f"{file.relative_to(ROOT)}:{line}")
    return found


def test_the_table_has_every_package() -> None:
    assert set(allowed()) == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_imports_what_the_table_says(package: str) -> None:
    may, does = allowed()[package], uses(package)
    assert {place: used for used, place in does.items() if used not in may} == {}
    assert may - set(does) == set(), "the table allows what nothing needs"


def test_no_package_imports_one_above_it() -> None:
    """The rows go upwards: each one names only packages whose rows have been before."""
    below: set[str] = {PUBLIC}
    for package, packages in allowed().items():
        assert packages <= below, f"{package} stands below what it imports"
        below.add(package)


@pytest.mark.parametrize("name", [name for (name,) in GROUND])
def test_what_any_package_may_import_leads_to_no_package_above(name: str) -> None:
    """Otherwise a package would import what is above it, by way of such a module."""
    order = list(allowed())
    modules = [module.split(".") for module, _ in imported(PACKAGE / f"{name}.py")]
    reached = [
        module[1] for module in modules if module[:1] == ["trio_mcp"] and module[1] in PACKAGES
    ]
    users = [package for package in order if name in ground_of(package)]
    for package in users:
        assert [each for each in reached if order.index(each) >= order.index(package)] == []


def ground_of(package: str) -> set[str]:
    """The modules of the ground that a package imports."""
    files = sorted((PACKAGE / package).rglob("*.py"))
    return {module.removeprefix("trio_mcp.") for each in files for module, _ in imported(each)}


@pytest.mark.parametrize("pure", PURE)
def test_what_is_pure_does_no_input_and_output(pure: str) -> None:
    path = PACKAGE / pure
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    found = [
        f"{file.relative_to(ROOT)}:{line}: {module}"
        for file in files
        for module, line in imported(file)
        if module.split(".")[0] in NOT_PURE
    ]
    assert found == []


def test_one_module_knows_what_reads_and_writes_json_quickly() -> None:
    """Another one can stand behind `codec`, where that is not to be had."""
    knowing = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for module, _ in imported(file)
        if module.split(".")[0] in ("orjson", "msgspec")
    }
    assert knowing == {"wire/codec.py"}


def test_the_garbage_collector_is_left_to_the_user() -> None:
    """It is the process's: a library that switches it off, or freezes what is there, is no guest."""
    using = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for module, line in imported(file)
        if module == "gc"
    ]
    assert using == []


# -- circles ----------------------------------------------------------------------------------


def files_that_import_each_other() -> list[set[str]]:
    """The circles of files, imports within functions and for type checkers included."""
    names = {
        ".".join(each.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): each
        for each in PACKAGE.rglob("*.py")
    }
    uses = {name: set(modules_of(file, names)) - {name} for name, file in names.items()}
    beyond = {name: reach(name, uses) for name in names}
    return [
        {other for other in beyond[name] if name in beyond[other]}
        for name in sorted(names)
        if name in beyond[name]
    ]


def modules_of(file: Path, names: dict[str, Path]) -> Iterator[str]:
    for node in parts_of(file):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in names else node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def reach(name: str, uses: dict[str, set[str]]) -> set[str]:
    """All that a module imports, directly or not."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        new = uses.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def test_no_files_import_each_other_in_a_circle() -> None:
    assert files_that_import_each_other() == []


def test_revisions_are_compared_in_the_tables_only() -> None:
    """Outside `wire`, code asks a revision what it has; it never compares dates or places."""
    compared = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.parent != PACKAGE / "wire"
        for node in parts_of(file)
        if isinstance(node, ast.Compare)
        and any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
        and any(
            "revision" in ast.unparse(each) or re.search(r"'20\d\d-\d\d-\d\d'", ast.unparse(each))
            for each in [node.left, *node.comparators]
        )
    ]
    assert compared == []
