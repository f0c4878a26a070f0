"""Owns the arithmetic of the decode bench: from answers to a row for each group. It asks nobody."""

from collections.abc import Sequence
from itertools import takewhile
from statistics import fmean, median

from bench.decode_pairs import Decoded, Pair, Played
from bench.lookup import Generated
from modeld.slot.draft import Costs
from modeld.slot.draft.automaton import Automaton

GRAM = 6
"""Tokens in a row that count as copied where they stand in the prompt."""
Row = dict[str, object]


def rows(played: Sequence[Played], costs: Costs) -> dict[str, Row]:
    """A row for each group, in the order in which they come."""
    groups = dict.fromkeys(one.task.group for one in played)
    return {group: row([one for one in played if one.task.group == group], costs) for group in groups}


def row(played: Sequence[Played], costs: Costs) -> Row:
    """Medians of a group. Speedups, those of peers too, are against modeld without drafts on the same prompt."""
    greedy = [pair for one in played for pair in one.greedy]
    speedup, perfect = median(pair.speedup for pair in greedy), median(cap(one, costs) for one in played)
    theirs = {name: median(peer_speedup(one, name) for one in played) for name in played[0].peers}
    return {
        "prompts": len(played),
        "tokens": sum(len(one.answer.generated.ids) for one in played),
        "speedup": round(speedup, 3),
        "identical": round(fmean(one.same for one in played), 3),
        "tokens_per_pass": round(tokens_per_pass([pair.on for pair in greedy]), 3),
        "peer_speedup": round(max(theirs.values()), 3) if theirs else None,
        "cap": round(perfect, 3),
        "of_cap": round(speedup / perfect, 3),
        "cap_of_copying": round(median(cap(one, costs, copying=True) for one in played), 3),
        "differing_tokens": round(differing([*greedy, *(one.sampled for one in played)]), 5),
        "sampled_speedup": round(median(one.sampled.speedup for one in played), 3),
        "accepted": round(accepted([pair.on for pair in greedy]), 3),
        "tokens_per_s": {
            "off": rate([pair.off.generated for pair in greedy]),
            "on": rate([pair.on.generated for pair in greedy]),
            **{name: rate([answer for one in played for answer in one.peers[name]]) for name in theirs},
            **{f"{name} off": rate([one.baselines[name] for one in played]) for name in played[0].baselines},
        },
        "peers": {name: round(value, 3) for name, value in theirs.items()},
        **text_measures(played),
    }


def rate(answers: Sequence[Generated]) -> float:
    """Tokens a second, the median."""
    return round(median(answer.per_second for answer in answers), 2)


def peer_speedup(one: Played, name: str) -> float:
    alone = median(pair.off.generated.per_second for pair in one.greedy)
    return median(answer.per_second for answer in one.peers[name]) / alone


def tokens_per_pass(answers: Sequence[Decoded]) -> float:
    return sum(answer.steps for answer in answers) / max(1, sum(answer.passes for answer in answers))


def accepted(answers: Sequence[Decoded]) -> float:
    """The share of drafted tokens that were right; 0 where none were drafted."""
    return sum(answer.accepted for answer in answers) / max(1, sum(answer.drafted for answer in answers))


def differing(pairs: Sequence[Pair]) -> float:
    """How often a token differs where all before it agree: what comes after the first that differs says no more."""
    agreed = [(agreement(pair.off.generated.ids, pair.on.generated.ids), pair.same) for pair in pairs]
    differ = sum(not same for _, same in agreed)
    return differ / max(1, sum(count for count, _ in agreed) + differ)


def agreement(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False)))


def cap(one: Played, costs: Costs, *, copying: bool = False) -> float:
    """The speedup of a drafter that knows the answer and takes the best length at every step.

    With `copying` it may draft only what stands somewhere in the tape: the best that copying could do.
    """
    ids, table = one.answer.generated.ids, costs.table
    reach = reaches(one.prompt, ids, costs.longest) if copying else [costs.longest] * len(ids)
    seconds = [0.0] * (len(ids) + 1)
    for said in range(len(ids) - 1, 0, -1):
        most = min(reach[said], len(ids) - said - 1)
        seconds[said] = min(table[1 + drafted] + seconds[said + 1 + drafted] for drafted in range(most + 1))
    return (len(ids) - 1) * table[1] / seconds[1] if len(ids) > 1 else 1.0


def reaches(prompt: Sequence[int], answer: Sequence[int], limit: int) -> list[int]:
    """For every position of an answer, how many of its tokens (at most `limit`) stand in a row before it."""
    context, found = Automaton(), list[int]()
    for token in prompt:
        context.append(token)
    for said, token in enumerate(answer):
        found.append(context.reach(list(answer[said : said + limit])))
        context.append(token)
    return found


# --- whether the answers are worth measuring ------------------------------------------------------------


def text_measures(played: Sequence[Played]) -> Row:
    return text_measures_of([(one.prompt, one.answer) for one in played])


def text_measures_of(answers: Sequence[tuple[Sequence[int], Decoded]]) -> Row:
    """Shares, of lines that occur once and of tokens that stand in the prompt: loops are no edits, nor is all new.

    `answers`: each with the tokens of its prompt.
    """
    return {
        "distinct_lines": round(fmean(distinct_lines(answer.text) for _, answer in answers), 3),
        "copied": round(fmean(copied(prompt, answer.generated.ids) for prompt, answer in answers), 3),
    }


def distinct_lines(text: str) -> float:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return len(set(lines)) / len(lines) if lines else 0.0


def copied(prompt: Sequence[int], answer: Sequence[int]) -> float:
    """The share of an answer's rows of `GRAM` tokens that stand in the prompt."""
    known, own = set(grams(prompt)), grams(answer)
    return fmean(gram in known for gram in own) if own else 0.0


def grams(ids: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(ids[start : start + GRAM]) for start in range(len(ids) - GRAM + 1)]
