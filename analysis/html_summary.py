"""The HTML report's header, the paper's claims and how it was judged.

Sentences are those of `report.py`. Leaves out: the arms (`html_verdict.py`, `html_cards.py`).
"""

from collections import Counter
from itertools import groupby

from analysis import claims, report, style, text
from analysis.html_parts import Section, claim_badge, esc, fold, linked, table, verdict_badge

FEW = 6  # findings up to which a claim's table is not folded


def header(judged: report.Judged) -> str:
    sweep = judged.sweep
    lines = [f"<h1>{esc(sweep.manifest['question'])}</h1>"]
    lines += [f'<p class="source">Source: {linked(sweep.manifest["source"] or "not stated")}</p>']
    lines += [
        f"<p>Sweep <b>{esc(sweep.name)}</b>, scale {esc(sweep.manifest['scale'])}: {esc(report.progress(judged))}."
    ]
    lines += ['<a href="#missing">What is missing.</a></p>' if sweep.missing else "</p>"]
    lines += [f'<p class="remark">{esc(sentence)}</p>' for sentence in report.remarks(judged)]
    return "\n".join([*lines, _tally(judged)])


def sections(judged: report.Judged) -> list[Section]:
    method = "".join(f"<li>{esc(sentence)}</li>" for sentence in report.method(judged.sweep))
    return [
        Section("claims", "The paper's claims", "".join(map(_claim, judged.claims))),
        Section("method", "How it was judged", f"<ul>{method}</ul>" if method else ""),
    ]


def _tally(judged: report.Judged) -> str:
    """How often each word fell on the spec's endpoint, and each claim's."""
    main = judged.headline()
    counts = Counter(c.word for c in main)
    words = [f"<li><b>{counts[word]}</b> {verdict_badge(word)}</li>" for word in style.WORDS if counts[word]]
    if not words:
        return ""
    said = [f"<li>{esc(claim.id)} {claim_badge(claim.word)}</li>" for claim in judged.claims]
    of = f"{text.plural(len(main), 'comparison')} of an arm with its baseline"
    parts = [f"<p>{of}, on {esc(judged.sweep.manifest['endpoint']['metric'])}:</p><ul>{''.join(words)}</ul>"]
    parts += [f"<p>The paper's claims:</p><ul>{''.join(said)}</ul>"] if said else []
    return f'<div class="tally">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def _claim(claim: claims.Claim) -> str:
    lines = [f"<h3>{esc(claim.id)} {claim_badge(claim.word)} <small>{esc(claim.why)}</small></h3>"]
    lines.append(f"<p>{esc(claim.text)} <cite>{linked(claim.source)}</cite></p>")
    rows: list[list[str]] = []
    for test, findings in groupby(claim.findings, report.tested):
        rows.append([esc(test)])
        for f in findings:
            measured, word = report.found(f).rsplit(", ", 1)
            bare, _, more = word.partition(" (")
            said = claim_badge(bare) + (f" <small>({esc(more)}</small>" if more else "")
            rows.append([esc(report.where(f) or "all"), said, esc(measured)])
    if rows:
        shown = table(f"Findings on {esc(claim.id)}", ["where", "finding", "difference [95 %]"], "lli", rows)
        many = len(claim.findings) > FEW
        lines.append(fold(text.plural(len(claim.findings), "finding"), shown, opened=False) if many else shown)
    if claim.findings:
        lines += [f"<p>Not tested here: {esc(need)}</p>" for need in claim.untested]
    lines += [f'<p class="note">{esc(claim.note)}</p>'] if claim.note else []
    return f'<article class="claim">{"".join(lines)}</article>'
