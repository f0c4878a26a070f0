"""Owns the ways in which an editor sees an answer as it comes: our own notification, work-done progress, or not."""

import asyncio
from typing import Any

from lsprotocol import types
from pygls.progress import Progress
from pygls.protocol import LanguageServerProtocol

from intentd.sources.lsp.notes import ANSWER

MOST = 4000
"""Characters of an answer that a progress message shows."""


class Silent:
    """The result is all that it sees."""

    def begin(self, answer: str, title: str) -> None:
        pass

    def text(self, answer: str, text: str) -> None:
        pass

    def end(self, answer: str, reason: str) -> None:
        pass


class Stream:
    """For an editor that said that it takes `intent/answer`."""

    def __init__(self, protocol: LanguageServerProtocol, uri: str | None) -> None:
        self._protocol = protocol
        self._uri = uri

    def begin(self, answer: str, title: str) -> None:
        self._say(answer, kind="begin", title=title, **({"uri": self._uri} if self._uri else {}))

    def text(self, answer: str, text: str) -> None:
        self._say(answer, kind="text", text=text)

    def end(self, answer: str, reason: str) -> None:
        self._say(answer, kind="end", reason=reason)

    def _say(self, answer: str, **what: Any) -> None:
        self._protocol.notify(ANSWER, {"answer": answer, **what})


class WorkDone:
    """For an editor that gave a token for its command. Its cancel button cancels `task`, which serves the command."""

    def __init__(self, progress: Progress, token: Any, task: "asyncio.Task[Any]") -> None:
        self._progress = progress
        self._token = token
        self._task = task
        self._text = ""

    def begin(self, answer: str, title: str) -> None:
        self._progress.begin(self._token, types.WorkDoneProgressBegin(title=title, cancellable=True))
        self._progress.tokens[self._token].add_done_callback(self._cancelled)

    def text(self, answer: str, text: str) -> None:
        self._text = (self._text + text)[-MOST:]
        self._progress.report(self._token, types.WorkDoneProgressReport(message=self._text, cancellable=True))

    def end(self, answer: str, reason: str) -> None:
        self._progress.end(self._token, types.WorkDoneProgressEnd(message=reason))
        self._progress.tokens.pop(self._token, None)

    def _cancelled(self, future: Any) -> None:
        if future.cancelled():
            self._task.cancel()
