"""Draws the pictures of the pages: `python docs/pictures.py` writes them into docs/images.

Nodes, arrows, sizes and numbers are read off the library, so that a picture says what the code does. Colours are the
site's where a picture stands on a page, and follow the reader's system elsewhere.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np

import causalbandits as cb
from causalbandits.problem import best_mixture
from causalbandits.results.plots import place_labels

IMAGES = Path(__file__).parent / "images"
CONTEXT_PAGE = Path(__file__).parent / "project/measurements.md"

STYLE = """
:root { --pic-ink: #1f2933; --pic-line: #7b8794; --pic-card: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --pic-ink: #e4e7eb; --pic-line: #9aa5b1; --pic-card: #1f2933; } }
.pic { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 15px; }
.pic text { fill: var(--md-default-fg-color, var(--pic-ink)); stroke: none; }
.pic .small { font-size: 13px; }
.pic .mid { text-anchor: middle; }
.pic .end { text-anchor: end; }
.pic .strong { font-weight: 600; }
.pic .on { fill: #ffffff; }
.pic .line { fill: none; stroke: var(--pic-line); stroke-width: 1.6; }
.pic .tip { fill: var(--pic-line); }
.pic .plain { fill: var(--md-default-bg-color, var(--pic-card)); stroke: var(--pic-line); stroke-width: 1.4; }
.pic .knob { fill: #0072b2; stroke: none; }
.pic .parent { stroke: #009e73; stroke-width: 4; }
.pic .reward { fill: #b45309; stroke: none; }
.pic .area { fill: #009e73; fill-opacity: 0.12; stroke: #009e73; stroke-opacity: 0.5; stroke-dasharray: 5 4; }
.pic .soft { fill: #0072b2; fill-opacity: 0.35; }
.pic .faint { fill: #7b8794; fill-opacity: 0.45; }
"""

Point = tuple[float, float]
PLACES: dict[str, Point] = {
    "product": (74, 45),
    "purpose": (74, 125),
    "send_time": (74, 225),
    "template": (244, 45),
    "subject": (244, 125),
    "click": (412, 150),
}
WIDTH, HEIGHT = 108, 38


def main() -> None:
    for name, content in pictures().items():
        (IMAGES / name).write_text(content, encoding="utf-8")
        print(f"Written: docs/images/{name}")


def pictures() -> dict[str, str]:
    """Every picture, by its file's name."""
    return {
        "email_graph.svg": email_graph(),
        "flow.svg": flow(),
        "blocks.svg": blocks(),
        "budget.svg": budget(),
        "guard.svg": guard(),
        "regret.svg": regret(),
        "context.svg": context(),
        "hidden.svg": hidden(),
        "structure.svg": structure(),
    }


def email_graph() -> str:
    """The e-mail campaign: what may be set, what the reward depends on."""
    problem = cb.zoo.email_campaign().problem
    legend = [
        box((31, 300), "knob", 22, 16) + text((48, 305), "may be set", "small"),
        box((152, 300), "plain parent", 22, 16) + text((170, 305), "parent of the reward", "small"),
        box((340, 300), "reward", 22, 16) + text((357, 305), "the reward", "small"),
    ]
    what = (
        "The e-mail campaign as a graph. Product, purpose and send time may be set. Product and purpose lead to the "
        "template, purpose to the subject line. Template, subject line and send time make people click."
    )
    return picture(475, 325, what, [*graph_of(problem), *legend])


def blocks() -> str:
    """The same graph, cut where its parts share nothing."""
    problem = cb.zoo.email_campaign().problem
    names = problem.model.names
    areas, captions = [], []
    for number, block in enumerate(problem.blocks):
        knobs = [problem.manipulable[k] for k in block.manipulable]
        parents = [problem.parents[z] for z in block.parents]
        inside = [PLACES[name] for name in names if name in {*knobs, *parents}]
        left, top = min(x for x, _ in inside) - WIDTH / 2 - 14, min(y for _, y in inside) - HEIGHT / 2 - 12
        right, bottom = max(x for x, _ in inside) + WIDTH / 2 + 14, max(y for _, y in inside) + HEIGHT / 2 + 12
        areas.append(
            f'<rect class="area" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" rx="12"/>'
        )
        choices = int(np.prod([len(problem.model[name].states) + 1 for name in knobs]))
        size = f"Block {number + 1}: {choices} choices x {int(np.prod(block.shape))} configurations"
        captions.append(text((12, 292 + 24 * number), size, "small strong"))
    whole = f"Together: {problem.actions.size} actions x {problem.configurations} configurations, never written out"
    captions.append(text((12, 292 + 24 * len(problem.blocks)), whole, "small"))
    what = (
        "The e-mail campaign in two blocks: product, purpose, template and subject line in one, send time in the "
        f"other. {whole}"
    )
    return picture(475, 365, what, [*areas, *graph_of(problem), *captions])


def graph_of(problem: cb.Problem) -> list[str]:
    """Arrows below, nodes above."""
    edges = [*problem.model.graph.edges, *((parent, "click") for parent in problem.parents)]
    shapes = [arrow(*between(PLACES[a], PLACES[b])) for a, b in sorted(edges)]
    for name in (*problem.model.names, "click"):
        kind = "reward" if name == "click" else "knob" if name in problem.manipulable else "plain"
        ring = " parent" if name in problem.parents else ""
        shapes.append(box(PLACES[name], kind + ring))
        x, y = PLACES[name]
        shapes.append(text((x, y + 5), name.replace("_", " "), "mid" if kind == "plain" else "mid on"))
    return shapes


def flow() -> str:
    """One decision of C-UCB, in numbers: four configurations, three actions."""
    count = np.array([9.0, 4.0, 2.0, 5.0])
    mean = np.array([0.3, 0.55, 0.5, 0.2])
    bonus = 0.3 * np.sqrt(2 * np.log(20) / count)
    likely = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.2, 0.1, 0.6]])
    scores = likely @ (mean + bonus)
    floor, step = 190.0, 29.0
    shapes = []
    titles = ["statistic", "index", "projection", "argmax"]
    remarks = ["rewards seen, per z", "an upper bound, per z", "P(z | a), a row per a", "the best score"]
    for i, (title, remark) in enumerate(zip(titles, remarks, strict=True)):
        x = 75.0 + 190 * i
        shapes += [text((x, 26), title, "mid strong"), text((x, 238), remark, "mid small")]
        if i:
            shapes.append(arrow((x - 118, 120), (x - 90, 120)))
    for z in range(4):
        x = 19 + step * z
        for k in range(int(count[z])):
            shapes.append(f'<circle class="knob" cx="{x + 11}" cy="{floor - 8 - 14 * k}" r="5"/>')
        shapes.append(text((x + 11, 208), f"z{z + 1}", "mid small"))
        x += 190
        tall, more = 130 * mean[z], 130 * bonus[z]
        shapes.append(f'<rect class="knob" x="{x}" y="{floor - tall:.1f}" width="22" height="{tall:.1f}"/>')
        shapes.append(f'<rect class="soft" x="{x}" y="{floor - tall - more:.1f}" width="22" height="{more:.1f}"/>')
        shapes.append(text((x + 11, 208), f"z{z + 1}", "mid small"))
        x += 190
        shapes.append(text((x + 11, 208), f"z{z + 1}", "mid small"))
        for a in range(3):
            shade = f'fill-opacity="{likely[a, z]:.2f}"'
            shapes.append(f'<rect class="knob" {shade} x="{x - 2}" y="{70 + 40 * a}" width="26" height="32"/>')
    for a in range(3):
        best = "knob" if a == scores.argmax() else "faint"
        shapes.append(text((388, 91 + 40 * a), f"a{a + 1}", "end small"))
        shapes.append(text((588, 91 + 40 * a), f"a{a + 1}", "mid small"))
        shapes.append(f'<rect class="{best}" x="602" y="{70 + 40 * a}" width="{95 * scores[a]:.1f}" height="32"/>')
    shapes.append('<path class="line" d="M 645 250 V 272 H 75 V 254"/>')
    shapes.append('<path class="tip" d="M 75 245 l -5 10 h 10 z"/>')
    shapes.append(text((360, 291), "play it, see z and the reward", "mid small"))
    what = (
        "One decision: the rewards seen per configuration give an upper bound per configuration; P(z | a) turns these "
        "into a score per action; the action with the best score is played, and what is seen goes back into the "
        "statistic."
    )
    return picture(720, 300, what, shapes)


def budget() -> str:
    """What money buys on the e-mail campaign: every action by cost and mean reward, and the envelope at a budget."""
    prices = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}
    p = cb.zoo.email_campaign().problem
    problem = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=prices, optional=True)
    env = cb.Environment(problem, cb.zoo.email_campaign().reward)
    costs, means = np.array([problem.cost(do) for do in problem.actions]), env.means
    low, high = float(means.min()), float(means.max())

    def at(cost: float, mean: float) -> Point:
        return round(60 + 3600 * cost, 1), round(250 - 190 * (mean - low) / (high - low), 1)

    mixtures = {b: best_mixture(means, costs, b, tie=1e-12) for b in (0.0, 0.035, 0.05, 0.1, costs.max())}
    corners = sorted({end for m in mixtures.values() for end in (m.low, m.high)}, key=lambda a: costs[a])
    line = " L ".join("{:.1f} {:.1f}".format(*at(costs[a], means[a])) for a in corners)
    shapes = ['<path class="line" d="M 60 20 V 262 H 640"/>', f'<path class="line" d="M {line}"/>']
    for cost, mean in zip(costs, means, strict=True):
        x, y = at(cost, mean)
        shapes.append(f'<circle class="faint" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    for a in corners:
        x, y = at(costs[a], means[a])
        shapes.append(f'<circle class="knob" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        name = str(problem.actions[a])[3:-1].replace("_", " ") or "nothing is set"
        place, kind = {0: ((x + 12, y + 5), ""), 1: ((x - 4, y - 12), ""), 2: ((x, y - 14), "mid ")}.get(
            corners.index(a), ((x + 40, y - 30), "end ")
        )
        shapes.append(text(place, name, f"{kind}small"))
    mixture = mixtures[0.05]
    x, y = at(0.05, mixture.mean(means))
    shapes.append(f'<path class="line" stroke-dasharray="5 4" d="M {x:.1f} 262 V {y:.1f}"/>')
    shapes.append(f'<circle class="reward" cx="{x:.1f}" cy="{y:.1f}" r="7"/>')
    shapes.append(text((x - 10, 200), "250 for 5000 rounds", "end small strong"))
    shapes.append(text((x - 10, 218), f"buy {mixture.mean(means):.3f} a round", "end small strong"))
    shapes += [text((330, 292), "cost", "mid small"), text((52, 65), f"{high:.2f}", "end small")]
    shapes += [
        text((52, 254), f"{low:.2f}", "end small"),
        text((52, 150), "mean", "end small"),
        text((52, 168), "reward", "end small"),
    ]
    shapes += [text((at(c, 0)[0], 278), f"{c:.2f}", "mid small") for c in (0.0, 0.05, 0.1, 0.15)]
    what = (
        "The 80 actions of the e-mail campaign by what they cost and what they bring. The envelope above them is what "
        "money buys in the mean; at 0.05 a round it is a mixture of two actions."
    )
    return picture(700, 300, what, shapes)


def guard() -> str:
    """Regret with and without a guard, as benchmarks/guard.json has it; with a right model, regret.json."""
    folder = IMAGES.parents[1] / "benchmarks"
    measured = json.loads((folder / "guard.json").read_text(encoding="utf-8"))
    right = json.loads((folder / "regret.json").read_text(encoding="utf-8"))["sets"]["e-mail"]
    cases = {
        "nothing wrong": "right model",
        "product 0.15": "product → click, ± 0.15",
        "product 0.3": "product → click, ± 0.3",
        "purpose 0.15": "purpose → click, ± 0.15",
        "purpose 0.3": "purpose → click, ± 0.3",
        "HAC-UCB's worst case": "worst case of HAC-UCB",
    }
    regrets = {case: {policy: own["regret"] for policy, own in measured[case]["policies"].items()} for case in cases}
    regrets["nothing wrong"] = {
        policy: right["c-ts-guarded(prior=beta)" if policy == "guarded" else policy]["mean"]
        for policy in regrets["nothing wrong"]
    }
    kinds = {"guarded": "knob", "c-ts(prior=beta)": "reward", "ts(prior=beta)": "faint", "hac-ucb": "soft"}
    names = {
        "guarded": "guarded C-TS",
        "c-ts(prior=beta)": "C-TS",
        "ts(prior=beta)": "TS, no graph",
        "hac-ucb": "HAC-UCB",
    }
    most = max(regrets[case][policy] for case in cases for policy in kinds)
    shapes = []
    for i, (case, title) in enumerate(cases.items()):
        top = 20.0 + 78 * i
        shapes.append(text((186, top + 36), title, "end small"))
        for j, (policy, kind) in enumerate(kinds.items()):
            regret = regrets[case][policy]
            width, y = 420 * regret / most, top + 16 * j
            shapes.append(f'<rect class="{kind}" x="198" y="{y:.1f}" width="{width:.1f}" height="14"/>')
            shapes.append(text((204 + width, y + 12), f"{regret:.0f}", "small"))
    for j, (policy, kind) in enumerate(kinds.items()):
        x, y = 198 + 120 * j, 78 * len(cases) + 34
        shapes += [
            f'<rect class="{kind}" x="{x}" y="{y - 11}" width="14" height="14"/>',
            text((x + 20, y + 1), names[policy], "small"),
        ]
    caption = (
        "Regret after 5000 rounds of guarded C-TS, C-TS, TS without the graph and HAC-UCB, with a right model and with "
        "a missing arrow."
    )
    return picture(720, 78 * len(cases) + 50, caption, shapes)


def regret() -> str:
    """Mean regrets, as benchmarks/regret.json has them: the darker, the nearer to the least of the set."""
    measured = json.loads((IMAGES.parents[1] / "benchmarks" / "regret.json").read_text(encoding="utf-8"))["sets"]
    sets = [name for name, by in measured.items() if max(own["mean"] for own in by.values()) > 0.01]
    policies = list(dict.fromkeys(policy for name in sets for policy in measured[name]))
    shapes = []
    for j, name in enumerate(sets):
        x, by = 310 + 48 * j, {policy: own["mean"] for policy, own in measured[name].items()}
        least = max(1.0, min(by.values()))  # less than 1 is nothing
        shapes.append(f'<text class="small" transform="translate({x + 20} 112) rotate(-45)">{name}</text>')
        for policy, mean in by.items():
            y, far = 122 + 22 * policies.index(policy), min(2.0, float(np.log10(max(1.0, mean / least))))
            shade = 0.06 + 0.94 * (1 - far / 2) ** 2
            shapes.append(f'<rect class="knob" x="{x}" y="{y}" width="46" height="20" fill-opacity="{shade:.2f}"/>')
            said = f"{mean:.0f}" if mean >= 10 else f"{mean:.1f}"
            shapes.append(text((x + 23, y + 15), said, f"mid small{' on' * (shade > 0.5)}"))
    shapes += [text((302, 137 + 22 * i), policy, "end small") for i, policy in enumerate(policies)]
    what = (
        f"Mean regret after 5000 rounds of {len(policies)} policies on {len(sets)} sets of worlds; the darker, the "
        "nearer to the least of the set."
    )
    return picture(350 + 48 * len(sets), 132 + 22 * len(policies), what, shapes)


def context() -> str:
    """What it buys to look at the segment: the table of the page as bars."""
    section = CONTEXT_PAGE.read_text(encoding="utf-8").split("\n## Contexts\n")[1].split("\n## ")[0]
    lines = section.splitlines()
    rows = [line.split("|")[1:4] for line in lines if line.startswith("| `")]
    shapes = [
        text((300, 22), "regret after 5000 mails", "small"),
        text((475, 22), "above: first environment, below: second", "small"),
    ]
    for i, (name, *cells) in enumerate(rows):
        y, words = 40 + 52 * i, name.replace("`", "").strip()
        shapes.append(text((288, y + 25), words, "end small"))
        for k, cell in enumerate(cells):
            regret = float(cell.split("(")[0])
            kind, top = ("soft" if k else "knob") if i == 0 else ("faint" if k else "reward"), y + 19 * k
            shapes.append(f'<rect class="{kind}" x="300" y="{top}" width="{0.5 * regret:.1f}" height="17"/>')
            shapes.append(text((306 + 0.5 * regret, top + 13), f"{regret:.0f}", "small"))
    what = (
        "Regret after 5000 mails in two environments: causal Thompson sampling with the segment as its context has the "
        "lowest regret in both."
    )
    return picture(720, 50 + 52 * len(rows), what, shapes)


def hidden() -> str:
    """A graph with a hidden cause, and what it costs to ignore that, as benchmarks/hidden.json has it."""
    measured = json.loads((IMAGES.parents[1] / "benchmarks" / "hidden.json").read_text(encoding="utf-8"))
    places: dict[str, Point] = {"channel": (120, 88), "exposure": (290, 88), "engagement": (460, 88), "sale": (630, 88)}
    shapes = ['<path class="line" stroke-dasharray="6 5" d="M 120 66 C 150 8 430 8 460 66"/>']
    shapes += [text((290, 16), "what users like: hidden", "mid small")]
    shapes += [arrow(*between(*ends)) for ends in itertools.pairwise(places.values())]
    for name, (x, y) in places.items():
        kind = {"channel": "knob", "sale": "reward"}.get(name, "plain parent" if name == "engagement" else "plain")
        words = text((x, y + 5), name, "mid" if kind.startswith("plain") else "mid on")
        shapes += [box((x, y), kind), words]
    regrets = {name: own["regret"] for name, own in measured["regret"].items()}
    wide = 230 / max(regrets.values())
    for i, (name, regret) in enumerate(regrets.items()):
        y, kind = 138 + 26 * i, "reward" if "ignored" in name else "faint" if name.startswith("no rows") else "knob"
        words = f"no graph, no rows: {name.removeprefix('no rows: ')}" if kind == "faint" else f"C-TS, {name}"
        shapes.append(text((418, y + 14), words, "end small"))
        shapes.append(f'<rect class="{kind}" x="430" y="{y}" width="{wide * regret:.1f}" height="19"/>')
        shapes.append(text((436 + wide * regret, y + 14), f"{regret:.1f}", "small"))
    what = (
        "A channel leads to exposure, engagement and sale, and a hidden cause ties it to engagement. Below, the regret "
        f"after {measured['horizon']} rounds: little where the hidden cause is in the graph, most where it is not."
    )
    return picture(720, 150 + 26 * len(regrets), what, shapes)


def structure() -> str:
    """The structure that a campaign without a graph has learned, with the probability of each edge."""
    problem = cb.Problem(
        None,
        reward="click",
        manipulable={"purpose": ["promo", "news"], "send_time": ["am", "noon", "pm"]},
        values={"subject": ["short", "long"], "device": ["phone", "pc"]},
    )
    agent, rng = cb.Agent(problem, seed=1), np.random.default_rng(0)
    for _ in range(1000):
        decision = agent.ask()
        found = "short" if rng.random() < (0.8 if decision.action["purpose"] == "promo" else 0.2) else "long"
        device = "phone" if rng.random() < 0.5 else "pc"
        p_click = 0.1 + 0.3 * (found == "short") + 0.2 * (decision.action["send_time"] == "am")
        agent.tell(decision, reward=rng.random() < p_click, observed={"subject": found, "device": device})
    learned = agent.structure()
    places = {
        "purpose": (74, 45),
        "send_time": (74, 195),
        "subject": (294, 45),
        "device": (294, 125),
        "click": (514, 120),
    }
    edges = learned.likely_edges(0.1)
    ends = [
        ((x, y + HEIGHT / 2), (u, v - HEIGHT / 2 - 4)) if x == u else between((x, y), (u, v))
        for (x, y), (u, v) in ((places[cause], places[effect]) for cause, effect in edges)
    ]
    arrows, numbers = [], []
    for (start, end), probability in zip(ends, edges.values(), strict=True):
        style = f"stroke-width: {0.8 + 2.4 * probability:.2f}; opacity: {0.35 + 0.65 * probability:.2f}"
        arrows.append(arrow(start, end).replace('class="line"', f'class="line" style="{style}"'))
    corners = [((x - WIDTH / 2, y - HEIGHT / 2), (x + WIDTH / 2, y + HEIGHT / 2)) for x, y in places.values()]
    middles = place_labels([np.linspace(start, end, 41) for start, end in ends], corners, (34, 18))
    for (x, y), probability in zip(middles, edges.values(), strict=True):
        ground = box((x, y), "plain", 34, 18).replace("<rect", '<rect style="stroke: none"')
        numbers += [ground, text((x, y + 4), f"{probability:.2f}", "mid small")]
    likeliest = learned.likeliest_sets("click", 1)[0][0]
    for name, place in places.items():
        kind = "reward" if name == "click" else "knob" if name in problem.manipulable else "plain"
        numbers += [
            box(place, kind + (" parent" if name in likeliest else "")),
            text((place[0], place[1] + 5), name.replace("_", " "), "mid" if kind == "plain" else "mid on"),
        ]
    words = ", ".join(f"{a} to {b} {p:.2f}" for (a, b), p in edges.items())
    what = f"The learned structure after {learned.rounds} outcomes, with the probability of each edge: {words}."
    return picture(580, 230, what, [*arrows, *numbers])


def picture(width: int, height: int, what: str, shapes: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<title>{what}</title>", f"<style>{STYLE}</style>", *shapes, "</svg>", ""])


def box(centre: Point, kind: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    x, y = centre[0] - width / 2, centre[1] - height / 2
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{min(9, height / 4)}"/>'


def text(at: Point, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{at[0]}" y="{at[1]}">{words}</text>'


def between(start: Point, end: Point) -> tuple[Point, Point]:
    """From the right side of one box to the left side of another."""
    return (start[0] + WIDTH / 2, start[1]), (end[0] - WIDTH / 2 - 4, end[1])


def arrow(start: Point, end: Point) -> str:
    (x, y), (u, v) = start, end
    length = float(np.hypot(u - x, v - y))
    c, s = (u - x) / length, (v - y) / length
    base = (u - 9 * c, v - 9 * s)
    wings = [(base[0] - 5 * s, base[1] + 5 * c), (base[0] + 5 * s, base[1] - 5 * c)]
    tip = " ".join(f"{px:.1f},{py:.1f}" for px, py in [(u, v), *wings])
    line = f'<path class="line" d="M {x:.1f} {y:.1f} L {base[0]:.1f} {base[1]:.1f}"/>'
    return f'{line}<polygon class="tip" points="{tip}"/>'


if __name__ == "__main__":
    main()
