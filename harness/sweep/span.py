"""An axis that is a range of numbers instead of a list of levels, for searches.

    lr: {key: train.lr, low: 1e-4, high: 3e-3, log: true}      any number between, evenly in its logarithm
    batch: {key: sampling.prompts_per_step, low: 8, high: 32, step: 8}

Whole numbers where the key takes no others. Leaves out: which numbers are tried (`studies.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.sweep import keys

WORDS = ("key", "low", "high", "log", "step", "when")
FORM = "{key: train.lr, low: 1e-4, high: 3e-3, log: true}"
DIGITS = 4  # of a number that is tried: enough for any knob, short enough for a table


@dataclass(frozen=True)
class Span:
    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False  # ints

    def rounded(self, value: float) -> float | int:
        """The number that a run gets for one that a sampler proposed; both ends stay as they were written."""
        if self.whole:
            return round(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def holds(self, value: Any) -> bool:
        """Whether a run's value is one of the range, on the grid of `step`."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return abs(steps - round(steps)) < 1e-9

    @property
    def size(self) -> int | None:
        """How many numbers it has; None where there is no end of them."""
        if self.step is None and not self.whole:
            return None
        return int((self.high - self.low) / (self.step or 1) + 1e-9) + 1

    def numbers(self) -> list[float | int]:
        """All of them, of a range that has a size."""
        return [self.rounded(self.low + i * (self.step or 1)) for i in range(self.size or 0)]


def read(key: str, given: Mapping[str, Any]) -> Span | str:
    """The range, or what is wrong with it."""
    for word in given:
        if word not in WORDS:
            return f"unknown key '{word}' beside `low` and `high` ({', '.join(WORDS)})"
    low, high, log, step = given.get("low"), given.get("high"), given.get("log", False), given.get("step")
    for word, value in (("low", low), ("high", high)):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return f"`{word}` takes a number, not {value!r}: {FORM}"
        if problem := keys.check_value(key, value):
            return f"`{word}`: {problem}"
    assert isinstance(low, int | float) and isinstance(high, int | float)
    if low >= high:
        return f"`low` is {low:g} and `high` {high:g}: give low below high"
    if not isinstance(log, bool):
        return f"`log` takes true or false, not {log!r}"
    if log and low <= 0:
        return f"`low` is {low:g}, and a logarithm needs one above 0; leave out `log`, or raise it"
    whole = isinstance(low, int) and isinstance(high, int) and keys.check_value(key, low + 0.5) is not None
    if step is None:
        return Span(low, high, log, None, whole)
    if not isinstance(step, int | float) or isinstance(step, bool) or not 0 < step <= high - low:
        return f"`step` takes a number between 0 and {high - low:g}, not {step!r}"
    if log:
        return "`step` does not go with `log`: leave out one of them"
    if whole and not isinstance(step, int):
        return f"`step` is {step!r}, and {key} takes whole numbers"
    steps = (high - low) / step
    if abs(steps - round(steps)) > 1e-9:
        return f"`high` is no number of steps above `low`; the last below it is {low + int(steps) * step:g}"
    return Span(low, high, False, step, whole)
