"""The bug catalogue of earlier systems: where each of its rows is a test.

``texts``, ``control`` and ``users`` are the files beside this one that were written for it, against agents and a model
in processes of their own. Where a row has none of these, it says why.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXTS, CONTROL = "supervisor/test_catalogue_texts.py", "supervisor/test_catalogue_control.py"

ROWS: dict[str, tuple[str, ...]] = {
    "B-01 agents run twice": (
        f"{TEXTS}::test_an_agent_is_asked_once_whatever_comes_of_it",
        "agents/test_old.py::test_an_old_agent_is_asked_once_and_its_text_its_parts_and_its_end_are_right",
    ),
    "B-02 the answer twice": (
        f"{TEXTS}::test_what_an_agent_sends_twice_is_said_once_to_every_client",
        "agents/test_supervised.py::test_an_agent_of_1_0_that_misbehaves_tells_the_model_its_text_once",
    ),
    "B-03 the supervisor says it again": (
        f"{TEXTS}::test_the_supervisor_does_not_say_again_what_an_agent_said",
        f"{TEXTS}::test_without_a_plan_each_policy_costs_what_it_says",
    ),
    "B-04 one agent's answer only": (f"{TEXTS}::test_the_answers_of_all_agents_are_shown_and_stay_in_order",),
    "B-05 the text again after its chunks": (f"{TEXTS}::test_what_an_agent_sends_twice_is_said_once_to_every_client",),
    "B-06 a retry repeats text": (
        f"{TEXTS}::test_what_was_shown_of_an_agent_that_fails_is_kept_and_not_begun_again",
        # the one who may ask again is a graph's own middleware
        "sources/langgraph/test_turns.py::test_a_model_that_is_asked_again_after_it_broke_off_supersedes_what_it_said",
    ),
    "B-07 duplicates guessed by content": (
        f"{TEXTS}::test_what_an_agent_sends_twice_is_said_once_to_every_client",
        "agents/test_modern.py::test_a_stream_is_cut_anywhere_and_the_next_one_too_and_the_text_is_exact",
    ),
    "B-08 text and raw JSON": (
        f"{TEXTS}::test_a_model_of_any_dialect_says_its_text_once_and_asks_once",
        "sources/langgraph/test_reasoning.py::test_text_and_reasoning_of_every_form_are_shown",
    ),
    "B-09 words lost or split": (
        f"{TEXTS}::test_no_blank_line_or_character_of_an_answer_is_lost_or_added_at_any_client",
        f"{TEXTS}::test_neither_is_one_that_arrives_in_another_framing",
    ),
    "B-10 a chunk of no artifact": (f"{TEXTS}::test_no_piece_is_lost_whatever_an_agent_says_of_its_place",),
    "B-11 nothing after the last chunk": (f"{TEXTS}::test_no_piece_is_lost_whatever_an_agent_says_of_its_place",),
    "B-12 no answer without a tool": (f"{TEXTS}::test_an_answer_without_any_tool_is_shown",),
    "B-13 no answer at all": (f"{TEXTS}::test_a_model_that_leaves_out_what_a_tool_needs_is_told_and_answers",),
    "B-14 a cap on all tools": (f"{TEXTS}::test_an_agent_may_be_asked_again_after_another_one_and_after_it_failed",),
    "B-15 text after the plan": (
        f"{TEXTS}::test_what_is_said_after_the_plan_is_shown_by_clients_that_follow_one_stream",
    ),
    "B-16 nothing after a failure": (
        f"{TEXTS}::test_a_failure_is_the_end_for_every_client_and_says_why",
        "supervisor/test_supervisor.py::test_an_agent_that_is_killed_fails_in_its_lane_and_its_sibling_finishes",
    ),
    "B-17 narration held back": (f"{TEXTS}::test_all_that_was_said_is_with_the_client_while_an_agent_thinks",),
    "B-18 a partial result for a final one": (
        f"{TEXTS}::test_a_run_that_succeeds_has_a_final_result_and_no_partial_one",
    ),
    "B-19 narration as the answer": (
        f"{CONTROL}::test_what_is_said_on_the_way_to_an_answer_is_narration_for_every_client",
    ),
    "B-20 marks in the text": (
        f"{CONTROL}::test_whatever_a_text_looks_like_it_is_a_text",
        f"{CONTROL}::test_neither_is_a_mark_in_the_words_of_the_model",
    ),
    # happens inside of a graph: no process sees it
    "B-21 a summary as the answer": (
        "sources/langgraph/test_turns.py::test_a_summary_that_middleware_makes_for_itself_is_not_shown",
    ),
    "B-22 one user's in another's": (
        "supervisor/test_catalogue_users.py"
        "::test_thirty_users_at_once_with_the_same_ids_get_their_own_and_nothing_else",
        "auth/test_onward.py::test_fifty_runs_of_two_users_at_once_each_carry_their_own",
    ),
    "B-23 a heartbeat in the answer": (
        f"{CONTROL}::test_that_an_agent_still_works_is_not_in_its_answer",
        "transports/test_stream.py::test_comments_keep_a_silent_stream_alive",
    ),
    "B-24 orphaned calls": (
        f"{CONTROL}::test_a_thread_goes_on_after_a_cancel_in_the_middle_of_its_agents",
        "supervisor/test_cancelling.py"
        "::test_a_cancel_in_the_middle_of_delegates_tells_each_agent_and_the_next_turn_works",
        "sources/langgraph/test_memory.py::test_a_memory_that_is_broken_already_is_written_anew",
    ),
    "B-25 a question taken for a failure": (
        f"{CONTROL}::test_a_question_is_no_failure_and_its_answer_starts_no_agent_again",
        f"{CONTROL}::test_a_plain_client_answers_the_question_of_an_agent_by_its_task",
        f"{CONTROL}::test_a_question_two_servers_down_is_asked_once_and_answered_where_it_was_asked",
    ),
    "B-26 lanes of a resumed run": (
        f"{CONTROL}::test_a_question_is_no_failure_and_its_answer_starts_no_agent_again",
        "sources/langgraph/test_traps.py"
        "::test_9_a_resumed_run_announces_its_lanes_again_and_does_not_repeat_what_was_done",
    ),
    # the payloads of a library, which no process of ours can change
    "B-27 sub-agents fall into the root": (
        "sources/langgraph/test_contract.py::test_every_part_is_a_type_a_namespace_and_data",
        "sources/langgraph/test_contract.py::test_tasks_join_a_namespace_to_the_tool_call_that_runs_there",
        "sources/langgraph/test_agents.py::test_nesting_to_any_depth_is_a_path_of_calls",
    ),
    "B-28 errors found in words": (
        f"{CONTROL}::test_whatever_a_text_looks_like_it_is_a_text",
        "sources/langgraph/test_translate.py::test_errors_are_told_by_their_kind_and_never_by_their_text",
    ),
    "B-29 a close looks like an error": (
        f"{CONTROL}::test_a_run_that_succeeds_is_no_failure_in_any_log_and_cancels_nothing",
        "sources/a2a/test_source.py"
        "::test_each_request_has_a_connection_of_its_own_and_a_stream_that_is_over_is_read_to_its_end",
    ),
    "B-30 clocks and counters": (
        f"{TEXTS}::test_all_that_was_said_is_with_the_client_while_an_agent_thinks",
        "supervisor/test_catalogue_users.py"
        "::test_thirty_users_at_once_with_the_same_ids_get_their_own_and_nothing_else",
    ),
    "B-31 results found in words": (f"{CONTROL}::test_whatever_a_text_looks_like_it_is_a_text",),
    "B-32 text of others in a whole answer": (
        f"{CONTROL}::test_a_blocking_call_gives_what_a_stream_gives_and_no_text_of_others",
        f"{CONTROL}::test_what_a_supervisor_is_told_of_another_one_is_that_ones_answer",
        "sources/test_relay.py::test_narration_is_no_part_of_what_comes_back_unless_the_agent_fails",
    ),
}


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests in a file, those in classes too."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_every_row_of_the_catalogue_is_here() -> None:
    assert [row.partition(" ")[0] for row in ROWS] == [f"B-{number:02}" for number in range(1, 33)]
    assert all(ROWS.values())


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_catalogue_is_a_test(row: str) -> None:
    for place in ROWS[row]:
        file, name = place.split("::")
        assert name in names_in(file), f"{place} does not exist (any more): {row} has to be another test"


@pytest.mark.parametrize("name", ["texts", "control", "users"])
def test_each_test_that_was_written_for_it_is_a_row(name: str) -> None:
    file = f"supervisor/test_catalogue_{name}.py"
    listed = {place.split("::")[1] for places in ROWS.values() for place in places if place.startswith(f"{file}::")}
    assert listed == names_in(file)
