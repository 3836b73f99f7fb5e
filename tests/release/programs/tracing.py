"""`tracing`: a provider of OpenTelemetry gets the spans of a call."""

import trio
from opentelemetry import trace
from plants import registry

from trio_mcp import connect

names = []


class Tracer(trace.NoOpTracer):
    def start_span(self, name, *args, **kwargs):
        names.append(name)
        return super().start_span(name, *args, **kwargs)


class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()


async def main() -> None:
    async with connect(registry) as client:
        await client.call_tool("find_plant", {"name": "Fern"})


trace.set_tracer_provider(Provider())
trio.run(main)
assert "tools/call find_plant" in names
