"""The gallery: a page for each script in examples/, with its plot, its output and its code.

python docs/gallery.py             runs every script, and writes docs/gallery/
python docs/gallery.py NAME ...    runs these scripts only, such as pricing_tiers

Pages, plots and the index are committed, so that building the documentation runs nothing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs/gallery"
SEED = 0

TITLES = {
    "email_campaign": "E-mail campaign",
    "pricing_tiers": "Pricing tiers",
    "feature_flags": "Feature flags",
    "customer_segments": "Customer segments",
    "delayed_conversions": "Delayed conversions",
    "fixed_budget": "A fixed budget",
    "dose_levels": "Dose levels with a safety limit",
    "from_past_data": "From past data to decisions",
    "confounded_past_data": "Confounded past data",
    "unobserved_confounder": "An unobserved confounder",
    "candidate_graphs": "Several candidate graphs",
    "wrong_graph": "A graph that lacks an arrow",
    "own_policy": "An algorithm of your own",
    "paper_figure2": "A figure of the paper",
}
"""The scripts, in the order of the index, with the titles of their pages."""

PLOTS = {
    "email_campaign": "Clicks lost over 5,000 mails for four policies",
    "pricing_tiers": "Estimated and true revenue per visitor of ten price lists",
    "feature_flags": "Conversion rate of the decisions with the graph and without it",
    "customer_segments": "Clicks lost by three agents, and click rates per segment",
    "delayed_conversions": "Decisions by status over four days, and the error of two conversion rates",
    "fixed_budget": "Money left and click rate of two agents with the same budget",
    "dose_levels": "Allowed doses and treated patients in eight cohorts",
    "from_past_data": "Forecast of the regret and of the probability of a good recommendation for three policies",
    "confounded_past_data": "Two estimates of the effect of each channel, and the truth",
    "unobserved_confounder": "True recovery rate of five actions",
    "candidate_graphs": "Probabilities of four candidates over 1,500 mails",
    "wrong_graph": "Evidence against the graph, and clicks lost with and without the guard",
    "own_policy": "Regret of four policies on random campaigns",
    "paper_figure2": "Regret of six algorithms in two panels",
}
"""Descriptions of the plots, for readers who do not see them."""

INDEX = """---
hide: [toc]
---

# Gallery

Complete programs for readers who want to start from one like theirs. Each answers one question; its page has the plot,
the output and the code. You need the library and a clone of the repository: `python examples/pricing_tiers.py` runs in
seconds, and `--seed 1` gives other random numbers. All data are simulated, so that each program prints the truth beside
its estimates.

<div class="gallery" markdown>
{cards}
</div>

`make live` runs one more script, `examples/live_campaign.py`: it serves a campaign over HTTP, with a page that
shows what is learned while simulated servers ask for decisions.
"""

CARD = """
<div class="card" markdown>
[![{plot}]({image})]({page})

**[{title}]({page})**

{question}
</div>
"""

PAGE = """---
hide: [toc]
---

# {title}

**{question}**

{answer}

![{plot}]({image})

## Output

`{command}` prints:

```text
{output}
```

## Program

```python no-run
{code}
```
"""


def page_name(name: str) -> str:
    """The file name of a script's page."""
    return f"{name.replace('_', '-')}.md"


def source(name: str) -> str:
    return (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")


def question_and_answer(name: str) -> tuple[str, str]:
    """The first paragraph of a script's docstring, and the others."""
    question, _, answer = (ast.get_docstring(ast.parse(source(name))) or "").partition("\n\n")
    return " ".join(question.split()), answer


def page(name: str, output: str) -> str:
    """A script's page, with what it printed."""
    question, answer = question_and_answer(name)
    return PAGE.format(
        title=TITLES[name],
        question=question,
        answer=answer,
        plot=PLOTS[name],
        image=f"images/{name}.png",
        command=f"python examples/{name}.py --seed {SEED}",
        output="\n".join(line.rstrip() for line in output.strip().splitlines()),
        code=source(name).strip(),
    )


def index() -> str:
    """The index of all pages."""
    cards = [
        CARD.format(
            title=TITLES[name],
            question=question_and_answer(name)[0],
            plot=PLOTS[name],
            image=f"images/{name}.png",
            page=page_name(name),
        )
        for name in TITLES
    ]
    return INDEX.format(cards="".join(cards))


def main(names: list[str]) -> None:
    """Run scripts, all if none is named, and write their pages and the index."""
    (PAGES / "images").mkdir(parents=True, exist_ok=True)
    for name in names or TITLES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--seed", str(SEED)]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode or done.stderr:
                raise SystemExit(done.stderr)
            plot = Image.open(Path(folder) / "results" / f"{name}.png").convert("RGB")
            plot.quantize(256).save(PAGES / "images" / f"{name}.png", optimize=True)  # a third of the size
        (PAGES / page_name(name)).write_text(page(name, done.stdout), encoding="utf-8")
        print(f"Written: docs/gallery/{page_name(name)}", flush=True)
    (PAGES / "index.md").write_text(index(), encoding="utf-8")
    print("Written: docs/gallery/index.md")


if __name__ == "__main__":
    main(sys.argv[1:])
