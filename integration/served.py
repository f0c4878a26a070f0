"""Owns a `modeld serve` in a directory of its own, with all that it logs, for tests that do it harm."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from bench.load import LOST_S


def hit(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """A signal to an engine. While there is none its id is 0, which would be every process of this group."""
    assert pid > 1, "there is no engine"
    os.kill(pid, number)


class Daemon:
    """`modeld serve` in a directory of its own."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process) -> None:
        self.endpoint = f"ipc://{directory}/modeld.sock"
        self.process = process
        self.log = bytearray()
        self.reading: asyncio.Task[None]

    @classmethod
    async def start(cls, directory: Path, *arguments: str) -> "Daemon":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modeld", "serve", *arguments),
            env={**os.environ, "GUESSAHEAD_RUNTIME_DIR": str(directory), "XDG_CONFIG_HOME": str(directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr
        daemon = cls(directory, process)
        async with asyncio.timeout(LOST_S):
            while b"modeld: serving" not in (line := await process.stderr.readline()):
                assert line, daemon.log
                daemon.log += line
        daemon.reading = asyncio.create_task(daemon.read(process.stderr))
        return daemon

    async def read(self, stream: asyncio.StreamReader) -> None:
        """All the time: a daemon whose log nobody takes would wait for that."""
        while piece := await stream.read(65536):
            self.log += piece

    async def stop(self) -> bytes:
        """Everything that it logged."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(LOST_S):
            await self.reading
            await self.process.wait()
        return bytes(self.log)

    @property
    def rss_mb(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/status").read_text("ascii").split("VmRSS:")[1].split()
        return int(fields[0]) / 1024
