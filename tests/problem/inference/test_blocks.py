"""P(z | do(a)) against enumeration of the joint, and against pyAgrum on well-known networks."""

import gzip
import importlib.util
import itertools
import pathlib
import warnings
from unittest import mock

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbandits.errors import SizeError
from causalbandits.fitting.fit import fit
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem.inference import blocks as inference
from causalbandits.problem.inference.blocks import find_blocks
from causalbandits.problem.inference.contraction import Operand, contract, contraction, find_order
from causalbandits.problem.problem import Problem
from oracles import all_interventions, cases, chain, distribution, pairs, patient, random_table


def assert_close(found, exact):
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)


# --- against enumeration ------------------------------------------------------------------------------


@patient
@given(cases())
def test_all_actions_at_once_are_what_enumeration_gives(case):
    exact = [distribution(case.model, do, case.parents) for do in all_interventions(case.model, case.manipulable)]
    assert_close(
        Problem(
            case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True
        ).parent_distributions(),
        np.array(exact),
    )


@patient
@given(cases(), st.data())
def test_one_action_is_what_enumeration_gives(case, data):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    number = data.draw(st.integers(0, problem.actions.size - 1))
    do = problem.actions[number]
    exact = distribution(case.model, do, case.parents)
    assert_close(problem.parent_distribution(number), exact)
    assert_close(problem.parent_distribution(do), exact)


def mixed_model():
    """u -> a -> b -> c, u -> b and u -> c, with sizes 3, 2, 3, 2 and zeros."""
    rng = np.random.default_rng(5)
    sizes = {"u": 3, "a": 2, "b": 3, "c": 2}
    parents = {"u": [], "a": ["u"], "b": ["a", "u"], "c": ["b", "u"]}
    return CausalModel(
        Variable(
            k, range(sizes[k]), parents=parents[k], table=random_table(rng, [sizes[p] for p in parents[k]], sizes[k])
        )
        for k in "uabc"
    )


@pytest.mark.parametrize(
    ("manipulable", "parents"),
    [
        pytest.param(["a"], ["a"], id="a parent is itself manipulable"),
        pytest.param(["b"], ["c", "b"], id="a parent is manipulable and a cause of another"),
        pytest.param(["a", "b"], ["c"], id="knobs are ancestors of each other"),
        pytest.param(["b", "u", "a"], ["c"], id="knobs in another order than the causes"),
        pytest.param(["a"], ["c", "a", "b"], id="parents are ancestors of each other"),
        pytest.param(["c"], ["b"], id="a knob below the parents changes nothing"),
        pytest.param(["u", "a", "b", "c"], ["u", "a", "b", "c"], id="everything is both"),
    ],
)
def test_knobs_and_parents_may_overlap_and_cause_each_other(manipulable, parents):
    model = mixed_model()
    exact = [distribution(model, do, parents) for do in all_interventions(model, manipulable)]
    assert_close(
        Problem(model, manipulable=manipulable, reward_parents=parents, optional=True).parent_distributions(),
        np.array(exact),
    )


def test_parents_of_two_blocks_may_alternate():
    rng = np.random.default_rng(8)
    sizes = {"X": 2, "A": 3, "B": 2, "U": 4, "C": 2, "D": 3}
    above = {"X": [], "A": ["X"], "B": ["X"], "U": [], "C": ["U"], "D": ["U"]}
    model = CausalModel(
        Variable(k, range(n), parents=above[k], table=random_table(rng, [sizes[p] for p in above[k]], n))
        for k, n in sizes.items()
    )
    problem = Problem(model, manipulable=["U", "X"], reward_parents=["C", "B", "D", "A"], optional=True)
    exact = np.array([distribution(model, do, problem.parents) for do in problem.actions])
    x = rng.standard_normal(problem.shape)
    assert [block.parents for block in problem.blocks] == [(0, 2), (1, 3)]
    assert_close(problem.parent_distributions(), exact)
    assert_close([problem.parent_distribution(i) for i in range(problem.actions.size)], exact)
    assert_close(problem.projection(x.reshape(-1)), (exact * x).sum(axis=(1, 2, 3, 4)))
    assert_close([problem.probability(i, (1, 0, 2, 1)) for i in range(problem.actions.size)], exact[:, 1, 0, 2, 1])


def test_setting_a_variable_does_not_change_its_causes():
    problem = Problem(mixed_model(), manipulable=["b"], reward_parents=["u"], optional=True)
    assert_close(problem.parent_distributions(), np.tile(problem.model["u"].table, (4, 1)))


def test_what_comes_back_is_the_callers_to_change():
    problem = Problem(mixed_model(), manipulable=["a"], reward_parents=["b", "c"], optional=True)
    first = problem.parent_distribution(1)
    kept = first.copy()
    first[:] = 0
    assert (problem.parent_distribution(1) == kept).all()


# --- against pyAgrum ----------------------------------------------------------------------------------


def pyagrum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import crashes the interpreter where warnings are errors
        return pytest.importorskip("pyagrum", reason="pyAgrum is not installed: pip install pyagrum")


def read_network(name, folder):
    """A published network as a CausalModel: pyAgrum reads the file in float32, and we renormalise the rows."""
    gum = pyagrum()
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("The networks' files come with pgmpy: pip install --no-deps pgmpy")
    source = pathlib.Path(spec.submodule_search_locations[0]) / "utils" / "example_models" / f"{name}.bif.gz"
    if not source.exists():
        pytest.skip(f"This pgmpy has no {source}")
    (folder / f"{name}.bif").write_bytes(gzip.decompress(source.read_bytes()))
    network = gum.loadBN(str(folder / f"{name}.bif"))
    variables = []
    for variable in sorted(network.names()):
        cpt = network.cpt(variable)
        *parents, _ = reversed(cpt.names)  # the axes of its arrays are its names backwards
        variables.append(Variable(variable, network.variable(variable).labels(), parents=parents, table=cpt[:]))
    return CausalModel(variables)


def by_pyagrum(model, do, names):
    """P(names | do) by pyAgrum: a network of our tables in which what is set has lost its causes."""
    gum = pyagrum()
    network = gum.BayesNet()
    for v in model.variables.values():
        network.add(gum.RangeVariable(v.name, v.name, 0, len(v.states) - 1))
    for v in model.variables.values():
        for parent in () if v.name in do else v.parents:
            network.addArc(parent, v.name)
    for v in model.variables.values():
        if v.name in do:
            network.cpt(v.name)[:] = np.eye(len(v.states))[v.states.index(do[v.name])]
        else:
            axes = [*v.parents, v.name]
            backwards = [axes.index(axis) for axis in reversed(network.cpt(v.name).names)]
            network.cpt(v.name)[:] = np.ascontiguousarray(v.table.transpose(backwards))
    engine = gum.LazyPropagation(network)
    engine.addJointTarget(set(names))
    engine.makeInference()
    answer = engine.jointPosterior(set(names))
    axes = list(reversed(answer.names))
    return answer.toarray().transpose([axes.index(name) for name in names])


NETWORKS = {
    "asia": (["smoke", "lung", "bronc", "either"], ["dysp", "xray", "bronc"]),
    "alarm": (["MINVOLSET", "VENTLUNG", "INTUBATION", "CATECHOL"], ["BP", "CO", "EXPCO2", "VENTALV"]),
    "insurance": (["RiskAversion", "MakeModel", "Antilock", "DrivQuality"], ["PropCost", "Accident", "MedCost"]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_pyagrum_agrees_on_published_networks(name, tmp_path):
    # In each the knobs cause each other, and some parent is a knob or a cause of another parent.
    model = read_network(name, tmp_path)
    problem = Problem(model, manipulable=NETWORKS[name][0], reward_parents=NETWORKS[name][1], optional=True)
    everywhere = problem.parent_distributions()
    numbers = np.random.default_rng(0).permutation(problem.actions.size)[:60]
    for number in [0, problem.actions.size - 1, *numbers.tolist()]:
        exact = by_pyagrum(model, problem.actions[number], problem.parents)
        assert_close(everywhere[number], exact)
        assert_close(problem.parent_distribution(number), exact)


@settings(patient, max_examples=20)
@given(cases(knobs=2, fewest_states=2))
def test_pyagrum_agrees_on_random_models(case):
    # Two states or more: pyAgrum's joint posterior gains and loses variables that have only one.
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    for do, found in zip(problem.actions, problem.parent_distributions(), strict=True):
        assert_close(found, by_pyagrum(case.model, do, case.parents))


# --- blocks -------------------------------------------------------------------------------------------


@patient
@given(cases(knobs=6))
def test_blocks_split_the_parents_and_the_knobs_that_matter_and_share_nothing(case):
    model, manipulable, parents = case
    blocks = find_blocks(*case)
    relevant = {n for n in model.names if any(n == z or z in descendants(model, n) for z in parents)}
    members = [name for block in blocks for name in block.names]
    assert sorted(members) == sorted(relevant)
    where = {name: b for b, block in enumerate(blocks) for name in block.names}
    assert all(where[p] == where[v] for v in relevant for p in model[v].parents)
    for b, block in enumerate(blocks):
        assert block.manipulable == tuple(i for i, name in enumerate(manipulable) if where.get(name) == b)
        assert block.parents == tuple(i for i, name in enumerate(parents) if where[name] == b)
        assert block.table.shape == (block.choices, block.configurations)
        assert_close(block.table.sum(axis=1), np.ones(block.choices))
    assert [block.parents[0] for block in blocks] == sorted(block.parents[0] for block in blocks)


def descendants(model, name):
    """The variables that a directed path leads to from `name`."""
    below = {name}
    for v in (model[n] for n in model.order):
        if below & set(v.parents):
            below.add(v.name)
    return below - {name}


def test_unconnected_pairs_are_a_block_each_and_a_common_cause_joins_them():
    model = pairs(3, np.random.default_rng(0))
    knobs, parents = ["X0", "X1", "X2"], ["W2", "W0", "W1"]
    assert [(b.manipulable, b.parents) for b in find_blocks(model, knobs, parents)] == [
        ((2,), (0,)),
        ((0,), (1,)),
        ((1,), (2,)),
    ]
    table = np.full((3, 3, 2), 0.5)
    joined = CausalModel([*model.variables.values(), Variable("W", [0, 1], parents=["X0", "X2"], table=table)])
    assert [b.manipulable for b in find_blocks(joined, knobs, ["W2", "W0", "W1", "W"])] == [(0, 2), (1,)]


def test_a_knob_that_reaches_no_parent_is_in_no_block():
    block, *others = find_blocks(mixed_model(), ["c", "a"], ["b"])
    assert (block.manipulable, others) == ((1,), [])


@patient
@given(cases(knobs=3), st.data())
def test_rows_for_some_choices_are_those_of_the_whole_table(case, data):
    for block, whole in zip(find_blocks(*case), find_blocks(*case), strict=True):
        every = list(itertools.product(*map(range, block.radices)))
        some = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=max(1, (len(every) - 1) // 4)))
        at_once = data.draw(st.integers(1, 64))
        with (
            mock.patch.object(inference, "SMALL_TABLE", 0),
            mock.patch.object(inference, "CONTRACTION_BATCH_SIZE", at_once),
        ):
            rows = block.rows(np.array(some, dtype=np.uint8).reshape(len(some), -1))
        if 4 * len(some) < block.choices:
            assert "table" not in block.__dict__, "the batched contraction was to be tested"
        assert_close(rows, whole.table[[whole.code(expand(whole, choice)) for choice in some]])


def expand(block, choice):
    """A block's own choices as choices of all manipulable variables, the others left alone."""
    everyone = [0] * (1 + max(block.manipulable, default=0))
    for knob, value in zip(block.manipulable, choice, strict=True):
        everyone[knob] = value
    return everyone


@st.composite
def contractions(draw):
    """Some operands that share some axes of some sizes, and the axes that are kept."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=6))
    axes = st.lists(st.sampled_from(range(len(sizes))), unique=True, max_size=4)
    named = draw(st.lists(axes, min_size=1, max_size=5))
    there = sorted({axis for own in named for axis in own})
    output = draw(st.permutations([axis for axis in there if draw(st.booleans())]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [Operand(rng.random([sizes[axis] for axis in own]), own) for own in named], list(output)


@given(contractions())
@patient
def test_a_planned_contraction_is_the_library_s(case):
    """Close to it, not equal: opt_einsum 3.3 sums in the order of a set of letters, which each process has anew."""
    operands, output = case
    steps = find_order(operands, output, 2**20).steps
    first = {axis: i for i, axis in enumerate(dict.fromkeys(axis for _, axes in operands for axis in axes))}
    numbered = [x for array, axes in operands for x in (array, [first[axis] for axis in axes])]
    exact = opt_einsum.contract(*numbered, [first[axis] for axis in output], optimize=steps)
    plan, arrays = contraction(operands, steps, output), [array for array, _ in operands]
    assert_close(plan(arrays), np.atleast_1d(exact))
    assert np.array_equal(plan(arrays), contract(operands, steps, output)), "the bits are the same each time"


def test_a_contraction_may_have_more_axes_than_there_are_letters():
    """A chain of 70 matrices, each beside an axis that every one of them has."""
    rng = np.random.default_rng(0)
    operands = [Operand(rng.random((2, 2, 2)) / 2, [i, i + 1, "all"]) for i in range(70)]
    found = contraction(operands, find_order(operands, [0, 70, "all"], 2**20).steps, [0, 70, "all"])
    exact = [np.linalg.multi_dot([array[:, :, k] for array, _ in operands]) for k in range(2)]
    assert_close(found([array for array, _ in operands]), np.stack(exact, axis=-1))


# --- what is too large --------------------------------------------------------------------------------


@pytest.fixture
def no_contraction(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("nothing must be contracted")

    monkeypatch.setattr(opt_einsum, "contract", refuse)


def test_a_table_too_large_is_refused_before_it_is_made_with_its_size(no_contraction):
    problem = Problem(chain(30), manipulable=[f"X{i}" for i in range(30)], reward_parents=["Z"], optional=True)
    with pytest.raises(
        SizeError, match=rf"P\(Z \| do\(X0, .*\)\) needs an array of {2 * 3**30} numbers .* itself; .*max_set="
    ):
        _ = problem.blocks[0].table


def test_an_intermediate_too_large_is_refused_before_it_is_made_with_its_size(no_contraction, monkeypatch):
    causes = [Variable(f"u{i}", [0, 1], table=[0.5, 0.5]) for i in range(5)]
    effect = Variable("Z", [0, 1], parents=[u.name for u in causes], table=np.full((2,) * 6, 0.5))
    problem = Problem(CausalModel([*causes, effect]), manipulable=["u0"], reward_parents=["Z"], optional=True)
    monkeypatch.setattr(inference, "ENTRY_LIMIT", 8)
    with pytest.raises(
        SizeError, match=r"P\(Z \| do\(u0\)\) needs an array of \d+ numbers .* during the computation; the limit is 8"
    ):
        _ = problem.blocks[0].table


def test_few_actions_on_many_knobs_need_no_table_over_all_of_them():
    knobs = [f"X{i}" for i in range(30)]
    problem = Problem(chain(30), manipulable=knobs, reward_parents=["Z"], max_set=1)
    exact = [distribution(chain(3), do, ["Z"]) for do in ({"X2": 0}, {"X2": 1}, {"X1": 1})]
    found = [problem.parent_distribution(do) for do in ({"X29": 0}, {"X29": 1}, {"X28": 1})]
    assert_close(found, exact)
    everywhere = problem.parent_distributions()
    assert everywhere.shape == (61, 2)
    assert_close(everywhere[problem.actions.index({"X28": 1})], exact[2])


@pytest.mark.parametrize("name", ["asked", "model", "choice"])
def test_variables_may_have_any_name(name):
    """None is taken for an axis of ours."""
    data = {"X": [0, 1, 1, 0, 1], name: [0, 1, 0, 0, 1], "W": [0, 1, 1, 1, 0]}
    graph = {"X": [], name: ["X"], "W": ["X", name]}
    renamed = [{"Y" if k == name else k: ["Y" if p == name else p for p in ps] for k, ps in graph.items()}]
    fitted = fit(graph, data), fit(*renamed, {"Y" if k == name else k: column for k, column in data.items()})
    problems = [
        Problem(m, manipulable=["X", n], reward_parents=[n, "W"], optional=True)
        for m, n in zip(fitted, (name, "Y"), strict=True)
    ]
    for action in range(problems[0].actions.size):
        found, exact = (p.parent_distribution(action, interval=True, samples=50) for p in problems)
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found, exact, strict=True))
    with mock.patch.object(inference, "SMALL_TABLE", 0):
        found, exact = (
            Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, optional=True).parent_distributions()
            for p in problems
        )
        assert np.array_equal(found, exact)
