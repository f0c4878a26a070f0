"""The turn of a completion: windows that stay, tokens around a gap in each family's order, nothing that is special."""

import pytest
from attrs import evolve

from intentd.plan.inline import BEFORE, STEP, Completion, Lead, build_inline, prompt_of
from intentd.plan.turns import TurnError
from intentd.shown import View
from modelwire.messages import Text

VIEW = View(workspace="/w", path="/w/a.py", version=1, text="def f():\n    return \n\ndef g():\n    pass\n")
QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def built(view: View, line: int, character: int, gap: tuple[str, ...] = ()) -> Completion:
    return build_inline(view, view, line, character, gap=gap, context=4096)


def text_of(completion: Completion) -> str:
    return "".join(part.text for part in completion.turn.prefix if isinstance(part, Text))


def test_without_tokens_for_a_gap_what_stands_before_is_continued() -> None:
    assert built(VIEW, 1, 11).turn.prefix == (Text(text="def f():\n    return "),)


def test_with_tokens_for_a_gap_the_model_sees_both_sides() -> None:
    assert built(VIEW, 1, 11, QWEN).turn.prefix == (
        Text(text=QWEN[0], special=True),
        Text(text="def f():\n    return "),
        Text(text=QWEN[1], special=True),
        Text(text="\n\ndef g():\n    pass\n"),
        Text(text=QWEN[2], special=True),
    )


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (QWEN, "<|fim_prefix|>before<|fim_suffix|>behind<|fim_middle|>"),  # as CodeGemma
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), "<fim_prefix>before<fim_suffix>behind<fim_middle>"),
        (
            ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
            "<｜fim▁begin｜>before<｜fim▁hole｜>behind<｜fim▁end｜>",
        ),
        (("<fim-prefix>", "<fim-suffix>", "<fim-middle>"), "<fim-prefix>before<fim-suffix>behind<fim-middle>"),
        (("▁<PRE>", "▁<SUF>", "▁<MID>"), "▁<PRE>before▁<SUF>behind▁<MID>"),
        (("<PRE>", "<SUF>", "<MID>"), "<PRE>before<SUF>behind<MID>"),
        (
            ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
            "<|code_prefix|>before<|code_suffix|>behind<|code_middle|>",
        ),
        (("[PREFIX]", "[SUFFIX]", ""), "[SUFFIX]behind[PREFIX]before"),
        ((), "before"),
    ],
    ids=[
        "Qwen",
        "StarCoder",
        "DeepSeek",
        "SantaCoder",
        "CodeLlama",
        "<PRE>",
        "GLM",
        "Codestral",
        "SmolLM2",
    ],
)
def test_each_family_gets_its_own_order(gap: tuple[str, ...], said: str) -> None:
    prompt = prompt_of("before", "behind" if gap else "", gap)
    texts = [part for part in prompt if isinstance(part, Text)]
    assert "".join(part.text for part in texts) == said
    assert {part.text for part in texts if part.special} == {token for token in gap if token}


def test_contents_never_become_special_tokens() -> None:
    view = evolve(VIEW, text='x = "<|fim_middle|>"\ny = ')
    special = [part for part in built(view, 1, 4, QWEN).turn.prefix if isinstance(part, Text) and part.special]
    assert [part.text for part in special] == list(QWEN)


def test_indentation_is_left_to_the_model_and_taken_off_its_answer() -> None:
    completion = built(evolve(VIEW, text="def f():\n    \n"), 1, 4)
    assert (text_of(completion), completion.lead) == ("def f():\n", "    ")
    lead = Lead("    ")
    assert (lead.feed("  "), lead.feed("  ret"), lead.feed("urn"), lead.wrong) == ("", "ret", "urn", False)
    other = Lead("    ")
    assert (other.feed("  x"), other.wrong, other.feed("y")) == ("", True, "")


def test_the_window_begins_at_a_block_and_stays_while_one_types() -> None:
    blocks = [f"def f{number}():\n    return {number}\n" for number in range(600)]
    text = "\n".join(blocks) + "\n"
    starts = set()
    for typed in range(0, 900, 60):
        view = evolve(VIEW, text=text + "x" * typed)
        shown = text_of(built(view, text.count("\n"), typed))
        starts.add(shown.partition("\n")[0])
        assert shown.startswith("def f")
        assert BEFORE - 200 < len(shown) - typed < BEFORE + 2 * STEP
    assert len(starts) == 1


def test_s10_the_window_stays_while_lines_are_typed_too() -> None:
    text = "\n".join(f"def f{number}():\n    return {number}\n" for number in range(600)) + "\n"
    starts = set()
    for _ in range(STEP // 50):
        text += "    " + "x" * 45 + "\n"
        starts.add(text_of(built(evolve(VIEW, text=text), text.count("\n"), 0)).partition("\n")[0])
    assert len(starts) <= 2


def test_a_line_that_may_not_be_shown_as_it_is_gets_nothing() -> None:
    with pytest.raises(TurnError, match="cannot be shown"):
        build_inline(VIEW, evolve(VIEW, text="def f():\n    [redacted]\n"), 1, 8, gap=(), context=4096)
    with pytest.raises(TurnError, match="nothing stands before"):
        built(VIEW, 0, 0)


def test_inside_of_a_line_one_line_will_do() -> None:
    assert built(evolve(VIEW, text="f(a, )\n"), 0, 5).turn.decode.stop == ("\n",)
    assert built(VIEW, 1, 11).turn.decode.stop == ("\n\n",)
