"""The LaTeX tables, to the letter."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import latex, report
from harness.sweep.cli import main
from tests.analysis.conftest import clip_sweep
from tests.analysis.many import four_axes

FOUR = r"""\begin{tabular}{@{}lrrrr@{\ }rrrl@{}}
\toprule
 & \multicolumn{1}{c}{baseline} & \multicolumn{1}{c}{arm} & \multicolumn{1}{c}{difference} & \multicolumn{2}{c}{95\,\% interval} & $n$ & $p_\mathrm{Holm}$ & verdict \\
\midrule
good & $50.0$ & $55.0$ & $\mathbf{+5.0}$ & [$+4.7$, & $+5.3$] & 4 & $<$.001 & \textbf{trick} \\
bad & $50.0$ & $45.0$ & $\mathbf{-5.0}$ & [$-5.3$, & $-4.7$] & 4 & $<$.001 & \textbf{trap} \\
same & $50.0$ & $50.0$ & $0.0$ & [$-0.2$, & $+0.2$] & 4 & 1.000 & neutral \\
noisy & $50.0$ & $52.0$ & $+2.0$ & [$-11.0$, & $+15.0$] & 4 & 1.000 & inconclusive \\
\bottomrule
\end{tabular}
"""  # noqa: E501


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.endswith(r"\\")]


def bare(table: str) -> str:
    """Without comments and escaped characters."""
    return re.sub(r"\\[{}&%]|^%.*$", "", table, flags=re.M)


def test_the_verdict_table_is_this(four_words: Path) -> None:
    comment, table = latex.verdict_table(report.judge(four_words, "made"), "arm").split("\\begin", 1)
    assert "\\begin" + table == FOUR
    assert comment.splitlines()[0] == "% Sweep made, scale mini: 20 of 20 runs done."
    assert comment.splitlines()[-1] == "% Needs \\usepackage{booktabs}."


def test_strata_are_headings_and_the_claims_a_row_each(tmp_path: Path) -> None:
    judged = report.judge(clip_sweep(tmp_path, -0.04), "made")
    lines = rows(latex.verdict_table(judged, "eps_high"))[1:]
    assert [line for line in lines if "multicolumn" in line] == [
        rf"\multicolumn{{9}}{{@{{}}l}}{{\emph{{{place}}}}} \\"
        for place in ("small base", "small aligned", "large aligned")
    ]
    assert len(lines) == 3 + 9 and sum(line.startswith(r"\quad 0.28 & ") for line in lines) == 3
    claims = rows(latex.claims_table(judged))[1:]
    assert [line.split(" & ")[0] for line in claims] == ["T4", "T6", "T5"]
    assert claims[0].split(" & ")[2] == r"\textbf{contradicted}" and r"\textbf" not in claims[2]


def test_what_holm_leaves_is_bold_and_nothing_else(four_words: Path) -> None:
    judged = report.judge(four_words, "made")
    harmless = replace(judged, contrasts=[replace(c, p_holm=0.051) for c in judged.contrasts])
    assert "\\textbf" not in (table := latex.verdict_table(harmless, "arm")) and "\\mathbf" not in table


def test_special_characters_are_escaped() -> None:
    assert latex.escape(r"50% of a_b & {c}\d ~ ^ # $ <x> | ε≥1 … −") == (
        r"50\% of a\_b \& \{c\}\textbackslash{}d \textasciitilde{} \textasciicircum{} \# \$ "
        r"\textless{}x\textgreater{} \textbar{} $\varepsilon$$\geq$1 \ldots{} $-$"
    )


def test_axes_of_any_name_are_files(tmp_path: Path) -> None:
    assert latex.slug("tricks.surrogate.high") == "tricks_surrogate_high"


def test_every_row_has_its_columns_and_every_brace_its_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    four_axes(tmp_path)
    assert main(["--root", str(tmp_path), "report", "made", "--latex"]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in paths} == {"claims.tex"} | {f"verdict_{axis}.tex" for axis in ("a_b", "c", "d", "e")}
    for path in paths:
        table, cells = bare(path.read_text()), 4 if path.stem == "claims" else 9
        assert table.count("{") == table.count("}") and table.count("$") % 2 == 0
        for row in rows(table)[1:]:
            assert row.count("&") == (0 if "multicolumn" in row else cells - 1), row
        assert table.isascii()


def test_what_is_longer_than_a_page_breaks_over_pages(four_words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latex, "PAGE", 3)
    table = latex.verdict_table(report.judge(four_words, "made"), "arm")
    assert "\\begin{longtable}" in table and "\\endhead" in table and "\\usepackage{booktabs,longtable}" in table


def test_without_a_pair_there_are_dashes(four_words: Path) -> None:
    for run in (four_words / "runs").iterdir():
        (run / "status.json").unlink()
    lines = rows(latex.verdict_table(report.judge(four_words, "made"), "arm"))
    assert lines[1] == r"good & -- & -- & -- &  &  & 0 & -- & description only \\"
