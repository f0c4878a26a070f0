"""Owns how long to draft: what batches cost, how often drafted tokens are right, and the length that both make best."""

from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

TILE = 64
"""Rows from which on llama.cpp's attention on a CPU reads the tape once for all of them, where its cells are f16."""
LIMIT = TILE - 1
"""The longest draft: with the token before it, a tile."""
UNTILED = 31
"""The longest where a tile was not timed."""
TILED = 0.5
"""What a row of a tile pays for depth, by what others pay; until a real step has told, and a try costs little."""
BUCKETS = (0, 1, 2, 3, 4, 5, 8, 16, 32)
"""Match lengths that are told apart, by the least of each group."""
PRIOR = (
    (0.02, 0.20, 0.42, 0.55, 0.68, 0.75, 0.87, 0.95, 0.997),  # far
    (0.05, 0.30, 0.55, 0.65, 0.78, 0.82, 0.91, 0.97, 0.997),  # around
    (0.05, 0.50, 0.77, 0.80, 0.93, 0.93, 0.96, 0.99, 0.997),  # near
    (0.05, 0.70, 0.90, 0.91, 0.96, 0.95, 0.97, 0.97, 0.997),  # beside
)
"""Chance that the next token is right, by kind of place and match length; measured on edits of Python files, and set
lower for far places, since new text has those too."""
PRIOR_WEIGHT = 20.0
MEMORY = 800.0
"""Observations after which old ones count half."""
STEADY = 8
"""The match length from which on a place is a copy, which ends where the answer's next edit begins."""
COPIED, LEFT = 100.0, 2.0
"""Tokens of copies, and how many copies ended, that an answer is taken to have had before it begins."""
REFRESH = 64
"""Observations between two looks at the whole table."""
STEP = 0.05
"""How much one real step moves the cost curve."""
SHARED = 0.3
"""How much of that every width takes: a deeper tape makes all of them slower."""
TILE_STEP = 0.2
"""How much one real step of a tile moves what its rows pay for depth: there are few of them."""
OUTLIER = 2.0
EVEN = 256
"""Tokens of depth at which what a step tells is half of the curve, half of what depth costs."""
FURTHER = 0.5
"""What a further row of a batch pays for depth, by what a single one pays; until a real step has told."""
TELLING = 3
"""Further rows from which on a step tells more of what they pay than of what disturbed it."""
FIRST = (1, 2, 4, 8, 16, 32)
"""Steps of a deep tape, single ones and others counted apart, after which the table follows at once."""
DEEPER = 256
"""Tokens by which a tape is longer or shorter before the table follows."""

_BUCKET = [max(b for b, least in enumerate(BUCKETS) if length >= least) for length in range(2 * LIMIT + 4)]


def bucket(length: int) -> int:
    return _BUCKET[length] if length < len(_BUCKET) else len(BUCKETS) - 1


@define
class Costs:
    """Seconds that a batch takes, by its rows and the depth of the tape.

    What rows cost at no depth is measured at some widths, with straight lines between them. Every row reads the whole
    tape: a token of depth adds `single` to a batch of one row, and `further` for each row more. A batch of `TILE` rows
    pays `tiled` a row and token instead.
    """

    widths: NDArray[np.float64]
    seconds: NDArray[np.float64]
    single: float = 0.0
    further: float | None = None
    tiled: float | None = None
    table: list[float] = field(init=False)
    _nearness: NDArray[np.float64] = field(init=False)
    _depth: int = field(default=0, init=False)  # of the table
    _observed: int = field(default=0, init=False)
    _deep: list[int] = field(factory=lambda: [0, 0], init=False)  # steps of a deep tape: of one row, and of more

    def __attrs_post_init__(self) -> None:
        rows = np.arange(LIMIT + 2, dtype=np.float64)
        self._nearness = np.array([np.interp(rows, self.widths, knot) for knot in np.eye(len(self.widths))]).T
        self._tabulate()

    @classmethod
    def measured(cls, seconds: Mapping[int, float]) -> Self:
        """From a timing of some widths; 1 must be among them."""
        if 1 not in seconds or min(seconds.values()) <= 0.0:
            raise ValueError(f"costs need a positive time for 1 row, got {dict(seconds)}: time a single row too")
        widths = sorted(seconds)
        return cls(np.array(widths, np.float64), np.array([seconds[width] for width in widths], np.float64))

    @property
    def longest(self) -> int:
        """The longest draft whose cost is known well enough."""
        return LIMIT if self.widths[-1] >= TILE else UNTILED

    def observe(self, rows: int, seconds: float, depth: int = 0) -> None:
        """Move the curve and what depth costs a little towards a real step; the table follows after `REFRESH` steps.

        A step that was disturbed counts as `OUTLIER` at most.
        """
        if rows >= TILE and depth >= EVEN:
            return self._observe_tile(rows, seconds, depth)
        near = self._nearness[rows]
        expected = float(near @ self.seconds) + depth * self._a_token(rows)
        deep = depth / (depth + EVEN)
        ratio = min(max(seconds / expected, 1.0 / OUTLIER), OUTLIER)
        self.seconds *= 1.0 + STEP * (1.0 - deep) * (ratio - 1.0) * (SHARED + (1.0 - SHARED) * near)
        if depth >= EVEN:
            self._deep[rows > 1] += 1
        if depth:
            step = max(STEP, 1.0 / self._deep[rows > 1]) if depth >= EVEN else STEP  # at first nothing is known
            self._learn(rows, step * deep * (ratio - 1.0) * expected / depth)
        self._observed += 1
        if self._observed % REFRESH == 0 or (depth >= EVEN and self._deep[rows > 1] in FIRST):
            self._tabulate()

    def _a_token(self, rows: int) -> float:
        """Seconds that a token of depth adds to a batch."""
        return self.single + (rows - 1) * self._a_row

    @property
    def _a_row(self) -> float:
        """What of that is for each row but the first."""
        return FURTHER * self.single if self.further is None else self.further

    def _learn(self, rows: int, more: float) -> None:
        """A token of depth adds `more` seconds to a batch than was known."""
        if rows == 1:
            self.single = max(0.0, self.single + more)
        else:
            self.further = max(0.0, self._a_row + more * (rows - 1) / ((rows - 1) ** 2 + TELLING))

    def _observe_tile(self, rows: int, seconds: float, depth: int) -> None:
        flat, share = float(self._nearness[rows] @ self.seconds), rows * depth
        first = self.tiled is None
        if self.tiled is None:
            self.tiled = max(0.0, seconds - flat) / share
        else:
            told = min(seconds, OUTLIER * (flat + self.tiled * share)) - flat
            self.tiled += TILE_STEP * (max(0.0, told) / share - self.tiled)
        self._observed += 1
        if first or self._observed % REFRESH == 0:
            self._tabulate()

    def deepen(self, depth: int) -> None:
        """The next batches are of a tape so long."""
        if abs(depth - self._depth) >= DEEPER:
            self._depth = depth
            self._tabulate()

    def _tabulate(self) -> None:
        """A list, because it is read for every length of every draft. Beyond the last width its last slope holds."""
        rows, last = np.arange(LIMIT + 2, dtype=np.float64), self.widths[-1]
        table = np.interp(rows, self.widths, self.seconds)
        if len(self.widths) > 1:
            rise = (self.seconds[-1] - self.seconds[-2]) / (last - self.widths[-2])
            table += np.maximum(0.0, rows - last) * max(rise, 0.0)
        tiled = TILED * self._a_row if self.tiled is None else self.tiled
        table += self._depth * np.where(rows < TILE, self.single + (rows - 1) * self._a_row, tiled * rows)
        self.table = table.tolist()


@define
class Acceptance:
    """How often the next token of a place was right, by kind and match length. Old observations fade."""

    rates: list[list[float]] = field(factory=lambda: [list(row) for row in PRIOR])
    turns: int = 0
    """How often `steady` fell or began anew; what was concluded from it before does not hold."""
    _right: list[list[float]] = field(factory=lambda: [[rate * PRIOR_WEIGHT for rate in row] for row in PRIOR])
    _seen: list[list[float]] = field(factory=lambda: [[PRIOR_WEIGHT] * len(row) for row in PRIOR])
    observed: int = 0
    _copied: float = COPIED
    _left: float = LEFT

    def begin(self) -> None:
        """Another answer may be edited more densely, or less."""
        self._copied, self._left = COPIED, LEFT
        self.turns += 1

    @property
    def steady(self) -> float:
        """The chance that a copy of this answer goes on for another token."""
        return 1.0 - self._left / self._copied

    def rate(self, kind: int, length: int) -> float:
        return self.rates[kind][bucket(length)]

    def observe(self, kind: int, length: int, right: bool) -> None:
        if length >= STEADY:
            self._copied += 1
            self._left += not right
            self.turns += not right
        column = bucket(length)
        rights, seen = self._right[kind], self._seen[kind]
        rights[column] += right
        seen[column] += 1.0
        self.rates[kind][column] = rights[column] / seen[column]
        if seen[column] > MEMORY:
            rights[column] *= 0.5
            seen[column] *= 0.5
        self.observed += 1


@define
class Lengths:
    """Chooses the length of a draft.

    A token drafted right saves what it would otherwise have cost. That price is the least time per token that drafting
    from where it stands can reach: near the time of a single row where matches are short, a small part of it deep
    inside a copy. So a doubtful draft is not made long for tokens that the next step would get cheaply anyway.
    """

    costs: Costs
    acceptance: Acceptance = field(factory=Acceptance)
    _prices: list[list[float]] = field(factory=list)
    _chosen: dict[tuple[int, int], int] = field(factory=dict)
    _looked: int = 0
    _turns: int = -1
    _table: list[float] = field(factory=list)

    def choose(self, kind: int, length: int, limit: int) -> int:
        """How many tokens to draft from a place, at most `limit`; 0 where none pays."""
        known = self._table is self.costs.table and self._turns == self.acceptance.turns
        if not known or self.acceptance.observed - self._looked >= REFRESH:
            self._look()
        key = (kind, bucket(length) if length >= BUCKETS[-1] else length)
        if key not in self._chosen:
            self._chosen[key] = self._best(kind, length, self.costs.longest)
        chosen = self._chosen[key]
        return chosen if chosen <= limit else self._best(kind, length, limit)

    def _best(self, kind: int, length: int, limit: int) -> int:
        """The length that saves most: prices of the tokens expected to be right, less the rows' cost."""
        table, rates = self.costs.table, self.acceptance.rates[kind]
        whole = limit >= self.costs.longest
        prices = self._prices[kind] if whole else [self._price(rates, least, limit) for least in BUCKETS]
        chance, saved, most, best = 1.0, 0.0, 0.0, 0
        for drafted in range(1, min(limit, UNTILED) + 1):
            column = bucket(length + drafted - 1)
            chance *= rates[column]
            saved += chance * prices[column]
            if saved - table[drafted + 1] + table[1] > most:
                most, best = saved - table[drafted + 1] + table[1], drafted
        return LIMIT if limit >= LIMIT and self._saved_by_tile(kind, length) > most else best

    def _saved_by_tile(self, kind: int, length: int) -> float:
        prices = self._prices[kind]
        chances = enumerate(self._tile_chances(self.acceptance.rates[kind], length))
        saved = sum(chance * prices[bucket(length + before)] for before, chance in chances)
        return saved - self.costs.table[TILE] + self.costs.table[1]

    def _tile_chances(self, rates: list[float], length: int) -> Iterator[float]:
        """Of every token of a draft so long to be right: no copy is likelier to last than this answer's others were."""
        chance, steady = 1.0, self.acceptance.steady
        for drafted in range(LIMIT):
            chance *= min(rates[bucket(length + drafted)], steady)
            yield chance

    def _look(self) -> None:
        longest = self.costs.longest
        self._prices = [[self._price(row, least, longest) for least in BUCKETS] for row in self.acceptance.rates]
        self._chosen.clear()
        self._table = self.costs.table
        self._looked, self._turns = self.acceptance.observed, self.acceptance.turns

    def _price(self, rates: list[float], length: int, limit: int) -> float:
        """The least expected time per token, over all lengths up to `limit` of a draft from this match length on."""
        table, chance, tokens = self.costs.table, 1.0, 1.0
        price = table[1]
        for drafted in range(1, min(limit, UNTILED) + 1):
            chance *= rates[bucket(length + drafted - 1)]
            tokens += chance
            price = min(price, table[drafted + 1] / tokens)
        if limit >= LIMIT and length >= STEADY:
            price = min(price, table[TILE] / (1.0 + sum(self._tile_chances(rates, length))))
        return price
