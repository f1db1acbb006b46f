"""State is a fold of outcomes: in any order, from their sums, corrected or taken back."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import PolicyError, StateError, TellError
from causalbandits.policies.feedback import Outcome, OutcomeSums, randomised_rounding
from oracles import known_to, tables_known
from oracles.policies import POLICIES


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


def outcomes(env, n, rewards, seed=0):
    """n rounds of actions at random; `rewards` draws each reward from a generator."""
    rng, own = np.random.default_rng(seed), np.random.SeedSequence(seed)
    for t in range(n):
        action = env.problem.actions.action(int(rng.integers(env.problem.actions.size)))
        z, _ = env.draw(action.choices, rng)
        reward = rewards(rng)
        yield Outcome(action, z, reward, randomised_rounding(reward, own, t), t)


def folded(policy, env, told):
    situation, statistic = env.problem.situation(every=policy.traits.searches_all), policy.init(env.problem)
    for outcome in told:
        policy.update(situation, statistic, outcome)
    return statistic


def quarters(rng):
    return int(rng.integers(5)) / 4


@pytest.mark.parametrize("id", tables_known())
def test_a_statistic_from_sums_is_the_one_from_outcomes(env, id):
    """Bit for bit where sums are exact, as of rewards in quarters; linear ones, which are rotated in, to rounding."""
    policy = cb.policy(id)
    told = list(outcomes(env, 400, quarters))
    if id in ORDERED:
        with pytest.raises(PolicyError, match=r"may depend on the order of the outcomes\. Update it with one"):
            policy.from_sums(env.problem, OutcomeSums.of(told))
        return
    one, other = folded(policy, env, told), policy.from_sums(env.problem, OutcomeSums.of(told))
    assert one.rounds == other.rounds == 400
    if id.startswith(("cl-", "lin-")):
        assert one.theta() == pytest.approx(other.theta(), rel=1e-9, abs=1e-12)
        assert pytest.approx(other.R.T @ other.R, rel=1e-9) == one.R.T @ one.R
    elif policy.traits.learns_scales:  # squares are kept around means that move
        ours, theirs = one.to_record(), other.to_record()
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-12)
    else:
        assert one.to_record() == other.to_record()


def test_totals_have_every_sum(env):
    told = list(outcomes(env, 300, lambda rng: float(rng.normal())))
    totals = OutcomeSums.of(told)
    for (_, action, z), sums in totals.items():
        own = [o.reward for o in told if o.action == action and o.z == z]
        assert sums.rounds == len(own)
        assert sums.total == pytest.approx(sum(own))
        assert sums.squares == pytest.approx(sum(y * y for y in own))
    assert sum(sums.rounds for sums in totals.values()) == 300


def test_a_policy_that_cannot_be_made_from_sums_says_so(env):
    class Own(cb.Policy):
        id = "own"
        init = score = update = None

    with pytest.raises(PolicyError, match=r"'own' has no method from_sums, so its statistic"):
        Own().from_sums(env.problem, OutcomeSums())


def test_the_coin_belongs_to_the_decision():
    seed = np.random.SeedSequence(5, spawn_key=(1,))
    flips = [randomised_rounding(0.3, seed, t) for t in range(2000)]
    assert flips == [randomised_rounding(0.3, seed, t) for t in range(2000)]
    assert sum(flips) / 2000 == pytest.approx(0.3, abs=5 * 0.0103)
    assert flips != [randomised_rounding(0.3, np.random.SeedSequence(6, spawn_key=(1,)), t) for t in range(2000)]
    assert [randomised_rounding(y, seed, 0) for y in (0.0, 1.0, -2.5, 7.0)] == [0.0, 1.0, -2.5, 7.0]


ORDERED = ("c-elimination", "c-ts-guarded(prior=beta)", "c-ts-guarded", "hac-ucb")
"""What they keep depends on the order of outcomes."""


def conversation(agent, env, n, seed=4):
    """Decisions with what came of them."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        reward = seen.reward if rng.random() < 0.5 else float(rng.random())
        yield decision, seen.parents, reward


def content(agent, path):
    agent.save(path, overwrite=True)
    record = json.loads(path.read_text())
    return {key: record[key] for key in ("statistic", "outcomes", "pending", "next_id")}


@pytest.mark.parametrize("id", POLICIES)
def test_a_corrected_outcome_counts_as_if_it_had_been_told_at_first(env, tmp_path, id):
    """The same batch, once told right, once told wrong and corrected: in every bit the same, also of what follows."""
    right, wrong = (cb.Agent(known_to(id, env), id, seed=2) for _ in range(2))
    batch = [(d, env.pull(d.action, d.id)) for d in right.ask(30)]
    wrong.ask(30)
    for decision, seen in batch:
        right.tell(decision.id, reward=seen.reward, observed=seen.parents)
        mistake = decision.id % 3 == 0
        wrong.tell(decision.id, reward=1 - seen.reward if mistake else seen.reward, observed=seen.parents)
    for decision, seen in batch[::3]:
        wrong.correct(decision.id, reward=seen.reward, observed=seen.parents)
    assert content(right, tmp_path / "a.json") == content(wrong, tmp_path / "b.json")
    assert right.recommend() == wrong.recommend()
    assert [d.action for d in right.ask(20)] == [d.action for d in wrong.ask(20)]


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "c-ucb", "ucb", "cl-ts(regressor=observed)", "cl-ucb"])
def test_a_retracted_outcome_was_never_told_and_waits_again(env, tmp_path, id):
    never, retracted = (cb.Agent(env.problem, id, seed=2) for _ in range(2))
    batch = [(d, env.pull(d.action, d.id)) for d in never.ask(30)]
    retracted.ask(30)
    for decision, seen in batch:
        if decision.id != 7:
            never.tell(decision.id, reward=seen.reward, observed=seen.parents)
        retracted.tell(decision.id, reward=seen.reward, observed=seen.parents)
    retracted.retract(7)
    assert 7 in retracted.pending
    assert (never.n_outcomes, never.pending.keys()) == (retracted.n_outcomes, retracted.pending.keys())
    states = [content(agent, tmp_path / "x.json")["statistic"] for agent in (never, retracted)]
    assert states[0] == states[1]
    retracted.tell(7, reward=batch[7][1].reward, observed=batch[7][1].parents)
    assert retracted.n_outcomes == 30


def test_only_what_was_told_can_be_corrected_or_taken_back(env):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=0)
    decision, parents, _ = next(conversation(agent, env, 1))
    for change in (lambda: agent.retract(decision.id), lambda: agent.correct(decision.id, reward=1, observed=parents)):
        with pytest.raises(TellError, match="Decision 0 has no reported outcome"):
            change()
    with pytest.raises(TellError, match="Unknown decision 9"):
        agent.retract(9)
    agent.tell(decision.id, reward=1, observed=parents)
    with pytest.raises(TellError, match=r"needs rewards in \[0, 1\]"):
        agent.correct(decision.id, reward=5, observed=parents)
    with pytest.raises(TellError, match="use correct"):
        agent.tell(decision.id, reward=0, observed=parents)
    agent.correct(decision.id, reward=0, observed=parents)
    assert agent.recommend().mean < 0.5


def test_outcomes_survive_the_file_with_what_else_is_known_of_them(env, tmp_path):
    agent = cb.Agent(env.problem, cb.policies.CausalThompsonSampling(prior="beta", samples=8), seed=3)
    for decision, parents, reward in conversation(agent, env, 40):
        more = {"product": "Photoshop"} if decision.action.get("product", "Photoshop") == "Photoshop" else {}
        agent.tell(decision.id, reward=reward, observed={**parents, **more})
    agent.ask(3)
    agent.save(tmp_path / "a.json")
    loaded = cb.Agent.load(tmp_path / "a.json")
    assert list(loaded._outcomes) == list(agent._outcomes)
    assert any(outcome.observed for outcome in loaded._outcomes)
    assert all(outcome.support and outcome.propensity for outcome in loaded._outcomes)
    one, other = ({id: asked.to_record() for id, asked in a._pending.items()} for a in (loaded, agent))
    assert one == other
    for one in (agent, loaded):
        one.retract(5)
        one.correct(decision.id, reward=0, observed=parents)
    assert [d.action for d in loaded.ask(30)] == [d.action for d in agent.ask(30)]


def test_what_is_observed_reaches_the_policy_and_must_not_contradict(env):
    seen = []

    class Looking(cb.policies.CausalUCB):
        def update(self, situation, statistic, outcome):
            seen.append(dict(outcome.observed))
            super().update(situation, statistic, outcome)

    agent = cb.Agent(env.problem, Looking())
    decision = agent.ask(eligible=[{"purpose": "Promo"}])
    parents = {"subject": "short", "template": "1", "send_time": "morning"}
    for observed, complaint in (
        ({"purpose": "Awareness"}, "'purpose' was set to 'Promo' by the decision; observed has 'Awareness'"),
        ({"send_time": "noon"}, "Unknown value of 'send_time'"),
        ({"produkt": "Photoshop"}, "Did you mean 'product'"),
        ({"product": "Word"}, "Unknown value of 'product'"),
    ):
        with pytest.raises(TellError, match=complaint):
            agent.tell(decision.id, reward=1, observed={**parents, **observed})
    with pytest.raises(TellError, match="observed must map variables"):
        agent.tell(decision.id, reward=1, observed=["product"])
    assert (agent.n_outcomes, seen) == (0, [])
    agent.tell(decision.id, reward=1, observed={**parents, "product": "Photoshop", "purpose": "Promo"})
    assert seen == [env.problem.model.codes({"product": "Photoshop", "purpose": "Promo"})]


def test_an_update_that_fails_half_way_changes_nothing(env):
    class Half(cb.policies.CausalUCB):
        def update(self, situation, cells, outcome):
            super().update(situation, cells, outcome)
            if outcome.reward < 0:
                raise ValueError("no")

    agent = cb.Agent(env.problem, Half())
    decision, parents, _ = next(conversation(agent, env, 1))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            agent.tell(decision.id, reward=-1, observed=parents)
    agent.tell(decision.id, reward=1, observed=parents)
    with pytest.raises(ValueError, match="no"):
        agent.correct(decision.id, reward=-1, observed=parents)
    agent.ask()
    assert agent._statistic.to_record()["rounds"] == agent.n_outcomes == 1
    assert agent._statistic.total.sum() == 1


def test_any_seed_can_be_saved_and_any_agent_copied(env, tmp_path):
    seeds = [np.int64(5), np.random.SeedSequence(np.array([1, 2])), np.random.SeedSequence(3, spawn_key=(np.int64(1),))]
    for i, seed in enumerate([*seeds, [np.int64(1), 2], None, 10**30]):
        agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=seed)
        for decision, parents, _ in conversation(agent, env, 3):
            agent.tell(decision.id, reward=0.5, observed=parents)
        agent.save(tmp_path / f"{i}.json")
        copies = [cb.Agent.load(tmp_path / f"{i}.json"), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
        decided = [[d.action for d in one.ask(5)] for one in (agent, *copies)]
        assert all(own == decided[0] for own in decided)
    same = [
        cb.Agent(env.problem, "c-ts(prior=beta)", seed=seed).ask(20)
        for seed in (5, np.int64(5), np.random.SeedSequence(5))
    ]
    assert same[0] == same[1] == same[2]


def test_empty_and_compressed_names_and_damaged_files(env, tmp_path):
    agent = cb.Agent(env.problem, "c-ucb")
    (tmp_path / "empty.json").touch()
    for name in ("empty.json", "agent.json.gz"):
        agent.save(tmp_path / name)
        agent.save(tmp_path / name)
        assert cb.Agent.load(tmp_path / name).n_outcomes == 0
    path = tmp_path / "empty.json"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(StateError, match=r"overwrite=True\)\. Nothing was changed"):
        agent.save(path)
    agent.save(path, overwrite=True)
    with pytest.raises(StateError, match="Cannot save to"):
        agent.save(tmp_path / ("x" * 300))


def test_odd_confidences_and_odd_answers_are_refused(env):
    agent = cb.Agent(env.problem, "c-ts(scales=given)")
    for confidence in (1.0, 0.9999999999999999, 0, "0.9"):
        with pytest.raises(cb.CausalBanditsError, match="confidence must be"):
            agent.recommend(confidence=confidence)
    for answer in (None, np.array([1, 2]), "yes"):
        with pytest.raises(cb.CausalBanditsError, match="must return True or False"):
            agent.ask(eligible=lambda do, answer=answer: answer)


def test_a_stale_save_is_refused(env, tmp_path):
    """Two who load the same file: the second to save would lose what the first was told."""
    path = tmp_path / "agent.json"
    first = cb.Agent(env.problem, "c-ts(prior=beta)", seed=0)
    first.save(path)
    first.save(path)
    second = cb.Agent.load(path)
    for agent in (first, second):
        decision, parents, reward = next(conversation(agent, env, 1))
        agent.tell(decision.id, reward=reward, observed=parents)
    second.save(path)
    with pytest.raises(StateError, match=r"saved by another process since .*\(save 3, not 2\).*overwrite=True"):
        first.save(path)
    assert cb.Agent.load(path).n_outcomes == 1
    first.save(path, overwrite=True)
    with pytest.raises(StateError, match="saved by another process"):
        second.save(path)
    first.save(path)
    first.save(tmp_path / "copy.json")
    first.save(path)


def test_another_agents_file_or_another_file_is_not_overwritten(env, tmp_path):
    path = tmp_path / "agent.json"
    cb.Agent(env.problem, "c-ucb").save(path)
    with pytest.raises(StateError, match="holds another agent"):
        cb.Agent(env.problem, "c-ucb").save(path)
    cb.write(env.problem.model, tmp_path / "model.json")
    with pytest.raises(StateError, match="would overwrite another file"):
        cb.Agent(env.problem, "c-ucb").save(tmp_path / "model.json", overwrite=True)


def _save_often(path, results):
    saved = 0
    for _ in range(20):
        try:
            agent = cb.Agent.load(path)
            decision = agent.ask()
            outcome = {"subject": "short", "template": "1", "send_time": "morning", **decision.action}
            agent.tell(decision.id, reward=1, observed={name: outcome[name] for name in agent.problem.parents})
            agent.save(path)
            saved += 1
        except StateError as error:
            if "saved by another process" not in str(error):
                raise
    results.append(saved)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_whoever_was_not_refused_has_lost_nothing(env, tmp_path, kind):
    """Load, ask, tell, save, from several at once: as many outcomes are in the file as saves were accepted."""
    path = tmp_path / "agent.json"
    agent = cb.Agent(env.problem, "c-ucb", zero_probability="allow")
    agent.save(path)
    if kind == "threads":
        results: list = []
        work = [threading.Thread(target=_save_often, args=(path, results)) for _ in range(3)]
    else:
        context = multiprocessing.get_context("spawn")
        results = context.Manager().list()
        work = [context.Process(target=_save_often, args=(path, results)) for _ in range(2)]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert len(results) == len(work)
    assert cb.Agent.load(path).n_outcomes == sum(results) > 0


def test_a_file_of_an_earlier_version_is_refused_by_name(env, tmp_path):
    path = tmp_path / "agent.json"
    cb.Agent(env.problem, "c-ucb").save(path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(
        StateError, match="written by another version of this library: its format is 2, and this one re"
    ):
        cb.Agent.load(path)
