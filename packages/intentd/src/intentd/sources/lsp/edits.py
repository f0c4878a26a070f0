"""Owns the edit of a fix: only for the text that was asked about, only as long as it is that text. It asks nobody."""

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen
from lsprotocol import types

from intentd.plan.mending import Mending, mend
from intentd.sources.lsp.answers import Answer
from intentd.sources.lsp.buffers import Buffer
from modelwire.messages import Reason

if TYPE_CHECKING:
    from intentd.sources.lsp.server import IntentServer

MOVED_ON = "the file has changed since the fix was asked for: ask again"
NO_CODE = "the answer holds no code that could replace what was asked about"
NOT_TAKEN = "the editor did not take the fix: ask again"
NOT_WHOLE = "the model does not see this part as it is, so nothing is changed"


@frozen
class Fix:
    """What was asked about: a buffer at its `version`."""

    buffer: Buffer
    version: int

    def edit(self, answer: Answer, current: Buffer | None) -> tuple[types.WorkspaceEdit | None, str]:
        """The edit, or why there is none."""
        if current is not self.buffer or current.document.version != self.version:
            return None, MOVED_ON
        if answer.focus is None or not answer.focus.whole:
            return None, NOT_WHOLE
        now = current.document.lines(answer.focus.first, answer.focus.last)
        mending = mend(answer.text, answer.focus.first, now)
        return (None, NO_CODE) if mending is None else (self._as_edit(mending), "")

    def _as_edit(self, mending: Mending) -> types.WorkspaceEdit:
        document = self.buffer.document
        text = "".join(line + document.ending for line in mending.lines)
        start, end = document.place(mending.first, 0), document.place(mending.last, 0)
        if mending.last >= document.count:  # the last line has no ending: it must not get one
            end = document.end
            text = text.removesuffix(document.ending)
            if mending.first >= document.count:
                start, text = end, document.ending + text
        span = types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column))
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=self.buffer.uri, version=self.version)
        change = types.TextDocumentEdit(text_document=identifier, edits=[types.TextEdit(range=span, new_text=text)])
        return types.WorkspaceEdit(document_changes=[change])


def bring(server: "IntentServer", fix: Fix, answer: Answer) -> types.WorkspaceEdit | None:
    """The edit, which is also brought to the editor; else the person is told why. Who has stopped it knows."""
    if answer.reason == Reason.CANCELLED:
        return None
    edit, words = fix.edit(answer, server.buffers.get(fix.buffer.uri))
    if edit is None:
        server.window_show_message(types.ShowMessageParams(type=types.MessageType.Warning, message=words))
    else:
        _apply(server, edit)
    return edit


def _apply(server: "IntentServer", edit: types.WorkspaceEdit) -> None:
    """To an editor that takes edits. What is typed meanwhile makes it refuse, and some say nothing then."""
    workspace = server.client_capabilities.workspace
    if workspace is not None and workspace.apply_edit:
        sent = server.workspace_apply_edit(types.ApplyWorkspaceEditParams(edit=edit, label="intentd: fix"))
        sent.add_done_callback(partial(_answered, server))


def _answered(server: "IntentServer", sent: "Future[types.ApplyWorkspaceEditResult]") -> None:
    if not sent.cancelled() and (sent.exception() or not sent.result().applied):
        server.window_show_message(types.ShowMessageParams(type=types.MessageType.Warning, message=NOT_TAKEN))
