"""I3: no secret enters a prompt, split or whole; and what is harmless stays as it is."""

import random
from collections import Counter

import pytest
from detect_secrets.plugins.base import RegexBasedDetector
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.plain import plain
from intentd.plan.privacy import REDACTED, scrub, scrub_long
from intentd.plan.privacy.known import DETECTORS
from intentd.plan.privacy.scrub import MAX_CHARACTERS, OVERLAP
from tests.intentd.plan.privacy.corpus import KINDS, SEED, harmless, planted

PLANTED = list(planted())


def test_the_corpus_is_as_wide_as_it_says() -> None:
    assert len(PLANTED) >= 200
    assert len({plant.kind for plant in PLANTED}) >= 20
    places = Counter(plant.place for plant in PLANTED)
    assert places.keys() == {"file", "diff", "terminal", "colours", "codes", "wrapped", "diff lines", "literals"}
    assert min(places.values()) >= 15
    assert all(plant.pieces for plant in PLANTED)


@pytest.mark.parametrize("seed", [SEED, 1, 2])
def test_no_planted_secret_is_left(seed: int) -> None:
    """I3: in files, diffs and terminal output, some split by colours, line breaks or literals."""
    left = [
        (plant.kind, plant.place)
        for plant in planted(seed)
        if any(piece in scrub(plant.text).text for piece in plant.pieces)
    ]
    assert left == []


def test_no_planted_secret_is_left_when_the_whole_screen_is_wrapped() -> None:
    """I3: a narrow terminal breaks every line, also inside names and prefixes."""
    rng = random.Random(SEED)
    for kind, (make, forms) in KINDS.items():
        for form in forms:
            for width in (33, 40, 61, 80):
                secret = make(rng)
                rows = f"$ ./deploy\n{form.format(secret)}\ndone here\n".split("\n")
                screen = "\n".join(row[at : at + width] for row in rows for at in range(0, max(1, len(row)), width))
                flat = scrub(screen).text.replace("\n", "")
                body = "".join(row for row in secret.replace("\\n", "\n").split("\n") if "-----" not in row)
                assert not [at for at in range(len(body) - 7) if body[at : at + 8] in flat], (kind, width)


def test_harmless_texts_stay_as_they_are() -> None:
    """At most 2 % of 2,000 texts with hashes, UUIDs, long names, images, lock files and minified code are changed."""
    changed = [maker for maker, text in harmless(2000) if scrub(text).text != plain(text)]
    assert len(changed) <= 40, Counter(changed)


def test_the_detectors_find_nothing_in_what_is_left() -> None:
    """I3: a text in which detect-secrets' detectors find something never enters a prompt."""
    detectors: list[RegexBasedDetector] = [detector() for detector in DETECTORS]
    for plant in PLANTED:
        left = scrub(plant.text).text
        for line in left.splitlines():
            assert [d.secret_type for d in detectors if list(d.analyze_string(line))] == [], (plant.kind, plant.place)


def test_scrubbing_again_changes_nothing_and_lines_stay() -> None:
    for plant in PLANTED:
        once = scrub(plant.text)
        assert scrub(once.text).text == once.text, (plant.kind, plant.place)
        assert once.text.count("\n") == plain(plant.text).count("\n")
        assert once.found


def test_what_pytest_shows_of_a_secret_without_its_middle_is_taken_out() -> None:
    """I3: where it stands whole elsewhere in the text, or begins as a token does; not what only has three dots."""
    key = "sk-" + "proj-abcdEF12gh34IJ56kl78MN90opQR3456789ABCDEF"
    told = f"E       AssertionError: assert '{key[:12]}...{key[-13:]}' == 'x'\nE         - x\nE         + {key}\n"
    left = f"E       AssertionError: assert '{REDACTED}' == 'x'\nE         - x\nE         + {REDACTED}\n"
    assert scrub(told).text == left
    assert scrub("assert 'corr...tery' == 'x'\nDB_PASSWORD=correcthorsebattery\n").text == (
        f"assert '{REDACTED}' == 'x'\nDB_PASSWORD={REDACTED}\n"
    )
    assert scrub("assert 'gh" + "p_aB3dE5fG7...W0xY1zA2' == 'x'").text == f"assert '{REDACTED}' == 'x'"
    shown = "loading...\nassert 'correct or ...or battery' == 'x'\nask-me-Later...Then1 sk-learn...\n"
    assert scrub(f"{shown}DB_PASSWORD=correcthorsebattery\n").text == f"{shown}DB_PASSWORD={REDACTED}\n"
    assert scrub("assert 'AUTH=correctho...' == ''\nDB_PASSWORD=correcthorsebattery\n").text == (
        f"assert 'AUTH={REDACTED}' == ''\nDB_PASSWORD={REDACTED}\n"
    )
    assert scrub("DB_PASSWORD=postgres_dev_pw\ncan't wait for postgres...\n").text == (
        f"DB_PASSWORD={REDACTED}\ncan't wait for postgres...\n"
    )


def test_what_is_secret_by_its_name_is_taken_out_where_it_stands_alone() -> None:
    """I3: a failed assertion shows it without its name; a word that is secret somewhere may be a word elsewhere."""
    for secret in ("Tr0ub4dor3x99", "correcthorsebattery"):
        shown = (
            "E       AssertionError: assert '{0}' == 'x'\nE         + {0}\nat bob:{0}@db\n>       password = '{0}'\n"
        )
        assert scrub(shown.format(secret)).text == shown.format(REDACTED)
    assert scrub("DB_PASSWORD=postgres\nstarting postgres\n").text == f"DB_PASSWORD={REDACTED}\nstarting postgres\n"
    longer = "DB_PASSWORD=correcthorsebattery\nADMIN_PASSWORD=correcthorsebatterystaple\n"
    assert "horse" not in scrub(f"{longer}correcthorsebatterystaple, correcthorsebattery\n").text


def test_a_secret_of_any_length_is_taken_out_whole() -> None:
    """I3: also what is longer than what it takes to judge it."""
    secret = "a1B2c3D4" * 400
    assert scrub(f"DB_SECRET={secret}\ntoken: {secret}\n").text == f"DB_SECRET={REDACTED}\ntoken: {REDACTED}\n"


def test_a_key_that_was_cut_is_taken_out_without_its_first_or_last_line() -> None:
    rng = random.Random(SEED)
    rows = KINDS["pem rsa"][0](rng).split("\n")
    for part in (rows[:-1], rows[1:], rows[:4], rows[2:-2]):
        left = scrub("before\n" + "\n".join(part) + "\nafter").text
        assert not [row for row in rows[1:-1] if row in left]
        assert left.startswith("before\n")
        assert left.endswith("\nafter")


def test_a_text_that_is_too_long_to_check_is_withheld() -> None:
    assert scrub("x" * (MAX_CHARACTERS + 1)).text == ""
    assert scrub("x" * (MAX_CHARACTERS + 1)).found


def test_what_was_found_is_told_by_kind_and_never_by_content() -> None:
    for plant in PLANTED:
        told = " ".join(scrub(plant.text).found)
        assert told
        assert not [piece for piece in plant.pieces if piece in told]


CODE = (
    *(
        "password",
        "secret_key",
        "DB_PASSWORD",
        "token",
        "auth",
        " = ",
        ": ",
        "=",
        '": ',
        " or ",
        " || ",
        " ?? ",
        " if x else ",
    ),
    *(
        "'hunter2x'",
        "'h4nt3r9'",
        '"g7Kq2mZp9tXw4"',
        r"'a\'b1c2'",
        '"x"',
        "g7Kq2mZp9tXw4",
        "f(",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ),
    *(", ", "\n", "\n  ", "${X:-", "->", " + ", " ? ", " : ", "| ", "kind: Secret\n", "data:\n  "),
)


@given(st.lists(st.sampled_from(CODE), max_size=12))
def test_scrubbing_code_again_changes_nothing(parts: list[str]) -> None:
    once = scrub("".join(parts)).text
    assert scrub(once).text == once


@given(st.text(alphabet="ab1=:\"'\n+-/\\ \x1b[m{$(password.keyBEGIN"))
def test_any_text_is_scrubbed_without_an_error_and_keeps_its_lines(text: str) -> None:
    done = scrub(text)
    assert done.text.count("\n") == text.count("\n")
    assert done.found or done.text == plain(text)
    assert REDACTED in done.text or not done.found


@pytest.mark.parametrize("at", [0, 1000, MAX_CHARACTERS - 300, MAX_CHARACTERS - 20, 2 * MAX_CHARACTERS - 2 * OVERLAP])
def test_a_long_text_is_scrubbed_at_every_place_and_keeps_its_lines(at: int) -> None:
    """I3: also where one window ends and the next begins."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 12 + "-----END PRIVATE KEY-----"
    before = "a quiet line\n" * (at // 13)
    text = f"{before}{key}\ntoken = ghp_{'a1B2c3' * 6}\n" + "a quiet line\n" * 25_000
    scrubbed = scrub_long(text)
    assert "MIIE" not in scrubbed.text
    assert "a1B2" not in scrubbed.text
    assert scrubbed.text.count("\n") == text.count("\n")
    assert scrubbed.text.startswith(before)


def test_a_long_text_is_scrubbed_by_what_stands_behind_a_secret_too() -> None:
    """I3: kubectl prints the data of a Secret before it says that it is one; a window ends between them."""
    data = "---\napiVersion: v1\ndata:\n  mail: Y29ycmVjdGhvcnNl\n"
    room = MAX_CHARACTERS - len(data)
    before = "a quiet line\n" * (room // 13) + "x" * (room % 13 - 1) + "\n"
    text = before + data + "kind: Secret\n" + "a quiet line\n" * 100
    scrubbed = scrub_long(text)
    assert "Y29y" not in scrubbed.text
    assert scrubbed.text.count("\n") == text.count("\n")


def test_the_beginning_of_a_cut_text_only_serves_to_judge_the_rest() -> None:
    """I3"""
    scrubbed = scrub_long("half a secret\n" + "line\n" * OVERLAP, cut=True)
    assert "half" not in scrubbed.text
    assert scrubbed.text.endswith("line\n")
    assert scrub_long("short\n", cut=True).text.strip() == ""


def test_a_long_text_without_secrets_stays_as_it_is() -> None:
    text = "".join(f"line {number} of many\n" for number in range(40_000))
    assert scrub_long(text).text == text


def test_half_a_character_loses_nothing_else() -> None:
    """JSON can hold one; UTF-8 cannot."""
    for fit in (scrub, scrub_long):
        assert fit("bad \ud83d, password: hunter2").text == "bad ?, password: [redacted]"


def test_what_is_taken_out_never_makes_a_text_much_longer() -> None:
    for secret in ("=" * 26, "a1" * 13, "ab1-" * 7):
        rows = f'password: "{secret}"\n' + f"{secret * 3}\n" * 200
        assert len(scrub(rows).text) <= len(rows) + 40
