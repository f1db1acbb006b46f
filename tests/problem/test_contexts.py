"""What is known beforehand: when it may be used, and P(z | do(a), c) against the joint distribution."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits import CausalModel, Problem, Variable
from causalbandits.errors import ProblemError
from causalbandits.model.graph.dag import ancestors
from causalbandits.problem.inference.blocks import PointMassBlock
from oracles import Case, all_interventions, cases, joint, models, patient, random_table


@st.composite
def with_context(draw: st.DrawFn, *, most: int = 6) -> tuple[Case, list[str]]:
    """A case, and variables that no knob leads to; z and they may overlap, but z has something else."""
    case = draw(cases(most=most))
    free = [n for n in case.model.names if not ancestors(case.model.graph, [n]) & set(case.manipulable)]
    assume(free)
    context = draw(st.lists(st.sampled_from(free), unique=True, min_size=1, max_size=3))
    assume(set(case.parents) - set(context))
    return case, context


def conditional(model: CausalModel, do: dict[str, Any], names: list[str], known: dict[str, int]) -> Any:
    """P(names | do, known) from the whole joint; None where what is known has probability 0."""
    everything = joint(model, do)
    where = tuple(known.get(name, slice(None)) for name in model.names)
    kept = np.zeros_like(everything)
    kept[where] = everything[where]
    at = np.indices(kept.shape)
    result = np.zeros([len(model[name].states) for name in names])
    np.add.at(result, tuple(at[model.names.index(name)] for name in names), kept)
    return result / result.sum() if result.sum() > 0 else None


def contexts_of(model: CausalModel, context: list[str], rng: np.random.Generator) -> list[dict[str, int]]:
    """Every full context and some partial ones, by codes."""
    full = [
        dict(zip(context, codes, strict=True))
        for codes in itertools.product(*(range(len(model[n].states)) for n in context))
    ]
    return full + [{n: c for n, c in known.items() if rng.random() < 0.5} for known in full[:6]]


@settings(patient, max_examples=220)
@given(with_context(), st.integers(0, 2**32 - 1))
def test_what_actions_lead_to_in_a_context_is_the_joint_distribution_given_it(drawn, seed):
    (model, manipulable, parents), context = drawn
    problem = Problem(model, manipulable=manipulable, reward_parents=parents, context=context, optional=True)
    for known in contexts_of(model, context, np.random.default_rng(seed)):
        told = {name: model[name].states[code] for name, code in known.items()}
        oracle = [conditional(model, do, parents, known) for do in all_interventions(model, manipulable)]
        if oracle[0] is None:  # an answer there may be, but the joint has none
            continue
        view = problem.condition(told)
        np.testing.assert_allclose(view.parent_distributions(), oracle, rtol=0, atol=1e-12)
        number = len(oracle) // 2
        np.testing.assert_allclose(view.parent_distribution(number), oracle[number], rtol=0, atol=1e-12)


@settings(patient, max_examples=60)
@given(with_context(), st.integers(0, 2**32 - 1))
def test_scores_in_a_context_are_sums_over_what_agrees_with_it(drawn, seed):
    (model, manipulable, parents), context = drawn
    problem, rng = (
        Problem(model, manipulable=manipulable, reward_parents=parents, context=context, optional=True),
        np.random.default_rng(seed),
    )
    x = rng.normal(size=problem.configurations)
    for known in contexts_of(model, context, rng)[:8]:
        if conditional(model, {}, parents, known) is None:
            continue
        situation = problem.situation(context={n: model[n].states[code] for n, code in known.items()}, every=True)
        rows = situation.problem.parent_distributions().reshape(situation.size, -1)
        np.testing.assert_allclose(situation.project(x).values, rows @ x, rtol=0, atol=1e-10)
        if situation.cells is not None:
            assert situation.project(x[situation.cells]).values.tolist() == situation.project(x).values.tolist()
            assert rows[:, np.setdiff1d(np.arange(x.size), situation.cells)].sum() == 0.0


@settings(patient, max_examples=60)
@given(with_context(), st.integers(0, 2**32 - 1))
def test_no_context_loses_its_best_action_to_the_reduction(drawn, seed):
    (model, manipulable, parents), context = drawn
    problem, rng = (
        Problem(model, manipulable=manipulable, reward_parents=parents, context=context, optional=True),
        np.random.default_rng(seed),
    )
    for known in contexts_of(model, context, rng)[:8]:
        if conditional(model, {}, parents, known) is None:
            continue
        told = {n: model[n].states[code] for n, code in known.items()}
        for _ in range(5):
            x = rng.normal(size=problem.configurations)
            best = problem.situation(context=told, every=True).project(x).values.max()
            assert problem.situation(context=told).project(x).values.max() >= best - 1e-9


@settings(patient, max_examples=60)
@given(with_context(most=5))
def test_the_contexts_have_the_probabilities_of_the_joint_whatever_is_done(drawn):
    (model, manipulable, parents), context = drawn
    problem = Problem(model, manipulable=manipulable, reward_parents=parents, context=context, optional=True)
    for do in itertools.islice(all_interventions(model, manipulable), 5):
        at = np.indices([len(v.states) for v in model.variables.values()])
        oracle = np.zeros([len(model[name].states) for name in context])
        np.add.at(oracle, tuple(at[model.names.index(name)] for name in context), joint(model, do))
        np.testing.assert_allclose(problem.context_distribution, oracle, rtol=0, atol=1e-12)
    for codes, share in problem.contexts.by_probability():
        assert problem.contexts.probability(codes) == pytest.approx(share, rel=1e-12)
        assert problem.contexts.at(problem.contexts.number(codes)) == codes
    assert sum(share for _, share in problem.contexts.by_probability()) == pytest.approx(1, abs=1e-12)


@settings(patient, max_examples=40)
@given(with_context(most=5), st.integers(0, 2**32 - 1))
def test_drawn_tables_give_the_context_what_models_with_these_tables_do(drawn, seed):
    (model, manipulable, parents), context = drawn
    rng = np.random.default_rng(seed)
    problem = Problem(model, manipulable=manipulable, reward_parents=parents, context=context, optional=True)
    tables = {
        n: rng.dirichlet(np.ones(v.table.shape[-1]), (4, *v.table.shape[:-1])) for n, v in model.variables.items()
    }
    known = contexts_of(model, context, rng)[-1]
    told = {n: model[n].states[code] for n, code in known.items()}
    assume(conditional(model, {}, parents, known) is not None)
    choices = problem.actions.choices(problem.actions.size - 1)
    view = problem.condition(told)
    drawn_rows = view.joint([b.rows_under_models(tables, [choices[k] for k in b.manipulable]) for b in view.blocks])
    for k in range(4):
        other = CausalModel(
            Variable(v.name, v.states, parents=v.parents, table=tables[v.name][k]) for v in model.variables.values()
        )
        exact = problem.with_model(other).condition(told).parent_distribution(problem.actions.size - 1)
        np.testing.assert_allclose(drawn_rows[k], exact, rtol=0, atol=1e-12)


def test_a_known_common_cause_splits_blocks_and_a_known_common_effect_joins_them():
    coin, follow = [0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]
    cause = CausalModel(
        [
            Variable("c", [0, 1], table=coin),
            Variable("x", [0, 1], parents=["c"], table=follow),
            Variable("y", [0, 1], parents=["c"], table=follow),
        ]
    )
    problem = Problem(cause, manipulable=["x"], reward_parents=["x", "y"], context=["c"], optional=True)
    assert [len(problem.blocks), len(problem.condition({"c": 1}).blocks)] == [1, 2]
    both = np.random.default_rng(0).dirichlet([1, 1], (2, 2))
    effect = CausalModel(
        [
            Variable("u", [0, 1], table=coin),
            Variable("v", [0, 1], table=coin),
            Variable("x", [0, 1], table=coin),
            Variable("c", [0, 1], parents=["u", "v"], table=both),
        ]
    )
    problem = Problem(effect, manipulable=["x"], reward_parents=["x", "u", "v"], context=["c"], optional=True)
    assert [len(problem.blocks), len(problem.condition({"c": 1}).blocks)] == [3, 2]


def segmented(*, in_reward: bool = False) -> CausalModel:
    """A segment that acts on how a subject line is taken; the third one never occurs."""
    rng = np.random.default_rng(3)
    return CausalModel(
        [
            Variable("segment", ["new", "old", "none"], table=[0.6, 0.4, 0.0]),
            Variable("purpose", ["promo", "care"], table=[0.5, 0.5]),
            Variable("subject", ["short", "long"], parents=["purpose", "segment"], table=random_table(rng, [2, 3], 2)),
            Variable("age", ["young", "grown"], parents=["segment"], table=[[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]]),
            Variable(
                "reward",
                [0, 1],
                parents=["subject", *(["segment"] if in_reward else [])],
                table=random_table(rng, [2, 3] if in_reward else [2], 2),
            ),
        ]
    )


def test_a_root_context_of_probability_0_is_answered_by_its_row_of_the_tables():
    problem = Problem(segmented(), manipulable=["purpose"], reward="reward", context=["segment"], optional=True)
    row = problem.condition({"segment": "none"}).parent_distribution({"purpose": "care"})
    np.testing.assert_allclose(row, problem.model["subject"].table[1, 2])
    assert problem.contexts.probability((2,)) == 0.0


def test_a_context_that_contradicts_itself_is_refused():
    model = segmented()
    problem = Problem(model, manipulable=["purpose"], reward="reward", context=["age", "segment"], optional=True)
    assert problem.condition({"segment": "none", "age": "young"}).context_codes == (0, 2)
    sure = Problem(
        CausalModel(
            [
                Variable("s", [0, 1], table=[1.0, 0.0]),
                Variable("x", [0, 1], table=[0.5, 0.5]),
                Variable("c", [0, 1], parents=["s"], table=[[1.0, 0.0], [0.0, 1.0]]),
                Variable("z", [0, 1], parents=["x", "s"], table=np.full((2, 2, 2), 0.5)),
            ]
        ),
        manipulable=["x"],
        reward_parents=["z"],
        context=["c"],
        optional=True,
    )
    with pytest.raises(ProblemError, match=r"probability 0 in the model: c=1\. Check the values,"):
        sure.condition({"c": 1})


def test_what_is_known_of_the_parents_is_a_point_mass_that_costs_nothing():
    problem = Problem(
        segmented(in_reward=True), manipulable=["purpose"], reward="reward", context=["segment"], optional=True
    )
    view = problem.condition({"segment": "old"})
    assert [isinstance(block, PointMassBlock) for block in view.blocks] == [False, True]
    assert view.cells.tolist() == [1, 4]
    assert view.situation().candidates.projection.tree[0][0].columns.shape[0] == 2
    assert len(view.situation().candidates.projection.tree[0]) == 1


def test_parts_of_the_context_and_the_rest_of_it_later_are_the_whole():
    problem = Problem(segmented(), manipulable=["purpose"], reward="reward", context=["age", "segment"], optional=True)
    whole = problem.condition({"segment": "old", "age": "grown"})
    assert problem.condition({"age": "grown"}).condition({"segment": "old"}) is whole
    assert problem.situation(context={"segment": "old", "age": "grown"}) is whole.situation()
    assert problem.condition({}) is problem
    assert whole.unconditional is problem
    assert whole.condition_codes(None) is problem
    with pytest.raises(ProblemError, match="'segment' has the known value 'old' in this context; got 'new'"):
        whole.condition({"segment": "new"})


def test_a_problem_with_context_is_described_whole():
    problem = Problem(segmented(), manipulable=["purpose"], reward="reward", context=["segment"], optional=True)
    without = Problem(segmented(), manipulable=["purpose"], reward="reward", optional=True)
    view = problem.condition({"segment": "old"})
    assert repr(problem).endswith("configurations of subject; context segment; observe subject)")
    assert repr(view).endswith("context segment, known: segment=old; observe subject)")
    assert len({p.fingerprint for p in (problem, without, view, problem.condition({"segment": "new"}))}) == 4
    assert "context" not in without.to_record()
    for one in (problem, view):
        again = Problem.from_record(one.to_record())
        assert again.fingerprint == one.fingerprint
        assert again.is_same_except_cpts(one)
        assert again.context_codes == one.context_codes
    assert not problem.is_same_except_cpts(without)
    assert not problem.is_same_except_cpts(view)
    other = view.with_model(segmented())
    assert other.context_codes == view.context_codes
    assert other.context == ("segment",)
    copy = pickle.loads(pickle.dumps(view))
    assert copy.context_codes == (1,)
    assert copy.unconditional.context_codes is None
    np.testing.assert_array_equal(copy.parent_distributions(), view.parent_distributions())


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (["purpose"], r"'purpose' is manipulable\. Remove it from"),
        (["subject"], r"the manipulable 'purpose': purpose -> subject\. Remove 'subject'"),
        (["reward"], "The reward 'reward' is observed after the decision"),
        (["sgment"], "Did you mean 'segment'"),
        (["segment", "segment"], "must differ: 'segment' appears twice"),
        ("segment", "must be a list of names"),
    ],
)
def test_what_cannot_be_known_beforehand_is_refused(context, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        Problem(segmented(), manipulable=["purpose"], reward="reward", context=context, optional=True)


def test_what_comes_after_the_reward_is_no_context():
    model = CausalModel(
        [*segmented().variables.values(), Variable("thanks", [0, 1], parents=["reward"], table=np.eye(2))]
    )
    with pytest.raises(ProblemError, match="is an effect of the reward 'reward': reward -> thanks"):
        Problem(
            model,
            manipulable=["purpose"],
            reward_parents=["subject"],
            reward="reward",
            context=["thanks"],
            optional=True,
        )


@pytest.mark.parametrize("given_context", [{"segmnt": "old"}, {"segment": "odl"}, "old", {"segment": []}, None, 3])
def test_contexts_with_unknown_names_or_values_are_refused(given_context):
    problem = Problem(segmented(), manipulable=["purpose"], reward="reward", context=["segment"], optional=True)
    with pytest.raises(cb.CausalBanditsError):
        problem.condition(given_context)


def test_a_problem_without_context_says_so():
    with pytest.raises(ProblemError, match=r"no context\. Declare it, Problem\(\.\.\., context=\[\.\.\.\]\);"):
        Problem(segmented(), manipulable=["purpose"], reward="reward", optional=True).situation(
            context={"segment": "old"}
        )


def test_parents_that_are_all_known_are_refused():
    with pytest.raises(ProblemError, match=r"All of the parents .* are context"):
        Problem(segmented(), manipulable=["purpose"], reward_parents=["segment"], context=["segment"], optional=True)


def test_a_context_that_also_acts_on_the_reward_must_be_among_the_parents():
    either = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.1, 0.9]]])
    model = CausalModel(
        [
            Variable("segment", ["new", "old"], table=[0.5, 0.5]),
            Variable("x", [0, 1], table=[0.5, 0.5]),
            Variable("y", [0, 1], parents=["x", "segment"], table=either),
        ]
    )
    with pytest.raises(ProblemError, match=r"segment -> y is open\. Adding 'segment' to reward_parents is"):
        Problem(model, manipulable=["x"], reward_parents=["x"], reward="y", context=["segment"], optional=True)
    assert Problem(
        model, manipulable=["x"], reward_parents=["x", "segment"], reward="y", context=["segment"], optional=True
    )


def m_bias() -> CausalModel:
    coin, follow = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    joined = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.1, 0.9]]])
    return CausalModel(
        [
            Variable("u1", [0, 1], table=coin),
            Variable("u2", [0, 1], table=coin),
            Variable("x", [0, 1], parents=["u1"], table=follow),
            Variable("c", [0, 1], parents=["u1", "u2"], table=joined),
            Variable("y", [0, 1], parents=["x", "u2"], table=joined),
        ]
    )


def test_m_bias_is_refused_with_its_path_and_mended_by_what_the_refusal_says():
    with pytest.raises(ProblemError) as error:
        Problem(m_bias(), manipulable=["x"], reward_parents=["x"], reward="y", context=["c"], optional=True)
    assert "c <- u2 -> y is open" in str(error.value)
    assert "be independent of the reward 'y', and the path c <- u2 -> y is open" in str(error.value)
    assert "the reward's own parents ['x', 'u2'] are always" in str(error.value)
    with pytest.raises(ProblemError, match="u1 -> c <- u2 -> y is open"):
        Problem(m_bias(), manipulable=["x"], reward_parents=["x", "c"], reward="y", context=["c"], optional=True)
    assert Problem(m_bias(), manipulable=["x"], reward_parents=["x", "c"], reward="y", context=["c"], optional=False)
    assert Problem(m_bias(), manipulable=["x"], reward="y", context=["c"], optional=True).parents == ("x", "u2")


def positive(model: CausalModel, rng: np.random.Generator) -> CausalModel:
    """The same graph with tables that have no zeros, and nothing equal by chance."""
    return CausalModel(
        Variable(v.name, v.states, parents=v.parents, table=rng.dirichlet(np.ones(len(v.states)), v.table.shape[:-1]))
        for v in model.variables.values()
    )


def depends(model: CausalModel, knobs: list[str], always: list[str], z: list[str], context: list[str], y: str) -> bool:
    """Whether E[Y | z, do(a), c] differs between some actions or contexts, by the numbers."""
    names = list(model.names)
    worth = np.arange(len(model[y].states), dtype=float)
    order = [*z, *(n for n in context if n not in z), y]
    means = []
    for do in all_interventions(model, knobs):
        if all(name in do for name in always):
            everything = joint(model, do)
            drop = tuple(i for i, name in enumerate(names) if name not in order)
            table = everything.sum(axis=drop)
            kept = [name for name in names if name in order]
            table = table.transpose([kept.index(name) for name in order])
            total = table.sum(axis=-1)
            with np.errstate(invalid="ignore"):
                means.append(
                    np.where(total > 1e-12, table @ worth / total, np.nan).reshape(
                        [len(model[n].states) for n in z] + [-1]
                    )
                )
    stacked = np.concatenate(means, axis=-1)
    with np.errstate(all="ignore"):
        spread = np.nanmax(stacked, axis=-1) - np.nanmin(stacked, axis=-1)
    return bool(np.nanmax(spread) > 1e-9)


@settings(patient, max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(0, 2**32 - 1))
def test_the_graph_refuses_a_context_just_where_the_numbers_do(data, seed):
    model = positive(data.draw(models(fewest=4, most=6, fewest_states=2)), np.random.default_rng(seed))
    names, some = model.names, lambda of: data.draw(st.lists(st.sampled_from(of), unique=True, min_size=1, max_size=2))
    y = data.draw(st.sampled_from(names))
    others = [n for n in names if n != y]
    knobs = some(others)
    before = [n for n in others if y not in ancestors(model.graph, [n])]
    assume(before)
    z = some(before)
    free = [n for n in before if not ancestors(model.graph, [n]) & set(knobs)]
    assume(free)
    context, always = some(free), [k for k in knobs if data.draw(st.booleans())]
    assume(set(z) - set(context))
    assume(y not in ancestors(model.graph, knobs))
    try:
        Problem(
            model,
            manipulable=knobs,
            reward_parents=z,
            reward=y,
            context=context,
            optional=[name for name in knobs if name not in always],
            reduce=False,
        )
        accepted = True
    except ProblemError:
        accepted = False
    assert accepted is not depends(model, knobs, always, z, context, y)


@settings(patient, max_examples=100)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_the_cheapest_separator_serves_every_context(data, seed):
    model = positive(data.draw(models(most=6, fewest_states=2)), np.random.default_rng(seed))
    y = model.order[-1]
    others = [n for n in model.names if n != y]
    assume(others)
    knobs = data.draw(st.lists(st.sampled_from(others), unique=True, min_size=1, max_size=2))
    free = [n for n in others if not ancestors(model.graph, [n]) & set(knobs)]
    assume(free and ancestors(model.graph, [y]) & set(knobs))
    context = data.draw(st.lists(st.sampled_from(free), unique=True, min_size=1, max_size=2))
    problem = Problem(model, manipulable=knobs, reward=y, adjust="smallest", context=context, optional=True)
    assert not depends(model, knobs, [], list(problem.parents), context, y)
    for size in range(len(others) + 1):  # no smaller set does
        for z in itertools.combinations(others, size):
            cells = np.prod([len(model[n].states) for n in z])
            if cells < problem.configurations and set(z) - set(context):
                assert depends(model, knobs, [], list(z), context, y)


def test_contexts_share_the_blocks_that_do_not_tell_them_apart():
    rng = np.random.default_rng(0)
    variables = []
    for i in range(6):
        variables += [
            Variable(f"c{i}", range(4), table=random_table(rng, [], 4)),
            Variable(f"x{i}", [0, 1], table=[0.5, 0.5]),
            Variable(f"w{i}", [0, 1], parents=[f"x{i}", f"c{i}"], table=random_table(rng, [2, 4], 2)),
        ]
    problem = Problem(
        CausalModel(variables),
        manipulable=[f"x{i}" for i in range(6)],
        reward_parents=[f"w{i}" for i in range(6)],
        context=[f"c{i}" for i in range(6)],
        optional=True,
    )
    blocks = {id(b) for _ in range(500) for b in problem.condition_codes(tuple(rng.integers(0, 4, 6).tolist())).blocks}
    assert len(blocks) == 24
