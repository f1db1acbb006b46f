"""The claims of the paper, their tests, and the verdicts on the data.

A claim makes statements, each with one test. Holm's correction runs over the statements of all claims at once. A
statement holds if its adjusted p-value is at most `LEVEL`, fails if that of its contrary is, and is open otherwise.
This module does not depend on any outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from causalbandits.errors import CausalBanditsError
from causalbandits.paper import figure3, figure4, lower_bound
from causalbandits.paper.experiment import AllRuns, final_regrets
from causalbandits.paper.significance import (
    StatementTest,
    equivalence_test,
    growth_exponent_test,
    identity_test,
    paired_t_test,
    slope_test,
)
from causalbandits.results import holm

LEVEL = 0.05
EARLY = 500
"""The round meant by "within hundreds of iterations"."""

HOLDS, FAILS, OPEN = "holds", "fails", "open"
WHOLE = "holds"
IN_PART = "holds in part"
NOT = "does not hold as printed"
INCONCLUSIVE = "inconclusive at these replications"


@dataclass(frozen=True)
class Statement:
    """One statement of a claim, and its test."""

    text: str
    test: Callable[[AllRuns], StatementTest]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, paraphrased; `remedy` is a change under which a failed claim may hold."""

    id: str
    section: str
    text: str
    experiment: str
    statements: Sequence[Statement]
    remedy: str = ""
    remedy_statements: Sequence[Statement] = ()


@dataclass(frozen=True)
class StatementVerdict:
    """A statement with its test result."""

    statement: str
    test: StatementTest
    p_for: float
    p_against: float

    @property
    def verdict(self) -> str:
        """Whether the statement holds, fails, or is open, at `LEVEL` after correction."""
        return HOLDS if self.p_for <= LEVEL else FAILS if self.p_against <= LEVEL else OPEN


@dataclass(frozen=True)
class Verdict:
    """A claim with the verdicts on its statements."""

    claim: Claim
    statements: Sequence[StatementVerdict]
    remedy_statements: Sequence[StatementVerdict]

    @property
    def verdict(self) -> str:
        """The verdict on the whole claim."""
        return overall_verdict([statement.verdict for statement in self.statements])

    @property
    def with_remedy(self) -> str:
        """The verdict on the whole claim with the change; empty without one."""
        return (
            overall_verdict([statement.verdict for statement in self.remedy_statements])
            if self.remedy_statements
            else ""
        )


def overall_verdict(verdicts: Sequence[str]) -> str:
    """Combine the verdicts on the statements into a verdict on the claim.

    >>> overall_verdict([HOLDS, HOLDS]), overall_verdict([HOLDS, FAILS, OPEN])
    ('holds', 'holds in part')
    >>> overall_verdict([FAILS, OPEN]), overall_verdict([HOLDS, OPEN])
    ('does not hold as printed', 'inconclusive at these replications')
    """
    if FAILS in verdicts:
        return IN_PART if HOLDS in verdicts else NOT
    return INCONCLUSIVE if OPEN in verdicts else WHOLE


def judge(runs: AllRuns, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Judge every claim whose experiment has been run."""
    tested_claims = [claim for claim in (CLAIMS if claims is None else claims) if claim.experiment in runs]
    for experiment in {claim.experiment for claim in tested_claims}:
        if any(run.replications < 2 for run in runs[experiment].values()):
            raise CausalBanditsError("Statistical tests of the claims require at least two replications.")
    statements = [statement for claim in tested_claims for statement in (*claim.statements, *claim.remedy_statements)]
    tests = [statement.test(runs) for statement in statements]
    adjusted = zip(holm([t.p_for for t in tests]), holm([t.p_against for t in tests]), strict=True)
    statement_verdicts = iter(
        [StatementVerdict(s.text, test, *p) for s, test, p in zip(statements, tests, adjusted, strict=True)]
    )
    return [
        Verdict(
            claim,
            [next(statement_verdicts) for _ in claim.statements],
            [next(statement_verdicts) for _ in claim.remedy_statements],
        )
        for claim in tested_claims
    ]


def _beats_statement(
    experiment: str, setting: str, better: str, worse: str, factor: float = 1.0, at: int | None = None
) -> Statement:
    def test(runs: AllRuns) -> StatementTest:
        run = runs[experiment][setting]
        column = -1 if at is None else int(np.searchsorted(run.rounds, at))
        return paired_t_test(run.regret(better)[:, column], run.regret(worse)[:, column], factor)

    when = "" if at is None else f" at round {at}"
    than = f"{worse}'s" if factor == 1.0 else f"{factor:.2g} of {worse}'s"
    return Statement(f"{better}'s regret{when} is less than {than}", test)


def _equality_statement(experiment: str, first: str, last: str, policy: str) -> Statement:
    def test(runs: AllRuns) -> StatementTest:
        return equivalence_test(
            final_regrets(runs[experiment][first], policy), final_regrets(runs[experiment][last], policy)
        )

    return Statement(f"{policy}'s regret is the same at {first} and {last}", test)


def _growth_statement(experiment: str, settings: Mapping[int, str], policy: str) -> Statement:
    def test(runs: AllRuns) -> StatementTest:
        return slope_test(list(settings), [final_regrets(runs[experiment][name], policy) for name in settings.values()])

    return Statement(f"{policy}'s regret grows from {next(iter(settings.values()))} on", test)


def _root_growth_statement(policy: str) -> Statement:
    def test(runs: AllRuns) -> StatementTest:
        logs = [N * math.log(3) / 2 for N in lower_bound.SIZES]
        return growth_exponent_test(
            logs, [final_regrets(runs["lower-bound"][f"N = {N}"], policy) for N in lower_bound.SIZES]
        )

    return Statement(f"{policy}'s regret grows like sqrt(3^N)", test)


def _identity_statement(experiment: str, settings: Sequence[str], policy: str) -> Statement:
    def test(runs: AllRuns) -> StatementTest:
        return identity_test([runs[experiment][name].regret(policy) for name in settings])

    return Statement(f"{policy} plays the same run from {settings[0]} to {settings[-1]}", test)


PAIRS = (("ucb", "c-ucb"), ("ucb", "cl-ucb"), ("ts(scales=given)", "c-ts(scales=given)"), ("ts(scales=given)", "cl-ts"))
CAUSAL = ("c-ucb", "cl-ucb", "c-ts(scales=given)", "cl-ts")
STANDARD = ("ucb", "ts(scales=given)")
M_FIRST, M_LAST = f"m = {figure3.MS[0]}", f"m = {figure3.MS[-1]}"
N_FIRST, N_LAST = f"n = {figure4.NS[0]}", f"n = {figure4.NS[-1]}"
SCALED = {
    "ucb": "ucb, s = 0.27",
    "c-ucb": "c-ucb, s = 0.1",
    "cl-ucb": "cl-ucb(regressor=observed), s = 0.1",
    "ts(scales=given)": "ts(scales=given), s = 0.27",
    "c-ts(scales=given)": "c-ts(scales=given), s = 0.1",
    "cl-ts": "cl-ts(regressor=observed), s = 0.1",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "a-third",
        "1",
        "Within hundreds of rounds the causal algorithms have at most a third of the standard ones' regret.",
        "figure2",
        [_beats_statement("figure2", "fixed", causal, standard, 1 / 3, EARLY) for standard, causal in PAIRS],
        "with each policy at its true noise scale, and the linear policies on the observed features",
        [_beats_statement("figure2", "fixed", SCALED[c], SCALED[s], 1 / 3, EARLY) for s, c in PAIRS],
    ),
    Claim(
        "causal-beats-standard",
        "5.1.4",
        "On a fixed instance all causal algorithms beat the standard ones.",
        "figure2",
        [_beats_statement("figure2", "fixed", causal, standard) for standard, causal in PAIRS],
    ),
    Claim(
        "linear-beats-tabular",
        "5.1.4",
        "The causal linear algorithms beat the causal ones that do not use linearity.",
        "figure2",
        [
            _beats_statement("figure2", "fixed", "cl-ucb", "c-ucb"),
            _beats_statement("figure2", "fixed", "cl-ts", "c-ts(scales=given)"),
        ],
        "regressing on the observed features, at the true noise scale, against the tabular policies at their true "
        "noise scale",
        [
            _beats_statement("figure2", "fixed", SCALED["cl-ucb"], SCALED["c-ucb"]),
            _beats_statement("figure2", "fixed", SCALED["cl-ts"], SCALED["c-ts(scales=given)"]),
        ],
    ),
    Claim(
        "bayesian-order",
        "5.1.4",
        "Bayesian regret has the same order: linear causal below causal below standard.",
        "figure2",
        [
            _beats_statement("figure2", "bayesian", "cl-ts", "c-ts(scales=given)"),
            _beats_statement("figure2", "bayesian", "c-ts(scales=given)", "ts(scales=given)"),
            _beats_statement("figure2", "bayesian", "cl-ts", "ts(scales=given)"),
        ],
        "at the true noise scales, with the linear policy on the observed features",
        [
            _beats_statement(
                "figure2", "bayesian", "cl-ts(regressor=observed), s = 0.1", "c-ts(scales=given), s = 0.1"
            ),
            _beats_statement("figure2", "bayesian", "c-ts(scales=given), s = 0.1", "ts(scales=given), s = 0.14"),
        ],
    ),
    Claim(
        "m-does-not-matter",
        "5.1.4",
        "The regret of the causal algorithms does not vary with m.",
        "figure3",
        [_equality_statement("figure3", M_FIRST, M_LAST, policy) for policy in CAUSAL],
        "in a draw with constant extreme P(W | X) as m grows, so that only the number of actions changes",
        [_equality_statement("figure3", f"clean, {M_FIRST}", f"clean, {M_LAST}", policy) for policy in CAUSAL],
    ),
    Claim(
        "m-matters-to-standard",
        "5.1.4",
        "The regret of UCB and TS keeps growing with m.",
        "figure3",
        [_growth_statement("figure3", {m: f"m = {m}" for m in figure3.MS}, policy) for policy in STANDARD],
    ),
    Claim(
        "n-matters-little",
        "5.1.4",
        "The regret of the causal algorithms does not vary a lot with n.",
        "figure4",
        [_equality_statement("figure4", N_FIRST, N_LAST, policy) for policy in CAUSAL],
    ),
    Claim(
        "n-matters-to-standard",
        "5.1.4",
        "The regret of UCB and TS keeps growing with n.",
        "figure4",
        [_growth_statement("figure4", {n: f"n = {n}" for n in figure4.NS}, policy) for policy in STANDARD],
    ),
    Claim(
        "email-causal-beats-standard",
        "5.2",
        "On the e-mail campaign C-UCB and C-TS beat UCB and TS.",
        "figure6",
        [
            _beats_statement("figure6", "campaign", causal, standard)
            for causal in ("c-ucb", "c-ts(prior=beta)")
            for standard in ("ucb", "ts(prior=beta)")
        ],
    ),
    Claim(
        "email-ts-beats-ucb",
        "5.2",
        "On the e-mail campaign Thompson sampling beats UCB, causal or not.",
        "figure6",
        [
            _beats_statement("figure6", "campaign", "ts(prior=beta)", "ucb"),
            _beats_statement("figure6", "campaign", "c-ts(prior=beta)", "c-ucb"),
        ],
    ),
    Claim(
        "lower-bound-growth",
        "4",
        "In the lower bound's environment the regret of the standard algorithms grows like sqrt(3^N).",
        "lower-bound",
        [_root_growth_statement(policy) for policy in STANDARD],
    ),
    Claim(
        "lower-bound-causal",
        "4",
        "In the same environment the regret of C-UCB and C-TS does not depend on N.",
        "lower-bound",
        [
            _identity_statement("lower-bound", [f"fixed gap, N = {N}" for N in lower_bound.SIZES], policy)
            for policy in ("c-ucb", "c-ts(scales=given)")
        ],
    ),
    Claim(
        "lower-bound-causal-beats-standard",
        "1, 4",
        "Where most variables are irrelevant, the causal algorithms beat the standard ones.",
        "lower-bound",
        [
            _beats_statement("lower-bound", f"N = {lower_bound.SIZES[-1]}", "c-ucb", "ucb"),
            _beats_statement("lower-bound", f"N = {lower_bound.SIZES[-1]}", "c-ts(scales=given)", "ts(scales=given)"),
        ],
    ),
)
