"""Pictures show what is so: arrows do not pass behind variables, names are legible, nothing is empty."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import causalbandits as cb
from causalbandits._files import refuse_unwritable, refuse_unwritable_folder
from causalbandits.campaign import LearnedStructure
from causalbandits.errors import PolicyError, StateError
from causalbandits.results.plots import fonts
from causalbandits.results.plots.graph import layered_layout, place_labels, plot_graph
from causalbandits.results.plots.regret import plot_final


def problem_of(edges, knobs, goal):
    """Binary variables with these arrows; tables do not matter."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    parents = {name: [cause for cause, effect in edges if effect == name] for name in names}
    variables = [
        cb.Variable(name, [0, 1], parents=parents[name], table=np.full((2,) * (len(parents[name]) + 1), 0.5))
        for name in names
    ]
    return cb.Problem(cb.CausalModel(variables), manipulable=knobs, reward=goal, optional=True)


def random_edges(rng):
    names = [f"name {i}" * rng.integers(1, 3) for i in range(10)]
    found = [(a, b) for i, b in enumerate(names) for a in names[:i] if rng.random() < 0.3]
    return [*found, (names[0], names[9])]


CASES = [
    [("temp", "viscosity"), ("viscosity", "warp"), ("temp", "warp"), ("pressure", "warp"), ("warp", "yield")],
    [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c"), ("b", "d")],
    *(random_edges(np.random.default_rng(seed)) for seed in range(6)),
]


@pytest.mark.parametrize("edges", CASES, ids=range(len(CASES)))
def test_no_arrow_passes_behind_a_variable(edges):
    figure = plot_graph(problem_of(edges, [edges[0][0]], edges[-1][1]))
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = {text.get_text(): text.get_bbox_patch().get_window_extent() for text in ax.texts}
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert arrows
    for arrow in arrows:
        crossed = {name for name, box in boxes.items() if any(box.contains(*point) for point in curve(arrow, ax))}
        assert not crossed, crossed


def curve(arrow, ax):
    """Points along an arrow, from cubic curve to cubic curve."""
    at = arrow._path_original.vertices
    ts = np.linspace(0, 1, 60)[:, None]
    weights = [(1 - ts) ** 3, 3 * ts * (1 - ts) ** 2, 3 * ts**2 * (1 - ts), ts**3]
    for i in range(0, len(at) - 1, 3):
        yield from ax.transData.transform(sum(w * p for w, p in zip(weights, at[i : i + 4], strict=True)))


@pytest.mark.parametrize("edges", CASES, ids=range(len(CASES)))
def test_variables_on_a_level_keep_apart_and_causes_stand_above(edges):
    import networkx as nx

    layout = layered_layout(nx.DiGraph(edges))
    for cause, effect in edges:
        assert layout.places[cause][1] > layout.places[effect][1]
    levels = {}
    for x, y in layout.places.values():
        levels.setdefault(y, []).append(x)
    assert all(np.diff(sorted(xs)).min(initial=1.0) >= 1.0 - 1e-9 for xs in levels.values())


def run_of(regrets):
    """A run by hand: the same regrets in three replications."""
    measures = {"regret": {name: np.array([values] * 3, dtype=float) for name, values in regrets.items()}}
    return cb.Run(rounds=np.array([1, 10, 100]), measures=measures, seed=0, environment="made up")


def drawn(figure):
    """What is written on a picture; letters that no font has are a warning, and so an error here."""
    figure.savefig(io.BytesIO(), format="png")
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_names_in_any_script_are_drawn_in_letters_that_there_are():
    run = run_of({"温度": [1, 2, 3], "\N{E-MAIL SYMBOL} post": [1, 2, 4], "naïve ε": [1, 2, 5]})
    written = drawn(run.plot(title="温度 🌡️"))
    assert "naïve ε" in written
    assert len(set(written)) == 3
    assert drawn(plot_graph(problem_of([("温度", "ertrag"), ("Größe", "ertrag")], ["温度"], "ertrag")))


def test_letters_without_a_font_are_spelt(monkeypatch):
    monkeypatch.setattr(fonts, "_fonts", tuple)
    assert fonts.spell_missing_glyphs("温度") == "U+6E29U+5EA6"
    assert fonts.spell_missing_glyphs("\N{E-MAIL SYMBOL}\N{VARIATION SELECTOR-16} post") == "[e-mail symbol] post"
    assert fonts.spell_missing_glyphs("plain") == "plain"
    assert fonts.text_width("温") == len("U+6E29")


def test_regret_of_zero_is_seen_on_a_logarithmic_scale():
    for regrets in ({"ideal": [0, 0, 0]}, {"ideal": [0, 0, 0], "other": [0.5, 5, 50]}):
        (ax,) = run_of(regrets).plot(log=True).axes
        low, high = ax.get_ylim()
        assert 0 < low < high
        assert ax.get_ylabel() == "regret (log scale; 0 is at the bottom)"
        assert all(((line.get_ydata() >= low) & (line.get_ydata() <= high)).all() for line in ax.lines)
        assert drawn(ax.get_figure()) == list(regrets)
    (ax,) = run_of({"other": [0.5, 5, 50]}).plot(log=True).axes
    assert ax.get_ylabel() == "regret (log scale)"


@pytest.mark.parametrize("log", ["x", 1, None])
def test_a_scale_is_logarithmic_or_not(log):
    with pytest.raises(cb.CausalBanditsError, match="log must be True or False; got"):
        run_of({"other": [0.5, 5, 50]}).plot(log=log)


def test_a_legend_has_the_names_of_the_policies_as_they_are():
    (ax,) = run_of({"c-ucb": [1, 2, 3], "$a$": [1, 2, 4]}).plot().axes
    legend = ax.legend()
    drawn(ax.get_figure())
    assert [text.get_text().replace("\\$", "$") for text in legend.get_texts()] == ["C-UCB", "$a$"]
    assert not any(text.get_text().count("$") - text.get_text().count("\\$") for text in legend.get_texts())


@pytest.mark.parametrize(
    ("name", "refused", "embedded"),
    [
        ("regret.pdf", b"/Type3", b"/CIDFontType2"),
        ("regret.eps", b"/FontType 3", b"/FontType 42"),
    ],
)
def test_saved_pictures_embed_no_font_that_publishers_refuse(tmp_path, name, refused, embedded):
    if name.endswith(".eps") and tuple(map(int, matplotlib.__version__.split(".")[:2])) < (3, 9):
        pytest.skip("Matplotlib 3.8 writes some texts of an EPS file in Type 3, whatever the setting")
    run_of({"c-ucb": [1, 2, 3]}).plot(tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert refused not in written
    assert embedded in written


@pytest.mark.parametrize("finals", [[0, 0], [0, 3], [7, 0], [2, 5]])
def test_a_final_regret_of_zero_is_seen_too(finals):
    runs = {n: run_of({"ideal": [0, 0, final], "other": [0, 0, 10 * final]}) for n, final in enumerate(finals, 1)}
    figure = plot_final(runs, "n", reference=("linear", float))
    (ax,) = figure.axes
    low, high = ax.get_ylim()
    assert 0 < low < high
    heights = np.concatenate([line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 2])
    assert ((heights >= low) & (heights <= high)).all()
    assert ax.get_ylabel() == f"final regret (log scale{'; 0 is at the bottom' if 0 in finals else ''})"
    assert {"ideal", "other"} <= set(drawn(figure))


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("missing/picture.png", "does not exist"),
        ("file/picture.png", "does not exist"),
        ("picture", "must end in its format"),
        ("picture.doc", "must end in its format"),
        ("folder.png", "it is a folder"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_it_is_drawn(tmp_path, monkeypatch, path, complaint):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr("matplotlib.figure.Figure.__init__", lambda *args, **kwargs: pytest.fail("drawn"))
    problem = problem_of([("a", "b")], ["a"], "b")
    for draw in (run_of({"x": [1, 2, 3]}).plot, lambda where: plot_graph(problem, where)):
        with pytest.raises(StateError, match=complaint):
            draw(tmp_path / path)


def test_folders_that_are_missing_are_made_but_not_below_a_file(tmp_path):
    refuse_unwritable_folder(tmp_path / "new" / "newer")
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"file is a file, not a folder\. Choose another folder"):
        refuse_unwritable_folder(tmp_path / "file" / "new")


def test_nobody_may_write_where_the_folder_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(StateError, match="is not writable"):
        refuse_unwritable(tmp_path / "picture.png")
    with pytest.raises(StateError, match="is not writable"):
        refuse_unwritable_folder(tmp_path / "new")


def test_the_context_has_a_colour_of_its_own_and_is_never_left_out():
    edges = [("segment", "subject"), ("purpose", "subject"), ("subject", "click"), ("segment", "visits")]
    names = {name: [cause for cause, effect in edges if effect == name] for edge in edges for name in edge}
    model = cb.CausalModel(
        [
            cb.Variable(n, [0, 1], parents=causes, table=np.full((2,) * (len(causes) + 1), 0.5))
            for n, causes in names.items()
        ]
    )
    figure = plot_graph(
        cb.Problem(model, manipulable=["purpose"], reward="click", context=["segment", "visits"], optional=True)
    )
    (ax,) = figure.axes
    colours = {text.get_text(): text.get_bbox_patch().get_facecolor() for text in ax.texts}
    assert colours["segment"] == colours["visits"]
    assert len({colours[name] for name in ("segment", "purpose", "subject", "click")}) == 4


def structure_of(seed, observed):
    """A learned structure with random probabilities of all edges."""
    rng = np.random.default_rng(seed)
    roles = {"c": "context", "a": "manipulable", "b": "manipulable", **{f"v{k}": "observed" for k in range(observed)}}
    order = [*roles, "y"]
    edges = {
        (cause, effect): float(rng.random() ** 3)
        for i, effect in enumerate(order)
        for cause in order[:i]
        if effect == "y" or roles[effect] == "observed"
    }
    return LearnedStructure("y", 10, edges, {"y": {("a",): 1.0}}, dict.fromkeys(roles, (0, 1)), roles)


@pytest.mark.parametrize("seed", range(5))
def test_a_learned_structure_has_a_probability_at_each_arrow_and_no_arrow_behind_a_variable(seed, tmp_path):
    structure = structure_of(seed, 2 + 2 * seed)
    figure = structure.plot(tmp_path / "structure.png", at_least=0.3)
    assert (tmp_path / "structure.png").exists()
    figure.draw_without_rendering()
    (ax,) = figure.axes
    likely = structure.likely_edges(0.3)
    written = [text.get_text() for text in ax.texts]
    assert sorted(written) == sorted([*structure.values, "y", *(f"{p:.2f}" for p in likely.values())])
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert (len(boxes), len(arrows)) == (len(structure.values) + 1, len(likely))
    for arrow in arrows:
        inner = list(curve(arrow, ax))[2:-2]
        assert not any(box.contains(*point) for point in inner for box in boxes)
    widths = [arrow.get_linewidth() for arrow in arrows]
    assert np.argsort(widths).tolist() == np.argsort(list(likely.values())).tolist()


def test_a_picture_of_a_structure_is_refused_before_it_is_drawn(tmp_path):
    with pytest.raises(StateError, match="must end in its format"):
        structure_of(0, 2).plot(tmp_path / "picture")
    with pytest.raises(PolicyError, match="at_least must be a probability"):
        structure_of(0, 2).plot(at_least=2)
    assert structure_of(0, 2).plot(at_least=1).axes[0].texts[0].get_text() == "c"


def test_labels_stand_off_each_other_and_off_boxes():
    across = np.linspace((0.0, 0.0), (10.0, 0.0), 41)
    boxes = [((4.0, -1.0), (6.0, 1.0))]
    middles = place_labels([across, across + 0.1], boxes, (1.0, 0.5))
    for x, _ in middles:
        assert not 3.5 < x < 6.5
    assert abs(middles[0][0] - middles[1][0]) >= 1.0


def test_where_the_structure_is_learned_only_given_arrows_are_drawn():
    """Of a problem without a graph none; of one that is known partly its own, and those that are required."""
    arguments = {
        "reward": "y",
        "manipulable": {"a": [0, 1], "b": [0, 1]},
        "values": {"v": [0, 1], "w": [0, 1]},
        "context": {"c": [0, 1]},
    }
    partly = cb.Problem("a -> v -> y", known="partly", require_edges=[("b", "w")], **arguments)
    for problem, arrows in ((cb.Problem(None, **arguments), 0), (partly, 3)):
        figure = plot_graph(problem)
        (ax,) = figure.axes
        assert [text.get_text() for text in ax.texts] == ["c", "a", "b", *problem.must_observe, "y"]
        assert sum(isinstance(patch, FancyArrowPatch) for patch in ax.patches) == arrows
        heights = {text.get_text(): text.get_position()[1] for text in ax.texts}
        assert heights["a"] == heights["c"] > heights["v"] > heights["y"] == min(heights.values())
