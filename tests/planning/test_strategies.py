"""What is possible with what is known: the ways, the one to go, and how users are led to it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import CausalBanditsError, ModelError, PolicyError, ProblemError, SizeError
from causalbandits.planning.environment_spec import parse_environment
from causalbandits.planning.strategies import route_of
from causalbandits.problem.inference import districts
from causalbandits.results.plots.graph import plot_graph
from oracles.latent_graphs import example, random_graph, random_model


def by_graph(text, knobs, reward="Y", **more):
    graph = cb.CausalGraph.from_text(text)
    return cb.Problem(
        graph.with_values({name: [0, 1] for name in knobs}),
        manipulable=knobs,
        reward=reward,
        **{"reward_parents": [], "optional": True, **more},
    )


def ways(problem):
    return {way.name: way.numbers for way in route_of(problem).ways}


# --- the ways -----------------------------------------------------------------------------------------


def test_by_configurations_where_a_set_separates_and_is_identified():
    problem = by_graph("channel -> exposure -> engagement -> Y; channel <-> engagement", ["channel"])
    route = route_of(problem)
    assert ways(problem) == {"by configurations": 2, "by actions": 3}
    assert route.best.name == "by configurations"
    assert "reward_parents=['engagement'], optional=True." in route.best.text
    assert "pass data=rows to Problem" in route.best.text


def test_with_a_knob_always_set_where_that_closes_what_is_open_and_what_is_lost_is_said():
    graph = cb.CausalGraph.from_text("channel -> exposure -> sale; channel <-> sale")
    problem = cb.Problem(
        graph.with_values({"channel": list(range(8))}),
        manipulable=["channel"],
        reward="sale",
        reward_parents=[],
        optional=True,
    )
    route = route_of(problem)
    assert ways(problem) == {"by configurations": None, "with channel always set": 2, "by actions": 9}
    assert "do(channel) -> channel <-> sale is open" in route.ways[0].text
    assert route.ways[1].gives_up
    assert "This excludes actions that leave channel to their natural mechanism" in route.ways[1].text
    assert route.best.name == "by actions"


def test_with_a_knob_always_set_at_no_loss_where_every_action_worth_trying_sets_it():
    problem = by_graph("C -> B -> Y; C <-> B", ["B", "C"], reduce=False)
    route = route_of(problem)
    assert ways(problem) == {"by configurations": None, "with B always set": 2, "by actions": 2}
    assert not route.ways[1].gives_up
    assert route.best == route.ways[1]


def test_what_separates_and_is_not_identified_says_what_would_help():
    problem = by_graph("ad -> visits -> Y; ad <-> visits", ["ad"])
    first = route_of(problem).ways[0]
    assert first.numbers is None
    assert "Observe the common cause of ad and visits, or set ad at random in some rows" in first.text
    assert route_of(problem).best.name == "by actions"


@pytest.mark.parametrize("seed", range(4))
def test_a_way_is_open_just_where_the_problem_can_be_made(seed):
    """Random graphs and models: what the route says of configurations against what Problem does."""
    rng = np.random.default_rng(seed)
    opened = closed = 0
    for _ in range(25):
        graph = random_graph(rng, int(rng.integers(3, 6)), 0.5, 0.3)
        names = [name for name in graph.names if name != "Y"]
        knobs = sorted(rng.choice(names, size=int(rng.integers(1, min(2, len(names)) + 1)), replace=False).tolist())
        model = random_model(rng, graph)
        known = cb.LatentModel.from_model(model, hidden=[name for name in model.names if name not in graph.names])
        if not any(graph.optimal_sets("Y", manipulable=knobs)):
            continue
        problem = cb.Problem(known, manipulable=knobs, reward_parents=[], reward="Y", reduce=False, optional=True)
        found = ways(problem)
        made = None
        with contextlib.suppress(ProblemError):
            made = cb.Problem(known, manipulable=knobs, reward="Y", adjust="smallest", optional=True).configurations
        assert found["by configurations"] == made, graph
        opened, closed = opened + (made is not None), closed + (made is None)
        assert (
            found["by actions"]
            == cb.Problem(known, manipulable=knobs, reward_parents=[], reward="Y", optional=True).actions.size
        )
        for way in route_of(problem).ways[1:-1]:
            always = way.name.removeprefix("with ").removesuffix(" always set").split(", ")
            sure = [name for name in knobs if name in always]
            optional = [name for name in knobs if name not in sure]
            fixed = cb.Problem(known, manipulable=knobs, reward="Y", adjust="smallest", optional=optional)
            assert way.numbers == fixed.configurations
            kept = cb.Problem(known, manipulable=knobs, reward_parents=[], reward="Y", optional=True).actions
            assert way.gives_up == any(not set(sure) <= set(do) for do in kept)
    assert opened > 4
    assert closed > 2


def test_a_problem_without_its_reward_in_the_graph_has_no_route():
    assert route_of(cb.zoo.email_campaign().problem).ways == ()


# --- descriptions, forecasts, pictures ----------------------------------------------------------------


def test_a_description_by_actions_says_what_is_tied_what_is_worth_setting_and_what_is_possible():
    problem = cb.Problem(
        example("H2").with_values({n: [0, 1] for n in "ABC"}),
        manipulable=["A", "B", "C"],
        reward="Y",
        reward_parents=[],
        optional=True,
    )
    found = cb.describe(problem, horizon=1000)
    text = repr(found)
    assert (found.matter, found.idle, found.reachable) == (("A", "B", "C"), (), 0)
    assert "Actions: 8 on A, B, C. Learned: one mean reward per action." in text
    assert "Confounded by unobserved variables: A, C; B, Y." in text
    assert "may be optimal to set: B, C; A, C." in text
    assert "Recommended: by actions. It learns the fewest parameters" in text
    assert {row.policy for row in found.bounds} <= {"ucb", "ts(prior=beta)", "ts(scales=given)", "kl-ucb"}
    assert found.policy == "ts"
    assert "125 trials of each mean" in found.reason
    assert "image/svg+xml" in found._repr_html_()


def test_a_description_of_what_is_observed_has_a_route_and_one_of_a_whole_model_stays_as_it_was():
    env = cb.zoo.reversal()
    known = cb.LatentModel.from_model(env.problem.model, hidden=["taste"])
    found = cb.describe(cb.Problem(known, manipulable=["channel"], reward="sale", adjust="smallest", optional=True))
    assert [way.numbers for way in found.route.ways] == [2, 3]
    assert "Confounded by unobserved variables: channel, engagement" in repr(found)
    assert found.separators == ()
    assert cb.describe(env).route.ways == ()
    assert "What is possible" not in repr(cb.describe(env))


def test_a_forecast_by_actions_draws_a_mean_for_every_action():
    problem = by_graph("A -> B -> Y; C -> Y; A <-> C; B <-> Y", ["A", "B", "C"])
    found = cb.forecast(problem, horizon=200, replications=20, progress=False)
    assert found.run.policies == ("ts", "ts(prior=beta)", "uniform")
    regret = {row.policy: row.mean for row in found.run.summary()}
    # Of 8 means that are uniform on [0, 1] the best is 8/9 in the mean, so that a uniform test loses 0.389 a round.
    assert regret["uniform"] == pytest.approx(200 * (8 / 9 - 1 / 2), rel=0.25)
    assert regret["ts(prior=beta)"] < regret["uniform"] / 2
    with pytest.raises(CausalBanditsError, match="learns one mean per action"):
        cb.forecast(problem, horizon=100, reward_prior=lambda problem, rng: cb.rewards.BernoulliReward([0.5]))
    tied = by_graph("c -> Y; A -> Y; A <-> Y", ["A", "c"])
    graph = tied.graph
    with pytest.raises(ProblemError, match="The distribution of c is unknown, because a"):
        cb.forecast(
            cb.Problem(graph, manipulable=["A"], reward="Y", reward_parents=[], context=["c"], optional=True),
            horizon=100,
        )
    model = random_model(np.random.default_rng(0), graph)
    known = cb.Problem(model, manipulable=["A"], reward_parents=[], reward="Y", context=["c"], optional=True)
    assert cb.forecast(known, ["ts(prior=beta)"], horizon=100, replications=5, progress=False).run.replications == 5


def test_a_forecast_of_what_is_observed_is_one_of_the_whole_model():
    env = cb.zoo.reversal()
    known = cb.LatentModel.from_model(env.problem.model, hidden=["taste"])
    ours, theirs = (
        cb.forecast(
            cb.Problem(own, manipulable=["channel"], reward_parents=["engagement"], reward="sale", optional=True),
            ["c-ucb"], horizon=100, replications=5, progress=False,
        )
        for own in (known, env.problem.model)
    )  # fmt: skip
    assert ours.run.measures["regret"]["c-ucb"] == pytest.approx(theirs.run.measures["regret"]["c-ucb"], abs=1e-9)


def test_hidden_causes_are_drawn_dashed():
    problem = by_graph("u -> {A, Y}; A -> B -> Y; B <-> Y; u [hidden]", ["A", "B"])
    (axes,) = plot_graph(problem).axes
    styles = {text.get_text(): text.get_bbox_patch().get_linestyle() for text in axes.texts}
    assert styles == {"u": "--", "?": "--", "A": "-", "B": "-", "Y": "-"}
    assert sum(patch.get_linestyle() == "--" for patch in axes.patches) == 4
    assert sum(patch.get_linestyle() == "-" for patch in axes.patches) == 2


# --- the command line, and files ----------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def dot(tmp_path):
    path = tmp_path / "graph.dot"
    path.write_text("digraph { channel -> exposure -> engagement -> sale; channel -> engagement [dir=both]; x -> x2; }")
    return path


def test_inspect_leads_from_a_graph_to_what_is_possible(dot, tmp_path):
    found = run("inspect", dot, "--reward", "sale", "--picture", tmp_path / "graph.svg")
    assert found.exit_code == 0, found.output
    assert "on channel, exposure, engagement." in found.output  # all that leads to the reward
    assert (tmp_path / "graph.svg").read_text().startswith("<?xml")
    found = run(
        "inspect",
        dot,
        "--reward",
        "sale",
        "--manipulable",
        "channel=web,mail,app",
        "--optional",
        "all",
        "--out",
        tmp_path / "out",
    )
    assert "Actions: 4 on channel. Learned: one mean reward per action." in found.output
    assert "engagement separates the interventions from sale" in found.output
    assert (tmp_path / "out" / "report.html").exists()
    found = run("forecast", dot, "--reward", "sale", "--manipulable", "channel=web,mail", "--optional", "all",
                "--reward-parents", "", "--horizon", 50, "--replications", 3)  # fmt: skip
    assert "ts(prior=beta)" in found.output
    for arguments, message in (
        ((), "The manipulable variables are missing"),
        (("--reward", "sales", "--manipulable", "channel"), "Did you mean 'sale'"),
        (("--reward", "sale", "--picture", tmp_path / "graph.txt"), "graph.txt"),
        (
            ("--reward", "sale", "--manipulable", "channel", "--reward-parents", "engagement"),
            "Missing: the values of 'exposure', 'engagement'",
        ),
    ):
        found = run("inspect", dot, *arguments)
        assert found.exit_code != 0
        assert message in str(found.exception)


def test_specifications_know_problems_by_actions_and_what_is_observed(dot, tmp_path):
    asked = {"model": "graph.dot", "reward": "sale", "manipulable": {"channel": ["web", "mail"]}, "reward_parents": []}
    asked["optional"] = True
    problem = parse_environment(asked, folder=tmp_path)
    assert list(problem.actions) == [{}, {"channel": "web"}, {"channel": "mail"}]
    with pytest.raises(CausalBanditsError, match=r"no values of 'channel'.* values = \{ channel = \[...\] \}"):
        parse_environment({**asked, "manipulable": ["channel"]}, folder=tmp_path)
    model = cb.zoo.reversal().problem.model
    cb.write(model, tmp_path / "model.json")
    by_actions = parse_environment(
        {"model": "model.json", "reward": "sale", "manipulable": ["channel"], "reward_parents": [], "optional": True},
        folder=tmp_path,
    )
    assert by_actions.unit == "actions"
    with pytest.raises(CausalBanditsError, match="name of the reward"):
        parse_environment({"model": "model.json", "manipulable": ["channel"], "reward_parents": []}, folder=tmp_path)
    with pytest.raises(ProblemError, match="and this problem has none"):
        parse_environment(asked, {"reward": "bernoulli", "mean": [0.5]}, folder=tmp_path)
    known = cb.LatentModel.from_model(model, hidden=["taste"])
    (tmp_path / "known.json").write_text(known.to_json())
    found = parse_environment(
        {"model": "known.json", "reward": "sale", "manipulable": ["channel"], "adjust": "smallest", "optional": True},
        folder=tmp_path,
    )
    assert found.parents == ("engagement",)


# --- refusals -----------------------------------------------------------------------------------------


def hidden_taste():
    model = cb.zoo.reversal().problem.model
    return cb.LatentModel.from_model(model, hidden=["taste"])


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"reward_parents": ["taste"]},
            ModelError,
            "'taste' is unobserved: the model has no distribution of its values",
        ),
        ({"adjust": "smallest", "can_observe": ["taste"]}, ModelError, "'taste' is unobserved:"),
        ({"adjust": "smallest", "can_observe": ["sale"]}, ProblemError, "reward 'sale'"),
        ({"reward_parents": ["engagement"], "context": ["taste"]}, ModelError, "'taste' is unobserved:"),
        ({"manipulable": ["taste"], "reward_parents": ["engagement"]}, ModelError, "'taste' is unobserved:"),
        ({"reward_parents": ["engagement"], "max_probability": {"taste": 0.5}}, ProblemError, "Unknown variable"),
        ({"reward_parents": ["sale"]}, ProblemError, "cannot be its own parent"),
        ({"reward": "sell", "reward_parents": []}, ModelError, "Unknown variable 'sell'. Did you mean 'sale'"),
    ],
)
def test_what_is_hidden_is_refused_where_its_values_would_be_needed(asked, error, message):
    with pytest.raises(error, match=message):
        cb.Problem(hidden_taste(), **{"manipulable": ["channel"], "reward": "sale", **asked})


def test_districts_that_are_too_large_and_policies_without_parents_are_refused(monkeypatch):
    monkeypatch.setattr(districts, "ENTRY_LIMIT", 8)
    with pytest.raises(
        SizeError,
        match="channel, engagement are confounded, and the joint table with their parents and choices has 24 cells;",
    ):
        cb.Problem(hidden_taste(), manipulable=["channel"], reward="sale", adjust="smallest", optional=True)
    problem = cb.Problem(hidden_taste(), manipulable=["channel"], reward_parents=[], reward="sale", optional=True)
    with pytest.raises(
        PolicyError, match=r"c-ts\(prior=beta\) learns mean rewards given the reward's parents, and this problem has"
    ):
        cb.theory.compare(problem, 100, policies=["c-ts(prior=beta)"])
