"""The table of what all clients share: each row has the number that the code has, and a test."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest
from attrs import fields, frozen

from tests.support.processes import ROOT
from trio_mcp import HttpLimits, HttpPolicy, Limits, SessionOptions
from trio_mcp.auth import DPoP, ResourceServer
from trio_mcp.auth.proxy.browser import LOGIN_TIME, MAX_RETURNS
from trio_mcp.auth.proxy.clients import MAX_FETCHES, MAX_FETCHES_BY_ADDRESS
from trio_mcp.auth.proxy.grants import MAX_LOGINS
from trio_mcp.compose import watching
from trio_mcp.compose.remote import Remote
from trio_mcp.compose.tasks import PassedTasks
from trio_mcp.extensions.tasks import Tasks
from trio_mcp.extensions.tasks.slots import Slots
from trio_mcp.registry.states import MOST_STATES, STATES_OF_ONE
from trio_mcp.store.memory import MAX_MEMORY
from trio_mcp.telemetry import BOUNDS
from trio_mcp.transports.http import bodies
from trio_mcp.transports.http.guard import MOST_SCRAPES, SCRAPES
from trio_mcp.transports.http.sharing import changes

PAGE: Final = ROOT / "docs" / "limits" / "shared.md"


def default(kind: type[Any], name: str) -> Any:
    """The default of a field, or of an argument."""
    found = {field.alias: field.default for field in fields(kind)}
    return found[name]


def argument(function: Any, name: str) -> Any:
    """The default of an argument that only keywords give."""
    return inspect.signature(function).parameters[name].default


@frozen
class Row:
    """A row: the numbers that stand in it, and the tests that show what it says."""

    what: str
    numbers: Sequence[int]
    shown: Sequence[str]


SHARE: Final = default(Tasks, "owner_share")
QUEUED: Final = default(Tasks, "max_queued")
KEPT: Final = default(Tasks, "max_kept_bytes")
RUNNING: Final = default(Tasks, "max_running")
HTTP: Final = "transports/http"

ROWS: Final = (
    Row(
        "connections",
        [HttpLimits().max_connections],
        [
            f"{HTTP}/test_asgi_server_sockets.py::test_an_address_with_all_connections_keeps_no_other_out",
            f"{HTTP}/test_asgi_server_time.py::test_a_connection_waits_until_there_is_room",
        ],
    ),
    Row(
        "open requests over HTTP, streams and subscriptions among them",
        [HttpPolicy().max_concurrent_each, 32],
        [
            f"{HTTP}/test_shares.py::test_one_address_has_so_many_open_requests",
            f"{HTTP}/test_shares.py::test_what_may_not_stay_is_bounded_too",
        ],
    ),
    Row(
        "bodies of requests that are longer than 65,536 bytes, and over HTTP+SSE of all calls, until they have been answered",
        [HttpPolicy().max_received_bytes, int(HttpPolicy().max_received_bytes * bodies.SHARE)],
        [
            f"{HTTP}/test_shares.py::test_one_owner_has_three_quarters_of_the_room_for_long_bodies",
            f"{HTTP}/test_shares.py::test_who_has_most_long_bodies_makes_room_for_others",
            f"{HTTP}/test_app_sse.py::"
            "test_short_calls_that_wait_count_as_well_and_answers_to_them_do_not",
        ],
    ),
    Row(
        "calls that run over HTTP",
        [HttpPolicy().max_concurrent, HttpPolicy().max_concurrent_each],
        [f"{HTTP}/test_shares.py::test_what_waits_for_one_client_is_bounded"],
    ),
    Row(
        "calls that wait for an answer of a person",
        [HttpPolicy().max_concurrent_each],
        [f"{HTTP}/test_shares.py::test_a_call_that_waits_for_its_client_holds_no_slot"],
    ),
    Row(
        "what a request says of its trace",
        [*BOUNDS.values()],
        ["test_telemetry.py::test_baggage_is_bounded"],
    ),
    Row(
        "scrapes of `/metrics`",
        [int(SCRAPES), MOST_SCRAPES],
        [f"{HTTP}/test_prometheus.py::test_scraping_has_a_rate_of_its_own"],
    ),
    Row(
        "requests in a second",
        [HttpPolicy().burst],
        [f"{HTTP}/test_app_guard.py::test_with_tokens_it_is_their_owners_rate"],
    ),
    Row(
        "calls of one connection or session",
        [Limits().max_concurrent_calls],
        ["server/test_concurrency.py::test_past_the_bound_calls_wait_in_order"],
    ),
    Row(
        "what a client says of itself",
        [Limits().max_client_bytes],
        ["server/test_what_is_kept.py::test_what_a_client_says_of_itself_on_a_stream"],
    ),
    Row(
        "subscriptions of one connection or session",
        [Limits().max_subscriptions, Limits().max_subscription_bytes],
        [
            "features/test_changes.py::test_there_is_a_most_to_the_subscriptions_of_a_connection",
            "features/test_changes.py::test_there_is_a_most_to_the_bytes_of_subscriptions",
        ],
    ),
    Row(
        "resources of one server behind a proxy that are watched",
        [watching.LIMIT, watching.OWNER_LIMIT, watching.OWNER_SHARE],
        ["compose/test_watching.py::test_nobody_has_more_than_a_share"],
    ),
    Row(
        "legacy sessions",
        [SessionOptions().max_sessions],
        [f"{HTTP}/test_app_sessions.py::test_nobody_pushes_the_sessions_of_others_out"],
    ),
    Row(
        "legacy sessions in a store that instances share",
        [SessionOptions().max_sessions],
        [f"{HTTP}/test_shared_bounds.py::test_an_owner_has_so_many_sessions_at_all_instances"],
    ),
    Row(
        "events in such a store",
        [SessionOptions().max_event_bytes],
        [
            f"{HTTP}/test_shared_bounds.py::test_a_session_keeps_so_many_bytes_for_those_who_come_back"
        ],
    ),
    Row(
        "changes that an instance tells the others",
        [changes.UNWRITTEN_BYTES, changes.KEPT_BYTES],
        [
            f"{HTTP}/test_shared_bounds.py::test_of_what_none_can_be_subscribed_to_others_hear_nothing",
            f"{HTTP}/test_shared_bounds.py::test_few_bytes_of_changes_wait_for_the_store_and_none_is_missed",
        ],
    ),
    Row(
        "events that are kept for streams to be resumed",
        [SessionOptions().max_total_event_bytes, SessionOptions().max_event_bytes],
        [f"{HTTP}/test_app_sessions.py::test_what_is_kept_for_all_sessions_is_bounded_and_shared"],
    ),
    Row(
        "tasks that run at once, in one process",
        [RUNNING, Slots(RUNNING).share],
        ["extensions/tasks/test_bounds.py::test_one_owner_has_a_share_of_what_runs_at_once"],
    ),
    Row(
        "unfinished tasks, in all processes",
        [QUEUED, int(QUEUED * SHARE)],
        [
            "extensions/tasks/test_bounds.py::test_one_owner_has_a_share_of_the_unfinished_tasks",
            "extensions/tasks/test_bounds.py::test_there_is_a_most_to_all_unfinished_tasks",
        ],
    ),
    Row(
        "bytes of calls, answers and results that tasks keep, in all processes",
        [KEPT, int(KEPT * SHARE)],
        [
            "extensions/tasks/test_bounds.py::test_one_owner_has_a_share_of_the_bytes_that_are_kept",
            "extensions/tasks/test_bounds.py::test_there_is_a_most_to_all_bytes_that_are_kept",
            "extensions/tasks/test_bounds.py::test_answers_count_as_kept_until_the_task_has_ended",
        ],
    ),
    Row(
        "[states](../guides/state.md) that are kept from call to call",
        [Limits().max_states, Limits().max_state_bytes, Limits().max_states // 10],
        [
            "features/test_state.py::test_an_owner_with_more_than_a_tenth_loses_what_was_not_used_longest",
            "features/test_state.py::test_beyond_all_states_the_one_that_was_not_used_longest_goes",
            "features/test_state.py::test_a_state_of_a_megabyte_is_refused",
        ],
    ),
    Row(
        "tasks that a proxy knows",
        [argument(PassedTasks, "limit")],
        ["compose/test_shares.py::test_many_tasks_of_one_leave_those_of_others_known"],
    ),
    Row(
        "questions that are open at a legacy server behind a proxy",
        [argument(Remote, "max_callers"), argument(Remote, "max_held")],
        [
            "compose/test_shares.py::test_open_questions_of_one_leave_connections_for_others",
            "compose/test_shares.py::test_open_questions_of_one_leave_room_for_those_of_others",
        ],
    ),
    Row(
        "sealed states that are remembered as used",
        [MOST_STATES, STATES_OF_ONE],
        [
            f"{HTTP}/test_shared_records.py::test_one_owner_has_a_share_of_the_states_that_are_remembered"
        ],
    ),
    Row(
        "DPoP proofs that are remembered",
        [default(DPoP, "max_proofs"), default(DPoP, "max_proofs") // 10],
        [
            "auth/server/test_dpop.py::test_the_record_is_bounded",
            f"{HTTP}/test_shared_records.py::test_one_key_has_a_tenth_of_all_proofs_at_all_instances",
        ],
    ),
    Row(
        "owners whose rate is counted",
        [HttpPolicy().max_clients],
        [f"{HTTP}/test_app_guard.py::test_many_addresses_do_not_bring_a_principal_s_rate_back"],
    ),
    Row(
        "tokens that are remembered",
        [default(ResourceServer, "max_cached_tokens")],
        ["auth/attacks/test_guesses.py::test_guesses_push_out_no_token_that_is_good"],
    ),
    Row(
        "logins by an [OAuth proxy](../guides/logins.md)",
        [MAX_LOGINS],
        ["auth/proxy/test_grants.py::test_one_person_has_so_many_logins_and_ends_none_of_another"],
    ),
    Row(
        "logins that come back from the provider to an OAuth proxy, each once",
        [MAX_RETURNS, int(LOGIN_TIME)],
        [
            "auth/proxy/test_attacks.py::test_a_made_up_code_is_asked_for_once_with_each_login",
            "auth/proxy/test_attacks.py::test_an_address_comes_back_from_the_provider_so_often",
        ],
    ),
    Row(
        "documents of clients that an OAuth proxy fetches at a time",
        [MAX_FETCHES, MAX_FETCHES_BY_ADDRESS],
        ["auth/proxy/test_attacks.py::test_slow_clients_of_one_address_keep_out_no_others"],
    ),
    Row(
        "registrations of clients at an OAuth proxy",
        [],
        ["auth/proxy/test_attacks.py::test_registrations_are_bounded"],
    ),
    Row(
        "what a store in memory holds",
        [MAX_MEMORY],
        ["store/test_memory.py::test_a_store_that_is_full_takes_nothing_and_loses_nothing"],
    ),
)


def rows() -> list[list[str]]:
    """The rows of the table, as lists of cells."""
    lines = PAGE.read_text().splitlines()
    found = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in found[2:]]


def test_the_table_has_these_rows() -> None:
    assert [row[0] for row in rows()] == [row.what for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_row_has_the_numbers_of_the_code(row: Row) -> None:
    (cells,) = (cells for cells in rows() if cells[0] == row.what)
    said = {int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", " ".join(cells[1:3]))}
    assert set(row.numbers) <= said


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_row_is_shown_by_tests(row: Row) -> None:
    assert row.shown
    for shown in row.shown:
        file, _, name = shown.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)
