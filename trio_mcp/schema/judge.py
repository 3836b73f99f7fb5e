"""What a schema says of values that are not plain.

jsonschema-rs decides (`engine`), after a look at what that will cost (`work`). What it refuses is
looked for (`refusals`) and put into words (`explain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trio_mcp.schema.engine import Engine
from trio_mcp.schema.errors import Problem
from trio_mcp.schema.explain import ErrorFormatter
from trio_mcp.schema.plain import TAKES_LONG
from trio_mcp.schema.references import References
from trio_mcp.schema.refusals import Refusals
from trio_mcp.schema.work import IN_A_THREAD, Costs, Verdict

__all__ = ["Judge"]


class Judge:
    """One schema, compiled. The arguments are those of `compile_validator`."""

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._formatter = ErrorFormatter(noun, shows_values)
        # References first: they refuse what the engine would compile without end.
        self._references = References(schema)
        self._engine = Engine(schema)
        self._costs = Costs(schema, self._references)
        self._refusals = Refusals(schema, self._engine, self._references, self._costs)

    def tell(self, value: Any) -> Problem | None:
        """Say what is wrong with a value; `None` if nothing is."""
        return self._tell(value, self._costs.judge(value, IN_A_THREAD))

    def tell_at_once(self, value: Any) -> Problem | None:
        """Do the same, or return `TAKES_LONG` for a value that is not for an event loop."""
        verdict = self._costs.at_once(value)
        return TAKES_LONG if verdict is Verdict.TOO_MUCH else self._tell(value, verdict)

    def takes_long(self, value: Any) -> bool:
        """Whether checking a value, or converting it, is not for an event loop."""
        return self._costs.at_once(value) is Verdict.TOO_MUCH

    def _tell(self, value: Any, verdict: Verdict) -> Problem | None:
        if verdict is not Verdict.FINE:
            return self._formatter.of_the_whole(verdict)
        try:
            if self._engine.fits(value):
                return None
            return self._formatter.explain(self._refusals.find(value))
        except ValueError:  # a set, half a surrogate pair: nothing that came as JSON
            return self._formatter.of_the_whole(Verdict.NO_JSON)
