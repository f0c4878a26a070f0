"""Which drive a path is on, without a look at it."""

from pathlib import Path

import pytest

from intentd.sources import mounts
from intentd.sources.mounts import drive

TABLE = r"""22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw
23 22 0:22 / /proc rw - proc proc rw
24 22 8:3 / /data rw,relatime - ext4 /dev/sda3 rw
25 24 0:45 / /data/me/far\040away rw - fuse.sshfs me@there: rw
26 25 0:46 /x /data/me/far\040away/inner rw - nfs4 there:/x rw
28 22 0:48 / /tmp rw shared:3 - tmpfs tmpfs rw
27 22 0:47 / /net rw - autofs /etc/auto.net rw
"""


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/data/me/far away", "/data/me/far away"),
        ("/data/me/far away/one/two", "/data/me/far away"),
        ("/data/me/far away/inner/one", "/data/me/far away/inner"),
        ("/data/me/far away too/one", "/data/me/far away too/one"),
        ("/net/there/one", "/net"),
        ("/data/me/one", "/data/me/one"),
        ("/srv/one", "/srv/one"),
        ("/tmp/one", "/tmp/one"),
        ("", ""),
        ("no/path\udcff", "no/path\udcff"),
    ],
)
def test_folders_of_a_network_drive_are_one_place_and_those_of_a_disk_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, known: str
) -> None:
    """A folder of a disk may be a link: what hangs there must not keep the disk's others away."""
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    monkeypatch.setattr(mounts, "_TABLE", table)
    assert drive(path) == known


def test_where_there_is_no_table_each_path_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "none")
    assert drive("/net/there") == "/net/there"


def test_this_machine_s_own_table_can_be_read() -> None:
    assert drive("/proc/self/fd") == "/proc"
