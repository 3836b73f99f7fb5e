"""Each page of the site as Markdown beside it; `llms.txt` and `llms-full.txt` for language models.

`guides/tools.md` is what `guides/tools.html` shows: with what is included, measured and generated,
and with its links, which lead to other such pages. `llms.txt` (llmstxt.org) lists them by parts;
pages of single classes stand under "Optional". `llms-full.txt` is all pages in one.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import frozen
from docutils import nodes
from sphinx import addnodes

from docs._ext.menu import menu_of

_PAGE = re.compile(r"^(?!\w+:)([^#]*)\.html(?=#|$)")
_SKIPPED = {"viewcode-link", "only-dark"}
"""Classes of what is not for readers of text, or is shown twice."""


@frozen
class _Writer:
    """Writes what nodes of docutils stand for.

    Args:
        level: How deep the section is.
    """

    level: int = 0

    def blocks(self, within: Iterable[nodes.Node], joint: str = "\n\n") -> str:
        """Return nodes that stand below each other."""
        return joint.join(filter(None, map(self.block, within)))

    def block(self, node: nodes.Node) -> str:
        """Return one that stands by itself."""
        for kind in type(node).__mro__:
            if kind in _BLOCKS:
                return _BLOCKS[kind](self, node)
        return self.text(node) if isinstance(node, nodes.Inline | nodes.Text) else ""

    def text(self, node: nodes.Node) -> str:
        """Return text that may have links, code and stress in it."""
        if isinstance(node, nodes.Text):
            return re.sub(r"\s*\n\s*", " ", node.astext())
        if isinstance(node, nodes.raw) or _SKIPPED & {*node.get("classes", ())}:
            return ""
        inner = "".join(map(self.text, node.children))
        if isinstance(node, nodes.literal):
            return f"``{inner}``" if "`" in inner else f"`{inner}`"
        if isinstance(node, nodes.reference) and "refuri" in node:
            address = _PAGE.sub(r"\1.md", node["refuri"])
            return f"[{inner}]({address})" if inner else ""
        if isinstance(node, nodes.image):
            return _picture(self, node)
        stars = 2 * isinstance(node, nodes.strong) + isinstance(node, nodes.emphasis)
        return f"{'*' * stars}{inner}{'*' * stars}" if inner else ""


def _within(writer: _Writer, node: nodes.Element) -> str:
    return writer.blocks(node.children)


def _paragraph(writer: _Writer, node: nodes.Element) -> str:
    return "".join(map(writer.text, node.children)).strip()


def _section(writer: _Writer, node: nodes.Element) -> str:
    return _Writer(writer.level + 1).blocks(node.children)


def _title(writer: _Writer, node: nodes.Element) -> str:
    return f"{'#' * min(writer.level, 6)} {_paragraph(writer, node)}"


def _label(writer: _Writer, node: nodes.Element) -> str:
    return f"**{_paragraph(writer, node)}**"


def _code(writer: _Writer, node: nodes.Element) -> str:
    language = node.get("language", "text" if isinstance(node, nodes.literal_block) else "pycon")
    return f"```{language}\n{node.astext().rstrip()}\n```"


def _items(writer: _Writer, node: nodes.Element) -> str:
    ordered = isinstance(node, nodes.enumerated_list)
    marks = (f"{number}. " if ordered else "- " for number in range(1, len(node) + 1))
    tight = all(len(item) < 2 for item in node.children)
    items = [
        mark + writer.blocks(item.children).replace("\n", "\n" + " " * len(mark))
        for mark, item in zip(marks, node.children, strict=True)
    ]
    return ("\n" if tight else "\n\n").join(items)


def _definition(writer: _Writer, node: nodes.Element) -> str:
    term, *rest = node.children
    return f"**{_paragraph(writer, term)}**\n\n{writer.blocks(rest)}"


def _field(writer: _Writer, node: nodes.Element) -> str:
    name, body = node.children
    said = writer.blocks(body.children)
    return f"**{name.astext()}:**{chr(10) * 2 if said.startswith('- ') else ' '}{said}"


def _quote(writer: _Writer, node: nodes.Element) -> str:
    return "> " + writer.blocks(node.children).replace("\n", "\n> ")


def _note(writer: _Writer, node: nodes.Element) -> str:
    name = type(node).__name__.capitalize()
    return f"> **{name}.** " + writer.blocks(node.children).replace("\n", "\n> ")


def _table(writer: _Writer, node: nodes.Element) -> str:
    rows = [[_cell(writer, entry) for entry in row.children] for row in node.findall(nodes.row)]
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(writer: _Writer, entry: nodes.Element) -> str:
    said = writer.blocks(entry.children).replace("|", r"\|")
    return re.sub(r"\s*\n\s*", " ", said)


def _picture(writer: _Writer, node: nodes.Element) -> str:
    is_shown = node.get("alt") and not _SKIPPED & {*node["classes"]}
    return f"(Picture: {node['alt']})" if is_shown else ""


def _signature(writer: _Writer, node: nodes.Element) -> str:
    kept = [child for child in node.children if not _is_link_to_source(child)]
    text = re.sub(r"\s+", " ", "".join(child.astext() for child in kept))
    return f"{'#' * min(writer.level + 1, 6)} `{text}`"


def _is_link_to_source(node: nodes.Node) -> bool:
    return any("viewcode-link" in part["classes"] for part in node.findall(nodes.inline))


def _described(writer: _Writer, node: nodes.Element) -> str:
    return _Writer(writer.level + 1).blocks(node.children)


def _nothing(writer: _Writer, node: nodes.Element) -> str:
    return ""


_BLOCKS: dict[type, Callable[[_Writer, Any], str]] = {
    nodes.section: _section,
    nodes.title: _title,
    nodes.rubric: _label,
    nodes.literal_block: _code,
    nodes.doctest_block: _code,
    nodes.bullet_list: _items,
    nodes.enumerated_list: _items,
    nodes.definition_list_item: _definition,
    nodes.field: _field,
    nodes.block_quote: _quote,
    nodes.Admonition: _note,
    nodes.table: _table,
    nodes.image: _picture,
    addnodes.desc: _described,
    addnodes.desc_signature: _signature,
    nodes.Invisible: _nothing,
    nodes.raw: _nothing,
    nodes.TextElement: _paragraph,
    nodes.Inline: _paragraph,
    nodes.Element: _within,
}
"""By the kind of a node, or the nearest one that it is a kind of, what writes it."""


def write_page(app: Any, doctree: nodes.document, page: str) -> None:
    """Write a page that is shown as HTML as Markdown, too."""
    if app.builder.format == "html":
        path = Path(app.outdir, f"{page}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_Writer().block(doctree)}\n", encoding="utf-8")


def name_page(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Say in the head of a page where it is as Markdown."""
    if doctree:
        name = page.rpartition("/")[2]
        context["metatags"] += f'<link rel="alternate" type="text/markdown" href="{name}.md">\n'


def write_lists(app: Any, exception: Exception | None) -> None:
    """Write `llms.txt` and `llms-full.txt`."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    menu = menu_of(app.env)
    listed = {page for pages in menu.parts.values() for page in pages}
    parts = {**menu.parts, "Optional": sorted(app.env.found_docs - listed - {"index"})}
    texts = {
        page: (folder / f"{page}.md").read_text(encoding="utf-8")
        for page in ("index", *(page for pages in parts.values() for page in pages))
    }
    lines = ["# trio-mcp", "", f"> {_summary(texts['index'])}", ""]
    for name, pages in parts.items():
        lines += [f"## {name}", ""]
        for page in pages:
            lines.append(f"- [{menu.titles[page]}]({page}.md): {_summary(texts[page])}")
        lines.append("")
    (folder / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "llms-full.txt").write_text("\n".join(texts.values()), encoding="utf-8")


def _summary(text: str) -> str:
    """Return the first sentences of a page that stand by themselves: one, if it is not short."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)  # links, seen from the page
    blocks = (block.strip().replace("\n", " ") for block in text.split("\n\n"))
    prose = next((block for block in blocks if re.match(r"(?!Bases:)[A-Za-z`]", block)), "")
    said = ""
    for sentence in re.split(r"(?<=[.!?:]) (?=[A-Z`])", prose):
        said += f" {sentence.strip()}"
        if len(said) > 40:
            break
    return said.strip().rstrip(":")


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("doctree-resolved", write_page, priority=400)  # while drawings are images
    app.connect("html-page-context", name_page, priority=900)
    app.connect("build-finished", write_lists)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
