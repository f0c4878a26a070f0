"""Owns the turn of an offer as its workspace is now: built in a worker thread, kept while what it read stays the same.

It decides nothing. What it reads comes through `texts`, so what it gives is fit to be sent (I3).
"""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from attrs import evolve, frozen

from intentd.messages import Complete
from intentd.plan.events import Changed
from intentd.plan.inline import Completion, build_inline
from intentd.plan.offers import Intent, Offering
from intentd.plan.privacy import scrub
from intentd.plan.templates import Template, TemplateError
from intentd.plan.triggers import Failure
from intentd.plan.turns import Before, Outdated, Passing, PlannedTurn, TurnError, anchor, build
from intentd.plan.view_turns import build_view, seen_whole
from intentd.shelf import TemplateShelf
from intentd.shown import View
from intentd.sources.git import Unanswered, content
from intentd.texts import Look, Texts, holds
from intentd.workers import NoThread, TookTooLong, Workers
from intentd.workspace import Signature, is_gone
from modelwire.logs import told

log = logging.getLogger(__name__)

Built = TypeVar("Built")

MAX_KEPT = 64
MAX_MEASURED = 512
LEAST_SCALE = 0.1
"""No text has fewer characters a token: what does not fit with less will never fit."""
BUILD_S = 10.0
"""So long a turn may take to build: hostile files are slow to scrub."""
BUILD_AGAIN_S = 60.0
"""So long after it took longer a guess has it built again, though its files are as they were."""
HOLDS_S = 2.0
"""So long a question waits for a look at whether its files are as they were."""


class _TooLong(Passing):
    """Is kept for guesses alone, and for a while: who asks has it tried again. What hangs tells no hostile text from a
    drive that will be back.
    """

    def __init__(self) -> None:
        super().__init__("its files take too long to read, or to look through for secrets")
        self._until = time.monotonic() + BUILD_AGAIN_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until


@frozen
class _Kept:
    template: Template
    result: PlannedTurn | TurnError
    seen: Mapping[str, Signature]


class Planner:
    """Turns for the guess and for the question, from one place (S10)."""

    def __init__(self, templates: TemplateShelf) -> None:
        self._templates = templates
        self._texts = Texts()
        self._kept: OrderedDict[tuple[str, tuple[Changed, ...] | None, Intent, int, float], _Kept] = OrderedDict()
        self._scales: OrderedDict[str, float] = OrderedDict()
        self._workers = Workers(2, BUILD_S)
        self._guess_workers = Workers(2, BUILD_S)
        self._lookers = Workers(8, HOLDS_S)
        self._guess_lookers = Workers(8, BUILD_S)

    async def turn(self, offering: Offering, intent: Intent, context: int, *, speculative: bool = False) -> PlannedTurn:
        """Raises `TurnError`, `Outdated`. Costs next to nothing where no file has changed since the last time.

        What is not `speculative` waits for nothing that is.
        """
        scale = self._scales.get(measured_as(offering), 1.0)
        key = offering.id, offering.changed, intent, context, scale
        try:
            template = self._templates.get(template_name(offering, intent))
        except TemplateError as fault:
            raise TurnError(str(fault)) from None
        except Exception as fault:
            log.error("a template could not be read:\n%s", told(fault))
            raise TurnError("intentd failed at reading its template; its log says where") from None
        kept = self._kept.get(key)
        if (
            kept is None
            or isinstance(kept.result, Outdated)
            or (isinstance(kept.result, _TooLong) and (kept.result.is_over or not speculative))
            or kept.template is not template
            or not await self._holds(kept, offering.workspace, speculative)
        ):
            kept = await self._built(offering, template, context, scale, speculative)
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        if isinstance(kept.result, TurnError):
            raise kept.result.with_traceback(None)  # else each raising would add to it
        return kept.result

    def measured(self, name: str, turn: PlannedTurn, tokens: int) -> bool:
        """Takes in how many tokens a turn of `name` has (`measured_as`, or a completion's document); whether they were
        too many.

        Then it is shorter from now on, guessed and asked alike (S10).
        """
        scale = self._scales.get(name, 1.0)
        if tokens <= turn.limit or (denser := turn.denser(tokens, scale)) < LEAST_SCALE:
            return False
        self._scales[name] = denser
        while len(self._scales) > MAX_MEASURED:
            self._scales.popitem(last=False)
        return True

    def forget_measures(self) -> None:
        """Another model has other tokens."""
        self._scales.clear()

    async def completion(self, message: Complete, gap: Sequence[str], context: int) -> Completion:
        """The turn at a place. Raises `TurnError`."""
        workers = self._guess_workers if message.ahead else self._workers
        place = message.view.workspace if message.ahead else message.view.path
        return await self._in_time(workers, lambda: self._complete(message, gap, context), place)

    def _complete(self, message: Complete, gap: Sequence[str], context: int) -> Completion:
        look = self._texts.look(message.view.workspace)
        if look.workspace.opted_out():
            raise TurnError(f"{message.view.workspace} has opted out")
        fit = _fit(message.view, look)
        scale = self._scales.get(message.view.path, 1.0)
        return build_inline(message.view, fit, message.line, message.character, gap=gap, context=context, scale=scale)

    def files_of(self, offerings: Iterable[Offering]) -> frozenset[str]:
        """The files that the offers' turns depend on, as far as they were built."""
        ids = {offering.id for offering in offerings}
        kept = [one for (id, *_), one in self._kept.items() if id in ids]
        return frozenset(path for one in kept for path in one.seen) | self._templates.files

    async def _holds(self, kept: _Kept, workspace: str, speculative: bool) -> bool:
        """Not in the event loop: on a file system whose server has gone a look at a file may never end.

        Where it has no end in time nothing is kept of that: when the drive is back what was built holds still.
        """
        workers = self._guess_lookers if speculative else self._lookers
        return await self._in_time(workers, lambda: holds(kept.seen), workspace)

    async def _built(
        self, offering: Offering, template: Template, context: int, scale: float, speculative: bool
    ) -> _Kept:
        look = self._texts.look(offering.workspace)
        try:
            workers = self._guess_workers if speculative else self._workers
            build = partial(self._build, offering, template, context, scale, look)
            return await self._in_time(workers, build, offering.workspace if speculative else offering.id)
        except _TooLong as fault:
            if not look.seen:  # that is no hostile text's doing
                raise
            return _Kept(template, fault, dict(look.seen))  # its thread may still look

    @staticmethod
    async def _in_time(workers: Workers, work: Callable[[], Built], place: str) -> Built:
        """A guess that hangs keeps other guesses of its workspace off; a question those about the same alone."""
        try:
            return await workers.do(work, place=place)
        except TookTooLong:
            raise _TooLong from None
        except NoThread:
            raise Passing("intentd can start no more threads: try again later") from None

    def _build(self, offering: Offering, template: Template, context: int, scale: float, look: Look) -> _Kept:
        result: PlannedTurn | TurnError
        try:
            for file in look.workspace.opt_outs():
                look.note(str(file))
            if look.workspace.opted_out():
                raise TurnError(f"{offering.workspace} has opted out")
            result = self._result(offering, template, context, scale, look)
        except TurnError as fault:
            result = fault
        except Exception as fault:
            log.error("a prompt could not be made:\n%s", told(fault))
            result = TurnError("intentd failed at making its prompt; its log says where")
        return _Kept(template, result, look.seen)

    def _result(self, offering: Offering, template: Template, context: int, scale: float, look: Look) -> PlannedTurn:
        """Raises `TurnError`."""
        if offering.view is not None:
            fit = _fit(offering.view, look)
            return seen_whole(build_view(fit, template, context=context, scale=scale), offering.view, fit)
        self._check(offering, look)
        return build(
            offering.failure,
            template,
            workspace=offering.workspace,
            context=context,
            scale=scale,
            read=look.read,
            before=self._befores(offering, look),
            hides=partial(look.hides, offering.command.cwd),
        )

    def _befores(self, offering: Offering, look: Look) -> dict[str, Before] | None:
        if offering.changed is None:
            return None
        return {one.path: partial(self._before, look, one) for one in offering.changed}

    def _before(self, look: Look, changed: Changed) -> str | None:
        """What a file held at the last commit, scrubbed whole (I3); None where that cannot be shown, or git is mute."""
        try:
            data = content(str(look.workspace.root), changed.blob)
        except Unanswered:
            look.unsettle()
            return None
        return None if data is None or b"\0" in data else self._texts.fit(data)

    def anchors(self, workspace: str, failures: Sequence[Failure]) -> dict[Failure, str | None]:
        """What ties each to its file as that is now. For a worker thread."""
        look = self._texts.look(workspace)
        return {failure: anchor(failure, look.read_to_compare) for failure in failures}

    def outdated(self, offerings: Sequence[Offering]) -> list[Offering]:
        """Those that have left their files. For a worker thread."""
        return list(filter(self._is_outdated, offerings))

    def _is_outdated(self, offering: Offering) -> bool:
        try:
            self._check(offering, self._texts.look(offering.workspace))
        except TurnError as fault:
            return isinstance(fault, Outdated)
        return False

    @staticmethod
    def _check(offering: Offering, look: Look) -> None:
        """Raises `Outdated` where what was there when it was found is gone."""
        path, known = offering.failure.path, offering.anchor
        if known is None:
            return
        text = look.read_to_compare(path)
        if text is None and look.seen[path] is not None:  # it may not be shown any more
            return
        if text is not None and (not text or known in text):  # an editor may empty a file before it writes it
            return
        if not look.is_settled(path):
            raise Passing("the file that failed is being written")
        if text is None and not is_gone(path):
            raise Passing("the file that failed cannot be reached")
        raise Outdated("what failed is no longer in its file" if text else "the file that failed is gone")


def _fit(view: View, look: Look) -> View:
    """The view as it may stand in a prompt (I3). Raises `TurnError` for a file that may not be shown."""
    text = look.shown(view.path, view.text)
    if text is None:
        raise TurnError(f"{view.path} may not be shown to the model")
    if view.diagnostics:
        (one,) = view.diagnostics
        view = evolve(view, diagnostics=(evolve(one, message=scrub(one.message).text),))
    return evolve(view, text=text)


def measured_as(offering: Offering) -> str:
    """What its prompts' lengths are remembered by.

    What an editor shows is another offering with every edit; the line that it is about mostly stays. One dense place of
    a document says nothing of its others.
    """
    view = offering.view
    if view is None:
        return offering.id
    line = view.diagnostics[0].line if view.diagnostics else view.selection[0]
    return hashlib.sha256(repr((view.path, view.part(line, line + 1))).encode(errors="replace")).hexdigest()


def template_name(offering: Offering, intent: Intent) -> str:
    if offering.failure.trigger == "selection":
        return f"selection_{intent}"
    if intent == "fix":
        return "fix_in_place" if offering.view else "fix"
    return offering.failure.trigger
