"""On the page of a class, tables of its methods and attributes before the first of them."""

from typing import Any

from docutils import nodes
from sphinx import addnodes

_FOLDER = "reference/classes/"


def summarize(app: Any, doctree: nodes.document) -> None:
    """Add the tables to a page while it is read."""
    if not app.env.docname.startswith(_FOLDER):
        return
    for described in list(doctree.findall(addnodes.desc)):
        content = described[-1]
        members = [node for node in content.children if isinstance(node, addnodes.desc)]
        if described["objtype"] == "class" and len(members) > 1:
            place = next(i for i, node in enumerate(content) if isinstance(node, addnodes.index))
            for heading, kinds in (
                ("Attribute", {"attribute", "property"}),
                ("Method", {"method"}),
            ):
                rows = [_row(member) for member in members if member["objtype"] in kinds]
                if rows:
                    content.insert(place, _table(heading, rows))
                    place += 1


def _row(member: addnodes.desc) -> nodes.row:
    signature, content = member[0], member[-1]
    called = "()" if member["objtype"] == "method" else ""
    name = nodes.literal("", f"{signature['fullname'].rpartition('.')[2]}{called}")
    link = nodes.reference("", "", name, refid=signature["ids"][0], internal=True)
    first = next((node for node in content if isinstance(node, nodes.paragraph)), None)
    said = first.deepcopy() if first is not None else nodes.paragraph()
    return nodes.row("", nodes.entry("", nodes.paragraph("", "", link)), nodes.entry("", said))


def _table(heading: str, rows: list[nodes.row]) -> nodes.table:
    head = nodes.row(
        "",
        nodes.entry("", nodes.paragraph("", heading)),
        nodes.entry("", nodes.paragraph("", "What it is")),
    )
    group = nodes.tgroup("", nodes.colspec(colwidth=35), nodes.colspec(colwidth=65), cols=2)
    group += nodes.thead("", head)
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=["summary"])


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("doctree-read", summarize)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
