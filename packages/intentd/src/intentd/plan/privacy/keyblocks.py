"""Owns private keys in their armour: PEM, OpenSSH, PGP and PuTTY blocks, whole, cut off, or without their first line.

A block is found through what a diff, a quotation, a literal or a terminal puts between its lines.
"""

import re
from collections.abc import Iterator

from intentd.plan.privacy.views import Span

MAX_BLOCK = 20_000

_BEGIN = re.compile(r"(?:-{3,5} ?)?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?(?:-{2,5})?|PuTTY-User-Key-File-\d")
_END = re.compile(r"(?:-{3,5} ?)?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?(?:-{2,5})?|Private-MAC: ?[0-9a-f]+")
_BREAK = r"(?:\\[nr]|[\s+\->|│\"'`,;\\)(])"
_ARMOUR = rf"(?:{_BREAK}{{0,80}}+[A-Za-z0-9+/=]{{1,400}}+)"
# After a begin: headers of old PEM files and PuTTY, then lines of base64, each at least a few characters.
_BODY = re.compile(
    rf"(?:{_BREAK}{{0,80}}+(?:Proc-Type|DEK-Info|Version|Comment|Encryption|Public-Lines|Private-Lines|Key-Derivation"
    rf"|Argon2-\w+|Hash)[ :][^\n]{{0,200}})*+(?:{_BREAK}{{0,80}}+[A-Za-z0-9+/=]{{16,400}}+)*+{_ARMOUR}?+"
)
_TAIL = re.compile(rf"(?:[A-Za-z0-9+/=]{{16,400}}+{_BREAK}{{1,80}}+)+(?:[A-Za-z0-9+/=]{{1,400}}+{_BREAK}{{0,80}}+)?$")
# Lines as PEM (64) and OpenSSH (70) break them, at least three in a row, wherever they were cut out.
_LINES = re.compile(r"(?:^[ \t]*[+\->|│ ]?[ \t]*(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})[ \t]*(?:\n|$)){3,}", re.MULTILINE)
_DER = re.compile(
    r"(?:MIIE[opq][A-Za-z0-9+/]IB|MIIEv[A-Za-z0-9+/]IBADAN|MII[JK][A-Za-z0-9+/]{2}IB|MIIC[WX][A-Za-z0-9+/]IBAAKB"
    r"|MHcCAQEE|MIG[HT]AgEA|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/=]{16,}(?:\s{1,40}[A-Za-z0-9+/=]{16,})*"
)
_PUBLIC = re.compile(r"BEGIN (?:[A-Z0-9]+ ){0,3}(?:CERTIFICATE|PUBLIC KEY|CERTIFICATE REQUEST|MESSAGE|SIGNATURE)")
_HEX = re.compile(r"[0-9a-f\s]*|[0-9A-F\s]*")


def key_blocks(text: str) -> Iterator[Span]:
    """Where private keys are in a plain text."""
    if "PRIVATE KEY" in text or "PuTTY-User" in text or "Private-MAC" in text:
        yield from _armoured(text)
    for hit in _DER.finditer(text):
        yield Span(*hit.span())
    for hit in _LINES.finditer(text):
        if not _HEX.fullmatch(hit[0]) and not _is_public(text, hit.start()):
            yield Span(hit.start(), hit.start() + len(hit[0].rstrip("\n")))


def _armoured(text: str) -> Iterator[Span]:
    for begin in _BEGIN.finditer(text):
        end = _END.search(text, begin.end(), begin.end() + MAX_BLOCK)
        another = _BEGIN.search(text, begin.end())
        if end and not (another and another.start() < end.start()):
            done = end.end()
        else:
            body = _BODY.match(text, begin.end())
            done = body.end() if body else begin.end()
        if begin[0].startswith("-") or done > begin.end() + 16:  # Otherwise the words are only spoken of.
            yield Span(begin.start(), done)
    for end in _END.finditer(text):
        if not end[0].startswith(("-", "P")):
            continue
        before = text[max(0, end.start() - MAX_BLOCK) : end.start()]
        tail = _TAIL.search(before)
        yield Span(end.start() - len(tail[0]) if tail else end.start(), end.end())


def _is_public(text: str, start: int) -> bool:
    """Whether the lines at `start` stand in a certificate or a public key."""
    before = text[max(0, start - MAX_BLOCK) : start]
    public = None
    for public in _PUBLIC.finditer(before):
        pass
    return public is not None and "END " not in before[public.end() :]
