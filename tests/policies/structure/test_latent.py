"""Declared unobserved confounders: candidate sets, checked against exact distributions of random small models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.policies.structure import ParentSets
from causalbandits.problem import build_structure_prior

ROOTS, OBSERVED, REWARD = ("a", "b"), ("v", "w", "x"), "y"
NAMES = (*ROOTS, *OBSERVED, REWARD)


class World:
    """A random model of binary variables with unobserved causes of pairs, and its exact distributions."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        order = (*OBSERVED, REWARD)
        self.parents = {
            name: [other for other in NAMES[: NAMES.index(name)] if rng.random() < 0.5 and other != name]
            for name in order
        }
        self.pairs = [pair for pair in itertools.combinations(order, 2) if rng.random() < 0.35]
        hidden = [f"u{k}" for k in range(len(self.pairs))]
        axes = [*ROOTS, *hidden, *order]
        self._axis = {name: k for k, name in enumerate(axes)}
        joint = np.full((2,) * len(axes), 0.5 ** len(hidden))
        for name in order:
            causes = [*self.parents[name], *(u for u, pair in zip(hidden, self.pairs, strict=True) if name in pair)]
            chance = rng.beta(0.7, 0.7, (2,) * len(causes))
            table = np.stack([1 - chance, chance], axis=-1)
            names = sorted([*causes, name], key=self._axis.__getitem__)
            table = table.transpose([[*causes, name].index(n) for n in names])
            joint = joint * table.reshape([2 if axis in names else 1 for axis in axes])
        self._given_action = joint
        """P(everything else | do(a, b)), with axes for a and b."""

    @property
    def declared(self) -> list[tuple[str, str]]:
        """The pairs that hang together with the reward through shared causes or effects of removed variables."""
        return self.pairs if any(REWARD in pair for pair in self.pairs) else []

    def means(self, members: tuple[str, ...], actions: np.ndarray) -> np.ndarray:
        """sum over s of P(s | do(a)) E[reward | s], the expectation under so distributed actions; by action."""
        kept = [self._axis[name] for name in dict.fromkeys((*ROOTS, *members, REWARD))]
        others = tuple(k for k in range(self._given_action.ndim) if k not in kept)
        given_action = self._given_action.sum(axis=others)
        names = [name for name in NAMES if self._axis[name] in kept]
        mixed = given_action * actions.reshape([2, 2, *(1 for _ in names[2:])])
        outside = tuple(k for k, name in enumerate(names) if name not in (*members, REWARD))
        by_cell = mixed.sum(axis=outside, keepdims=True)
        expected = by_cell[..., 1] / np.maximum(by_cell.sum(axis=-1), 1e-300)
        p_cell = given_action.sum(axis=-1)
        return (p_cell * expected).reshape(2, 2, -1).sum(axis=-1)

    def truth(self) -> np.ndarray:
        return self.means(ROOTS, np.full((2, 2), 0.25))


def parents_without(world: World, removed: tuple[str, ...]) -> tuple[str, ...]:
    """Variables with a directed path to the reward through removed variables alone."""
    found, open_names = set(), [REWARD]
    while open_names:
        for name in world.parents[open_names.pop()]:
            (open_names.append if name in removed else found.add)(name)
    return tuple(name for name in NAMES if name in found)


@pytest.mark.parametrize("seed", range(40))
def test_a_candidate_set_gives_the_right_means_however_actions_are_chosen(seed) -> None:
    world = World(seed)
    prior = build_structure_prior(REWARD, (), ROOTS, OBSERVED, max_parents=5, latent=world.declared)
    right = parents_without(world, prior.confounded)
    candidates = prior.candidates[-1].sets
    assert right in candidates
    assert not any(set(names) & set(prior.confounded) for names in candidates)
    rng = np.random.default_rng([seed, 1])
    for actions in (np.full((2, 2), 0.25), *rng.dirichlet(np.full(4, 0.3), 3).reshape(3, 2, 2)):
        assert world.means(right, np.maximum(actions, 1e-6)) == pytest.approx(world.truth(), abs=1e-9)


def test_without_the_declaration_the_direct_causes_give_wrong_means_in_some_models() -> None:
    uniform, wrong = np.full((2, 2), 0.25), 0
    for seed in range(60):
        world = World(seed)
        if world.declared:
            wrong += not np.allclose(world.means(tuple(world.parents[REWARD]), uniform), world.truth(), atol=0.01)
    assert wrong > 10


def test_the_posterior_settles_on_sets_with_the_right_means() -> None:
    """5,000 rows of random actions from five models: the likeliest set is right, whichever it is."""
    checked = 0
    for seed in range(60):
        world = World(seed)
        if not world.declared or checked == 5:
            continue
        checked += 1
        prior = build_structure_prior(REWARD, (), ROOTS, OBSERVED, max_parents=5, latent=world.declared)
        sets = ParentSets(prior, (*ROOTS, *OBSERVED), dict.fromkeys(NAMES, 2))
        hidden = tuple(range(2, 2 + len(world.pairs)))
        cells = world._given_action.sum(axis=hidden).ravel() / 4
        counts = np.random.default_rng(seed).multinomial(5000, cells / cells.sum())
        statistic = sets.empty()
        for codes, n in zip(itertools.product((0, 1), repeat=6), counts.tolist(), strict=True):
            for _ in range(n):
                sets.add(statistic, np.array(codes[:-1]), codes[-1])
        likeliest = prior.candidates[-1].sets[int(sets.weights(statistic, "beta")[-1].argmax())]
        assert world.means(likeliest, np.full((2, 2), 0.25)) == pytest.approx(world.truth(), abs=0.03)
    assert checked == 5


def problem(**arguments) -> cb.Problem:
    return cb.Problem(
        arguments.pop("graph", None),
        reward="y",
        manipulable={"a": [0, 1], "b": [0, 1, 2]},
        values={"v": [0, 1], "w": ["p", "q"], "x": [0, 1]},
        **arguments,
    )


def sets_of_reward(found: cb.Problem) -> tuple[tuple[str, ...], ...]:
    return found.structure_prior.candidates[-1].sets


def test_a_pair_removes_its_variable_and_later_ones_that_it_may_affect() -> None:
    found = problem(latent=[("w", "y")])
    assert found.structure_prior.confounded == ("w", "x")
    assert found.must_observe == ("v", "w", "x")
    assert {name for names in sets_of_reward(found) for name in names} == {"a", "b", "v"}
    assert problem(latent=[("w", "y")], forbid_edges=[("w", "x")]).structure_prior.confounded == ("w",)
    assert problem(
        latent=[("y", "w"), ("v", "w")], forbid_edges=[("w", "x"), ("v", "x")]
    ).structure_prior.confounded == (
        "v",
        "w",
    )


def test_a_forbidden_edge_into_the_reward_does_not_forbid_the_way_through_a_removed_variable() -> None:
    found = problem(latent=[("x", "y")], forbid_edges=[("a", "y"), ("b", "y"), ("b", "x")])
    names = {name for names in sets_of_reward(found) for name in names}
    assert names == {"a", "v", "w"}


def test_a_partly_known_graph_gives_the_causes_of_a_removed_variable_to_the_reward() -> None:
    found = problem(graph="a -> v -> w; b, v -> x; w, x -> y", known="partly", latent=[("x", "y")])
    reward = found.structure_prior.candidates[-1]
    probability = dict(zip(reward.sets, np.exp(reward.log_prior), strict=True))
    assert max(probability, key=probability.__getitem__) == ("b", "v", "w")


def test_the_declaration_survives_the_record_and_is_an_assumption_of_the_recommendation() -> None:
    found = problem(latent=[("w", "y")])
    again = cb.Problem.from_record(found.to_record())
    assert again.fingerprint == found.fingerprint != problem().fingerprint
    assert again.structure_prior == found.structure_prior
    assert "latent" not in problem().structure_prior.to_record()
    agent = cb.Agent(found, seed=1)
    for _ in range(5):
        agent.tell(agent.ask(), reward=1, observed={"v": 0, "w": "p", "x": 1})
    assert "only as declared (w and y)" in str(agent.recommend())
    specified = cb.Problem.from_spec(
        {
            "reward": "y",
            "manipulable": {"a": [0, 1], "b": [0, 1, 2]},
            "values": {"v": [0, 1], "w": ["p", "q"], "x": [0, 1]},
            "latent": [["w", "y"]],
        }
    )
    assert specified.fingerprint == found.fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"latent": "wy"}, "latent must list pairs, such as"),
        ({"latent": [("w",)]}, "latent must list pairs of two variables"),
        ({"latent": [("w", "w")]}, "latent must list pairs of two variables"),
        ({"latent": [("a", "y")]}, "Unknown observed variable in latent: 'a'.*need no declaration"),
        ({"latent": [("v", "w")]}, "latent must contain a pair with the reward"),
        ({"latent": [("w", "y")], "require_edges": [("w", "y")]}, "w -> y is in require_edges, and by latent="),
        ({"latent": [("a", "y")], "graph": "a, b -> v -> y"}, "latent=: only where the structure is learned"),
    ],
)
def test_declarations_that_cannot_be_are_refused_with_the_reason(arguments, message) -> None:
    with pytest.raises(cb.CausalBanditsError, match=message):
        problem(**arguments)
