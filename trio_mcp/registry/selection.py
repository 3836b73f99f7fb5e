"""Choosing entries by their names, URIs and tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from attrs import frozen

from trio_mcp.registry.checks import is_text
from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async, takes
from trio_mcp.registry.kinds import LISTED
from trio_mcp.schema import SchemaError
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.safe_repr import safe_repr

TAG: Final = "tag:"
"""Begins what means all entries with a tag."""


Visible = Callable[[Any, Context], bool]
"""Says whether a caller sees something, by what lists show of it."""


def checked_visible(visible: Visible | None) -> Visible | None:
    """Return a rule of visibility, or raise `TypeError` if it cannot be one."""
    if visible is None or (callable(visible) and not is_async(visible) and takes(visible, 2)):
        return visible
    raise TypeError(
        "visible must be a plain function, which does not wait, and takes what is shown and the "
        f"caller, not {visible!r:.100}"
    )


def tags_of(tags: Any) -> frozenset[str]:
    """Return tags as a set, or raise `SchemaError`."""
    if isinstance(tags, str) or not isinstance(tags, Collection):
        raise SchemaError(f"tags must be a set of texts, not {safe_repr(tags)}")
    for tag in tags:
        if not (is_text(tag) and tag):
            raise SchemaError(f"a tag must be a text that is not empty, not {safe_repr(tag)}")
    return frozenset(tags)


def means(chosen: Collection[str], name: str, description: Any) -> bool:
    """Whether an entry is among what was chosen, by its name or by one of its tags."""
    return name in chosen or any(f"{TAG}{tag}" in chosen for tag in description.tags)


@frozen(eq=False)
class Selection:
    """What a registry shows of what it has, to all clients.

    Args:
        only: Names, URIs and tags of what is shown; `None` for everything.
        leave_out: Those of what is not shown.
    """

    only: Collection[str] | None
    leave_out: Collection[str]

    def shows(self, name: str, description: Any) -> bool:
        """Whether an entry is shown."""
        chosen = self.only is None or means(self.only, name, description)
        return chosen and not means(self.leave_out, name, description)

    def unknown(self, provider: Any) -> Iterator[str]:
        """Say of each name and tag that nothing of the registry has (`unknown_choices`)."""
        chosen = [*(self.only or ()), *self.leave_out]
        named = [name for name in chosen if not provider.may_get(name)]
        return unknown_choices(named, described(provider, LISTED), "tool, resource or prompt")


def selection_of(only: Any, leave_out: Any) -> Selection | None:
    """Return a selection, or `None` if that is everything; raise `SchemaError` for none."""
    check_chosen("only", only or ())
    check_chosen("leave_out", leave_out)
    return None if only is None and not leave_out else Selection(only, leave_out)


def check_chosen(option: str, chosen: Any) -> None:
    """Raise `SchemaError` unless an option is a list of names."""
    if isinstance(chosen, str) or not isinstance(chosen, Collection):
        raise SchemaError(f"{option} must be a list, even of one name: put it in brackets")


def described(provider: Any, tables: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return the names and descriptions of the entries in some tables of a provider."""
    found = (entry for table in tables for entry in list(provider.table(table).values()))
    return [(entry.name, entry.description) for entry in found]


def unknown_choices(
    chosen: Iterable[str], items: Collection[tuple[str, Any]], noun: str
) -> Iterator[str]:
    """Say of each name or tag that nothing has: which one it is, and what may be meant.

    Args:
        chosen: The names and tags.
        items: By name, the descriptions of what there is.
        noun: What it is.
    """
    names = {name for name, _ in items}
    tags = {tag for _, description in items for tag in description.tags}
    for wanted in chosen:
        is_tag = isinstance(wanted, str) and wanted.startswith(TAG)
        tag = wanted.removeprefix(TAG) if is_tag else None
        if wanted in names or tag in tags:
            continue
        if tag is not None:
            yield f"no {noun} with the tag {tag!r:.200}{did_you_mean(tag, tags)}"
        else:
            yield f"no {noun} {wanted!r:.200}{did_you_mean(str(wanted), names)}"
