"""Signatures on several lines, without the lists of definitions that Sphinx makes of them.

Sphinx puts each parameter into a `<dd>` of a `<dl>` that has no `<dt>`, which is not a list of
anything: screen readers read it out as a broken one.
"""

import re
from typing import Any

_SIGNATURE = re.compile(r'<dt class="sig sig-object.*?</dt>', re.DOTALL)
_INSTEAD = {
    "<dl>": '<span class="sig-params">',
    "</dl>": "</span>",
    "<dd>": '<span class="sig-line">',
    "</dd>": "</span>",
}


def mend(body: str) -> str:
    """Return the text of a page with plain lines in its signatures."""

    def plain(signature: re.Match[str]) -> str:
        return re.sub("</?d[ld]>", lambda tag: _INSTEAD[tag[0]], signature[0])

    return _SIGNATURE.sub(plain, body)


def show_signatures(app: Any, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Mend a page."""
    if "body" in context:
        context["body"] = mend(context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("html-page-context", show_signatures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
