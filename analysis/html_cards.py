"""A card per arm in the HTML report: where it helps, where it hurts, where it makes no difference, what is undecided.

Then what the arm costs, what it does to entropy, and on what the effect of its axis depends.
Leaves out: the numbers' tables (`html_verdict.py`).
"""

import math

from analysis import report, sequential, text
from analysis import verdict as judging
from analysis.html_parts import esc, fold, sign, stratum, verdict_badge

# where an arm's contrasts go on its card, and under which words
CARD: dict[str, tuple[str, ...]] = {"helps": ("trick",), "hurts": ("trap",), "makes no difference": ("neutral",)}
CARD |= {"undecided": ("inconclusive", "description only"), "not judged": ("pruned",)}
FOLDED = 4  # places from which on what is neither help nor harm is folded away


def body(judged: report.Judged, depends: dict[str, str]) -> str:
    """`depends`: axis -> on what its effect depends. Empty where nothing is compared."""
    end, cards = judged.sweep.manifest["endpoint"], []
    for axis in judged.sweep.baseline:
        contrasts = [c for c in judged.headline() if c.axis == axis]
        arms = [arm for arm in judged.sweep.axes[axis] if any(c.arm == arm for c in contrasts)]
        cards += [_card(judged, axis, arm, contrasts, depends.get(axis, "")) for arm in arms]
    said = f"On {esc(end['metric'])}, mean of the last {end['last']} evaluations; differences with intervals of "
    said += f"{sequential.interval(judged.sweep.manifest)}."
    return f'<p>{said}</p><div class="cards">{"".join(cards)}</div>' if cards else ""


def _card(judged: report.Judged, axis: str, arm: str, contrasts: list[judging.Contrast], depends: str) -> str:
    mine = [c for c in contrasts if c.arm == arm]
    key = judged.sweep.manifest["keys"].get(axis) or axis
    lines = [f"<h3>{esc(axis)} {esc(arm)} <small>against {esc(judged.sweep.baseline[axis])}</small></h3>"]
    lines += [f'<p class="key">sets {esc(key)}</p>'] if key != axis else []
    if beside := next((c.confounded for c in mine if c.confounded), ""):
        lines.append(f'<p class="note">Cannot be told from {esc(beside.strip("()"))}.</p>')
    lines += [_part(verb, [c for c in mine if c.word in words], len(mine)) for verb, words in CARD.items()]
    lines += [_cost(mine), _entropy(judged, axis, arm)]
    lines += [f'<p class="note">All arms of {esc(axis)}: {esc(depends)}</p>'] if depends else []
    return f'<article class="card">{"".join(lines)}</article>'


def _part(verb: str, contrasts: list[judging.Contrast], of: int) -> str:
    if not contrasts:
        return f'<p class="none">{verb.capitalize()}: nowhere shown</p>' if verb in ("helps", "hurts") else ""
    places = f" <small>in {len(contrasts)} of {of} places</small>" if of > 1 else ""
    listed = f"<ul>{''.join(map(_item, contrasts))}</ul>"
    if len(contrasts) >= FOLDED and verb not in ("helps", "hurts"):
        return fold(f"<b>{verb.capitalize()}</b>{places}", listed, opened=False)
    return f"<p><b>{verb.capitalize()}</b>{places}</p>{listed}"


def _item(c: judging.Contrast) -> str:
    _, _, interval, pairs, _, _ = report.cells(c)
    small = ", ".join(part for part in (f"n = {pairs}", report.after_word(c)) if part)
    return (
        f"<li>{sign(c.word)} {stratum(c.stratum)} <small>{esc(small)}</small><br>"
        f'<span class="i">{esc(interval)} {esc(text.scale(c.metric)[2])}</span></li>'
    )


def _cost(contrasts: list[judging.Contrast]) -> str:
    """Tokens and length relative to the baseline: the range over the places, or the one number."""
    said = []
    for name, changes in (
        ("generated tokens", [c.tokens_change for c in contrasts]),
        ("response length", [c.length_change for c in contrasts]),
    ):
        known = [change for change in changes if math.isfinite(change)]
        if known:
            low, high = report.change(min(known)), report.change(max(known))
            said.append(f"{name} {low if low == high else f'{low} to {high}'}")
    return f"<p><b>Costs</b> <small>relative to the baseline</small><br>{esc('; '.join(said))}</p>" if said else ""


def _entropy(judged: report.Judged, axis: str, arm: str) -> str:
    """Where the arm moves entropy, when something else was the endpoint."""
    if judged.sweep.manifest["endpoint"]["metric"] == judging.ENTROPY:
        return ""
    contrasts = [c for c in judged.table(axis, "area", judging.ENTROPY) if c.arm == arm]
    moved = {word: [c for c in contrasts if c.word == word] for word in ("higher", "lower")}
    said = [f"{verdict_badge(word)}: {_places(where)}" for word, where in moved.items() if where]
    return f"<p><b>Entropy</b> <small>whole curve</small><br>{'<br>'.join(said) or 'no difference shown'}</p>"


def _places(contrasts: list[judging.Contrast]) -> str:
    return "; ".join(stratum(c.stratum) for c in contrasts)
