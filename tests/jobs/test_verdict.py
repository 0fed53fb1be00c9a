"""How a run is judged from what its phones left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetctl.jobs.verdict import Evidence, Verdict, judge
from trainer.formats import Final

PHONES = ("phone001", "phone002", "phone003")
ADDRESSES = {name: f"10.0.0.{number}" for number, name in enumerate(PHONES, start=1)}


def final(rank: int, status: Any = "done", reason: str | None = None) -> Final:
    return Final("digits-1", rank, PHONES[rank], status, reason, 30, 0.99, "ab")


def judged(finals: list[Final], **given: Any) -> Verdict:
    evidence: dict[str, Any] = {
        "phones": PHONES,
        "addresses": ADDRESSES,
        "finals": {each.rank: each for each in finals},
        "unreachable": {},
        "blamed": {},
        "unswept": {},
        "mpirun_code": 0,
        "log": "",
        "stopped": False,
    }
    return judge(Evidence(**evidence | given))


def test_every_ranks_word_makes_it_done_whatever_mpirun_says() -> None:
    verdict = judged([final(0), final(1), final(2)], mpirun_code=137)
    assert (verdict.state, verdict.test_accuracy, verdict.reason) == ("done", 0.99, None)


def test_a_phone_that_ended_with_another_model_is_named() -> None:
    finals = [final(0), replace(final(1), parameters_sha256="cd"), final(2)]
    verdict = judged(finals, one_model=True)
    assert (verdict.state, verdict.culprits) == ("done", {})
    assert str(verdict.reason).startswith(
        "warning: phone002 ended with other parameters than phone[001,003]"
    )
    assert judged(finals).reason is None  # each trained its own


def test_equal_models_and_those_that_no_record_tells_of_are_not_spoken_of() -> None:
    unknown = [replace(final(rank), parameters_sha256=None) for rank in range(3)]
    assert judged([final(0), final(1), final(2)], one_model=True).reason is None
    assert judged(unknown, one_model=True).reason is None


def test_mpiruns_zero_without_every_word_is_failure() -> None:
    verdict = judged([final(0), final(1)], log="----\nprted lost\n----\n")
    assert verdict.state == "failed"
    assert verdict.reason == "no final record from phone003; mpirun ended with 0: prted lost"


def test_many_phones_without_a_word_are_one_name() -> None:
    verdict = judged([], mpirun_code=None)
    assert verdict.reason == "no final record from phone[001-003]; mpirun vanished"


def test_ranks_that_do_not_reach_each_other_are_named_both() -> None:
    log = (
        "[1,1]<stderr>: WARNING: Open MPI failed to TCP connect to a peer MPI process.\n"
        "[1,1]<stderr>: \n"
        "[1,1]<stderr>:   Local host: phone002\n"
        "[1,1]<stderr>:   Message:    connect() to 10.0.0.3:1024 failed\n"
        "[1,1]<stderr>:   Error:      No route to host (113)\n"
        "[1,1]<stderr>: *** Unknown error\n"
        "[1,1]<stderr>:  \n"
    )
    verdict = judged([], mpirun_code=14, log=log)
    assert verdict.reason == (
        "phone002 cannot reach phone003 (No route to host); check cable and switch between them"
    )
    assert (verdict.culprits, verdict.cause) == ({}, "unknown")


def test_the_last_words_of_a_log_are_told_without_their_rank_s_mark() -> None:
    log = "[1,2]<stderr>: out of luck\n[1,2]<stderr>:  \n"
    reason = judged([final(0), final(1)], log=log).reason
    assert reason == "no final record from phone003; mpirun ended with 0: out of luck"


@pytest.mark.parametrize(
    ("code", "cure"), [(127, "`packages: {also: [NAME]}`"), (126, "call a script by its interp")]
)
def test_a_command_that_phones_cannot_run_is_named_with_what_to_do(code: int, cure: str) -> None:
    lacking = [final(rank, "failed", f"exit code {code}") for rank in (0, 2)]
    others = final(1, "failed", "exit code 143")
    verdict = judged([*lacking, others], mpirun_code=code, command="iperf4 -s")
    assert (verdict.state, verdict.cause, verdict.culprits) == ("failed", "program", {})
    assert verdict.reason is not None
    assert verdict.reason.startswith(f"phone[001,003]: exit code {code}: ")
    assert "`iperf4 -s`" in verdict.reason
    assert cure in verdict.reason


def test_a_phone_that_does_not_answer_is_the_reason_and_becomes_suspect() -> None:
    others = [final(0, "failed", "MPI_ERR_PROC_FAILED"), final(1, "failed", "lost peer")]
    verdict = judged(others, unreachable={"phone003": "phone003 is unreachable"})
    assert verdict.reason == "phone003 is unreachable"
    assert verdict.culprits == {"phone003": "phone003 is unreachable"}


def test_the_rank_with_a_cause_of_its_own_comes_before_its_victims() -> None:
    verdict = judged(
        [
            final(0, "failed", "lost its peer"),
            final(1, "failed", "shard train-1 is corrupt"),
            final(2, "failed", "killed by signal 15"),
        ]
    )
    assert verdict.reason == "phone002 (rank 1): shard train-1 is corrupt"


def test_of_mpiruns_complaints_only_sshs_own_line_is_believed() -> None:
    log = (
        "ssh: connect to host 10.0.0.2 port 8022: Connection refused\r\n"
        "A daemon failed. target node: 10.0.0.3\n"
    )
    verdict = judged([], mpirun_code=255, log=log)
    assert list(verdict.culprits) == ["phone002"]
    assert verdict.reason is not None
    assert "phone002 cannot be reached by ssh from phone001 (Connection refused)" in verdict.reason


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("u0_a1@10.0.0.2: Permission denied (publickey).", "Permission denied (publickey)."),
        ("Connection closed by 10.0.0.2 port 8022", "Connection closed"),
        ("Connection reset by 10.0.0.2 port 8022", "Connection reset"),
        ("Connection to 10.0.0.2 port 8022 timed out", "timed out"),
        (
            "No ED25519 host key is known for [10.0.0.2]:8022 and you have requested strict "
            "checking.\r\nHost key verification failed.",
            "No ED25519 host key is known",
        ),
        ("Host key for [10.0.0.2]:8022 has changed and you have requested str", "has changed"),
    ],
)
def test_whatever_keeps_the_head_from_logging_in_is_of_the_phone_that_ssh_names(
    said: str, why: str
) -> None:
    verdict = judged([], mpirun_code=255, log=f"{said}\r\ntarget node: 10.0.0.3\n")
    assert [*verdict.culprits] == ["phone002"]
    assert f"cannot be reached by ssh from phone001 ({why})" in verdict.culprits["phone002"]


def test_a_session_that_ended_with_the_run_is_nobodys_doing() -> None:
    log = "Connection to 10.0.0.2 closed by remote host.\r\n"
    assert judged([], mpirun_code=255, log=log).culprits == {}


EXITED = """\
[prterun-localhost-77@1,1]<stderr>: CANNOT LINK EXECUTABLE "python": library "libx.so" not found
[prterun-localhost-77@1,0]<stderr>: Traceback
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-localhost-77@1,1]
   Exit code:    1
--------------------------------------------------------------------------
"""


def test_a_rank_that_could_not_start_where_others_could_is_its_phones_doing() -> None:
    others = [final(0, "failed", "terminated"), final(2, "failed", "terminated")]
    told = (
        'phone002: its rank could not start (exit code 1): CANNOT LINK EXECUTABLE "python": '
        'library "libx.so" not found'
    )
    assert judged(others, mpirun_code=1, log=EXITED).culprits == {"phone002": told}
    older = EXITED.replace("prterun-localhost-77@1,1", "[4321,1],1").replace(
        "[[4321,1],1]<", "[1,1]<"
    )
    assert judged(others, mpirun_code=1, log=older).culprits == {"phone002": told}


def test_a_rank_that_could_not_start_is_nobodys_doing_while_no_other_says_that_it_could() -> None:
    assert judged([], mpirun_code=1, log=EXITED).culprits == {}
    told = [final(0, "failed", "terminated"), final(1, "failed", "terminated")]
    assert judged(told, mpirun_code=1, log=EXITED).culprits == {}


def test_a_blocked_system_call_is_not_called_not_found() -> None:
    for given in ({"mpirun_code": 159}, {"log": "sh: Bad system call\n"}):
        verdict = judged([final(0, "failed", "exit code 159")], **given)
        assert verdict.reason is not None
        assert "Android blocked a system call" in verdict.reason


def test_a_stop_is_no_failure_and_blames_nobody() -> None:
    verdict = judged([], stopped=True, mpirun_code=None, unreachable={"phone002": "gone"})
    assert (verdict.state, verdict.culprits) == ("stopped", {})


def test_a_stop_says_which_phones_it_did_not_reach_or_clear() -> None:
    verdict = judged([], stopped=True, unreachable={"phone002": "gone"}, unswept={"phone003": "7"})
    assert verdict.reason == "stopped by the operator; gone; 7"
    assert verdict.left == {"phone002": "gone", "phone003": "7"}


def test_processes_that_do_not_end_are_told_beside_the_cause() -> None:
    verdict = judged([final(1, "failed", "bad shard")], unswept={"phone003": "7 does not end"})
    assert verdict.reason == "phone002 (rank 1): bad shard; 7 does not end"
    assert verdict.culprits == {}


def test_a_run_that_was_done_when_the_stop_came_is_done() -> None:
    assert judged([final(0), final(1), final(2)], stopped=True).state == "done"


KILLED = """\
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 412 on node 10.0.0.2 exited on signal 9 (Killed).
--------------------------------------------------------------------------
"""


def test_a_rank_that_a_signal_ended_is_its_phones_doing_unless_the_program_crashed() -> None:
    killed = judged([final(0, "failed", "terminated")], log=KILLED)
    assert list(killed.culprits) == ["phone002"]
    assert (killed.cause, "signal 9" in str(killed.reason)) == ("phones", True)
    crashed = judged([], log=KILLED.replace("signal 9", "signal 11"))
    assert (crashed.culprits, crashed.cause) == ({}, "unknown")


def test_a_phone_that_restarted_answers_again_but_its_rank_is_gone() -> None:
    verdict = judged([final(0, "failed", "MPI_ERR"), final(1)], came_back={"phone001", "phone003"})
    assert list(verdict.culprits) == ["phone003"]
    assert "came back without its rank" in str(verdict.reason)


def test_a_full_phone_is_named_though_it_can_write_nothing_down() -> None:
    verdict = judged([final(0, "failed", "lost its peer")], full={"phone002"})
    assert verdict.reason == (
        "phone002 has no free storage left; remove old runs (`fleetctl jobs --prune`) "
        "and data sets on it"
    )
    said = judged([final(0, "failed", "checkpoints/x: No space left on device"), final(1)])
    assert list(said.culprits) == ["phone001"]


def test_a_rank_with_a_cause_of_its_own_is_the_programs_doing() -> None:
    assert judged([final(0, "failed", "loss of rank 0 is not finite")]).cause == "program"
    assert judged([final(0, "failed", "lost its peer")]).cause == "unknown"
    assert judged([], mpirun_code=159).cause == "program"


def test_a_verdict_comes_back_from_the_events_as_it_was() -> None:
    verdict = judged([], unreachable={"phone003": "phone003 is unreachable"})
    assert Verdict(**verdict.as_json()) == verdict
