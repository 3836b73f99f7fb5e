"""How the documentation site is built: `make docs`, offline.

Prose is written once. The home page has a part of the README; pages in `reference` show docstrings,
a page for each class, and tables made from the code; figures come from the records in `measured`,
the names of tests from the tests. Nothing is fetched, so names of other projects are shown and not
linked. Each page is written as Markdown, too, with `llms.txt`.
"""

import inspect
import os
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring

import trio_mcp.errors

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the extensions in docs/_ext

project = "trio-mcp"
release = version = metadata.version("trio-mcp")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "docs._ext.classes",
    "docs._ext.drawings",
    "docs._ext.generated",
    "docs._ext.markdown",
    "docs._ext.measured",
    "docs._ext.members",
    "docs._ext.menu",
    "docs._ext.previews",
    "docs._ext.promised",
    "docs._ext.signatures",
]
exclude_patterns = ["_build", "_ext", "examples"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
smartquotes_action = "D"  # dashes alone: what is quoted is often what a program says

default_role = "py:obj"
add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"

# Type variables, and what signatures name but programs do not make or take apart by hand.
nitpick_ignore_regex = [
    ("py:class", r"trio_mcp\.[\w.]+\.[FTV]"),
    ("py:class", r"trio_mcp\.registry\.\w+\.(Completer|Conversation|Handler|PassOn)"),
    (
        "py:class",
        r"trio_mcp\.registry\.\w+\.(ForwardOptions|Prompt|Resource|ResourceTemplate|Tool)",
    ),
    ("py:class", r"trio_mcp\.auth\.fetching\.Fetcher"),
    ("py:class", r"trio_mcp\.auth\.proxy\.(options\.ProxyOptions|exchange\.HasProviderToken)"),
    ("py:class", r"trio_mcp\.compose\.(group\.\w+Options|openapi\.responses\.Answer)"),
    ("py:class", r"trio_mcp\.schema\.parameters\.ParameterType"),
    ("py:class", r"trio_mcp\.(transports\.http\.app|aio\.http)\.HttpApp"),
    # Of classes that only the library itself makes.
    ("py:class", r"trio_mcp\.client\.session\.(ClientRequest|ClientSession)"),
    ("py:class", r"trio_mcp\.(peer\.time_limits\.TimeLimit|registry\.lifespan\.Opened)"),
    ("py:class", r"trio_mcp\.aio\.portal\.Portal"),
    ("py:obj", r"trio_mcp\.aio"),
    ("py:(class|obj)", r"trio_mcp\.(server\.server\.Server|store\.protocol\.Store)"),
    ("py:(class|obj)", r"trio_mcp\.peer\.lines\.LineTransport"),
]

# Where the site is published, if it is: `SITE_URL=https://… make docs`. Only then do its pages have
# addresses of their own, for search engines and for previews of links.
html_baseurl = ogp_site_url = os.environ.get("SITE_URL", "")
ogp_image = "_static/explorer-calls-light.png"
ogp_image_alt = "The page of a server, with a form for a tool and two calls"
ogp_social_cards = {"enable": False}  # they would need matplotlib

html_theme = "furo"
pygments_dark_style = "github-dark"  # the usual one underlines names as if they were links
html_title = "trio-mcp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(Path(__file__).parent / "_ext" / "scorer.js")
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # not what is printed
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


PUBLIC = ("auth", "compose", "compose.openapi", "extending", "middleware", "schema", "transports")
for package in (trio_mcp, *(import_module(f"trio_mcp.{name}") for name in PUBLIC)):
    for name, module in package.MODULES.items():
        # Autodoc looks for what is said of attributes, and for the source, in the file that
        # `__module__` names.
        if inspect.isclass(getattr(package, name)) or inspect.isfunction(getattr(package, name)):
            getattr(package, name).__module__ = f"trio_mcp.{module}"


def _is_for_trio(documented: tuple[str, Any]) -> bool:
    """Put last, so that it is the one that is found, what has a face for asyncio as well."""
    return not documented[0].startswith("trio_mcp.aio.")


def find_documented(app: Any, env: Any, node: Any, text: Any) -> Any:
    """Link a name to where it is documented, whatever module an annotation says it is from.

    A name of ours that stands nowhere is left for Sphinx to complain of; others are only shown.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    places = {
        name.rpartition(".")[2]: name
        for name, entry in sorted(domain.objects.items(), key=_is_for_trio)
        if not entry.aliased and entry.objtype in ("class", "exception", "function")
    }
    target: str = node["reftarget"]
    is_ours = target.startswith("trio_mcp.")
    name, _, member = (target.rpartition(".")[2], "", "") if is_ours else target.partition(".")
    place = f"{places.get(name)}.{member}" if member else places.get(name)
    if place in domain.objects:
        kind = node["reftype"]
        return domain.resolve_xref(env, node["refdoc"], app.builder, kind, place, node, text)
    return None if is_ours else text


def show_titles(app: Any, doctree: Any, page: str) -> None:
    """Where a link shows the path of a page, as is right on a code host, show its title."""
    for link in doctree.findall(nodes.reference):
        path = re.fullmatch(r"docs/([\w/-]+)\.md", link.astext())
        if path and path[1] in app.env.titles:
            link.children = [nodes.inline("", app.env.titles[path[1]].astext())]


def mend_signature(app: Any, what: str, name: str, it: Any, *rest: Any) -> tuple[Any, Any]:
    """Show none for what others make; show a default that is made each time as three dots."""
    _, signature, returned = rest
    if what == "class" and re.search(r"Made by `|` returns one", it.__doc__ or ""):
        return "", None
    return signature and signature.replace("NOTHING", "..."), returned


def show_bases(app: Any, name: str, it: Any, options: Any, bases: list[Any]) -> None:
    """In place of an error's base that is not public, show the nearest one that is."""
    if not issubclass(it, Exception):
        return
    public = {error for error in vars(trio_mcp.errors).values() if isinstance(error, type)}
    bases[:] = [
        next(kind for kind in base.__mro__ if kind in public or kind.__module__ == "builtins")
        for base in bases
    ]


def read_docstring(app: Any, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    """Turn Google style into reStructuredText.

    As an extension, napoleon takes a colon in the first line of an attribute for the end of its
    type, and knows no sections there. Ours have annotations, and are read as methods are.
    """
    kind = "method" if what in ("attribute", "property") else what
    lines[:] = GoogleDocstring(lines, Config(), app, kind, name, it, options).lines()


def setup(app: Any) -> None:
    """Connect what is defined here."""
    app.connect("missing-reference", find_documented)
    app.connect("doctree-resolved", show_titles, priority=100)
    app.connect("autodoc-process-signature", mend_signature)
    app.connect("autodoc-process-bases", show_bases)
    app.connect("autodoc-process-docstring", read_docstring)
