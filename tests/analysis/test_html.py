"""The HTML report: its numbers, its escaping, its silence towards any network, and its behaviour in a real browser."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from analysis import html, load, report, stats, tables, terminal
from harness import store
from harness.sweep.cli import main
from tests.analysis.chromium import Browser
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep
from tests.analysis.pages import EVIL, Page, busy_sweep

SIZES = ((1280, 900), (390, 844))


def written(root: Path) -> str:
    return html.write(root, "made").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return html.write(busy_sweep(tmp_path_factory.mktemp("busy")), "made")


# -- what it says --------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_verdict(four_words: Path) -> None:
    rows = [row for row in Page(written(four_words)).rows if row[0] in ("good", "bad", "same", "noisy")]
    assert [row[:3] + row[4:] for row in rows[:4]] == [
        ["good", "▲ trick", "+5.0 [+4.7, +5.3]", "50.0 → 55.0", "4", "<.001"],
        ["bad", "▼ trap", "-5.0 [-5.3, -4.7]", "50.0 → 45.0", "4", "<.001"],
        ["same", "○ neutral", " 0.0 [-0.2, +0.2]", "50.0 → 50.0", "4", "1.000"],
        ["noisy", "? inconclusive +99+ seeds", "+2.0 [-11.0, +15.0]", "50.0 → 52.0", "4", "1.000"],
    ]
    said = terminal.verdict(four_words, "made")
    for arm, word, interval, _, means, pairs, p in rows[:4]:
        line = next(line for line in said.splitlines() if line.startswith(f"    {arm} "))
        assert all(part in line for part in (means, interval.strip(), f" {pairs} ", p, " ".join(word.split()[:2])))


def test_the_cards_say_where_an_arm_helps_and_hurts(four_words: Path) -> None:
    cards = re.findall(r'<article class="card">(.*?)</article>', written(four_words), re.S)
    said = {re.search(r"<h3>arm (\w+)", card)[1]: set(re.findall(r"<p><b>(\w[\w ]*)</b></p>", card)) for card in cards}
    assert said == {"good": {"Helps"}, "bad": {"Hurts"}, "same": {"Makes no difference"}, "noisy": {"Undecided"}}


def test_the_curves_are_means_over_seeds_to_five_digits(tmp_path: Path) -> None:
    line = Page(written(clip_sweep(tmp_path, 0.04))).line("held-out accuracy (%)", "small aligned", "0.28")
    values = [44.1, 48.9, 54.0, 59.1]  # as in test_report: .40 .45 .50 .55 + .04 + jitter, in percent
    assert (line["n"], line["band"]) == (4, "t")
    assert line["raw"]["mean"][0] == line["smooth"]["mean"][0] == round(sum(values) / 4, 3)
    assert line["raw"]["high"][0] == float(f"{stats.paired(values).high:.5g}")
    assert [seed["raw"][0] for seed in line["seeds"]] == values
    assert line["x"] == [0, 10, 20, 30, 40, 50, 60]


def test_the_claims_and_their_findings_are_there(tmp_path: Path) -> None:
    page = written(clip_sweep(tmp_path, 0.04))
    assert "T4 <span" in page and "5 findings, 5 supported" in page
    assert ["small aligned", "✓ supported", "+4.1 [+3.8, +4.3] points"] in Page(page).rows


def test_smoothing_is_that_of_the_figures(busy: Path) -> None:
    sweep = load.load(busy.parents[2], "made")
    table = tables.curve_table(sweep, tables.curves(sweep, "entropy_by_arm"))
    line = Page(busy.read_text()).line("policy entropy (nats)", "large", "other")
    drawn = table[(table["model"] == "large") & (table["arm"] == "other")]
    for column in ("mean", "low", "high"):
        assert line["smooth"][column] == [float(f"{v:.5g}") for v in drawn[column]]


def test_what_is_missing_is_named_with_its_error(busy: Path) -> None:
    page = Page(busy.read_text())
    rows = {row[1].split()[-1]: row for row in page.rows if len(row) == 7 and "a_much_longer_name" in row[3]}
    assert set(rows) == {"failed", "diverged", "cancelled", "stopped"}
    assert rows["failed"][-1] == f'ValueError: "{EVIL}"'
    assert "36 of 40 runs done; 1 failed, 1 diverged, 1 cancelled, 1 stopped" in busy.read_text()


def test_the_runs_are_all_there_with_links_that_resolve(busy: Path) -> None:
    links = [href for tag, _, href in Page(busy.read_text()).links if tag == "a" and href.startswith("..")]
    assert len(set(links)) == 40 and all((busy.parent / href).is_dir() for href in links)


def test_provenance_counts_machines_and_names_none(four_words: Path) -> None:
    for number, run in enumerate(sorted((four_words / "runs").iterdir())):
        value = {
            "commit": "c0ffee" * 7,
            "diff": "x" if number < 2 else "",
            "python": "3.11.7",
            "host": f"node-{number % 3}",
        }
        value |= {"packages": {"torch": "2.13.0"}, "command": ["/somewhere/harness"]}
        store.write_atomic(run / "provenance.json", json.dumps(value))
        store.Run(run).write_status("done", seconds=1800.0)
        (run / "timing").mkdir(exist_ok=True)
        line = {"step": 0, "time": 0.0, "seconds": {"generate": 720.0, "update": 1075.0, "checkpoint": 5.0}}
        (run / "timing/a000.jsonl").write_text(json.dumps(line) + "\n")
    page = written(four_words)
    for said in (
        "<dt>commit</dt><dd>c0ffeec0ffee</dd>",
        "<dt>uncommitted changes</dt><dd>2 of 20 runs</dd>",
        "<dt>packages</dt><dd>torch 2.13.0</dd>",
        "<dt>machines</dt><dd>3</dd>",
        "<dt>time spent</dt><dd>10.00 CPU-hours in 20 runs: update 60 %, generate 40 %</dd>",
    ):
        assert said in page
    assert "node-1" not in page and "/somewhere" not in page and str(four_words) not in page


def test_nothing_recorded_and_no_baseline_are_said(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {}, seeds=3, steps=1)
    assert report.NOTHING_YET in written(root)
    assert "Nothing to compare: the spec names no baseline." in written(change_manifest(root, baseline={}))


def test_the_command_writes_html_and_with_md_markdown(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, file in (([], "report.html"), (["--md"], "report.md")):
        assert main(["--root", str(four_words), "report", "made", *words]) == 0
        assert capsys.readouterr().out.strip() == str(four_words / "sweeps/made" / file)
        assert (four_words / "sweeps/made" / file).exists()


def test_a_gap_breaks_the_line_and_the_means_end_with_the_first_seed(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"policy/entropy": 0.3} if (step < 5 or step > 30) and step < 50 - 5 * seed else {}

    page = Page(written(write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, curve, seeds=2)))
    line = page.line("policy entropy (nats)", "made", "a")
    assert line["x"] == [*range(5), *range(31, 45)] and line["cuts"] == [5]
    assert line["seeds"][0]["x"][-1] == 49 and line["seeds"][0]["cuts"] == [5]


# -- what it must not do -------------------------------------------------------------------------------------------


def test_text_from_specs_and_errors_is_escaped(busy: Path) -> None:
    text = busy.read_text()
    page = Page(text)
    assert EVIL not in text and len(page.scripts) == 2 and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert page.data()["views"][0]["arms"][1]["name"] == EVIL
    assert "and {{data}}?</h1>" in text  # what looks like a marker of the template is text


def test_nothing_is_asked_of_any_network(busy: Path) -> None:
    text = busy.read_text()
    links = [link for link in Page(text).links if not link[2].startswith(("#", "../../runs/"))]
    assert links == [("a", "href", "https://arxiv.org/abs/2508.08221")]
    assert not re.search(
        r"url\(\s*['\"]?(?!#)|@import|<link|<img|<iframe|fetch\(|XMLHttpRequest", text.replace("url(#clip", "")
    )
    assert "default-src 'none'" in text


def test_it_is_small_and_ships_its_page(busy: Path) -> None:
    assert 100_000 < busy.stat().st_size < 3_000_000
    project = tomllib.loads((Path(html.__file__).parents[1] / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["package-data"] == {"analysis": ["page/*", "notebooks/*.ipynb"]}
    assert {file.name for file in html.PAGE.iterdir()} == {"report.html", "report.css", "report.js"}


# -- in a browser --------------------------------------------------------------------------------------------------


def drawn(browser: Browser, what: str = "path.line") -> str:
    return browser.ask(f"[...document.querySelectorAll('#panels {what}')].map(p => p.getAttribute('d')).join()")


def middle(browser: Browser, share: float, panel: int = 0) -> tuple[float, float]:
    box = f"document.querySelectorAll('#panels svg')[{panel}].getBoundingClientRect()"
    browser.ask(f"window.scrollBy(0, {box}.top - 100)")
    left, top, width, height = browser.ask(f"(b => [b.left, b.top, b.width, b.height])({box})")
    return left + share * width, top + height / 2


@pytest.mark.parametrize("size", SIZES)
def test_it_loads_offline_without_a_complaint_and_fits(size: tuple[int, int], busy: Path, browser: Browser) -> None:
    browser.errors.clear(), browser.requests.clear()
    browser.load(busy, *size)
    assert browser.ask("document.querySelectorAll('#panels svg path.line').length") == 8
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    for width in browser.ask("[...document.querySelectorAll('section')].map(s => s.getBoundingClientRect().right)"):
        assert width <= size[0]
    assert browser.errors == [] and browser.requests == [busy.as_uri()]
    assert browser.ask("document.querySelectorAll('script').length") == 2


def test_metric_smoothing_seeds_bands_and_arms_change_the_curves(busy: Path, browser: Browser) -> None:
    browser.load(busy, *SIZES[0])
    seen = [drawn(browser)]
    for press in (
        "const m = document.getElementById('metric'); m.selectedIndex = 2; m.dispatchEvent(new Event('change'))",
        "document.getElementById('smooth').click()",
        "document.getElementById('seeds').click()",
        "document.querySelectorAll('#legend button')[2].click()",
    ):
        browser.ask(f"(() => {{ {press} }})()")
        seen.append(drawn(browser))
    assert len(set(seen)) == len(seen)
    assert browser.ask("document.getElementById('said').textContent").startswith("policy entropy (nats)")
    assert "not smoothed" in browser.ask("document.getElementById('said').textContent")
    assert browser.ask("document.querySelectorAll('#panels .seed').length") == 2 * 3 * 5
    assert drawn(browser, ".band")
    browser.ask("document.getElementById('band').click()")
    assert not drawn(browser, ".band")


@pytest.mark.parametrize("size", SIZES)
def test_hover_shows_the_values_of_a_step(size: tuple[int, int], busy: Path, browser: Browser) -> None:
    browser.load(busy, *size)
    browser.mouse("mouseMoved", *middle(browser, 0.6))
    tip = browser.ask("[...document.querySelectorAll('.tip')].filter(t => !t.hidden).map(t => t.innerText).join()")
    step = int(re.match(r"step (\d+)", tip)[1])
    line = Page(busy.read_text()).line("held-out accuracy (%)", "small base", "plain")
    mean = line["smooth"]["mean"][line["x"].index(step)]
    assert f"plain {float(f'{mean:.4g}'):g} [" in " ".join(tip.split())
    assert browser.ask("document.querySelectorAll('#panels .rule').length") == 2
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")


def test_drag_and_wheel_zoom_and_a_double_click_resets(busy: Path, browser: Browser) -> None:
    browser.load(busy, *SIZES[0])
    whole = drawn(browser)
    (x, y), (to, _) = middle(browser, 0.3), middle(browser, 0.6)
    browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", to, y, button="left", buttons=1)
    browser.mouse("mouseReleased", to, y, button="left", clickCount=1)
    dragged = drawn(browser)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    wheeled = drawn(browser)
    assert len({whole, dragged, wheeled}) == 3 and not browser.ask("document.getElementById('reset').hidden")
    for count in (1, 2):
        browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
        browser.mouse("mouseReleased", x, y, button="left", clickCount=count)
    assert drawn(browser) == whole and browser.ask("document.getElementById('reset').hidden")


def test_the_keyboard_does_it_all(busy: Path, browser: Browser) -> None:
    browser.load(busy, *SIZES[0])
    whole = drawn(browser)
    browser.ask("document.querySelector('#panels svg').focus()")
    browser.key("ArrowRight"), browser.key("ArrowRight")
    assert browser.ask("document.querySelector('.tip').innerText").startswith("step 5\n")
    browser.key("+")
    assert drawn(browser) != whole
    browser.key("Escape")
    assert drawn(browser) == whole
    for control in ("select", "input", "#legend button", "th button", ".scroll"):
        assert browser.ask(
            f"(n => {{ n.focus(); return document.activeElement === n }})(document.querySelector('{control}'))"
        )


def test_a_heading_sorts_the_runs_with_the_missing_last(busy: Path, browser: Browser) -> None:
    browser.load(busy, *SIZES[0])
    column = browser.ask(
        "[...document.querySelectorAll('.sortable th')].findIndex(h => h.innerText.includes('last 2'))"
    )
    read = f"[...document.querySelectorAll('.sortable tbody tr')].map(r => r.cells[{column}].innerText)"
    for ascending in (True, False):
        browser.ask(f"document.querySelectorAll('.sortable th button')[{column}].click()")
        values = browser.ask(read)
        known = [float(value) for value in values if value != "-"]
        assert known == sorted(known, reverse=not ascending) and values[36:] == ["-"] * 4
