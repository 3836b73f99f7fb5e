"""What stands around a function of the author's: each layer is a file here and a line below.

A call goes through them from the outside inwards, and its result comes back the other way. A layer
that an entry or a server does not need is absent: it costs nothing.

| Layer | Decided | What it does |
|---|---|---|
| `observing` | when serving begins | metrics |
| `naming` | when serving begins | has what is logged within know the call |
| `answering` | always | the cancel scope, and the only `except` around an author's code |
| `resuming` | by the request | uses up the sealed state that the request goes on from |
| `binding` | by the request | checks and converts arguments that are large, in a thread |
| `log_bridge` | when a log handler is made | forwards the standard library's log to the caller |
| `extending` | when serving begins | what extensions run around calls |
| `requesting` | when serving begins | the request of an extension (`server/extensioncall.py`) |
| `forwarding` | at a mount | results that are passed on as they came |
| `mounting` | at a mount | names of resources in results, as they are in the registry |
| `converting` | always | what the function returned becomes the members of a result |
| `concurrency` | when an entry is made | the same as below, if there is state |
| `keeping` | when an entry is made | state that lasts from call to call |
| `middleware` | when an entry is placed | what the author runs around calls |
| `mounting` | at a mount | names and state of the provider; then the provider's own layers |
| `concurrency` | when an entry is made | how many calls of an async function run at a time |
| `injecting` | when an entry is made | parameters that are filled by dependencies |
| `function` | always | the function: on the Trio thread, or in a worker thread |

What runs around whole requests (`Registry(middleware=[...])`) stands outside of all of them, in
`trio_mcp/server/requestcall.py`; outside of that are spans, in `trio_mcp/server/tracing.py`.
Where a layer itself fails, the log names it (`blame.py`).

Where another server answers and nothing but `forwarding` and mounts stand around a call, it needs
neither layers nor a task in the plainest case (`forwarding.Relaying`, `server/relayedcall.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trio_mcp.layers.call import Handler, Layer
from trio_mcp.layers.converting import converting
from trio_mcp.layers.function import function

if TYPE_CHECKING:
    from trio_mcp.layers.forwarding import Relaying

NamedLayer = tuple[str, Layer]


def stack(layers: Sequence[NamedLayer], innermost: Handler) -> Handler:
    """Put layers around a handler. The first one given is outermost."""
    for _, layer in reversed(layers):
        innermost = layer(innermost)
    return innermost


def compose(entry: Any) -> tuple[tuple[str, ...], Handler, Handler, Relaying | None]:
    """Compose the layers of an entry, when it is made or placed.

    Returns:
        Their names, outermost first; the chain that returns what the function returns; the chain
        that makes a `Result` of it; and what sends a call on without them, if they do no more.
    """
    values, results = _around_values(entry), _around_results(entry)
    if entry.origin is None:
        names: tuple[str, ...] = ("function",) if entry.is_async else ("thread",)
        innermost = function(entry)
    else:
        names, innermost = _inside_mount(entry.origin)
    run = stack(values, innermost)
    outer = [name for name, _ in (*results, *values)]
    relay = None if values else _relay(entry)
    return (*outer, *names), run, stack(results, run), relay


def _relay(entry: Any) -> Relaying | None:
    """Make what does without its layers, where nothing else stands around its function."""
    origin = entry.origin
    if origin is not None:
        relay: Relaying | None = origin.item.relay
        return None if relay is None else relay.mounted(origin)
    begin = getattr(entry.function, "begin", None)
    if begin is None:
        return None
    from trio_mcp.layers.forwarding import Relaying  # few registries mount anything

    return Relaying(begin, entry.name)


def _around_results(entry: Any) -> list[NamedLayer]:
    layers: list[NamedLayer] = [("converting", converting(entry))]
    if entry.origin is not None:
        from trio_mcp.layers.forwarding import forwarding  # few registries mount anything
        from trio_mcp.layers.mounting import outward

        if entry.origin.renames_uris:
            layers.insert(0, ("mounting", outward(entry.origin)))
        layers.insert(0, ("forwarding", forwarding))
    return layers


def _around_values(entry: Any) -> list[NamedLayer]:
    layers: list[NamedLayer] = []
    slots = entry.slots if entry.origin is None else None
    if entry.state is not None and entry.origin is None:
        from trio_mcp.layers.keeping import keeping  # few entries keep any

        if slots is not None:  # no call reads a state that the one before is to change
            slots = slots if entry.is_async else slots.of_calls()
            layers.append(("concurrency", slots.around))
        layers.append(("keeping", keeping(entry)))
    if entry.middleware:
        from trio_mcp.layers.middleware import middleware

        layers += [("middleware", middleware(entry, function)) for function in entry.middleware]
    if slots is not None and entry.is_async and entry.state is None:
        layers.append(("concurrency", slots.around))
    if entry.injection is not None and entry.origin is None:
        layers.append(("injecting", entry.injection.around))
    return layers


def _inside_mount(origin: Any) -> tuple[tuple[str, ...], Handler]:
    from trio_mcp.layers.mounting import entering

    item = origin.item
    inner = [name for name in item.layers if name != "converting"]
    if not item.gets_context:
        return tuple(inner), item.run
    return ("mounting", *inner), entering(origin, item.run)
