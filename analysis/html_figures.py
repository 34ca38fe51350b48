"""The figures in the HTML report: the drawn PNGs inside the page, with links to their PDF and CSV beside it.

A picture is `<name>.web.png`, else the print-sized PNG. What no longer fits into `LIMIT` is linked and not shown.
Leaves out: drawing (`figures.py`).
"""

import base64
from pathlib import Path

from analysis import drawn
from analysis.html_parts import esc, fold
from analysis.load import Sweep

LIMIT = 1_400_000  # characters of all pictures together
OPEN = 3  # figures that need no click


def body(sweep: Sweep) -> str:
    """Empty where nothing has been drawn."""
    found, spent = [], 0
    for place, png in enumerate(drawn.existing(sweep)):
        text = base64.b64encode(picture(png)).decode()
        spent += len(text)
        found.append(_figure(png.stem, text if spent <= LIMIT else "", opened=place < OPEN))
    return "".join(found)


def picture(png: Path) -> bytes:
    """The PNG for the page."""
    web = png.with_suffix(f"{drawn.WEB}.png")
    return (web if web.exists() else png).read_bytes()


def _figure(name: str, text: str, opened: bool) -> str:
    links = f'<a href="figures/{esc(name)}.pdf">PDF</a> <a href="figures/{esc(name)}.csv">plotted numbers</a>'
    shown = f'<img alt="{esc(name)}" src="data:image/png;base64,{text}">' if text else "<p>Too large for this page.</p>"
    return fold(f"<b>{esc(name)}</b>", f'{shown}<p class="note">{links}</p>', opened, "figure")
