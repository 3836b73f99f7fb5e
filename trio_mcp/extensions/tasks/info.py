"""A task as its client sees it."""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

from trio_mcp import McpError
from trio_mcp.errors import ProtocolError
from trio_mcp.public import public_in

PROGRESS: Final = "trio-mcp/progress"
"""The key of a task's `_meta` under which our servers say how far its tool is."""
_STATUSES: Final = ("working", "input_required", "completed", "failed", "cancelled")
_INTERNAL_ERROR: Final = -32603
_NO_INTERVAL: Final = 1.0
_SHORTEST, _LONGEST = 0.05, 60.0


@public_in("trio_mcp.extensions.tasks")
@frozen(kw_only=True)
class TaskInfo:
    """The state of a task."""

    id: str
    status: str
    """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
    message: str | None = None
    """What the server says of it, for people."""
    progress: tuple[float, float | None, str | None] | None = None
    """How far its tool says that it is, where the server tells: progress, total and message."""
    created_at: str | None = None
    """When it was created, as ISO 8601 text."""
    updated_at: str | None = None
    """When it has changed, likewise."""
    ttl: float | None = None
    """Seconds from its creation for which the server keeps it; `None` forever."""
    poll_interval: float = _NO_INTERVAL
    """Seconds to wait before asking again: what the server says, but from 0.05 to 60."""
    questions: dict[str, Any] = field(factory=dict, repr=False)
    """What it waits for answers to, by key."""
    outcome: dict[str, Any] | None = field(default=None, repr=False)
    """The members of the result, or the JSON-RPC error, once there is one."""

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "cancelled")

    def final(self) -> dict[str, Any]:
        """Return the members of the result of a task that has ended.

        Raises:
            McpError: It has failed, or was cancelled.
        """
        if self.status == "completed" and self.outcome is not None:
            return self.outcome
        if self.status == "failed" and self.outcome is not None:
            error = self.outcome
            raise McpError(error["code"], error["message"], error.get("data"))
        raise McpError(_INTERNAL_ERROR, f"Task {self.id} was cancelled")

    @classmethod
    def from_wire(cls, wire: Any) -> TaskInfo:
        """Read a task, as a server sends it.

        Raises:
            ProtocolError: It is not one.
        """
        match wire:
            case {"taskId": str(id), "status": str(status)} if id and status in _STATUSES:
                pass
            case _:
                raise ProtocolError("the server has sent a task that is not valid")
        outcome = {"completed": wire.get("result"), "failed": wire.get("error")}.get(status)
        if status == "completed" and not isinstance(outcome, dict):
            raise ProtocolError(f"task {id:.100} is completed, and has no result")
        if status == "failed":
            match outcome:
                case {"code": int(), "message": str()}:
                    pass
                case _:
                    raise ProtocolError(f"task {id:.100} has failed, and has no error")
        questions = wire.get("inputRequests") if status == "input_required" else None
        ttl, interval = _milliseconds(wire.get("ttlMs")), _milliseconds(wire.get("pollIntervalMs"))
        interval = _NO_INTERVAL if interval is None else interval
        return cls(
            id=id,
            status=status,
            message=_text(wire.get("statusMessage")),
            progress=_progress(wire.get("_meta")),
            created_at=_text(wire.get("createdAt")),
            updated_at=_text(wire.get("lastUpdatedAt")),
            ttl=ttl,
            poll_interval=min(max(interval, _SHORTEST), _LONGEST),
            questions=questions if isinstance(questions, dict) else {},
            outcome=outcome,
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _progress(meta: Any) -> tuple[float, float | None, str | None] | None:
    match meta.get(PROGRESS) if isinstance(meta, dict) else None:
        case {"progress": int() | float() as progress, **more}:
            total: Any = more.get("total")
            total = total if isinstance(total, int | float) else None
            return progress, total, _text(more.get("message"))
    return None


def _milliseconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return max(value / 1000, 0.0)
