"""Owns private keys in their armour: PEM, OpenSSH, PGP and PuTTY blocks, whole, cut off, or without their first line.

A block is found through what a diff, a quotation, a literal or a terminal puts between its lines.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import zip_longest

from intentd.plan.privacy.views import Span, View

MAX_BLOCK = 20_000

_NAME = r"\s{1,3}(?:[A-Z0-9]+\s{1,3}){0,4}PRIVATE\s{1,3}KEY(?:\s{1,3}BLOCK)?(?:-{2,5})?"
_BEGIN = re.compile(rf"(?:-{{3,5}} ?)?BEGIN{_NAME}|PuTTY-User-Key-File-\d")
_END = re.compile(rf"-{{3,5}} ?END{_NAME}|Private-MAC: ?[0-9a-f]+")
_BREAK = r"(?:\\[nr]|[\s+\->|│\"'`,;\\)(])"
# A line of base64; a terminal may have cut it, so that short rests lie between two of them.
_LINE = rf"(?:{_BREAK}{{0,80}}+(?:[A-Za-z0-9+/=]{{1,15}}+{_BREAK}{{1,80}}+){{0,3}}[A-Za-z0-9+/=]{{16,400}}+)"
# The last line of a key is of any length; a word is none.
_LAST = rf"(?:{_BREAK}{{0,80}}+(?![A-Z]?[a-z]+\b)[A-Za-z0-9+/=]{{1,400}}+)"
# After a begin: headers of old PEM files and PuTTY, then lines of base64, each at least a few characters.
_BODY = re.compile(
    rf"(?:{_BREAK}{{0,80}}+(?:Proc-Type|DEK-Info|Version|Comment|Encryption|Public-Lines|Private-Lines|Key-Derivation"
    rf"|Argon2-\w+|Hash)[ :][^\n]{{0,200}})*+{_LINE}*+{_LAST}?+"
)
_RUN = re.compile(r"[A-Za-z0-9+/=]+")
_BREAKS = re.compile(rf"{_BREAK}{{0,80}}+")
# Lines as PEM (64) and OpenSSH (70) break them, at least three in a row, wherever they were cut out.
_LINES = re.compile(
    r"(?:^[ \t]*+[+\->|│]?[ \t]*+(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})[ \t]*+(?:\n|$)){3,}", re.MULTILINE
)
_DER = re.compile(
    r"(?:MIIE[opq][A-Za-z0-9+/]IB|MIIEv[A-Za-z0-9+/]IBADAN|MII[JK][A-Za-z0-9+/]{2}IB|MIIC[WX][A-Za-z0-9+/]IBAAKB"
    r"|MHcCAQEE|MIG[HT]AgEA|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/=]{16,}(?:\s{1,40}[A-Za-z0-9+/=]{16,})*"
)
_PUBLIC = re.compile(r"BEGIN (?:[A-Z0-9]+ ){0,3}(?:CERTIFICATE|PUBLIC KEY|CERTIFICATE REQUEST|MESSAGE|SIGNATURE)")
_HEX = re.compile(r"[0-9a-f\s]*|[0-9A-F\s]*")


def key_blocks(text: str, views: list[View]) -> Iterator[Span]:
    """Where private keys are in a plain text; in its `views` a first or last line that was cut in two is whole."""
    begins = sorted(_frames(_BEGIN, text, views))
    ends = sorted(_frames(_END, text, views))
    yield from _from_begins(text, begins, ends)
    done = 0
    for end in ends:
        yield Span(_tail(text, max(done, end.start - MAX_BLOCK), end.start), end.end)
        done = end.end
    for hit in _DER.finditer(text):
        yield Span(*hit.span())
    for hit in _LINES.finditer(text):
        if not _HEX.fullmatch(hit[0]) and not _is_public(text, hit.start()):
            yield Span(hit.start(), hit.start() + len(hit[0].rstrip("\n")))


def _frames(pattern: re.Pattern[str], text: str, views: list[View]) -> Iterator[Span]:
    """The first or the last lines of blocks, those in views only where a gap was closed inside."""
    yield from (Span(*hit.span()) for hit in pattern.finditer(text))
    for view in views:
        for hit in pattern.finditer(view.text):
            if view.joins(*hit.span()):
                yield Span(view.at(hit.start()), view.at(hit.end() - 1) + 1)


def _from_begins(text: str, begins: list[Span], ends: list[Span]) -> Iterator[Span]:
    starts = [end.start for end in ends]
    for begin, after in zip_longest(begins, begins[1:]):
        at = bisect_left(starts, begin.end)
        behind = after.start if after else len(text)
        limit = min(behind, begin.end + MAX_BLOCK)
        body = _BODY.match(text, begin.end, behind)
        stop = body.end() if body else begin.end
        if at < len(ends) and starts[at] < limit:
            stop = ends[at].end
        if text[begin.start] == "-" or stop > begin.end + 16:  # Otherwise the words are only spoken of.
            yield Span(begin.start, stop)


def _tail(text: str, begin: int, end: int) -> int:
    """Where the base64 begins that leads to `end`: runs of at least 16 characters with single short ones between."""
    start = place = end
    short = False
    for run in reversed(list(_RUN.finditer(text, begin, end))):
        long = len(run[0]) >= 16
        if not _BREAKS.fullmatch(text, run.end(), place) or (short and not long):
            break
        short, place = not long, run.start()
        start = place if long or start == end else start
    return start


def _is_public(text: str, start: int) -> bool:
    """Whether the lines at `start` stand in a certificate or a public key."""
    before = text[max(0, start - MAX_BLOCK) : start]
    headers = list(_PUBLIC.finditer(before))
    return bool(headers) and "END " not in before[headers[-1].end() :]
