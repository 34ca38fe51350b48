"""A pruned run is censored: it is in no statistic and no curve, its arm has no verdict, and every report says so."""

import json
from pathlib import Path

import pytest

from analysis import (
    averages,
    claims,
    factors,
    figures,
    html,
    latex,
    load,
    markdown,
    outcomes,
    panels,
    rates,
    report,
    scores,
    tables,
    terminal,
    undecided,
    verdict,
)
from harness import store
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep

LOW = {"plain": 0.0, "good": 0.05, "bad": -0.05, "noisy": 0.0}
RULE = {"rule": "median", "after": 10, "least": 3}


def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
    noise = (0.08, -0.07, 0.09, -0.02)[seed] if labels["arm"] == "noisy" else 0.001 * (seed % 2)
    return {"eval/accuracy": 0.5 + 0.1 * seed + LOW[labels["arm"]] + noise, "policy/entropy": 0.3 + 0.01 * seed}


def pruned_sweep(root: Path, *gone: str, seeds: int = 4, models: tuple[str, ...] = ("one",)) -> Path:
    """Arms in one or more models; `gone` names runs, as "bad 1" or "bad 1 two", pruned at step 20 of 60."""
    write_sweep(root, {"model": list(models), "arm": list(LOW)}, {"arm": "plain"}, curve, seeds, prune=RULE)
    for run in json.loads((root / "sweeps/made/manifest.json").read_text())["runs"]:
        name = f"{run['labels']['arm']} {run['seed']}"
        if {name, f"{name} {run['labels']['model']}"} & set(gone):
            prune(root, run["run"])
    return root


def prune(root: Path, id: str, step: int = 20) -> None:
    run = store.Run(root / "runs" / id)
    kept = [
        line for line in run.attempt_file("metrics", 0).read_text().splitlines() if json.loads(line)["step"] <= step
    ]
    run.attempt_file("metrics", 0).write_text("\n".join(kept) + "\n")
    run.write_status("pruned", step=step, steps=60, rule="median", why="best 0.4, median 0.5")


def words(root: Path) -> dict[str, str]:
    return {c.arm: c.word for c in report.judge(root, "made").headline()}


def test_its_arm_has_no_verdict_and_the_others_are_judged_as_if_it_were_not_there(tmp_path: Path) -> None:
    whole = {c.arm: c for c in report.judge(pruned_sweep(tmp_path / "a"), "made").headline()}
    assert {arm: c.word for arm, c in whole.items()} == {"good": "trick", "bad": "trap", "noisy": "inconclusive"}
    found = {c.arm: c for c in report.judge(pruned_sweep(tmp_path / "b", "bad 1", "bad 2"), "made").headline()}
    bad = found["bad"]
    assert (bad.word, bad.pruned, bad.effect, bad.seeds_more, bad.missing_pairs) == ("pruned", 2, None, 0, 4)
    assert found["good"].effect == whole["good"].effect and found["good"].pruned == 0
    # Holm over two arms in place of three
    assert found["good"].p_holm == pytest.approx(2 / 3 * whole["good"].p_holm)


def test_nothing_is_judged_against_a_baseline_of_which_a_run_was_pruned(tmp_path: Path) -> None:
    """The rule never does that; another sweep that has the run as an arm may."""
    assert set(words(pruned_sweep(tmp_path, "plain 0")).values()) == {"pruned"}


def test_a_curve_is_the_mean_of_the_runs_that_were_let_go_on_from_its_first_step(tmp_path: Path) -> None:
    sweep = load.load(pruned_sweep(tmp_path, "bad 3"), "made")
    assert "bad" not in set(sweep.frame.loc[sweep.frame["seed"] == 3, "arm"])
    table = tables.curve_table(sweep, tables.curves(sweep, "accuracy_by_arm"))
    bad = table[table["arm"] == "bad"]
    assert bad["step"].tolist() == [0, 10, 20, 30, 40, 50, 60] and set(bad["n"]) == {3}
    assert bad["raw"].tolist() == pytest.approx([100 * (0.5 + 0.1 - 0.05 + 0.001 / 3)] * 7)
    assert set(table.loc[table["arm"] == "good", "n"]) == {4}


def test_no_statistic_has_what_is_left_of_its_cell(tmp_path: Path) -> None:
    """Of bad in model one nothing; in model two, where no run of it was pruned, all."""
    sweep = load.load(pruned_sweep(tmp_path, "bad 1 one", models=("one", "two")), "made")
    by_run = scores.run_scores(sweep, "eval/accuracy", scores.reader(sweep, "last"))
    assert len(by_run) == 28 and len(sweep.censored) == 4
    effects = [e for e in averages.effects(sweep, by_run, averages.difference) if e.arm == "bad"]
    assert [(e.stratum["model"], len(e.values), e.pruned) for e in effects] == [("one", 0, True), ("two", 4, False)]
    assert averages.whole(effects) == [] and averages.whole(effects[1:]) == effects[1:]
    bad = {r.stratum["model"]: r.ours.runs for r in rates.rates(sweep, "arm") if r.stratum and r.arm == "bad"}
    assert bad == {"one": 0, "two": 4}
    says = factors.analyse(sweep, "arm").says
    assert "not in it: arm bad" in says
    assert "arm (plain, good, noisy)" in says
    data = figures.plot_factors.table(sweep)
    assert set(data.loc[data["by"] == "all", "arm"]) == {"good", "noisy"}
    assert data.loc[(data["arm"] == "bad"), "level"].tolist() == ["two"]


def test_it_is_listed_with_its_step_and_the_reports_say_what_was_done(tmp_path: Path) -> None:
    root = pruned_sweep(tmp_path, "bad 1", "bad 2")
    sweep = load.load(root, "made")
    assert sweep.progress() == "14 of 16 runs done; 2 pruned at step 20 of 60"
    assert [entry.said for entry in sweep.missing] == ["pruned at step 20 of 60"] * 2
    prune(root, sweep.missing[0].run, step=10)
    assert load.load(root, "made").progress().endswith("2 pruned at steps 10 to 20 of 60")
    said = " ".join(terminal.verdict(root, "made").split())
    assert "Pruned: 2 of 16 runs were stopped early, by the rule median, after 10 steps, since they fell behind" in said
    assert "✂ pruned, 2 runs" in said and "pruned at step 10 of 60" in said
    text = markdown.write(root, "made").read_text()
    assert "| ✂ pruned, 2 runs |" in text and "| pruned at step 10 of 60 |" in text
    tex = next(path for path in latex.write(root, "made") if path.stem == "verdict_arm").read_text()
    assert "bad & -- & -- & -- & & & 0 & -- & pruned" in " ".join(tex.split())
    page = html.write(root, "made").read_text()
    assert "pruned at step 10 of 60: best 0.4, median 0.5" in page and "Not judged" in page
    value = json.loads((root / "sweeps/made/verdict.json").read_text())
    assert [entry["reached"] for entry in value["missing"]] == [[10, 60], [20, 60]]
    caption = figures._lack(load.load(root, "made"))
    assert "Left out from their first step on: 2 pruned" in caption and "pruned at step 10 of 60" in caption
    assert outcomes.matched(report.judge(root, "made"), ["pruned"]) == "pruned: arm bad"


def test_a_claim_on_pruned_runs_is_undecided_and_asks_for_no_seeds(tmp_path: Path) -> None:
    root = clip_sweep(tmp_path, 0.03)
    whole = {claim.id: claim for claim in claims.check(load.load(root, "made"))}
    runs = json.loads((root / "sweeps/made/manifest.json").read_text())["runs"]
    gone = {"model": "small_aligned", "eps_high": "0.28"}
    prune(root, next(run["run"] for run in runs if run["labels"] == gone and run["seed"] == 2))
    found = {claim.id: claim for claim in claims.check(load.load(root, "made"))}
    for name in whole:
        for before, now in zip(whole[name].findings, found[name].findings, strict=True):
            touched = before.stratum == {"model": "small_aligned"} and ("0.28 -" in now.what or "rise" in now.what)
            assert bool(now.pruned) == touched
            assert touched or now == before
            if touched:
                assert (now.effect, now.outcome, now.seeds_more) == (None, "undecided", 0)
                assert report.found(now) == "1 run pruned, undecided"
    torn = [claim for claim in found.values() if any(f.pruned for f in claim.findings)]
    assert torn and all("for pruned runs" in claim.why or claim.word == "contradicted" for claim in torn)


def test_a_round_that_was_judged_stays_as_it_was_when_a_later_one_is_pruned(tmp_path: Path) -> None:
    """noisy is open after three seeds and asks for more; its fourth is pruned, and it asks for no other."""
    root = pruned_sweep(tmp_path, "noisy 3")
    stop = {"when": "decided", "max_seeds": 10, "step": 1, "futility": None, "first": 3, "round": 2, "wanted": {}}
    manifest = json.loads((change_manifest(root, stop=stop) / "sweeps/made/manifest.json").read_text())
    judge = undecided.judge(root, "made", manifest)
    noisy = {run["cell"] for run in manifest["runs"] if run["labels"]["arm"] in ("noisy", "plain")}
    first = judge({run["run"] for run in manifest["runs"] if run["seed"] < 3})
    assert first.undecided == 1 and set(first.cells) == noisy
    second = judge({run["run"] for run in manifest["runs"]})
    assert second.undecided == 0 and second.cells == {}


def test_of_figures_only_the_arms_that_are_whole_are_compared(tmp_path: Path) -> None:
    sweep = load.load(pruned_sweep(tmp_path, "bad 1"), "made")
    summary = figures.plot_summary.table(sweep, "arm", panels.strata(sweep, "arm"))
    assert set(summary["arm"]) == {"plain", "good", "noisy"}
    shown = [c for c in verdict.judge(sweep) if c.arm == "bad"]
    assert {c.word for c in shown} == {"pruned"} and all(c.tokens_change != c.tokens_change for c in shown)
    assert figures.draw(tmp_path, "made", ["effects"])[0].exists()
