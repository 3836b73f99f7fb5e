"""What a docstring says: about the whole, and about each parameter.

Only one that seems to have sections (Google, NumPy, Sphinx) is handed to `docstring_parser`, so
that a server whose tools have plain docstrings never imports it.
"""

import inspect
import re

from attrs import Factory, frozen

_SECTIONS = re.compile(
    r"^[ \t]*(?:"
    r"(?:Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?"
    r"|Keyword Args|Other Parameters|Warns|Notes?)[ \t]*:?[ \t]*$"
    r"|[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?|yields?)\b"
    r")",
    re.MULTILINE,
)


@frozen(eq=False, repr=False)
class Docs:
    """What was written about a function or a class."""

    description: str | None = None
    parameters: dict[str, str] = Factory(dict)


def parse_docstring(text: str | None) -> Docs:
    """Take the description and what is said of each parameter out of a docstring."""
    text = inspect.cleandoc(text).strip() if text else ""
    if not text:
        return Docs()
    if _SECTIONS.search(text) is None:
        return Docs(text)
    return _parse_sections(text)


def _parse_sections(text: str) -> Docs:
    import docstring_parser

    # Sections are looked for below a summary, so one is put there if need be.
    bare = _SECTIONS.match(text) is not None
    try:
        parsed = docstring_parser.parse(f"...\n\n{text}" if bare else text)
    except docstring_parser.ParseError:
        return Docs(text)
    parameters = {
        parameter.arg_name.lstrip("*"): inspect.cleandoc(parameter.description)
        for parameter in parsed.params
        if parameter.description
    }
    parts = ["" if bare else parsed.short_description or "", parsed.long_description or ""]
    joint = "\n\n" if parsed.blank_after_short_description else "\n"
    description = joint.join(part.strip() for part in parts if part.strip())
    return Docs(description or None, parameters)
