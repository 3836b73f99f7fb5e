"""`prometheus`: the metrics of a server in a registry of one's own. Serving it needs `http`."""

from prometheus_client import CollectorRegistry, generate_latest

from trio_mcp.transports.http.metrics import Metrics
from trio_mcp.transports.http.prometheus import registered

registry = CollectorRegistry()
with registered(Metrics(registry), registry):
    assert b"mcp_" in generate_latest(registry)
