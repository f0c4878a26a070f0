"""The byte that two processes share."""

import ctypes
import errno
import os
from pathlib import Path

import pytest

from modeld.engine.stop_flag import SharedStopFlag
from tests.descriptors import descriptors


def test_what_the_front_sets_the_engine_sees_by_both_ways() -> None:
    front = SharedStopFlag.create()
    engine = SharedStopFlag(os.dup(front.descriptor))
    c_string = ctypes.cast(engine.address, ctypes.c_char_p)
    assert (engine.is_set(), c_string.value) == (False, b"")
    front.set()
    assert (engine.is_set(), c_string.value) == (True, b"\x01")
    front.clear()
    assert (engine.is_set(), c_string.value) == (False, b"")
    front.close()
    engine.close()


def test_it_needs_no_disk() -> None:
    """On a full one, on some file systems, the next write to a mapped file ends the process."""
    flag = SharedStopFlag.create()
    assert "memfd" in str(Path(f"/proc/self/fd/{flag.descriptor}").readlink())
    flag.close()


@pytest.mark.parametrize("machine", ["demands MFD_NOEXEC_SEAL", "does not know it"])
def test_it_is_memory_that_cannot_be_executed_where_the_kernel_can_tell(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`vm.memfd_noexec` is 2 on hardened machines; kernels before 6.3 refuse what they do not know."""
    create = os.memfd_create

    def strict(name: str, flags: int = os.MFD_CLOEXEC) -> int:
        sealed = bool(flags & 0x0008)
        if sealed is not machine.startswith("demands"):
            raise OSError(errno.EINVAL if sealed else errno.EACCES, "refused")
        return create(name, os.MFD_CLOEXEC)

    monkeypatch.setattr(os, "memfd_create", strict)
    flag = SharedStopFlag.create()
    flag.set()
    assert flag.is_set()
    assert not os.get_inheritable(flag.descriptor)
    flag.close()


def test_closing_leaves_no_descriptor() -> None:
    before = descriptors()
    flag = SharedStopFlag.create()
    flag.close()
    flag.close()
    assert descriptors() <= before
    with pytest.raises(ValueError, match="closed"):
        _ = flag.address
