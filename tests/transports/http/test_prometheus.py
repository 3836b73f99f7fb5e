"""What Prometheus learns of a server, and of the application around it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from math import inf, isnan, nan
from typing import Any

import pytest
import trio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from trio.testing import wait_all_tasks_blocked

from tests.auth.proxy.world import world
from tests.docs.test_readme import table
from tests.extensions.tasks.jobs import make
from tests.extensions.tasks.support import http_client
from tests.support.processes import EXAMPLES, ROOT
from tests.support.tools import echo, registry_of
from tests.transports.http.support import Host, LegacyClient, ModernClient, hosting
from trio_mcp import HttpPolicy, Registry, http_app
from trio_mcp.auth import domain
from trio_mcp.store.memory import MemoryStore
from trio_mcp.transports.http.metrics import FAMILIES, Metrics, summable
from trio_mcp.transports.http.workers.channel import add

pytestmark = pytest.mark.requirement("R2")


class Scraped(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of a scrape, by name and labels."""

    def of(self, name: str, /, **labels: str) -> float | None:
        return self.get((name, frozenset(labels.items())))


async def scrape(host: Host, **options: Any) -> Scraped:
    """Ask for the metrics, and read them as Prometheus does."""
    answer = await host.ask("GET", "/metrics", **options)
    assert answer.status == 200
    return Scraped(
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    )


# -- what a server tells ------------------------------------------------------------------


async def test_responses_by_page_and_status_and_refusals_by_reason() -> None:
    policy = HttpPolicy(tokens={"secret": "ada"}, max_concurrent_each=1)
    async with hosting(registry_of(echo), policy) as host:
        ada = ModernClient(host, {"authorization": "Bearer secret"})
        await ada.call("echo", text="x")
        for headers in ({}, {"host": "evil.test"}, {"origin": "http://evil.test"}):
            await host.ask("POST", "/mcp", headers=headers)
        for number in range(5):
            await host.ask("GET", f"/s3cret/{number}")
        scraped = await scrape(host, headers={"authorization": "Bearer secret"})
    for page, status, count in (("/mcp", "200", 1), ("/mcp", "401", 1), ("/mcp", "403", 2)):
        assert scraped.of("mcp_http_responses_total", page=page, status=status) == count
    assert scraped.of("mcp_http_responses_total", page="(other)", status="404") == 5
    for status, reason, count in (
        ("401", "unauthorized", 1),
        ("403", "host", 1),
        ("403", "origin", 1),
        ("404", "not found", 5),
    ):
        assert scraped.of("mcp_http_refusals_total", status=status, reason=reason) == count
    assert "s3cret" not in str(scraped)


async def test_calls_that_wait_for_a_slot() -> None:
    go_on = trio.Event()

    async def wait() -> None:
        await go_on.wait()

    registry = registry_of(wait)
    async with hosting(registry, HttpPolicy(max_concurrent=1)) as host:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                client = ModernClient(host)
                client.address = (f"127.0.0.{number + 2}", 1)
                nursery.start_soon(client.call, "wait")
            await wait_all_tasks_blocked()
            scraped = await scrape(host)
            assert scraped.of("mcp_requests_in_flight") == 1
            assert scraped.of("mcp_requests_waiting") == 3
            go_on.set()
        assert (await scrape(host)).of("mcp_requests_waiting") == 0


async def test_sessions() -> None:
    async with hosting(registry_of(echo)) as host:
        for _ in range(2):
            await LegacyClient(host).initialize()
        assert (await scrape(host)).of("mcp_sessions") == 2


async def test_tasks_by_status() -> None:
    async with hosting(make()) as host:
        client = http_client(host)
        ids = [(await client.call(name, **given))["result"]["taskId"] for name, given in STARTED]
        await http_client(host, ids[0]).request("tasks/cancel", {"taskId": ids[0]})
        scraped = await scrape(host)
        while scraped.of("mcp_tasks_total", status="completed") is None:
            await trio.sleep(0.01)
            scraped = await scrape(host)
    assert scraped.of("mcp_tasks_total", status="created") == 2
    assert scraped.of("mcp_tasks_total", status="cancelled") == 1
    assert scraped.of("mcp_tasks_total", status="completed") == 1


STARTED: list[tuple[str, dict[str, Any]]] = [("wait", {}), ("add", {"a": 1, "b": 2})]


async def test_what_the_store_does_and_how_long_it_takes() -> None:
    async with hosting(registry_of(echo), store=MemoryStore()) as host:
        await LegacyClient(host).initialize()
        scraped = await scrape(host)
    name = "mcp_store_operation_duration_seconds"
    assert {dict(labels).get("outcome") for found, labels in scraped if name in found} == {"ok"}
    for operation in ("commit", "get"):
        labels = {"operation": operation, "outcome": "ok"}
        count = scraped.of(f"{name}_count", **labels)
        assert count
        assert scraped.of(f"{name}_bucket", **labels, le="+Inf") == count
        assert (scraped.of(f"{name}_sum", **labels) or 0) > 0


async def test_logins() -> None:
    async with world(allow=domain("acme.test")) as here:
        await here.client.log_in()
        other = here.new_client()
        await other.register()
        here.provider.claims["email"] = "eve@evil.test"
        assert (await other.authorize())["error"] == "access_denied"
        token = here.client.tokens["access_token"]
        scraped = await scrape(here.host, headers={"authorization": f"Bearer {token}"})
    assert scraped.of("mcp_logins_total", step="begun") == 2
    assert scraped.of("mcp_logins_total", step="completed") == 1
    assert scraped.of("mcp_logins_total", step="refused") == 1


async def test_scraping_has_a_rate_of_its_own() -> None:
    policy = HttpPolicy(rate=0.001, burst=1, tokens={"secret": "ada"})
    async with hosting(registry_of(echo), policy) as host:
        ada = ModernClient(host, {"authorization": "Bearer secret"})
        await ada.call("echo", text="x")
        assert (await ada.begin("ping").end()).status == 429
        for _ in range(50):
            await scrape(host, headers={"authorization": "Bearer secret"})
        assert (await host.ask("GET", "/metrics")).status == 401


# -- with prometheus_client ---------------------------------------------------------------


async def test_an_applications_own_metrics_are_shown_and_ours_are_in_its_registry() -> None:
    theirs = CollectorRegistry()
    Counter("orders", "Orders\nby \\ kind.", ["kind"], registry=theirs).labels('a "lamp"').inc(3)
    Gauge("stock", "In stock.", registry=theirs).set(-inf)
    Gauge("doubt", "No number.", registry=theirs).set(nan)
    Info("build", "Which one.", registry=theirs).info({"commit": "abc"})
    Histogram("weight", "Of a lamp.", buckets=(1, 2), registry=theirs).observe(1.5)
    async with hosting(registry_of(echo), prometheus=theirs) as host:
        await ModernClient(host).call("echo", text="x")
        scraped = await scrape(host)
        assert b'mcp_requests_total{kind="tool",name="echo",outcome="ok"} 1.0' in generate_latest(
            theirs
        )
    assert scraped.of("orders_total", kind='a "lamp"') == 3
    assert scraped.of("stock") == -inf
    assert isnan(scraped.of("doubt") or 0)
    assert scraped.of("build_info", commit="abc") == 1
    assert scraped.of("weight_bucket", le="2.0") == scraped.of("weight_count") == 1
    assert scraped.of("mcp_requests_total", kind="tool", name="echo", outcome="ok") == 1
    assert b"mcp_" not in generate_latest(theirs)  # it was given back at the end


async def test_two_apps_cannot_have_the_same_registry() -> None:
    theirs = CollectorRegistry()
    async with hosting(registry_of(echo), prometheus=theirs):
        with pytest.raises(ValueError, match="another app"):
            async with http_app(Registry("second"), prometheus=theirs).running():
                pass


def test_what_is_no_registry_is_refused() -> None:
    for what in True, Counter("lamps", "Lamps.", registry=None):
        with pytest.raises(TypeError, match="must be a CollectorRegistry"):
            http_app(Registry("shop"), prometheus=what)  # type: ignore[arg-type]


async def test_a_collector_that_fails_costs_only_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Collector):
        def describe(self) -> Iterable[Any]:
            return []

        def collect(self) -> Iterable[Any]:
            raise LookupError("no database")

    theirs = CollectorRegistry()
    theirs.register(Broken())
    with caplog.at_level(logging.ERROR):
        async with hosting(registry_of(echo), prometheus=theirs) as host:
            scraped = await scrape(host)
    assert scraped.of("mcp_sessions") == 0
    assert "Metrics of the application cannot be collected" in caplog.messages


def test_those_of_workers_are_added_up() -> None:
    theirs = CollectorRegistry()
    Counter("orders", "Orders.", registry=theirs).inc(3)
    Gauge("process_start_time_seconds", "When.", registry=theirs).set(1e9)
    Gauge("doubt", "No number.", registry=theirs).set(nan)
    total: dict[str, Any] = {}
    for ended in (False, True):
        add(total, summable(Metrics(theirs).snapshot()), ended=ended)
    assert total["orders_total"][2] == {"orders_total": {"": 6}}
    assert "process_start_time_seconds" not in total
    assert total["doubt"][2]["doubt"] == {}


# -- what is said of them -----------------------------------------------------------------


def samples_of(family: str, kind: str) -> set[str]:
    """The names of the samples of a family."""
    if kind != "histogram":
        return {family}
    return {f"{family}_{part}" for part in ("bucket", "count", "sum")}


def labels_of(metrics: Metrics) -> dict[str, set[str]]:
    """The labels that samples have, by their names."""
    return {family + suffix: set(labels) for family, suffix, labels, _ in metrics.samples()}


async def test_the_dashboard_asks_for_what_there_is() -> None:
    """Its queries name no metric and no label that no server has."""
    dashboard = json.loads((EXAMPLES / "grafana.json").read_text())
    known = {name for family, (kind, _) in FAMILIES.items() for name in samples_of(family, kind)}
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [each["query"] for each in dashboard["templating"]["list"]]
    asked = {name for query in queries for name in re.findall(r"\bmcp_\w+", query)}
    assert asked <= known
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    assert FAMILIES.keys() - bare == {"mcp_http_accepted_total", "mcp_http_requests_total"}
    used = {
        label
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for by in re.findall(r"by \(([^)]*)\)", target["expr"])
        for label in by.split(", ")
    }
    reference = (ROOT / "docs" / "reference" / "telemetry.md").read_text()
    assert used <= {"le", *re.findall(r"`(\w+)`", reference)}
    assert [panel["id"] for panel in dashboard["panels"]] == list(
        range(1, len(dashboard["panels"]) + 1)
    )


def test_the_reference_has_every_metric_with_its_labels() -> None:
    rows = table(ROOT / "docs" / "reference" / "telemetry.md", "Metric")
    told = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for names, kind, labels, _ in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    assert {name: kind for name, (kind, _) in told.items()} == {
        name: kind for name, (kind, _) in FAMILIES.items()
    }
    metrics = Metrics()
    metrics.refused("tool", None, "not found")
    metrics.responded("/mcp", 200)
    metrics.turned_away(404, "not found")
    metrics.measure_store("get", "ok", 0.1)
    metrics.counters.add("tasks", status="created")
    metrics.logins = {"begun": 1}
    for name, labels in labels_of(metrics).items():
        family = re.sub(r"_(bucket|count|sum)$", "", name)
        assert told[family][1] == labels - {"le"}
