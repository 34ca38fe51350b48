"""Single tokens: sums over steps, what a word is, one number a run, and how a response is laid out."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from analysis import load, plot_text, style, tokens
from analysis.tokens import Response, Totals
from harness import store
from tests.analysis.conftest import many_axes_sweep, write_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> load.Sweep:
    return load.load(many_axes_sweep(tmp_path_factory.mktemp("tokens"), seeds=2, steps=4), "made")


def lines(run: Path, kind: str, attempt: int, records: list[dict[str, object]]) -> None:
    (run / kind).mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    store.Run(run).attempt_file(kind, attempt).write_text(text)


def counts(step: int, high: dict[str, int], total: int | None = None) -> dict[str, object]:
    line: dict[str, object] = {"step": step, "probability": [1, 0, 0, 0, 2, 7], "groups": [1, 3], "high": high}
    return line | {"high_total": sum(high.values()) if total is None else total, "low": {}, "low_total": 0}


def test_counts_are_summed_over_steps_and_a_resumed_attempt_cuts_the_one_before(tmp_path: Path) -> None:
    lines(tmp_path, "counts", 0, [counts(0, {"so": 2}), counts(1, {"so": 5}), counts(2, {"is": 9})])
    before = tokens.totals(tmp_path)
    assert before and before.high == {"so": 7, "is": 9}
    lines(tmp_path, "counts", 1, [counts(1, {"so": 1, "is": 1})])
    assert tokens.totals(tmp_path) == Totals([2, 0, 0, 0, 4, 14], Counter({"so": 3, "is": 1}), 4, Counter(), 0)


def test_a_run_without_counts_is_left_out_and_none_clipped_is_no_share(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {"policy/entropy": 1.0}, seeds=2, steps=2)
    first, _ = (entry.run for entry in load.load(root, "made").runs)
    lines(root / "runs" / first, "counts", 0, [counts(0, {})])
    found = tokens.per_run(load.load(root, "made"), root)
    assert list(found) == [first] and all(math.isnan(value) for value in found[first].values())


def test_shares_are_of_all_that_was_clipped_named_or_not(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {"policy/entropy": 1.0}, seeds=1, steps=2)
    (run,) = (entry.run for entry in load.load(root, "made").runs)
    # connectives 3 + 2, function words 1, of 10 + 2 clipped, of which 6 are among the step's most frequent
    lines(root / "runs" / run, "counts", 0, [counts(0, {"Ġso": 3, "is": 1}, total=10), counts(1, {"▁Wait": 2})])
    found = tokens.per_run(load.load(root, "made"), root)[run]
    assert found == pytest.approx({"clipped/connective_share": 5 / 12, "clipped/function_share": 1 / 12})


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("ĠTherefore", "connective"),
        ("▁but", "connective"),
        (" The", "function word"),
        (",", "function word"),
        ("17", "other"),
        ("Ġ", "other"),
        ("thereforeness", "other"),
        ("a", "other"),
    ],
)
def test_a_word_is_known_whatever_its_case_and_the_mark_of_its_space(token: str, kind: str) -> None:
    assert tokens.kind(token) == kind


def test_no_word_is_both_and_every_word_of_the_miniature_models_is_placed() -> None:
    from harness.lab import vocabulary

    assert not tokens.CONNECTIVES & tokens.FUNCTION_WORDS
    assert {word for word in vocabulary.WORDS if tokens.kind(word) == "other"} == {*"Q=?A", "answer"}


def test_the_most_clipped_tokens_come_first_with_their_shares() -> None:
    one = Totals([0, 0, 0, 0, 0, 500], Counter({"7": 3, "so": 1}), 6, Counter({"is": 4}), 4)
    two = Totals([0, 0, 0, 0, 0, 1500], Counter({"so": 2, "is": 2}), 4, Counter(), 0)
    table = tokens.clipped_table([one, two], most=2)
    # 7 and so have 3 each of 10 clips among 2,000 sampled tokens; equal counts stand in the order of their text
    assert table[["rank", "token", "count", "share", "per_10k"]].values.tolist() == [
        [1, "7", 3, 30.0, 15.0],
        [2, "so", 3, 30.0, 15.0],
    ]
    assert tokens.clipped_table([one], most=9, side="low")["token"].tolist() == ["is"]


def test_pooled_shares_weigh_a_longer_run_more_and_seeds_stand_beside() -> None:
    runs = {"a": Totals([3, 0, 0, 0, 0, 1], Counter(), 0, Counter(), 0)}
    runs |= {"b": Totals([0, 0, 0, 0, 0, 12], Counter(), 0, Counter(), 0)}
    table = tokens.probability_table(runs, {"a": 0, "b": 7})
    first = table[table["interval"] == tokens.INTERVALS[0]].set_index("seed")
    assert first["share"].to_dict() == {"all": 100 * 3 / 16, "0": 75.0, "7": 0.0}
    assert first["tokens"].to_dict() == {"all": 3, "0": 3, "7": 0}


def test_only_the_first_steps_tell_of_the_model_as_it_was_given(sweep: load.Sweep) -> None:
    easy = next(entry.run for entry in sweep.runs if entry.labels["data"] == "easy")
    assert tokens.groups(sweep, [easy], first=1) == {easy: [2, 0, 2, 0, 4]}
    assert tokens.groups(sweep, [easy, easy, "gone"], first=3) == {easy: [6, 0, 6, 0, 12]}


def test_of_a_stratum_the_responses_with_the_most_clips_to_one_prompt_are_shown(sweep: load.Sweep) -> None:
    stratum = {"model": "small_base", "data": "easy", "advantage": "group_z", "weight": "token_mean"}
    low, high = plot_text.pick(sweep, stratum, "eps_high")
    assert (low.arm, high.arm, low.seed, low.response.prompt) == ("0.20", "0.28", 0, "Q 0 a+1 = ? A 0")
    assert low.response.clipped == [1, 0, 0, -1, 0, 0, 1, 0, 0, 0]  # the second sample: the first has none


def test_arms_without_recorded_tokens_or_a_common_prompt_are_not_shown(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"policy/entropy": 1.0}, 1, 2)
    plain = load.load(root, "made")
    for entry in plain.runs:
        sample = {"text": "so", "reward": 1.0, "tokens": ["so"], "clipped": [1]}
        line: dict[str, object] = {"step": 0, "prompt": entry.labels["arm"], "samples": [sample]}
        lines(root / "runs" / entry.run, "samples", 0, [line])
    assert plot_text.pick(plain, {}, "arm") == []
    for entry in plain.runs:  # as older runs recorded them
        old: dict[str, object] = {"step": 0, "prompt": "Q", "samples": [{"text": "so", "reward": 1.0}]}
        lines(root / "runs" / entry.run, "samples", 0, [old])
    assert plot_text.pick(plain, {}, "arm") == []


def test_clips_above_count_before_clips_below(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"policy/entropy": 1.0}, 1, 2)
    sweep = load.load(root, "made")
    for entry in sweep.runs:
        below = {"text": "", "reward": 1.0, "tokens": ["a", "b", "c"], "clipped": [-1, -1, -1]}
        above = {"text": "", "reward": 1.0, "tokens": ["a", "b", "c"], "clipped": [0, 1, 0]}
        both: list[dict[str, object]] = [
            {"step": s, "prompt": "Q", "samples": [x]} for s, x in ((0, below), (7, above))
        ]
        lines(root / "runs" / entry.run, "samples", 0, both)
    assert [s.response.step for s in plot_text.pick(sweep, {}, "arm")] == [7, 7]


def shown(words: list[str], marks: list[int] | None = None, start: int = 0) -> plot_text.Shown:
    return plot_text.Shown({}, "a", 0, Response(0, "", "", 1.0, words, marks or [0] * len(words)), start)


def placed(words: list[str], columns: int, start: int = 0) -> list[tuple[int, float, str]]:
    return [(p.column, p.line, p.text) for p in plot_text.lay(shown(words, start=start), columns)[0]]


def test_words_wrap_and_a_token_keeps_its_own_space() -> None:
    assert placed(["so", "a", "+1", "is"], 7) == [(0, 0, "so"), (3, 0, "a"), (5, 0, "+1"), (0, 1, "is")]
    assert placed(["Let", "Ġx", "=", "1"], 9) == [(0, 0, "Let"), (4, 0, "x"), (5, 0, "="), (6, 0, "1")]


def test_a_line_break_is_seen_and_breaks_the_line() -> None:
    assert placed([" so", "\n\n", " x"], 9) == [(0, 0, "so"), (2, 0, "↵"), (0, 1, "x")]


def test_of_a_long_response_the_stretch_with_the_most_clips_is_shown() -> None:
    marks = [1, *[0] * 300, 1, -1, *[0] * 40]
    start = plot_text._start(shown(["x"] * len(marks), marks).response)
    assert start == 343 - plot_text.LONGEST - 40 and placed(["x"] * 343, 90, start)[0] == (0, 0, "…")


def test_what_the_font_lacks_is_written_as_its_code() -> None:
    assert style.printable("so 中\x07é$") == "so \\u4e2d\\x07é$"
