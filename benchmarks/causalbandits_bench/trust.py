"""The trust benchmark: what the library says, against what is true, which only the simulator knows.

Every replication draws a world of its own. A campaign is played there with an agent, as a user would, and each of its
statements becomes one `Judgement`: whether an interval covers, by how much a probability is too large, whether it said
stop and was wrong, whether an alarm was false. A statement that is not made (None, an infinite interval, an error that
says why) is withdrawn, and cannot be wrong. Judgements of the same statement make a `Cell`, which holds or does not.

Seeds belong to replications: numbers are the same for any number of workers, and those of one kind of worlds and one
policy do not depend on which others are played. What was played is kept, and played again where the code has changed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tempfile
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

import causalbandits as cb
from causalbandits._files import write_atomically
from causalbandits.campaign.mean_estimate import NO_RARE_REWARDS
from causalbandits.errors import CausalBanditsError, unknown_name_message
from causalbandits.model import Intervention, State
from causalbandits.policies import AnyPolicy, find_incumbent, situation_for
from causalbandits_bench.trust_worlds import KINDS, Kind, World

SEED = 2027
LEVEL, DELTA = 0.95, 0.05
LEAST_COVERAGE = 0.93
MOST_OVERSTATED = 0.1
"""A probability of being the best may be too large by this much, on average."""
ERRORS = 2.0
"""What is allowed is widened by so many standard errors."""
EQUAL = 1e-9
"""Actions whose means differ by less are equally good."""
NORMAL_QUANTILE = 1.959963984540054
DRAWS = 32
"""So many draws are behind each logged decision: its propensities."""

PLAYED_AT_ONCE = 20
"""So many replications are played, and kept, at a time."""

INTERVAL, PROBABILITY, STOP = "interval", "probability", "stop"
IPS, DR, EVIDENCE, GUARD = "ips", "dr", "evidence", "guard"
AT_LEAST, AT_MOST = "at least", "at most"
HOLDS, OUTSIDE, WITHDRAWN, VIOLATED = "holds", "outside", "withdrawn", "assumption violated, as stated"
LOGGED, GUARDED = "logged", "guarded"
"""What is played beside the policies: a study whose log is evaluated, and an agent with a guard."""

Tick = Callable[[str, int, int], None]
"""Called with a kind's name, how many replications more are done, and how many there are in all."""


@dataclass(frozen=True)
class Schedule:
    """How long campaigns are, and when statements are looked at."""

    checkpoints: tuple[int, ...] = (50, 300, 2000)
    """Outcomes after which intervals and probabilities are judged; the last ends the campaign."""
    look_every: int = 10
    """Outcomes between two looks at whether one may stop."""
    logged: tuple[int, ...] = (60, 600)
    """Outcomes from which other actions are evaluated."""


FULL, QUICK = Schedule(), Schedule(checkpoints=(20, 100), logged=(60,))


class Judgement(NamedTuple):
    """One statement in one replication, against the truth."""

    statement: str
    after: int
    value: float | None
    """1 or 0 for right or wrong, or by how much too large; None where the statement was not made."""
    detail: float | None = None
    """The width of an interval, the probability as it was said, the round of a stop."""
    reason: str = ""
    """Why nothing was said."""
    is_violated: bool = False
    """Whether the statement names an assumption that the world violates, and no outcome so far can tell."""


class Job(NamedTuple):
    """A campaign: which kind of worlds, who plays, and which replication."""

    kind: str
    player: str
    replication: int


@dataclass(frozen=True)
class Cell:
    """A statement in a kind of worlds: what is allowed, and what came out."""

    world: str
    policy: str
    statement: str
    after: int
    found: float | None
    """The share of intervals that cover, of wrong stops or false alarms; or the mean excess of a probability."""
    bound: str
    allowed: float | None
    verdict: str
    replications: int
    said: int
    """In so many replications the statement was made."""
    detail: float | None
    """The median width of an interval, probability said, or round of a stop."""
    acted: int | None
    """In so many replications it said stop, or rang an alarm."""
    reasons: Mapping[str, int]
    """Why nothing was said, and how often."""
    violated: int = 0
    """In so many replications the statement named an assumption that the world violates, and no outcome could tell."""


# --- players --------------------------------------------------------------------------------------------


def policy_of(player: str) -> AnyPolicy | None:
    """A policy by its name in the benchmark; None for the default.

    c-ts(scales=given) has the scales of `normal` worlds.
    """
    if player == "default":
        return None
    return cb.policy(player, noise_scale=1.0, prior_scale=1.0) if player == "c-ts(scales=given)" else cb.policy(player)


def players_of(kind: Kind) -> tuple[str, ...]:
    """Who plays on a kind of worlds: policies, and what else is judged there."""
    return (*kind.players, *([LOGGED] if kind.is_logged else []), *([GUARDED] if kind.is_guarded else []))


def _generators(job: Job) -> tuple[np.random.Generator, np.random.Generator, int]:
    """Of the world, which is the same for all players; of outcomes; and a seed for the agent or study."""
    name, player = zlib.crc32(job.kind.encode()), zlib.crc32(job.player.encode())
    world = np.random.SeedSequence(SEED, spawn_key=(name, job.replication))
    outcomes, agent = np.random.SeedSequence(SEED, spawn_key=(name, job.replication, player)).spawn(2)
    return np.random.default_rng(world), np.random.default_rng(outcomes), int(agent.generate_state(1)[0])


def play(job: Job, schedule: Schedule) -> list[Judgement]:
    """One replication: all that was said there, judged."""
    kind = KINDS[job.kind]
    world_rng, rng, seed = _generators(job)
    with warnings.catch_warnings(action="ignore"):
        world = kind.draw(world_rng)
        if job.player == LOGGED:
            return _judge_log(kind, world, rng, seed, schedule)
        if job.player == GUARDED:
            return [_judge_guard(kind, world, rng, seed, schedule)]
        agent = cb.Agent(
            world.belief, policy_of(job.player), delayed=job.player == "default" and world.delay > 0, seed=seed
        )
        return _judge_campaign(agent, world, rng, schedule)


# --- a campaign -----------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A decision's outcome, until it is told."""

    id: int | str
    parents: Mapping[str, State]
    reward: float
    observed: Mapping[str, State] | None


def draw_outcome(
    world: World, decision: cb.Decision, context: Mapping[str, State] | None, rng: np.random.Generator, in_full: bool
) -> Told:
    """What a decision leads to; in full, with the values of all variables on the way."""
    env = world.env if context is None else world.env.condition(context)
    if not in_full:
        return Told(decision.id, *env.pull(decision.action, rng), None)
    codes, z, reward = env.draw_all(env.problem.choices(decision.action), rng)
    observed = {name: env.problem.model[name].states[code] for name, code in codes.items()}
    return Told(decision.id, env.problem.decode_parents(z), reward, observed)


def run_campaign(agent: cb.Agent, world: World, rng: np.random.Generator, rounds: int, in_full: bool) -> Iterator[int]:
    """Play, and yield how many outcomes have been told after each of them."""
    if world.past is not None:
        agent.learn(world.past, reward="reward")
    waiting: deque[Told] = deque()
    for told in range(1, rounds + 1):
        while len(waiting) <= world.delay:
            context = None if world.context is None else world.env.draw_context(rng)
            waiting.append(draw_outcome(world, agent.ask(context=context), context, rng, in_full))
        outcome = waiting.popleft()
        agent.tell(outcome.id, reward=outcome.reward, observed={**outcome.parents, **(outcome.observed or {})})
        yield told


def _judge_campaign(agent: cb.Agent, world: World, rng: np.random.Generator, schedule: Schedule) -> list[Judgement]:
    judgements, rule = [], StoppingRule(agent, world)
    rounds = schedule.checkpoints[-1]
    for told in run_campaign(agent, world, rng, rounds, agent.policy.traits.learns_cpts):
        is_checkpoint = told in schedule.checkpoints
        if told % schedule.look_every == 0 and rule.stopped_after is None:
            rule.look(told, is_checkpoint)
        if is_checkpoint:
            judgements += judge_recommendation(agent, world, told)
    return [*judgements, rule.judgement(rounds)]


def judge_recommendation(agent: cb.Agent, world: World, told: int) -> list[Judgement]:
    """The interval and the probability of what is recommended now."""
    try:
        found = agent.recommend(context=world.context, confidence=LEVEL)
    except CausalBanditsError as error:
        return [Judgement(statement, told, None, reason=str(error)) for statement in (INTERVAL, PROBABILITY)]
    truth = world.env.mean_reward(found.intervention, world.context)
    is_best = world.env.gap(found.intervention, world.context) <= EQUAL
    interval = judge_interval(INTERVAL, told, (found.lower, found.upper), truth, _reason(found, INTERVAL))
    if found.probability is None:
        probability = Judgement(PROBABILITY, told, None, reason=_reason(found, PROBABILITY))
    else:
        probability = Judgement(PROBABILITY, told, found.probability - is_best, found.probability)
    return mark_violated([interval, probability], agent, world, found.assumes)


def mark_violated(
    judgements: list[Judgement], campaign: cb.Agent | cb.Study, world: World, assumes: str
) -> list[Judgement]:
    """Judgements marked as such where the world violates what they assume, in words, and no outcome so far can tell.

    That is a rare reward that was not seen yet, in a world without a declared range. A statement that does not name the
    assumption is not excused, nor is any after the first such reward.
    """
    if world.is_rare is None or world.belief.reward_range is not None or NO_RARE_REWARDS not in assumes:
        return judgements
    with campaign._campaign_state() as state:
        is_seen = any(world.is_rare(outcome.reward) for outcome in state.outcomes())
    return [judgement._replace(is_violated=not is_seen and judgement.value is not None) for judgement in judgements]


def judge_interval(
    statement: str, after: int, interval: tuple[float | None, float | None], truth: float, reason: str = ""
) -> Judgement:
    """Whether an interval covers the truth. An infinite one says nothing.

    >>> judge_interval("interval", 50, (0.1, 0.4), truth=0.3).value, judge_interval("ips", 60, (None, None), 0.3).value
    (1.0, None)
    """
    lower, upper = interval
    if lower is None or upper is None or not math.isfinite(upper - lower):
        return Judgement(statement, after, None, reason=reason or "no interval")
    return Judgement(statement, after, float(lower <= truth <= upper), upper - lower)


class StoppingRule:
    """Who looks every few rounds, and stops at the first yes."""

    def __init__(self, agent: cb.Agent, world: World) -> None:
        self._agent, self._world = agent, world
        problem = agent.problem if world.context is None else agent.problem.condition(world.context)
        self._situation = situation_for(agent.policy, problem)
        self.stopped_after: int | None = None
        self._is_wrong = self._has_spoken = False
        self._reason = ""

    def look(self, told: int, in_full: bool) -> None:
        """Ask whether one may stop now.

        A recommendation takes far longer than a decision. Without a declared range it stops only where the policy's own
        error probability is small enough, which is quick to compute; so the agent is asked where that is so, where a
        range is declared, which has a second error bound, or where the look is in full.
        """
        could_stop = self._could_stop()
        if not could_stop and not in_full:
            return
        try:
            found = self._agent.recommend(context=self._world.context, confidence=LEVEL)
        except CausalBanditsError as error:
            self._reason = str(error)
            return
        if found.stop is None:
            self._reason = _reason(found, STOP)
            return
        self._has_spoken = True
        if found.stop:
            if not could_stop:
                raise RuntimeError(
                    f"An agent of {self._agent.policy.id} says stop where its policy's error_probability does not: "
                    "looks that rely on the latter miss stops. Repair StoppingRule.look."
                )
            self.stopped_after = told
            self._is_wrong = self._world.env.gap(found.intervention, self._world.context) > EQUAL

    def _could_stop(self) -> bool:
        policy = self._agent.policy
        if self._agent.problem.reward_range is not None:
            return True
        with self._agent._campaign_state() as state:
            best = find_incumbent(policy, self._situation, state.statistic).action
            risk = policy.error_probability(self._situation, state.statistic, best, 0.0)
        return risk is not None and risk <= 1 - LEVEL

    def judgement(self, rounds: int) -> Judgement:
        """A wrong stop is an error; a right one, or none, is not."""
        if not self._has_spoken:
            return Judgement(STOP, rounds, None, reason=self._reason or "no statement")
        return Judgement(STOP, rounds, float(self._is_wrong), self.stopped_after)


# --- alarms and logs ------------------------------------------------------------------------------------


def _judge_guard(kind: Kind, world: World, rng: np.random.Generator, seed: int, schedule: Schedule) -> Judgement:
    """Whether a guard rings, ever, though nothing is wrong."""
    policy = cb.policies.GuardedThompsonSampling(
        prior="beta" if kind.is_binary else "gaussian", alpha=DELTA, on_alarm="warn"
    )
    agent, rounds = cb.Agent(world.belief, policy, seed=seed), schedule.checkpoints[-1]
    deque(run_campaign(agent, world, rng, rounds, in_full=True), maxlen=0)
    return _judge_alarms(GUARD, rounds, agent)


def _judge_alarms(statement: str, after: int, campaign: cb.Agent | cb.Study) -> Judgement:
    try:
        alarms = campaign.evidence(alpha=DELTA).alarms
    except CausalBanditsError as error:
        return Judgement(statement, after, None, reason=str(error))
    return Judgement(statement, after, float(bool(alarms)), alarms[0].decision if alarms else None)


def _judge_log(kind: Kind, world: World, rng: np.random.Generator, seed: int, schedule: Schedule) -> list[Judgement]:
    """What an action drawn at random would bring, from what Thompson sampling logged; and evidence from that log."""
    policy = cb.policy("c-ts(prior=beta)" if kind.is_binary else "c-ts", samples=DRAWS)
    actions = world.belief.actions
    target = actions.action(int(rng.integers(actions.size))).intervention
    judgements: list[Judgement] = []
    with tempfile.TemporaryDirectory() as folder:
        study = cb.Study.create(Path(folder) / "log.db", world.belief, policy, seed=seed)
        try:
            told = 0
            for outcomes in schedule.logged:
                with study.together():
                    for _ in range(outcomes - told):
                        context = None if world.context is None else world.env.draw_context(rng)
                        outcome = draw_outcome(world, study.ask(context=context), context, rng, in_full=False)
                        study.tell(outcome.id, reward=outcome.reward, observed=outcome.parents)
                told = outcomes
                judgements += _judge_estimates(study, target, outcomes, world)
            judgements.append(_judge_alarms(EVIDENCE, told, study))
        finally:
            study.close()
    return judgements


def _judge_estimates(study: cb.Study, target: Intervention, outcomes: int, world: World) -> list[Judgement]:
    truth = world.env.mean_reward(target)
    try:
        evaluation = study.evaluate(target)
    except CausalBanditsError as error:
        return [Judgement(name, outcomes, None, reason=str(error)) for name in (IPS, DR)]
    judgements = [
        judge_interval(
            name, outcomes, estimate_interval(evaluation.estimates.get(name)), truth, _reason(evaluation, name)
        )
        for name in (IPS, DR)
    ]
    return mark_violated(judgements, study, world, evaluation.assumes)


def estimate_interval(estimate: Any) -> tuple[float | None, float | None]:
    """The 95% interval of an estimate: its own, where it has one, else the normal approximation.

    >>> from types import SimpleNamespace
    >>> estimate_interval(SimpleNamespace(mean=1.0, standard_error=0.1, low=0.7, high=1.2)), estimate_interval(None)
    ((0.7, 1.2), (None, None))
    """
    if estimate is None:
        return None, None
    if hasattr(estimate, "low"):
        return estimate.low, estimate.high
    half = NORMAL_QUANTILE * estimate.standard_error
    return estimate.mean - half, estimate.mean + half


def _reason(answer: Any, name: str) -> str:
    """Why an answer lacks something: its own reason, where it has one for each, else its caveats."""
    reasons = getattr(answer, "reasons", None)
    if isinstance(reasons, Mapping) and name in reasons:
        return str(reasons[name])
    return "; ".join(getattr(answer, "caveats", ()))


# --- all of them ----------------------------------------------------------------------------------------


def select_kinds(names: Iterable[str]) -> dict[str, Kind]:
    """The kinds of worlds with these names; all, where none is named."""
    chosen = list(names)
    for name in chosen:
        if name not in KINDS:
            raise CausalBanditsError(unknown_name_message("kind of worlds:", name, KINDS))
    return {name: kind for name, kind in KINDS.items() if not chosen or name in chosen}


def measure_trust(
    kinds: Mapping[str, Kind],
    replications: int,
    folder: Path,
    schedule: Schedule = FULL,
    workers: int | None = None,
    tick: Tick = lambda name, done, total: None,
) -> list[Cell]:
    """Every statement of every policy on every kind of worlds. Judgements are kept in the folder: see `_play_part`."""
    cells: list[Cell] = []
    code = _code_hash(schedule)
    for name, kind in kinds.items():
        players = players_of(kind)
        for player in players:
            judgements: list[Judgement] = []
            for start in range(0, replications, PLAYED_AT_ONCE):
                numbers = range(start, min(start + PLAYED_AT_ONCE, replications))
                judgements += _play_part(name, player, numbers, schedule, folder / code, workers)
                tick(name, len(numbers), len(players) * replications)
            cells += sum_up(name, player, judgements)
    return cells


def _play_part(
    kind: str, player: str, numbers: range, schedule: Schedule, folder: Path, workers: int | None
) -> list[Judgement]:
    """The judgements of some replications; played, unless they are kept from an earlier run of the same code."""
    name = re.sub(r"\W+", "-", f"{kind} {player} {numbers.start} {numbers.stop}")
    path = folder / f"{name}.json"
    if path.exists():
        return [Judgement(*fields) for fields in json.loads(path.read_text(encoding="utf-8"))]
    jobs = [Job(kind, player, replication) for replication in numbers]
    by_job = joblib.Parallel(n_jobs=workers or 1)(joblib.delayed(play)(job, schedule) for job in jobs)
    judgements = list(itertools.chain.from_iterable(by_job))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(judgements).encode())
    return judgements


def _code_hash(schedule: Schedule) -> str:
    """Of all that decides about judgements: the library's code, the benchmark's, and when it looks."""
    digest = hashlib.sha256(repr((schedule, SEED)).encode())
    library = Path(cb.__file__).parent
    for path in (*sorted(library.rglob("*.py")), Path(__file__), Path(__file__).with_name("trust_worlds.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def sum_up(world: str, player: str, judgements: Iterable[Judgement]) -> list[Cell]:
    """A cell for each statement and moment.

    >>> cell = sum_up("coins", "default", [Judgement(STOP, 9, 1.0, 7), Judgement(STOP, 9, None)])[0]
    >>> cell.found, round(cell.allowed, 3), cell.verdict, cell.said, cell.acted
    (0.5, 0.358, 'outside', 1, 1)
    """
    groups: dict[tuple[str, int], list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault((judgement.statement, judgement.after), []).append(judgement)
    return [_cell(world, player, statement, after, group) for (statement, after), group in groups.items()]


def _cell(world: str, player: str, statement: str, after: int, group: list[Judgement]) -> Cell:
    n_violated = sum(judgement.is_violated for judgement in group)
    judged = [judgement for judgement in group if not judgement.is_violated]
    values = [judgement.value for judgement in judged if judgement.value is not None]
    details = [judgement.detail for judgement in judged if judgement.detail is not None]
    bound = AT_LEAST if statement in (INTERVAL, IPS, DR) else AT_MOST
    found = allowed = None
    verdict = VIOLATED if n_violated == len(group) else WITHDRAWN
    if values:
        # Who is not told whether to stop goes on: of all campaigns, that one is not wrong.
        counted = [judgement.value or 0.0 for judgement in group] if statement == STOP else values
        found, allowed = math.fsum(counted) / len(counted), allowed_value(statement, counted)
        verdict = HOLDS if (found >= allowed if bound == AT_LEAST else found <= allowed) else OUTSIDE
    reasons = Counter(judgement.reason or "no reason" for judgement in group if judgement.value is None)
    return Cell(
        *(world, player, statement, after, found, bound, allowed, verdict, len(group), len(values)),
        detail=float(np.median(details)) if details else None,
        acted=len(details) if statement in (STOP, EVIDENCE, GUARD) else None,
        reasons=dict(reasons.most_common(5)),
        violated=n_violated,
    )


def allowed_value(statement: str, values: list[float]) -> float:
    """What is allowed on average over these: shares with the standard error of the share that is allowed.

    >>> round(allowed_value("interval", [1.0] * 100), 3), round(allowed_value("stop", [0.0] * 100), 3)
    (0.879, 0.094)
    """
    n = len(values)
    if statement == PROBABILITY:
        return MOST_OVERSTATED + ERRORS * (float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0)
    share, sign = (LEAST_COVERAGE, -1) if statement in (INTERVAL, IPS, DR) else (DELTA, 1)
    return share + sign * ERRORS * math.sqrt(share * (1 - share) / n)


def to_records(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(cell) for cell in cells]


def from_records(records: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Cells from JSON."""
    return [Cell(**record) for record in records]
