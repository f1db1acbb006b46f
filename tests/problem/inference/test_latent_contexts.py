"""Contexts and requirements where causes are hidden: against the whole model, by brute force, and what is refused."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.engine.simulation import checkpoints
from causalbandits.errors import ModelError, NotIdentifiedError, PolicyError, ProblemError
from oracles.latent_graphs import joint, random_graph, random_model

GRAPH = cb.CausalGraph.from_text("segment -> mail -> visits -> Y; mail <-> Y; segment <-> visits")
STATES = {name: [0, 1] for name in GRAPH.names}


def apart(rng, graph):
    """Knobs, parents, and what no knob leads to, drawn from a graph; None where that is empty."""
    names = [str(name) for name in rng.permutation([name for name in graph.names if name != "Y"])]
    knobs = names[: int(rng.integers(1, 3))]
    admg = graph.admg(graph.names)
    after = admg.names_of(admg.descendants(admg.bits(knobs), admg.all_nodes))
    before = [name for name in names if name not in after]
    context = before[: int(rng.integers(1, 3))]
    parents = [name for name in names if name not in context][:2] + (context[:1] if rng.random() < 0.5 else [])
    return (knobs, parents, context) if context and set(parents) - set(context) else None


@pytest.mark.parametrize("seed", range(4))
def test_in_every_context_what_is_observed_says_what_the_whole_model_says(seed):
    rng = np.random.default_rng(seed)
    equal = refused = 0
    for _ in range(30):
        graph = random_graph(rng, int(rng.integers(4, 7)), 0.4, 0.25)
        drawn = apart(rng, graph)
        if drawn is None:
            continue
        knobs, parents, context = drawn
        model = random_model(rng, graph, sharp=2.0)
        known = cb.LatentModel.from_model(model, hidden=[name for name in model.names if name not in graph.names])
        whole = cb.Problem(model, manipulable=knobs, reward_parents=parents, context=context, optional=True)
        try:
            problem = cb.Problem(known, manipulable=knobs, reward_parents=parents, context=context, optional=True)
        except NotIdentifiedError:
            refused += 1
            continue
        assert problem.context_distribution == pytest.approx(whole.context_distribution, abs=1e-12)
        for values in itertools.product([-1, 0, 1], repeat=len(context)):
            codes = None if max(values) < 0 else values
            ours, theirs = (p.condition_codes(codes).parent_distributions() for p in (problem, whole))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, err_msg=f"{graph} {drawn} {codes}")
        again = cb.Problem.from_record(problem.to_record())
        assert again.fingerprint == problem.fingerprint
        equal += 1
    assert equal > 5
    assert refused > 0


def means_in_contexts(model, knobs, context):
    """P(Y=1 | do(a), c), by brute force: for every context, by action."""
    found = {}
    for values in itertools.product(*([None, 0, 1] for _ in knobs)):
        do = {name: value for name, value in zip(knobs, values, strict=True) if value is not None}
        table = joint(model, do.items())
        kept = [*context, "Y"]
        axes = [model.names.index(name) for name in kept]
        table = table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes))
        table = table.transpose(np.argsort(np.argsort(axes)))
        found[frozenset(do.items())] = table[..., 1] / table.sum(axis=-1)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_in_every_context_the_best_of_what_is_worth_trying_is_the_best_of_all(seed):
    rng = np.random.default_rng(50 + seed)
    tried = fewer = 0
    for _ in range(40):
        graph = random_graph(rng, int(rng.integers(4, 6)), 0.5, 0.4)
        drawn = apart(rng, graph)
        if drawn is None:
            continue
        knobs, _, context = drawn
        own = graph.with_values({name: [0, 1] for name in (*knobs, *context)})
        try:
            kept = cb.Problem(own, manipulable=knobs, reward="Y", reward_parents=[], context=context, optional=True)
        except ProblemError:  # no knob leads to the reward, or the context comes after it
            continue
        for _ in range(8):
            means = means_in_contexts(random_model(rng, graph, sharp=0.2), knobs, context)
            best = np.max(list(means.values()), axis=0)
            ours = np.max([means[frozenset(do.items())] for do in kept.actions], axis=0)
            np.testing.assert_allclose(ours, best, rtol=0, atol=1e-9, err_msg=f"{graph} {knobs} {context}")
        tried += 1
        fewer += kept.actions.size < 3 ** len(knobs)
    assert tried > 8
    assert fewer > 3


def test_what_is_known_may_tie_together_what_was_not():
    """Given an effect of two hidden causes, setting A is no longer as good as leaving it alone."""
    graph = cb.CausalGraph.from_text("A -> Y; c; c <-> A; c <-> Y").with_values({"A": [0, 1], "c": [0, 1]})
    without = cb.Problem(graph, manipulable=["A"], reward="Y", reward_parents=[], optional=True)
    known = cb.Problem(graph, manipulable=["A"], reward="Y", reward_parents=[], context=["c"], optional=True)
    assert list(without.actions) == [{"A": 0}, {"A": 1}]
    assert list(known.actions) == [{}, {"A": 0}, {"A": 1}]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_required_is_judged_by_what_is_observed(seed):
    rng = np.random.default_rng(seed)
    narrowed = 0
    for _ in range(12):
        model = random_model(rng, GRAPH, sharp=1.0)
        known = cb.LatentModel.from_model(model, hidden=["U0", "U1"])
        asked = {"max_probability": {"visits": {1: 0.5}}, "optional": False}
        outcomes = []
        for knowledge in (model, known):
            for context in ([], ["segment"]):
                try:
                    p = cb.Problem(
                        knowledge,
                        manipulable=["mail"],
                        reward_parents=["visits", "segment"],
                        context=context,
                        **asked,
                    )
                    views = [p.condition_codes((c,)) for c in (0, 1)] if context else [p]
                    left = [
                        [p.actions[n] for n in v._feasible_or_empty]
                        if v._feasible_or_empty is not None
                        else list(p.actions)
                        for v in views
                    ]
                except ProblemError as error:
                    left = "none" if "leaves no action" in str(error) else str(error)
                outcomes.append(left)
        assert outcomes[:2] == outcomes[2:]
        narrowed += outcomes[0] == "none" or len(outcomes[0][0]) < 2
    assert narrowed > 2


def world():
    """Segments are known, and share a hidden cause with visits; of these mails cause more or fewer."""
    model = random_model(np.random.default_rng(5), GRAPH, sharp=0.5)
    true = cb.Problem(
        model, manipulable=["mail"], reward_parents=["visits", "segment"], context=["segment"], optional=True
    )
    return cb.Environment(true, cb.rewards.BernoulliReward([[0.2, 0.6], [0.7, 0.1]])), model


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="equal bits are promised on x86-64")
@pytest.mark.parametrize("id", ["ts(prior=beta)", "ucb", "kl-ucb", "uniform", "c-ts(prior=beta)", "c-ucb"])
def test_the_compiled_rounds_give_the_plain_drivers_numbers_in_contexts(id):
    env, model = world()
    known = cb.LatentModel.from_model(model, hidden=["U0", "U1"])
    problem = (
        cb.Problem(
            known, manipulable=["mail"], reward_parents=["visits", "segment"], context=["segment"], optional=True
        )
        if id.startswith("c-")
        else cb.Problem(
            known.causal_graph, manipulable=["mail"], reward="Y", reward_parents=[], context=["segment"], optional=False
        )
    )
    policy, rounds = cb.policy(id).for_horizon(400), checkpoints(400)
    assert can_play(env, policy, problem)
    for replication in range(2):
        plain = play(env, policy, problem, rounds, 3, replication)
        assert np.array_equal(play_compiled(env, policy, problem, rounds, 3, replication), plain)
    assert plain.regret[-1] > 0


def test_an_agent_learns_a_number_for_every_action_in_every_context(tmp_path):
    graph = GRAPH.with_values(STATES)
    problem = cb.Problem(
        graph, manipulable=["mail"], reward="Y", reward_parents=[], context=["segment"], optional=False
    )
    assert repr(problem) == "Problem(2 actions on mail; a mean per action is learned; context segment)"
    agent = cb.Agent(problem, "ts(prior=beta)", seed=0)
    for segment in (0, 1) * 100:
        decision = agent.ask(context={"segment": segment})
        agent.tell(decision.id, reward=float(decision.action["mail"] == segment))
    for segment in (0, 1):
        assert agent.recommend(context={"segment": segment}).intervention == {"mail": segment}
    with pytest.raises(PolicyError, match="segment"):
        agent.ask()
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json", problem=cb.Problem.from_record(problem.to_record()))
    assert again.ask(context={"segment": 1}).action == agent.ask(context={"segment": 1}).action
    with pytest.raises(ProblemError, match="The distribution of segment is unknown, because a CausalGraph has no"):
        problem.context_distribution  # noqa: B018


def test_contexts_that_cannot_be_are_refused():
    model = random_model(np.random.default_rng(0), GRAPH, sharp=1.0)
    known = cb.LatentModel.from_model(model, hidden=["U0", "U1"])
    bow = cb.CausalGraph.from_text("c -> A -> B -> Y; A <-> B").with_values({n: [0, 1] for n in "cABY"})
    observed = cb.LatentModel.from_model(random_model(np.random.default_rng(1), bow), hidden=["U0"])
    bent = cb.CausalGraph.from_text("A -> B -> Y; c <-> Y").with_values({n: [0, 1] for n in "ABcY"})
    tied = cb.LatentModel.from_model(random_model(np.random.default_rng(1), bent), hidden=["U0"])
    late = "is observed after the decision|is an effect of"
    mail = {"manipulable": ["mail"], "reward_parents": ["visits"], "optional": True}
    a_to_b = {"manipulable": ["A"], "reward_parents": ["B"], "optional": True}
    unknown = r"P\(B \| do\(A\)\) is not identified from the observed variables: A leads to B"
    for make, error, message in (
        (lambda: cb.Problem(known, **mail, context=["Y"], reward="Y"), ProblemError, late),
        (lambda: cb.Problem(known, **mail, context=["visits"]), ProblemError, late),
        (
            lambda: cb.Problem(tied, manipulable=["A"], reward_parents=["B"], reward="Y", context=["c"], optional=True),
            ProblemError,
            r"'c' must be independent of the reward 'Y', and the path c <- U0 -> Y is open. Adding 'c' to",
        ),
        (lambda: cb.Problem(observed, **a_to_b, context=["c"]), NotIdentifiedError, unknown),
        (lambda: cb.Problem(observed, **a_to_b, max_probability={"B": 0.5}), NotIdentifiedError, unknown),
        (lambda: cb.Problem(observed, **{**a_to_b, "optional": False}), NotIdentifiedError, unknown),
        (
            lambda: cb.Problem(
                cb.CausalGraph({"Y": ["A", "u"]}, hidden=["u"], values={"A": [0, 1], "u": [0, 1]}),
                manipulable=["A"], reward="Y", reward_parents=[], context=["u"], optional=True
            ),
            ProblemError,
            "'u' is unobserved. Remove it from context",
        ),
        (lambda: cb.Problem(GRAPH.with_values({"mail": [0, 1]}), manipulable=["mail"], reward="Y", reward_parents=[],
                            context=["segment"], optional=True),
         ModelError, "no values of 'segment'"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            make()


def test_contexts_of_probability_0_are_refused_in_words_unless_a_prior_allows_them():
    """c is never 2, and d is 1 only where c is: what is observed says nothing of what an action does elsewhere."""
    model = cb.CausalModel([
        cb.Variable("u", [0, 1], table=[.5, .5]),
        cb.Variable("c", [0, 1, 2], table=[.5, .5, 0.]),
        cb.Variable("d", [0, 1], parents=["c"], table=[[1., 0.], [.5, .5], [.5, .5]]),
        cb.Variable("x", [0, 1], parents=["u", "d"], table=[[[.8, .2], [.7, .3]], [[.3, .7], [.2, .8]]]),
        cb.Variable("m", [0, 1], parents=["x", "c"],
                    table=[[[.9, .1], [.8, .2], [.7, .3]], [[.3, .7], [.2, .8], [.1, .9]]]),
        cb.Variable("y", [0, 1], parents=["m", "u"], table=[[[.9, .1], [.6, .4]], [[.5, .5], [.1, .9]]]),
    ])  # fmt: skip
    graph = model.causal_graph.with_hidden(["u"])
    rows = {name: column for name, column in model.sample(2000, rng=0).items() if name != "u"}
    exact = cb.LatentModel.from_model(model, hidden=["u"])
    plain, smoothed = (cb.fit(graph, rows, values=graph.states, prior=prior) for prior in (0, 1))
    whole = cb.Problem(model, manipulable=["x"], reward_parents=["y"], context=["c", "d"], optional=True)
    for known in (exact, plain):
        problem = cb.Problem(known, manipulable=["x"], reward_parents=["y"], context=["c", "d"], optional=True)
        for context in ({"c": 2}, {"c": 2, "d": 0}, {"c": 0, "d": 1}):
            assert not problem.condition(context).can_occur
            for accept in ("raise", "allow"):
                agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0, zero_probability=accept)
                with pytest.raises(
                    cb.errors.CausalBanditsError, match=r"the context .*probability 0|The context .* has probability 0"
                ):
                    agent.ask(context=context)
            with pytest.raises(
                ProblemError,
                match="Collect rows with these values, use a prior above 0, or remove the variable from context",
            ):
                problem.condition(context).parent_distribution({"x": 1})
        atol = 1e-12 if known is exact else 0.06
        for context in ({"d": 1}, {"c": 1, "d": 1}, {"c": 0, "d": 0}):
            found, true = (own.condition(context).parent_distribution({"x": 1}) for own in (problem, whole))
            np.testing.assert_allclose(found, true, rtol=0, atol=atol)
    allowed = cb.Problem(
        smoothed, manipulable=["x"], reward_parents=["y"], context=["c", "d"], optional=True
    ).condition({"c": 2, "d": 0})
    assert allowed.can_occur
    _, lower, upper = allowed.parent_distribution({"x": 1}, interval=True)
    assert upper[1] - lower[1] > 0.3  # nobody knows


def test_what_is_always_set_may_be_required_of_a_fit_as_of_what_is_known():
    model = cb.CausalModel(
        [
            cb.Variable("u", [0, 1], table=[0.5, 0.5]),
            cb.Variable("x", [0, 1, 2], parents=["u"], table=[[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]),
            cb.Variable("z", [0, 1], parents=["x"], table=[[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]),
            cb.Variable("y", [0, 1], parents=["z", "u"], table=[[[0.2, 0.8], [0.9, 0.1]], [[0.1, 0.9], [0.8, 0.2]]]),
        ]
    )
    exact = cb.LatentModel.from_model(model, hidden=["u"])
    rows = {name: column for name, column in model.sample(500, rng=1).items() if name != "u"}
    for known in (exact, cb.fit(exact.causal_graph, rows)):
        problem = cb.Problem(
            known, manipulable=["x"], reward_parents=["z"], reward="y", optional=False, max_probability={"x": {0: 0.3}}
        )
        assert [dict(do) for do in problem.actions] == [{"x": 1}, {"x": 2}]
