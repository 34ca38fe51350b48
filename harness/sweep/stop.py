"""`stop: {when: decided, max_seeds: 10}`: seeds are added in rounds, only where nothing is decided yet.

`seeds` is then the first round, `step` how many each further one adds. What is undecided is given up, and gets no more
seeds, where the chance that max_seeds decide it is under `futility`; null never gives up. Leaves out: who is undecided
(`rounds.py` asks the analysis), why looking after every round costs no false alarms (`analysis/sequential.py`), and
what giving up costs (`bench/futility.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sweep.axes import Reader
from harness.tricks import nearest

if TYPE_CHECKING:
    from harness.sweep.spec import Spec

TAKES = "{when: decided, max_seeds: 10, step: 1, futility: 0.05}"
WORDS = ("when", "max_seeds", "step", "futility")
FEWEST = 2  # seeds under which no difference has a scatter
DECIDING = 3  # seeds under which nothing is decided
FUTILITY = 0.05  # halves the seeds where nothing will be decided, and takes five points of power in a hundred


@dataclass(frozen=True)
class Stop:
    max_seeds: int
    step: int = 1
    futility: float | None = FUTILITY


@dataclass(frozen=True)
class Rounds:
    """How far a sweep that stops when decided has come; follows from the run folders alone."""

    wanted: dict[str, int]  # cell id -> seeds that it is to have now, the first ones of the spec
    number: int  # of the round that is at work, or was the last
    contrasts: int = 0  # judged after the round before; 0 before the first
    undecided: int = 0
    given_up: int = 0  # of the undecided
    claims: int = 0  # of the spec, judged beside them
    open_claims: int = 0  # undecided ones
    unsettled: int = 0  # failed and cancelled runs: no seeds are added until they are tried again
    over: bool = False  # no further round will come

    @property
    def seeds(self) -> int:
        """The most that any cell is to have."""
        return max(self.wanted.values(), default=0)

    def said(self, stop: Stop) -> str:
        """What the plan says of it."""
        of = f"round {self.number}, {self.seeds} seeds (at most {stop.max_seeds}): "
        if self.unsettled:
            return f"{of}{self.unsettled} runs failed or were cancelled; seeds are added after `retry`"
        if not self.contrasts and not self.over:
            return f"{of}the first; {len(self.wanted) * stop.max_seeds} runs in all if nothing were ever decided"
        if self.over and not self.undecided + self.open_claims:
            return f"{of}the last; all is decided"
        given_up = f", {self.given_up} of them given up" if self.given_up else ""
        left = f"{self.undecided} of {self.contrasts} contrasts{' stay' if self.over else ''} undecided{given_up}"
        claims = f"; {self.open_claims} of {self.claims} claims undecided" if self.claims else ""
        return f"{of}{'the last; ' if self.over else ''}{left}{claims}"


def read(reader: Reader, value: Any, *place: str) -> Stop | None:
    """None for no value; notes faults in the reader."""
    if value is None:
        return None
    if not isinstance(value, dict):
        reader.add(f"stop takes {TAKES}, not {value!r}", *place)
        return None
    for key in value:
        if key not in WORDS:
            reader.add(f"stop: unknown key '{key}'{nearest(str(key), WORDS)} (it takes {TAKES})", *place, key)
            return None
    if value.get("when") != "decided":
        reader.add(f"stop.when takes decided, not {value.get('when')!r}", *place, "when", value=True)
        return None
    for key, default in (("max_seeds", None), ("step", 1)):
        number = value.get(key, default)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            reader.add(f"stop.{key} takes a whole number of seeds, 1 or more, not {number!r}", *place, key, value=True)
            return None
    futility = value.get("futility", FUTILITY)
    if futility is not None and not (isinstance(futility, float) and 0 < futility < 1):
        reader.add(
            f"stop.futility takes a chance between 0 and 1, such as {FUTILITY}, or null to give nothing up, not "
            f"{futility!r}",
            *place,
            "futility",
            value=True,
        )
        return None
    return Stop(value["max_seeds"], value.get("step", 1), futility)


def check(spec: "Spec", reader: Reader) -> None:
    """Notes what else of the spec does not go with `stop`."""
    stop, first = spec.stop, len(spec.seeds)
    if stop is None:
        return
    if first < FEWEST:
        why = "it takes two for a scatter, and three to decide"
        reader.add(f"seeds is {first}, the first round of `stop`: {why}; give seeds: {FEWEST} or more", "seeds")
    if stop.max_seeds <= first:
        reader.add(f"stop.max_seeds is {stop.max_seeds}, and the first round has {first} (seeds): give more", "stop")
    if not set(spec.baseline) - set(spec.control):
        reader.add(
            "stop has nothing to decide: name a baseline, such as baseline: {eps_high: 0.20}, of an axis that is no "
            "control",
            "stop",
        )
    if spec.design.kind in ("fractional", "sample"):
        why = f"stop decides arm by arm, and an effect of kind {spec.design.kind} takes all cells: design full or oat"
        reader.add(why, "stop")


def described(spec: "Spec", rounds: Rounds | None) -> dict[str, Any]:
    """For the manifest, where there is a `stop`: {} or {"stop": …}."""
    if spec.stop is None or rounds is None:
        return {}
    return {
        "stop": {
            "when": "decided",
            "max_seeds": spec.stop.max_seeds,
            "step": spec.stop.step,
            "futility": spec.stop.futility,
            "first": len(spec.seeds),
            "round": rounds.number,
            "wanted": rounds.wanted,
        }
    }
