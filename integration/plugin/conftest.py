"""A real Neovim with the plugin, its server played by the test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.neovim import Neovim, lua_string, person_environment
from integration.played_server import Server

TEXT = "héllo = 1\nworld = 2\n"


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nvim-") as name:  # a socket's path must be short
        yield Path(name)


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    server = Server(home / "lsp")
    yield server
    server.close()


@pytest.fixture
def editor(kind: str, home: Path, server: Server) -> Iterator[Neovim]:
    """With a file open, and its language server there."""
    project = home / "project"
    project.mkdir()
    (project / "pytest.ini").touch()
    (project / "a.py").write_text(TEXT)
    lua = f"vim.lsp.config('intentd', {{ cmd = vim.lsp.rpc.connect({lua_string(str(home / 'lsp'))}) }})"
    editor = Neovim(kind, home, person_environment(), lua)
    try:
        editor.command(f"edit {project}/a.py")
        server.accept()
        yield editor
        assert editor.messages() == ""
    finally:
        editor.close()
