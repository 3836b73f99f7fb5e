"""Which revisions a marker means."""

from collections.abc import Sequence

from trio_mcp.wire.revisions import BY_NAME


def chosen(names: Sequence[str]) -> list[str]:
    """The revisions of these names; all of them if there are no names.

    Raises:
        ValueError: There is no such revision.
    """
    known = list(BY_NAME)
    for name in names:
        if name not in known:
            raise ValueError(f"mcp_revisions: there is no revision {name!r}, only {known}")
    return list(names) or known
