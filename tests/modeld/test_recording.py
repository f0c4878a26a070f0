"""The file of events: bounded, owner-only, without text, and enough to replay what happened."""

import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from modeld.recording import Recorder, RecordFault, read, write_segment
from modeld.schedule import ScheduleLimits
from modeld.schedule.board import Board
from modeld.schedule.journal import Entry, Segment, replay
from modeld.schedule.messages import EngineReady, Kind, Op, OpKey, Submitted
from modelwire.messages import Load
from tests.modeld.house import House, turn

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))


def busy(house: House, count: int) -> None:
    for number in range(count):
        house.submit(f"{number}", turn("a secret prompt", f"{number}", lane="/secret/file.py"))
        house.submit(f"g{number}", turn("a secret guess", speculative=True))
        house.run("a secret answer")
        house.driver.cancel("ann", "c", f"g{number}", house.now)
        house.say(house.engine.end())


def recorded(path: Path, count: int, **limits: Any) -> House:
    recorder = Recorder(path, ScheduleLimits(), **limits)
    house = House(also=recorder.add)
    house.say(house.engine.ready())
    busy(house, count)
    recorder.close()
    return house


def taken_up(recorder: Recorder) -> None:
    """Waits until the thread has written what it was given, but for the last item."""
    with recorder._items.not_full:
        until = time.monotonic() + 10
        while recorder._items.queue:
            assert time.monotonic() < until
            recorder._items.not_full.wait(1)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_was_recorded_in_the_field_gives_the_same_commands(path: Path) -> None:
    assert RECORDED
    for segment in read(path):
        assert segment.entries
        assert replay(segment) is None


def test_a_recorded_daemon_can_be_replayed(tmp_path: Path) -> None:
    house = recorded(tmp_path / "events", 3)
    [segment] = read(tmp_path / "events")
    assert segment.entries == house.driver.journal.last().entries
    assert replay(segment) is None


def test_a_record_has_no_text_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.touch(0o644)
    recorded(path, 2)
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_record_is_bounded_and_each_of_its_files_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "events"
    recorder = Recorder(path, ScheduleLimits(), max_bytes=4000)
    house = House(also=recorder.add)
    house.say(house.engine.ready())
    for _ in range(40):
        busy(house, 1)
        taken_up(recorder)
    recorder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "events.1"]
    for name in ("events", "events.1"):
        assert (tmp_path / name).stat().st_size < 10_000
        assert all(replay(segment) is None for segment in read(tmp_path / name))


def test_a_second_daemon_appends_a_segment_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        recorded(tmp_path / "events", 1)
    assert [replay(segment) for segment in read(tmp_path / "events")] == [None, None]


def test_a_disk_that_is_stuck_holds_up_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modeld.recording._WAITING", 1)
    monkeypatch.setattr("modeld.recording._CLOSE_S", 0.01)
    free = threading.Event()
    monkeypatch.setattr(Recorder, "_write_all", lambda _: free.wait(10))
    recorder = Recorder(tmp_path / "events", ScheduleLimits())
    recorder.close()
    free.set()
    recorder._thread.join(10)
    os.close(recorder._file)


def test_a_gap_is_followed_by_a_segment_that_can_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modeld.recording._WAITING", 4)
    monkeypatch.setattr(Recorder, "_write_all", lambda recorder: os.close(recorder._file))
    recorder = Recorder(tmp_path / "events", ScheduleLimits())
    house = House(also=recorder.add)
    house.say(house.engine.ready())
    busy(house, 3)
    kept = [recorder._items.get_nowait() for _ in range(4)]
    house.submit("1", turn("abc"))
    house.run()
    kept += [recorder._items.get_nowait() for _ in range(recorder._items.qsize())]
    segments = write_and_read(tmp_path / "whole", kept)
    assert len(segments) == 2
    assert all(replay(segment) is None for segment in segments)


def write_and_read(path: Path, items: list[Any]) -> list[Any]:
    from modeld.recording import line_of

    path.write_text("".join(map(line_of, items)))
    return list(read(path))


def test_the_line_that_was_being_written_at_the_end_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "events"
    recorded(path, 1)
    whole = path.read_text()
    path.write_text(whole + '{"event":{"is":"tick"},"now":1.')
    [segment] = read(path)
    assert segment.entries[-1].event == next(read(path)).entries[-1].event
    assert replay(segment) is None


@pytest.mark.parametrize("lost", [1, 7])
def test_a_daemon_goes_on_behind_a_line_that_another_could_not_end(tmp_path: Path, lost: int) -> None:
    """The disk was full for a while."""
    path = tmp_path / "events"
    for _ in range(3):
        recorded(path, 1)
        os.truncate(path, path.stat().st_size - lost)
    assert [replay(segment) for segment in read(path)] == [None] * 3
    with path.open("a") as file:
        file.write("\n")
    assert [replay(segment) for segment in read(path)] == [None] * 3


def test_a_broken_line_within_a_segment_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events"
    recorded(path, 1)
    lines = path.read_text().splitlines(keepends=True)
    for broken in ([lines[0], "notes\n", *lines[1:]], [*lines, "notes\n", "more\n", lines[1]]):
        path.write_text("".join(broken))
        with pytest.raises(RecordFault, match="is no event"):
            list(read(path))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no record"),
        ("notes\n", "line 1"),
        ("[1]\n", "line 1"),
        ('{"limits":{},"board":{"colour":1}}\n', "line 1"),
        ('{"event":{"is":"tick"},"now":1.0,"commands":[]}\n', "does not begin"),
        (b"\xff\xfe\n", "cannot be read"),
    ],
)
def test_what_is_no_record_is_said(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = tmp_path / "events"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecordFault, match=says):
        list(read(path))
    with pytest.raises(RecordFault, match="cannot be read"):
        list(read(tmp_path / "missing"))


def test_the_longest_deadline_that_can_be_sent_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events"
    op = Op(key=OpKey("ann", "1"), kind=Kind.REAL, deadline=1e6 + (2**63 - 1) / 1000)
    write_segment(path, Segment(ScheduleLimits(), Board(), [Entry(Submitted(op), 1.0, ())]))
    [segment] = read(path)
    assert segment.entries[0].event == Submitted(op)


@pytest.mark.parametrize("now", ["NaN", "1e999", "-Infinity", '"1e999"', "1e300", "true"])
@pytest.mark.parametrize("name", ["now", "deadline"])
def test_a_time_that_no_clock_shows_is_no_event(tmp_path: Path, name: str, now: str) -> None:
    path = tmp_path / "events"
    op = Op(key=OpKey("ann", "1"), kind=Kind.REAL, deadline=3.0)
    ready = Entry(EngineReady(), 2.0, ())
    write_segment(path, Segment(ScheduleLimits(), Board(), [Entry(Submitted(op), 1.0, ()), ready]))
    [segment] = read(path)
    assert segment.entries[0].event == Submitted(op)
    text, found = re.subn(rf'"{name}":[0-9.]+', f'"{name}":{now}', path.read_text(), count=1)
    assert found
    for lines in (text, text.removesuffix(text.splitlines(keepends=True)[-1])):  # also of the last event
        path.write_text(lines)
        with pytest.raises(RecordFault, match="is no event"):
            list(read(path))


def test_a_record_is_not_written_through_a_link_nor_into_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing/events"):
        with pytest.raises(RecordFault, match="choose another"):
            Recorder(tmp_path / name, ScheduleLimits())


def test_a_disk_that_is_full_ends_the_record_and_not_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("modeld.recording._append", full)
    recorded(tmp_path / "events", 2)
    assert "ends here: No space left on device" in caplog.text


def test_a_record_that_cannot_be_begun_anew_ends_and_is_not_collected_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(tmp_path / "events", ScheduleLimits(), max_bytes=1)

    def no_room(path: Path) -> int:
        raise RecordFault(f"{path} cannot be written: Too many open files; choose another file")

    monkeypatch.setattr("modeld.recording._open", no_room)
    assert recorder._full.wait(10)
    house = House(also=recorder.add)
    house.say(house.engine.ready())
    recorder._thread.join(10)
    assert "ends here" in caplog.text
    assert "Too many open files" in caplog.text
    waiting = recorder._items.qsize()
    recorder.add(house.driver.journal.last().entries[0], pytest.fail)
    assert recorder._items.qsize() == waiting
    recorder.close()


def test_what_the_daemon_keeps_in_memory_can_be_left_behind(tmp_path: Path) -> None:
    house = House()
    house.say(house.engine.ready())
    busy(house, 2)
    house.submit("l", Load(model="/a.gguf"))
    path = tmp_path / "fault"
    for _ in range(2):
        write_segment(path, house.driver.journal.last())
    [segment] = read(path)
    assert segment.entries[0].event == EngineReady()
    assert segment.entries[-1].event.op.kind is Kind.REAL  # type: ignore[union-attr]
    assert replay(segment) is None
    assert "/a.gguf" not in path.read_text()
    assert json.loads(path.read_text().splitlines()[0])["limits"]["queue"] == 64
