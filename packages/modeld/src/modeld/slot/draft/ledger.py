"""Owns whether drafting pays: time saved and lost against single rows; off where it loses, tried again with backoff."""

from attrs import define

ALLOWANCE = 8.0
"""Single rows' worth of time that may be lost before drafting is switched off: the budget of a probe."""
CREDIT = 64.0
"""Single rows' worth of gain that is remembered; more would let a long good run hide a long bad one."""
FIRST_REST, LONGEST_REST = 32, 2_048
"""Tokens without drafts after switching off: doubled every time that a retry fails."""


@define
class Ledger:
    """Seconds saved and lost by drafts, and whether they are on."""

    saved: float = 0.0
    lost: float = 0.0
    _balance: float = 0.0  # recent, in single rows
    _rest: int = 0  # tokens until the next try
    _next_rest: int = FIRST_REST

    @property
    def on(self) -> bool:
        return self._rest <= 0

    def begin(self) -> None:
        """Another answer may be of another kind: it does not wait long for its first try."""
        self._rest = min(self._rest, FIRST_REST)

    def rest(self, tokens: int) -> None:
        """So many tokens were generated without a draft."""
        self._rest = max(0, self._rest - tokens)

    def enter(self, accepted: int, seconds: float, single: float) -> None:
        """A drafted step took `seconds` and gave `accepted` + 1 tokens; alone, each would have taken `single`."""
        gain = (accepted + 1) * single - seconds
        self.saved += max(gain, 0.0)
        self.lost += max(-gain, 0.0)
        self._balance = min(self._balance + gain / single, CREDIT)
        if self._balance <= -ALLOWANCE:
            self._switch_off()
        elif self._balance >= CREDIT:
            self._next_rest = FIRST_REST

    def _switch_off(self) -> None:
        # A retry has half the budget: what failed before has to show quickly that it does not now.
        self._balance = -ALLOWANCE / 2
        self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, LONGEST_REST)
