"""Draws one prompt's response under each arm, with the tokens whose gradient was clipped marked.

Above: a filled box; below: an underline; so that grey print tells the same. Of every stratum the evaluation step, seed
and sample with the most clipped tokens are shown, which is a choice of the extreme, and the caption says so. Leaves
out: counts over a run (`plot_tokens.py`).
"""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import panels, style, tokens
from analysis.load import Sweep
from analysis.panels import Drawing
from analysis.tokens import Response

if TYPE_CHECKING:
    import pandas as pd

SIZE = 6.0  # points
COLUMN = 0.602 * SIZE / 72  # inches: a character of the monospaced font
LINE = 1.55 * SIZE / 72
LONGEST = 160  # tokens of a response; of a longer one the stretch with the most clipped tokens is shown
BOX, EDGE, UNDER = "#F7CFB4", "#B64200", "#0072B2"
NEWLINE = "↵"


@dataclass(frozen=True)
class Shown:
    """One arm's response; `start` is the first token that is drawn."""

    stratum: panels.Stratum
    arm: str
    seed: int
    response: Response
    start: int


def draw(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing:
    """`clipped_text_by_<axis>`."""
    axis = panels.axis_of(sweep, figure)
    strata = panels.strata(sweep, axis)
    chosen = [pick(sweep, stratum, axis) for stratum in strata]
    data = table([shown for found in chosen if _is_marked(found) for shown in found], axis, list(strata[0]))
    said = (
        "The same prompt's response under each arm. Boxed: the token's gradient was clipped above in some update of "
        "the step (A > 0), underlined: below (A < 0). Chosen per panel: of the recorded responses those with the most "
        "tokens clipped above, then below, at a step whose prompt all arms share; not a typical response."
    )
    return Drawing(_page(sweep, axis, strata, chosen, width), data, said + panels.held(sweep, axis))


def pick(sweep: Sweep, stratum: panels.Stratum, axis: str) -> list[Shown]:
    """A response per arm to one prompt at one step of one seed: where the arms' most clipped ones clip most together,
    first above, then below.

    Arms without recorded tokens are left out; empty where fewer than two arms share a prompt. Ties go to the lowest
    seed, then the lowest step.
    """
    there: dict[tuple[int, int, str], dict[str, Response]] = {}  # seed, step, prompt -> arm -> the most clipped
    for arm in panels.planned(sweep, stratum, axis):
        for entry in sweep.having(stratum | {axis: arm}):
            for response in tokens.responses(tokens.folder(sweep) / entry.run):
                if response.clipped:
                    best = there.setdefault((entry.seed, response.step, response.prompt), {})
                    if arm not in best or _marks(response) > _marks(best[arm]):
                        best[arm] = response
    most = max((len(arms) for arms in there.values()), default=0)
    if most < 2:
        return []
    full = {place: arms for place, arms in there.items() if len(arms) == most}
    sums = {place: tuple(map(sum, zip(*map(_marks, arms.values()), strict=True))) for place, arms in full.items()}
    place = min(full, key=lambda p: ([-total for total in sums[p]], p))
    return [Shown(stratum, arm, place[0], response, _start(response)) for arm, response in full[place].items()]


def _marks(response: Response) -> tuple[int, int]:
    """Tokens clipped above and below."""
    return response.clipped.count(1), response.clipped.count(-1)


def _is_marked(found: list[Shown]) -> bool:
    return any(any(shown.response.clipped) for shown in found)


def _start(response: Response) -> int:
    """Where the stretch of LONGEST tokens with the most clipped ones begins; 0 for a shorter response."""
    marks = [abs(mark) for mark in response.clipped]
    starts = range(max(1, len(marks) - LONGEST + 1))
    return max(starts, key=lambda i: (sum(marks[i : i + LONGEST]), -i))


def table(shown: list[Shown], axis: str, others: list[str]) -> "pd.DataFrame":
    """A row per drawn token: the labels, seed, step, reward, prompt, position, token, clipped (1, -1 or 0)."""
    import pandas as pd

    rows = [
        s.stratum
        | {axis: s.arm, "seed": s.seed, "step": s.response.step, "reward": s.response.reward}
        | {"prompt": s.response.prompt, "position": i, "token": s.response.tokens[i], "clipped": s.response.clipped[i]}
        for s in shown
        for i in range(s.start, min(len(s.response.tokens), s.start + LONGEST))
    ]
    names = [*others, axis, "seed", "step", "reward", "prompt", "position", "token", "clipped"]
    return pd.DataFrame(rows, columns=names)


# -- drawing -------------------------------------------------------------------------------------------------------


def _page(sweep: Sweep, axis: str, strata: list[panels.Stratum], chosen: list[list[Shown]], width: float) -> Any:
    """One set of axes in units of characters and lines."""
    from matplotlib import pyplot

    columns = int((width - 0.35) / COLUMN)
    blocks = [_block(sweep, axis, s, found, columns) for s, found in zip(strata, chosen, strict=True)]
    lines = sum(height for _, height in blocks)
    figure, axes = pyplot.subplots(figsize=(width, LINE * lines + 0.45), layout="constrained")
    axes.set_xlim(0, columns)
    axes.set_ylim(lines, 0)
    axes.set_axis_off()
    top = 0.0
    for pieces, height in blocks:
        for piece in pieces:
            _put(axes, piece, top)
        top += height
    handles = [
        pyplot.Rectangle((0, 0), 1, 1, facecolor=BOX, edgecolor=EDGE, linewidth=0.6),
        pyplot.Line2D([], [], color=UNDER, linewidth=1.2),
    ]
    panels.legend(figure, "", handles, ["clipped above", "clipped below"])
    return figure


@dataclass(frozen=True)
class Piece:
    """A run of characters at (column, line) of its block."""

    column: int
    line: float
    text: str
    mark: int = 0
    bold: bool = False
    colour: str = "#222222"


def _block(
    sweep: Sweep, axis: str, stratum: panels.Stratum, found: list[Shown], columns: int
) -> tuple[list[Piece], float]:
    """One stratum: title and prompt, then a heading and the wrapped response of each arm. Its height in lines."""
    title = panels.title(sweep, stratum)
    pieces, line = [], 0.0
    if title:
        pieces.append(Piece(0, line, title, bold=True))
        line += 1.15
    if not _is_marked(found):
        said = "no recorded response has a clipped token" if found else panels.NOT_RECORDED
        return [*pieces, Piece(0, line, said, colour=style.MUTED)], line + 1.8
    first = found[0]
    prompt = f"prompt (seed {first.seed}, step {first.response.step}): {' '.join(first.response.prompt.split())}"
    for text in textwrap.wrap(style.printable(prompt, MONO), columns, max_lines=4, placeholder=" …"):
        pieces.append(Piece(0, line, text, colour=style.MUTED))
        line += 1
    for shown in found:
        line += 0.25
        marks = shown.response.clipped
        said = (
            f"{marks.count(1)} above, {marks.count(-1)} below, of {len(marks)} tokens; reward {shown.response.reward:g}"
        )
        pieces.append(Piece(0, line, f"{panels.label(sweep, axis, shown.arm)}: {said}", bold=True))
        laid, height = lay(shown, columns)
        pieces += [Piece(p.column, p.line + line + 1.1, p.text, p.mark) for p in laid]
        line += 1.1 + height
    return pieces, line + 0.9


MONO = "DejaVu Sans Mono"


def lay(shown: Shown, columns: int) -> tuple[list[Piece], int]:
    """The tokens from `start` on, each a piece on a line of `columns` characters, and the number of lines.

    A token's own space before it stands outside its mark; where no token has one, a space goes between any two.
    """
    named = shown.response.tokens
    sub_words = any(token[:1] in tokens.MARKS for token in named)
    stop = min(len(named), shown.start + LONGEST)
    pieces = [Piece(0, 0, "…")] if shown.start else []
    column, line = len(pieces), 0
    for i in range(shown.start, stop):
        token = named[i]
        space = bool(column) and (not sub_words or token[:1] in tokens.MARKS)
        ends = token.count("\n") + token.count("Ċ")
        body = token.strip(tokens.MARKS + "\nĊ") or ("" if ends else "␣")
        text = (style.printable(body, MONO) + NEWLINE * min(ends, 1))[:columns]
        if column + space + len(text) > columns:
            column, line, space = 0, line + 1, False
        pieces.append(Piece(column + space, line, text, shown.response.clipped[i]))
        column += space + len(text)
        if ends:
            column, line = 0, line + 1
    if stop < len(named):
        pieces.append(Piece(min(column + 1, columns - 1), line, "…"))
    return pieces, line + 1


def _put(axes: Any, piece: Piece, top: float) -> None:
    from matplotlib.patches import Rectangle

    y = top + piece.line
    if piece.mark > 0:
        axes.add_patch(
            Rectangle(
                (piece.column - 0.1, y + 0.04),
                len(piece.text) + 0.2,
                0.9,
                fc=BOX,
                ec=EDGE,
                lw=0.5,
                zorder=1,
                clip_on=False,
            )
        )
    if piece.mark < 0:
        axes.plot([piece.column, piece.column + len(piece.text)], [y + 0.93] * 2, color=UNDER, linewidth=1.2, zorder=1)
    axes.text(
        piece.column,
        y + 0.5,
        piece.text,
        family=MONO,
        fontsize=SIZE,
        fontweight="bold" if piece.bold or piece.mark > 0 else "normal",
        color=piece.colour,
        va="center_baseline",
        parse_math=False,
        zorder=2,
    )
