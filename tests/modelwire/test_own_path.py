"""Where our processes find their modules."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHADOWED = ("argparse", "asyncio", "fcntl", "resource", "select", "signal", "socket", "termios", "zmq")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of modules that have the names of those that we import."""
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the project')")
    (tmp_path / "only_there.py").touch()
    return tmp_path


def environment(project: Path) -> dict[str, str]:
    ours = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *filter(None, [ours])])}


@pytest.mark.parametrize("command", ["intentd", "modeld"])
@pytest.mark.parametrize("how", ["PYTHONPATH", "folder"])
def test_modules_of_the_users_project_are_none_of_ours(project: Path, command: str, how: str) -> None:
    env = environment(project) if how == "PYTHONPATH" else None
    words = [sys.executable, "-m", command, "status", "--help"]
    ended = subprocess.run(words, env=env, cwd=project, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("usage: ")


def test_what_only_the_users_folders_have_is_found_also_by_our_own_processes(project: Path) -> None:
    """We may be installed in one folder and what we need in another."""
    child = "import json, sys, only_there, select, zmq; print(json.dumps(sys.path))"
    program = f"""
from modelwire import own_path
own_path.settle()
import json, only_there, os, subprocess, sys, zmq
there = subprocess.check_output(
    [sys.executable, "-P", "-c", {child!r}], env={{**os.environ, **own_path.inherited()}}, timeout=60
)
print(json.dumps([sys.path, json.loads(there)]))
"""
    words = [sys.executable, "-P", "-c", program]
    ended = subprocess.run(words, env=environment(project), capture_output=True, text=True, timeout=60, check=True)
    here, there = json.loads(ended.stdout)
    assert here == there
