"""The errors of a server's own, which name the request in their data."""

from typing import Any


def own_error(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the error of an answer, without the id of the request, which has to be right."""
    error = dict(answer["error"])
    data = dict(error.pop("data"))
    assert data.pop("requestId") == answer["id"]
    return {**error, "data": data} if data else error


def own_data(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the data of such an error."""
    return own_error(answer).get("data", {})
