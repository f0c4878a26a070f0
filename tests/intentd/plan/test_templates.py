"""Templates: what a user can write, and what is said where it is wrong."""

import pytest

from intentd.plan.templates import Template, TemplateError, parse

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
    template = parse("test_failed", GOOD)
    assert template.fill_system(workspace="w") == "in w"
    assert template.fill_user(test="", message="", source="a", code="b", traceback="$source") == "a b $source for $5"
    assert (template.decode.max_tokens, template.decode.stop) == (10, ("END",))


def test_the_built_in_template_is_good(template: Template) -> None:
    assert "$traceback" in template.user.template


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("$workspace", "$test", "has no \\$test"),
        ("$$5", "$5", "no placeholder"),
        ('"explain $test"', "5", "must be a text"),
        ("max_tokens = 10", "max_tokens = 0", "above 0"),
        ("max_tokens = 10", "max_words = 10", "max_words"),
        ("characters = 1000", "characters = '1'", "characters"),
        ("[budget]", "[budgets]", "unknown budgets"),
        ("title =", "title", "test_failed"),
    ],
)
def test_a_faulty_template_says_what_is_wrong(before: str, after: str, word: str) -> None:
    with pytest.raises(TemplateError, match=word):
        parse("test_failed", GOOD.replace(before, after))
