"""The families of policies, and the default policy of a problem.

The default depends on the CPTs and on the timing of outcomes:

| CPTs | outcomes | policy | reason |
|---|---|---|---|
| known, few actions and configurations | immediate | `IMMEDIATE_FEEDBACK` | least regret without known scales |
| known, many of them | immediate | `MANY_ACTIONS` | as above without main effects, which are slow there |
| known | delayed, or in batches | `DELAYED_FEEDBACK` | the same model, sampled anew for each decision |
| fitted to data, or unknown | any | `ESTIMATED_TABLES` | samples the CPTs, too |
| known, more configurations than rounds | any | `MANY_CONFIGURATIONS` | one coefficient per feature of configurations |
| none, one mean per action | any | `PER_ACTION` | no graph is available |

A problem does not state the type of its rewards (0 or 1, or any number), so the scales are estimated. The measurements
are in docs/project/regret.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import PolicyError, short_repr, unknown_name_message
from causalbandits.model import CausalModel
from causalbandits.policies.base import AnyPolicy, FamilyPolicy, Policy, validate_samples
from causalbandits.policies.cells import (
    KLUCB,
    UCB,
    CausalGittins,
    CausalIDS,
    CausalKLUCB,
    CausalScreen,
    CausalThompsonSampling,
    CausalTSUCB,
    CausalUCB,
    ThompsonSampling,
    Uniform,
)
from causalbandits.policies.changes import parse_false_alarm_rate
from causalbandits.policies.exploration import CausalDesign, CausalElimination, CausalTrackAndStop
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.linear import (
    CausalLinearThompsonSampling,
    CausalLinearTSUCB,
    CausalLinearUCB,
    LinTS,
    LinUCB,
)
from causalbandits.policies.notation import EXAMPLE, Unwritten, parse_policy_text
from causalbandits.policies.posteriors import can_store_main_effects
from causalbandits.policies.robust import HACUCB, GuardedThompsonSampling, ModelsThompsonSampling
from causalbandits.policies.structure import StructureThompsonSampling
from causalbandits.problem import Problem, Scores, Situation, count_reachable_configurations
from causalbandits.problem.projection import CELL_LIMIT

FAMILIES: dict[str, type[AnyPolicy]] = {
    kind.family: kind
    for kind in (
        CausalThompsonSampling,
        CausalUCB,
        CausalKLUCB,
        CausalGittins,
        CausalScreen,
        CausalTSUCB,
        CausalIDS,
        CausalLinearThompsonSampling,
        CausalLinearUCB,
        CausalLinearTSUCB,
        CausalTrackAndStop,
        CausalElimination,
        CausalDesign,
        GuardedThompsonSampling,
        ModelsThompsonSampling,
        StructureThompsonSampling,
        HACUCB,
        LinUCB,
        LinTS,
        ThompsonSampling,
        UCB,
        KLUCB,
        Uniform,
    )
}
"""The families of policies, by their names in texts; `AUTO` stands for the default policy of a problem."""

AUTO = "auto"


@dataclass(frozen=True, kw_only=True, repr=False)
class AutoPolicy(FamilyPolicy[Any]):
    """The default policy of a problem, before the problem is known; `resolve_policy` replaces it.

    With `samples=M` it decides by M posterior samples, so that propensities are known.
    """

    family, family_label = AUTO, "default policy"
    samples: int | None = None

    def __post_init__(self) -> None:
        if self.samples is not None:
            validate_samples(self.samples)

    def default_for(
        self, problem: Problem, horizon: int | None, delayed: bool, *, follows_changes: bool = False
    ) -> AnyPolicy:
        """The default policy of a problem, with these options."""
        default = default_policy(problem, horizon=horizon, delayed=delayed)
        if follows_changes:
            default = _default_with_changes(problem)
        if self.samples is None:
            return default
        if "samples" not in default.parameter_defaults():
            raise PolicyError(
                f"The default policy of this problem, {default}, uses no posterior samples. Leave out samples=, or "
                "pass a policy with posterior samples, such as 'c-ts'."
            )
        return replace(default, samples=self.samples)  # type: ignore[call-arg]

    def _refuse(self) -> NoReturn:
        raise PolicyError(
            "'auto' is the default policy of a problem, and this call has no problem. Pass both, as in Agent(problem, "
            "'auto'), or use default_policy(problem)."
        )

    def init(self, problem: Problem) -> Any:
        self._refuse()

    def score(self, situation: Situation, statistic: Any, rng: np.random.Generator) -> Scores:
        self._refuse()

    def update(self, situation: Situation, statistic: Any, outcome: Outcome) -> None:
        self._refuse()


def as_policy(policy_or_text: object) -> AnyPolicy:
    """A policy, given as an object or as a text such as "c-ts(prior=beta)"."""
    if isinstance(policy_or_text, str):
        return policy(policy_or_text)
    if isinstance(policy_or_text, Policy):
        if not isinstance(policy_or_text.id, str):
            raise PolicyError(f"A policy's id must be text, such as 'my-policy'; got {policy_or_text.id!r}.")
        return policy_or_text
    raise PolicyError(
        f"A policy is an object such as CausalUCB() or a text such as 'c-ucb'; got {short_repr(policy_or_text)}."
    )


def policy(family: str, /, **options: Any) -> AnyPolicy:
    """The policy of a family with these options.

    >>> policy("c-ts", prior="beta", cpts="learned")
    c-ts(prior=beta, cpts=learned)
    >>> policy("c-ts(prior=beta)", samples=32) == CausalThompsonSampling(prior="beta", samples=32)
    True
    >>> policy("c-ucb", noise_scale=0.1).noise_scale
    0.1

    Args:
        family: The name of a family, such as "c-ts", or "auto" for the default of a problem. Options may follow in
            parentheses: "c-ts(prior=beta)".
        **options: The options of the family, by name. Default: those of its class.

    Returns:
        The policy.

    Raises:
        PolicyError: If the family or an option is unknown, or an option is given twice or out of range.
    """
    if not isinstance(family, str):
        raise PolicyError(f"A policy's family must be text, such as 'c-ts'; got {short_repr(family)}.")
    text = parse_policy_text(family)
    kind = AutoPolicy if text.family == AUTO else FAMILIES.get(text.family)
    if kind is None:
        raise PolicyError(_unknown_family_message(text.family))
    twice = sorted(set(text.options) & set(options))
    if twice:
        raise PolicyError(f"{', '.join(twice)}: given twice, in {family!r} and as an argument.")
    options = {**text.options, **options}
    known_names = [field.name for field in fields(kind)]
    for name, value in options.items():
        if name not in known_names:
            raise PolicyError(_unknown_option_message(text.family, name, known_names))
        if isinstance(value, Unwritten):
            raise PolicyError(
                f"{name}=... marks a value that a text cannot represent. Pass the value as an argument, "
                f"policy({text.family!r}, {name}=...), or pass the policy itself."
            )
    return kind(**options)


def _unknown_family_message(name: str) -> str:
    families = [AUTO, *FAMILIES]
    parts = set(name.split("-"))
    contained = [family for family in families if parts.issuperset(family.split("-"))]
    message = unknown_name_message("policy family", name, families, closest=max(contained, key=len, default=None))
    return f"{message} Options are written {EXAMPLE!r}."


def _unknown_option_message(family: str, name: str, known_names: list[str]) -> str:
    elsewhere = [other for other, kind in FAMILIES.items() if name in kind.__dataclass_fields__]
    note = f" Families with {name!r}: {', '.join(map(repr, elsewhere))}." if elsewhere else ""
    return unknown_name_message(f"option of {family!r}:", name, known_names) + note


def policy_label(name: str) -> str:
    """The label in legends for a name in a result: the policy's label if the name is a policy's text, otherwise the
    name.

    >>> policy_label("c-ts(prior=beta)"), policy_label("mine")
    ('C-TS (Beta prior)', 'mine')
    """
    try:
        return policy(name).label
    except PolicyError:
        return name


Policies = AnyPolicy | str | Iterable[AnyPolicy | str] | Mapping[str, AnyPolicy | str]
"""One or more policies, as objects or texts, or a mapping from names to them."""


def name_policies(policies: Policies) -> dict[str, AnyPolicy]:
    """Policies by the names of their results: ids, with parameters if ids repeat."""
    if isinstance(policies, Mapping):
        by_name = {str(name): as_policy(policy_or_text) for name, policy_or_text in policies.items()}
    else:
        is_single = isinstance(policies, Policy | str) or not is_iterable(policies)
        instances = [as_policy(policy_or_text) for policy_or_text in ([policies] if is_single else policies)]  # type: ignore[union-attr]
        ids = [p.id for p in instances]
        by_name = {}
        for p in instances:
            name = p.id if ids.count(p.id) == 1 else str(p)
            if name in by_name:
                raise PolicyError(f"Two policies are both {name}. Give them names: {{'name': policy, ...}}.")
            by_name[name] = p
    if not by_name:
        raise PolicyError("There must be at least one policy.")
    return by_name


IMMEDIATE_FEEDBACK = policy("c-gittins", prior="main-effects")
MANY_ACTIONS = DELAYED_FEEDBACK = policy("c-ts", prior="main-effects")
MANY_STATES = policy("c-gittins")
MANY_STATES_DELAYED = policy("c-ts")
ESTIMATED_TABLES = policy("c-ts", cpts="learned")
MANY_CONFIGURATIONS = policy("cl-ts", regressor="observed", scales="estimated")
PER_ACTION = policy("ts")
UNKNOWN_STRUCTURE = policy("c-ts-structure")

PAIRS_LIMIT = 2**18
"""The largest number of actions times configurations for which comparing all of them in every round is fast."""

STATES_LIMIT = 64
"""The largest number of parents' states for which estimating the effect of each is fast; with 128 a round takes
0.1 s.
"""


class DefaultChoice(NamedTuple):
    """A default policy, and the reason for the choice."""

    policy: AnyPolicy
    reason: str


def default_policy(problem: Problem, *, horizon: int | None = None, delayed: bool = False) -> AnyPolicy:
    """The default policy for a problem, if nothing is known about the reward.

    >>> from causalbandits import zoo
    >>> default_policy(zoo.email_campaign().problem).id, default_policy(zoo.email_campaign().problem, delayed=True).id
    ('c-gittins(prior=main-effects)', 'c-ts(prior=main-effects)')

    Args:
        problem: The problem.
        horizon: The number of rounds, if it is known. Default: not known.
        delayed: Whether decisions are made before the outcomes of earlier ones are known: in batches, by several
            processes, or because outcomes are delayed. The policy is then randomised from the first decision on. A
            study always uses such a policy by default.

    Returns:
        The policy.

    Raises:
        PolicyError: If `problem` is not a `Problem`, or `horizon` or `delayed` is malformed.
    """
    default = default_with_reason(problem, horizon=horizon, delayed=delayed).policy
    return default if horizon is None else default.for_horizon(int(horizon))


def is_auto(policy_or_text: object) -> bool:
    """Whether the argument (None, "auto" or `AutoPolicy()`) means the default policy of a problem."""
    return policy_or_text is None or isinstance(as_policy(policy_or_text), AutoPolicy)


def resolve_policy(
    problem: Problem,
    policy_or_text: AnyPolicy | str | None,
    *,
    horizon: int | None = None,
    delayed: bool = False,
    changes: bool | float | None = None,
) -> AnyPolicy:
    """The given policy with its horizon, or the default one for None and "auto"; `changes` makes it follow changes."""
    resolved = AutoPolicy() if policy_or_text is None else as_policy(policy_or_text)
    follows_changes = changes is not None and changes is not False
    if isinstance(resolved, AutoPolicy):
        resolved = resolved.default_for(problem, horizon, delayed, follows_changes=follows_changes)
    else:
        if delayed is not False:
            raise PolicyError(f"delayed= selects the default policy. Leave out delayed= with {policy_or_text!r}.")
        _validate_horizon(horizon)
        resolved = resolved if horizon is None else resolved.for_horizon(int(horizon))
    return _with_changes(resolved, changes) if follows_changes else resolved


def _with_changes(chosen: AnyPolicy, changes: object) -> AnyPolicy:
    """The same policy, following changes."""
    if "changes" not in chosen.parameter_defaults():
        families = [name for name, kind in FAMILIES.items() if _can_follow_changes(kind)]
        raise PolicyError(
            f"The policy {chosen.id!r} has no changes=. Families that have it: {', '.join(map(repr, families))}."
        )
    level = parse_false_alarm_rate(changes)
    current = chosen.changes  # type: ignore[attr-defined]
    if current not in (None, level):
        raise PolicyError(f"changes= is given twice: {level:g}, and {current:g} in the policy {chosen.id!r}.")
    return replace(chosen, changes=level)  # type: ignore[call-arg]


def _can_follow_changes(kind: type[AnyPolicy]) -> bool:
    return "changes" in kind.__dataclass_fields__ and getattr(kind, "follows_changes", True)


def _default_with_changes(problem: Problem) -> AnyPolicy:
    """The default policy that learns all mechanisms, so that each can start anew."""
    if problem.structure_prior is not None:
        return UNKNOWN_STRUCTURE
    if problem.unit == "actions":
        return PER_ACTION
    if problem.configurations > CELL_LIMIT:
        raise PolicyError(
            f"changes= needs a count for each of {problem.configurations} configurations; the limit is {CELL_LIMIT}. "
            'Use a smaller adjustment set (adjust="smallest").'
        )
    return ESTIMATED_TABLES if isinstance(problem.knowledge, CausalModel) else MANY_STATES_DELAYED


def default_with_reason(problem: Problem, *, horizon: int | None = None, delayed: bool = False) -> DefaultChoice:
    """The default policy with the reason for it; its horizon is not set yet."""
    if not isinstance(problem, Problem):
        raise PolicyError(f"A policy is chosen for a Problem; got {short_repr(problem)}.")
    _validate_horizon(horizon)
    if not isinstance(delayed, bool):
        raise PolicyError(f"delayed must be True or False; got {delayed!r}.")
    return _choose_default(problem, horizon, delayed)


def _choose_default(problem: Problem, horizon: int | None, delayed: bool) -> DefaultChoice:
    if problem.structure_prior is not None:
        return DefaultChoice(UNKNOWN_STRUCTURE, "the graph is not known, and it learns the structure")
    if problem.unit == "actions":
        return DefaultChoice(
            PER_ACTION, ("the problem has no parents of the reward, so the policy learns one mean per action")
        )
    is_estimated = isinstance(problem.knowledge, CausalModel) and problem.posterior is not None
    if is_estimated and problem.configurations <= CELL_LIMIT:
        return DefaultChoice(ESTIMATED_TABLES, "the CPTs are estimates, and the policy continues to learn them")
    if count_reachable_configurations(problem) > (CELL_LIMIT if horizon is None else min(CELL_LIMIT, horizon)):
        return DefaultChoice(MANY_CONFIGURATIONS, "there are more configurations than rounds")
    if sum(problem.shape) > STATES_LIMIT:
        if delayed:
            return DefaultChoice(
                MANY_STATES_DELAYED, ("the policy is randomised, so decisions vary while outcomes are delayed")
            )
        return DefaultChoice(
            MANY_STATES, ("it has the lowest benchmark regret among fast policies if the parents have many values")
        )
    if not can_store_main_effects(problem.shape):
        return DefaultChoice(MANY_CONFIGURATIONS, "there are too many configurations for a model of main effects")
    if delayed:
        return DefaultChoice(DELAYED_FEEDBACK, "the policy is randomised, so decisions vary while outcomes are delayed")
    if problem.actions.size * problem.configurations > PAIRS_LIMIT:
        return DefaultChoice(
            MANY_ACTIONS, ("it has the lowest benchmark regret among fast policies if there are many actions")
        )
    return DefaultChoice(
        IMMEDIATE_FEEDBACK, ("it has the lowest benchmark regret among policies that need no declared reward scale")
    )


def _validate_horizon(horizon: object) -> None:
    if horizon is not None and (not is_integer(horizon) or horizon < 1):
        raise PolicyError(f"horizon, the number of rounds, must be a whole number, 1 or more; got {horizon!r}.")
