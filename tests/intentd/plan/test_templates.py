"""Templates: what a user can write, and what is said where it is wrong."""

from importlib.resources import files

import pytest

from intentd.plan.templates import CHARACTERS, Template, TemplateError, parse
from intentd.plan.triggers import TRIGGERS

GOOD = """
title = "explain $test"
system = "in $workspace"
user = "$source $code $traceback for $$5"
[decode]
max_tokens = 10
stop = ["END"]
[budget]
characters = 1000
"""


def test_a_template_fills_its_places() -> None:
    template = parse("test_failed.toml", GOOD)
    assert template.fill_system(workspace="w") == "in w"
    assert (
        template.fill_user(test="", tool="", message="", source="a", code="b", traceback="$source")
        == "a b $source for $5"
    )
    assert (template.decode.max_tokens, template.decode.stop) == (10, ("END",))


def test_the_built_in_template_is_good(template: Template) -> None:
    assert "$traceback" in template.user.template


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("$workspace", "$test", "has no \\$test"),
        ("$$5", "$5", "no placeholder"),
        ('"explain $test"', "5", "must be a text"),
        ('title = "explain $test"\n', "", "there is no 'title': add title = "),
        ("max_tokens = 10", "max_tokens = 0", "'max_tokens' cannot be 0"),
        ("max_tokens = 10", "max_words = 10", "'max_words' is not known"),
        ("characters = 1000", "characters = '1'", r"'characters' in \[budget\] must be a whole number"),
        ("[budget]", "[budgets]", "'budgets' is not known"),
        ("title =", "title", "not TOML"),
        ("stop = [", "top_p = [", "'top_p' cannot be"),
        ("max_tokens = 10", "seed = 99999999999999999999", "'seed' cannot be 99999999999999999999"),
        ("max_tokens = 10", f"seed = {2**63}", "'seed' cannot be"),
        ("max_tokens = 10", "seed = -1", "seed is -1; it must be 0 or more"),
        ("max_tokens = 10", "temperature = -1", "temperature is -1; it must be 0 or more"),
        ("max_tokens = 10", "top_p = 5", "top_p is 5; it must be from 0 to 1"),
        ("max_tokens = 10", "repeat_penalty = 0", "repeat_penalty is 0; it must be from 0.1 to 10"),
        ('["END"]', "['']", "a string of stop has 1 to 256 characters"),
        ('["END"]', str(["x"] * 300), "stop is 300; it must be at most 16 strings"),
        ("max_tokens = 10", "temperature = nan", "'temperature' cannot be nan"),
        ("max_tokens = 10", "top_p = inf", "'top_p' cannot be inf"),
    ],
)
def test_a_faulty_template_says_what_is_wrong(before: str, after: str, word: str) -> None:
    with pytest.raises(TemplateError, match=word):
        parse("test_failed.toml", GOOD.replace(before, after))


@pytest.mark.parametrize(("before", "after", "line"), [("$$5", "$5", 4), ('["END"]', "[END]", 7), ("= 1000", "= 0", 9)])
def test_a_faulty_template_says_where(before: str, after: str, line: int) -> None:
    with pytest.raises(TemplateError, match=rf"^mine\.toml:{line}: "):
        parse("mine.toml", GOOD.replace(before, after))


def test_a_template_needs_no_budget_of_its_own() -> None:
    assert parse("mine.toml", GOOD.partition("[budget]")[0]).characters == CHARACTERS


def test_the_built_in_templates_differ_in_their_last_sentence_alone() -> None:
    """What was prefilled to explain serves a fix too."""
    built_in = [parse(file.name, file.read_text()) for file in files("intentd").joinpath("templates").iterdir()]
    selections = [template for template in built_in if template.name.startswith("selection_")]
    failures = [template for template in built_in if template not in selections]
    assert {template.name for template in failures} == {*TRIGGERS, "fix", "fix_in_place"} - {"selection"}
    assert "selection_explain" in {template.name for template in selections}
    for alike in (failures, selections):
        assert len({template.system.template for template in alike}) == 1
        assert len({template.user.template.rpartition("\n")[0] for template in alike}) == 1
