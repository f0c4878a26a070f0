"""The tail of the output is bounded, and a forked reader sees it."""

import os

from hypothesis import given
from hypothesis import strategies as st

from intentd.sources.tail import Tail


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_it_holds_the_last_bytes(chunks: list[bytes]) -> None:
    tail = Tail(limit=16)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert tail.total == len(whole)
    assert tail.read(tail.total) == whole[-16:]


def test_a_process_that_was_forked_before_sees_what_came_later() -> None:
    tail = Tail(limit=4096)
    go, read = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.read(go[0], 1)
            os.write(read[1], tail.read(tail.total))
        finally:
            os._exit(0)
    tail.add(b"hello world")
    os.write(go[1], b"g")
    assert os.read(read[0], 100) == b"hello world"
    os.waitpid(pid, 0)
    for fd in (*go, *read):
        os.close(fd)
