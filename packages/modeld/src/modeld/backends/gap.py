"""Owns which special tokens a vocabulary has around a gap, by the family that spells them so. It builds no prompt."""

from collections.abc import Mapping

FAMILIES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen2.5-Coder and later, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite, Stable Code
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek-Coder
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),  # CodeLlama
    ("<PRE>", "<SUF>", "<MID>"),  # CodeLlama, as some files spell it
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
)
"""Texts of the tokens that stand before a prefix, before a suffix and before what goes between."""
CODESTRAL = ("[PREFIX]", "[SUFFIX]", "")
"""Other models of its maker have these tokens too, and have never learnt them. What goes between follows the prefix."""
SPELLINGS = frozenset(text for family in FAMILIES for text in family)
"""Of tokens that are special whatever a vocabulary says of them: contents must not become one."""


def gap_tokens(special: Mapping[str, int], name: str) -> tuple[str, ...]:
    """Those of the first family that the special tokens of the model `name` hold in full; empty where none is."""
    known = (*FAMILIES, CODESTRAL) if "codestral" in name.lower() else FAMILIES
    return next((texts for texts in known if all(text in special for text in texts if text)), ())
