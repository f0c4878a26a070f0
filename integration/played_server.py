"""Owns the language server that a test plays itself, over a Unix socket: what the editor says, and what it is told."""

import json
import socket
from pathlib import Path
from typing import Any

from integration.neovim import LIMIT_S

SERVER = {
    "positionEncoding": "utf-16",
    "textDocumentSync": {"openClose": True, "change": 2},
    "inlineCompletionProvider": {},
    "executeCommandProvider": {"commands": ["intent.explain", "intent.fix", "intent.action", "intent.stop"]},
}


class Server:
    """The test's end of the language server's connection. It answers nothing that the test does not answer."""

    def __init__(self, address: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(address))
        self._listening.listen(1)
        self._listening.settimeout(LIMIT_S)
        self._stream: Any = None
        self._socket: socket.socket | None = None

    def accept(self) -> dict[str, Any]:
        """Takes the connection through its handshake. What the editor said of itself."""
        self._socket, _ = self._listening.accept()
        self._socket.settimeout(LIMIT_S)
        self._stream = self._socket.makefile("rb")
        hello = self.expect("initialize")
        self.answer(hello, {"capabilities": SERVER})
        self.expect("initialized")
        params: dict[str, Any] = hello["params"]
        return params

    def read(self) -> dict[str, Any]:
        length = 0
        while line := self._stream.readline().strip():
            length = int(line.split()[-1])
        message: dict[str, Any] = json.loads(self._stream.read(length))
        return message

    def expect(self, method: str) -> dict[str, Any]:
        """The next message with this method; those before it are dropped."""
        while (message := self.read()).get("method") != method:
            pass
        return message

    def expect_params(self, method: str) -> Any:
        return self.expect(method)["params"]

    def expect_command(self, name: str) -> tuple[dict[str, Any], Any]:
        message = self.expect("workspace/executeCommand")
        assert message["params"]["command"] == name
        (argument,) = message["params"]["arguments"]
        return message, argument

    def send(self, **fields: object) -> None:
        assert self._socket
        body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def answer(self, request: dict[str, Any], result: object) -> None:
        self.send(id=request["id"], result=result)

    def heard(self) -> None:
        """Returns when the editor has done what all messages before lead to: it answers what comes after them."""
        self.send(id="heard", method="workspace/configuration", params={"items": []})
        while self.read().get("id") != "heard":
            pass

    def tell(self, **said: object) -> None:
        self.send(method="intent/answer", params=said)

    def asked_for(self, *, character: int, line: int = 0) -> dict[str, Any]:
        """The editor's next request for a completion at the given position; nothing comes for those before."""
        at = {"line": line, "character": character}
        while (request := self.expect("textDocument/inlineCompletion"))["params"]["position"] != at:
            self.answer(request, None)
        return request

    def offer(self, request: dict[str, Any], text: str, *, start: int | None = None) -> None:
        at = request["params"]["position"]
        begin = at if start is None else {**at, "character": start}
        self.answer(request, {"items": [{"insertText": text, "range": {"start": begin, "end": at}}]})

    def complete(self, text: str, *, character: int, line: int = 0, start: int | None = None) -> None:
        """Answers the editor's next request for the given position."""
        self.offer(self.asked_for(character=character, line=line), text, start=start)

    def close(self) -> None:
        for end in (self._stream, self._socket, self._listening):
            if end:
                end.close()
