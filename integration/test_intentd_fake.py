"""What a user does: `intentd serve`, `run`, `explain`, `status` over `modeld` on its fake backend: real processes."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.person import LIMIT_S, PYTEST, User, offered, warm


@pytest.fixture
def user() -> Iterator[User]:
    with User.at_work() as person:
        yield person


def test_a_failed_test_is_explained_from_warm_kv(user: User) -> None:
    """S10: everything that was asked had been guessed."""
    user.serve("modeld", "--backend", "fake")
    user.serve("intentd")
    plain = subprocess.run(PYTEST, cwd=user.project, env=user.environment, capture_output=True, text=True, check=False)
    ran = user.do("run", "--", *PYTEST)
    assert ran.returncode == plain.returncode == 1
    assert ran.stdout.splitlines()[:-1] == plain.stdout.splitlines()[:-1]  # the last line says how long it took
    assert "test_calc.py::test_add" in user.until(warm)["offers"][0]["title"]
    explained = user.do("explain", "--stats", check=True)
    assert explained.stdout.strip()
    assert explained.stderr.startswith("intentd: hit: first token after ")
    events = [json.loads(line) for line in user.do("explain", "--json", check=True).stdout.splitlines()]
    assert [event["kind"] for event in events if event["kind"] != "tokens"] == [
        "accepted",
        "started",
        "progress",
        "done",
    ]
    assert user.status()["figures"]["answers_hit"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_daemon_ends_in_good_order_when_it_is_told_to_or_its_terminal_closes(user: User, number: int) -> None:
    daemon = user.serve("intentd")
    daemon.send_signal(number)
    assert daemon.wait(LIMIT_S) == 0


def test_a_daemon_that_was_started_with_nohup_stays_when_its_terminal_closes(user: User) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        daemon = user.serve("intentd")
    finally:
        signal.signal(signal.SIGHUP, before)
    daemon.send_signal(signal.SIGHUP)
    assert user.status()["state"] == "idle"
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(LIMIT_S) == 0


def test_a_question_in_the_middle_of_its_guess_keeps_what_is_finished(user: User) -> None:
    """S5, S10: and it does not wait for the rest of the guess."""
    user.serve("modeld", "--backend", "fake", "--fake", json.dumps({"token_ms": 10}))
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    status = user.until(lambda status: status["figures"].get("guess_done", 0) > 0 or warm(status))
    assert not warm(status)
    events = [json.loads(line) for line in user.do("explain", "--json", check=True).stdout.splitlines()]
    usage = events[-1]["usage"]
    assert usage["outcome"] == "partial"
    assert 0 < usage["guessed"] < usage["prompt"]
    assert user.status()["triggers"]["test_failed"]["partials"] == 1


def test_a_fixed_test_leaves_nothing_to_explain(user: User) -> None:
    user.serve("modeld", "--backend", "fake")
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    user.until(offered)
    (user.project / "calc.py").write_text("def add(a, b):\n    return  a + b\n")
    assert user.do("run", "--", *PYTEST, check=True).returncode == 0
    user.until(lambda status: not offered(status))
    refused = user.do("explain")
    assert refused.returncode == 1
    assert refused.stderr.startswith("intentd: no failure is known in ")


def test_offers_are_listed_shown_and_mended(user: User) -> None:
    """S10: what is shown is what is sent."""
    user.serve("modeld", "--backend", "fake")
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    user.until(offered)
    offers = json.loads(user.do("offers", "--json", check=True).stdout)["offers"]
    assert [(offer["number"], offer["trigger"]) for offer in offers] == [(1, "test_failed")]
    listed = user.do("offers", check=True).stdout
    assert "explain why test_calc.py::test_add fails: line " in listed
    shown = user.do("show", "1", check=True).stdout
    assert "assert add(1, 2) == 3" in shown
    assert user.do("show", "1", "--fix", check=True).stdout.rpartition("\n\n")[0] == shown.rpartition("\n\n")[0]
    assert user.do("fix", "1", check=True).stdout.strip()
    refused = user.do("fix", "7")
    assert refused.returncode == 1
    assert "there is no offer '7' in" in refused.stderr


def test_nothing_is_written_to_disk(user: User) -> None:
    """I3: a daemon that may write no byte into any file sees, plans, shows and ends as ever."""
    daemon = user.serve("intentd")
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (0, 0))
    user.do("run", "--", *PYTEST)
    user.until(offered)
    assert "assert add(1, 2) == 3" in user.do("show", check=True).stdout
    daemon.terminate()
    assert daemon.wait(LIMIT_S) == 0
    assert daemon.stderr
    assert b"Errno" not in daemon.stderr.read()


def test_what_comes_through_a_pipe_is_offered_and_a_pause_is_kept(user: User) -> None:
    user.serve("modeld", "--backend", "fake")
    user.serve("intentd")
    assert user.do("pause", check=True).stdout == "intentd is paused\n"
    failing = subprocess.run(
        PYTEST, cwd=user.project, env=user.environment, capture_output=True, text=True, check=False
    )
    piped = user.do("pipe", input=failing.stdout, check=True)
    assert piped.stdout == failing.stdout
    status = user.until(offered)
    assert (status["state"], status["reason"], status["offers"][0]["warm"]) == ("paused", "paused", False)
    assert user.do("status", check=True).stdout.splitlines()[0].split() == ["state", "paused"]
    assert user.do("resume", check=True).stdout == "intentd is guessing\n"
    user.until(warm)


def test_a_command_that_watches_is_read_while_it_goes_on(user: User) -> None:
    """I1: and it is a command as any other: what ends it ends it."""
    user.serve("modeld", "--backend", "fake")
    user.serve("intentd")
    gate, script = user.project / "gate", user.project / "ptw"
    os.mkfifo(gate)
    tests = " ".join((*PYTEST[:3], "-q", "-p", "no:cacheprovider"))
    script.write_text(f"#!/bin/sh\n{tests}\nread line < gate\n{tests}\nread line < gate\n")
    script.chmod(0o700)
    argv = [sys.executable, "-m", "intentd", "run", "--", "./ptw"]
    watch = subprocess.Popen(argv, cwd=user.project, env=user.environment, stdout=subprocess.PIPE)
    try:
        assert "test_calc.py::test_add" in user.until(warm)["offers"][0]["title"]
        (user.project / "calc.py").write_text("def add(a, b):\n    return  a + b\n")
        gate.write_bytes(b"\n")
        user.until(lambda status: not offered(status))
    finally:
        watch.terminate()
        watch.communicate(timeout=LIMIT_S)
    assert watch.returncode == -signal.SIGTERM


def test_ctrl_c_stops_the_answer_and_the_model(user: User) -> None:
    """S9"""
    user.serve("modeld", "--backend", "fake", "--fake", json.dumps({"step_ms": 50}))
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    user.until(warm)
    explain = subprocess.Popen(
        [sys.executable, "-m", "intentd", "explain"], cwd=user.project, env=user.environment, stdout=subprocess.PIPE
    )
    assert explain.stdout
    assert explain.stdout.read(1)
    explain.send_signal(signal.SIGINT)
    assert explain.wait(LIMIT_S) == 130
    explain.stdout.close()
    user.until(lambda status: status["state"] == "idle")


def test_modeld_may_come_later_and_come_back(user: User) -> None:
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    assert user.until(offered)["reason"] == "modeld does not answer"
    refused = user.do("explain")
    assert refused.returncode == 1
    assert refused.stderr.endswith("start it with 'modeld serve'\n")
    first = user.serve("modeld", "--backend", "fake")
    user.until(warm)
    first.terminate()
    assert first.wait(LIMIT_S) == 0
    user.until(lambda status: not status["modeld_reachable"])
    user.serve("modeld", "--backend", "fake")
    user.until(warm)
    assert user.do("explain", check=True).stdout


def test_an_intentd_that_is_killed_in_a_guess_is_followed_by_one_that_finds_modeld(user: User) -> None:
    """Nothing of the dead one is in the way: its guess ends, its socket can be served."""
    user.serve("modeld", "--backend", "fake", "--fake", json.dumps({"token_ms": 10}))
    first = user.serve("intentd")
    user.do("run", "--", *PYTEST)
    user.until(lambda status: status["figures"].get("guess_done", 0) > 0 or warm(status))
    first.kill()
    first.wait(LIMIT_S)
    user.serve("intentd")
    user.do("run", "--", *PYTEST)
    user.until(warm)
    assert user.do("explain", check=True).stdout


def test_a_directory_that_others_can_enter_is_refused(user: User) -> None:
    runtime = Path(user.environment["GUESSAHEAD_RUNTIME_DIR"])
    runtime.mkdir(exist_ok=True)
    runtime.chmod(0o755)
    refused = user.do("serve")
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"run chmod 700 {runtime}\n")


def test_a_daemon_that_dies_or_hangs_does_not_reach_the_command(user: User) -> None:
    """I1"""
    daemon = user.serve("intentd")
    daemon.send_signal(signal.SIGSTOP)
    try:
        ran = user.do("run", "--", "/bin/sh", "-c", "echo out; exit 5")
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "out\n", "")
    command = f"kill -9 {daemon.pid}; echo on; exit 6"
    ran = user.do("run", "--", "/bin/sh", "-c", command)
    assert (ran.returncode, ran.stdout, ran.stderr) == (6, "on\n", "")
    ran = user.do("run", "--", "/bin/sh", "-c", "echo alone; exit 7")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "alone\n", "")


def test_a_second_daemon_is_refused(user: User) -> None:
    daemon = user.serve("intentd")
    second = user.do("serve")
    assert second.returncode == 1
    assert f"is already served by pid {daemon.pid}" in second.stderr
    daemon.terminate()
    assert daemon.wait(LIMIT_S) == 0
