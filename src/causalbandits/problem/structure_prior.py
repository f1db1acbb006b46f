"""The prior over causal structures, where the graph is not known or known partly: candidate parent sets.

Variables have an order: the context, the manipulable variables, the observed ones, the reward. Candidate parent sets of
a variable are sets of variables before it, so that every combination of them is a directed acyclic graph. The order
needs no causal knowledge: P(s | do(a)) factorises in any order, and for a set S of variables before the reward with the
reward independent of the action given S, E[Y | do(a)] = sum_s P(s | do(a)) E[Y | s]. All manipulable variables together
are such a set, whatever the truth is, and always a candidate for the reward.

All sets of at most `max_parents` variables are equally likely in advance. A graph that is known partly has half of the
prior probability on the set that it gives.

An unobserved common cause U of an observed variable V and the reward makes V a collider, action -> V <- U -> reward:
given V, or an effect of V, the reward depends on the action. A policy that settles on one action never sees that. So a
declared pair (V, reward) removes V and its possible effects from the candidate sets of the reward, and every variable
that is declared to share an unobserved cause with a removed one. Without the removed variables, the reward's parents
are its own and those of the removed variables on the way to it. These separate, because no unobserved variable is left
that affects the reward and a variable of a candidate set. Sets with V that separate as well are given up: they need V's
other causes, and a learned set of causes may lack one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import ProblemError, SizeError, short_repr, unknown_name_message
from causalbandits.problem.actions import ActionSpace

MAX_PARENTS = 4
"""The largest candidate parent set, unless the user says otherwise."""

CELL_LIMIT = 2**22
"""The largest number of counts that are kept for all candidate parent sets together."""

Edges = Iterable[tuple[str, str]]


class CandidateParents(NamedTuple):
    """The candidate parent sets of one variable, with the logarithms of their prior probabilities."""

    variable: str
    sets: tuple[tuple[str, ...], ...]
    log_prior: tuple[float, ...]


class Limit(NamedTuple):
    """An upper limit on the probability that an observed variable has one of some values."""

    variable: str
    codes: tuple[int, ...]
    largest: float


class StructurePrior(NamedTuple):
    """The candidate parent sets of every observed variable and of the reward.

    >>> prior = build_structure_prior("click", (), ("purpose", "send_time"), ("subject",), max_parents=1)
    >>> prior.candidates[-1].sets
    ((), ('purpose',), ('send_time',), ('subject',), ('purpose', 'send_time'))
    >>> prior.candidates[0]
    CandidateParents(variable='subject', sets=((), ('purpose',), ('send_time',)), log_prior=(-1.09..., ...))
    """

    reward: str
    observed: tuple[str, ...]
    """The variables that are observed after the decision, in order."""
    max_parents: int
    candidates: tuple[CandidateParents, ...]
    """Of every observed variable, in order, and of the reward, last."""
    required: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    given: Mapping[str, tuple[str, ...]] | None = None
    """The parents of each variable in a graph that is known partly; None where none was given."""
    limits: tuple[Limit, ...] = ()
    """Limits on probabilities that actions must keep."""
    latent: tuple[tuple[str, str], ...] = ()
    """Pairs of variables, among them the reward, that may share an unobserved cause."""

    @property
    def confounded(self) -> tuple[str, ...]:
        """The observed variables that no candidate set of the reward contains, because of `latent`."""
        return _find_confounded(self.reward, self.observed, self.latent, self.forbidden)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description, from which `structure_prior_from_record` builds the prior again."""
        return {
            "observed": list(self.observed),
            "max_parents": self.max_parents,
            "require_edges": [list(edge) for edge in self.required],
            "forbid_edges": [list(edge) for edge in self.forbidden],
            "graph": None if self.given is None else {name: list(parents) for name, parents in self.given.items()},
            **({"limits": [[v, list(codes), largest] for v, codes, largest in self.limits]} if self.limits else {}),
            **({"latent": [list(pair) for pair in self.latent]} if self.latent else {}),
        }


def structure_prior_from_record(
    record: Mapping[str, Any], reward: str, context: Sequence[str], manipulable: Sequence[str]
) -> StructurePrior:
    """The prior that `to_record` describes."""
    given = record["graph"]
    prior = build_structure_prior(
        reward,
        context,
        manipulable,
        record["observed"],
        max_parents=record["max_parents"],
        require_edges=[tuple(edge) for edge in record["require_edges"]],
        forbid_edges=[tuple(edge) for edge in record["forbid_edges"]],
        given=None if given is None else {name: tuple(parents) for name, parents in given.items()},
        latent=[tuple(pair) for pair in record.get("latent", ())],
    )
    limits = record.get("limits", ())
    return prior._replace(limits=tuple(Limit(v, tuple(map(int, codes)), float(most)) for v, codes, most in limits))


def build_structure_prior(
    reward: str,
    context: Sequence[str],
    manipulable: Sequence[str],
    observed: Sequence[str],
    *,
    max_parents: object = None,
    require_edges: Edges | None = None,
    forbid_edges: Edges | None = None,
    given: Mapping[str, tuple[str, ...]] | None = None,
    latent: Edges | None = None,
) -> StructurePrior:
    """The prior over parent sets of the observed variables, in the order of the list, and of the reward."""
    largest = _parse_max_parents(max_parents)
    order = (*context, *manipulable, *observed)
    targets = (*observed, reward)
    required = _parse_edges("require_edges", require_edges, order, targets)
    forbidden = _parse_edges("forbid_edges", forbid_edges, order, targets)
    if contradictory := sorted(set(required) & set(forbidden)):
        raise ProblemError(f"{_format_edge(contradictory[0])} is in require_edges and in forbid_edges. Keep one.")
    pairs = _parse_latent(latent, observed, reward)
    confounded = _find_confounded(reward, observed, pairs, forbidden)
    if contradictory := [edge for edge in required if edge[1] == reward and edge[0] in confounded]:
        raise ProblemError(
            f"{_format_edge(contradictory[0])} is in require_edges, and by latent= the reward is estimated without "
            f"{contradictory[0][0]!r}. Leave the edge out of require_edges."
        )
    if confounded:
        # Without the confounded variables, their causes are causes of the reward.
        indirect = {name for name in order for effect in confounded if _is_possible(name, effect, order, forbidden)}
        candidate_forbidden = {edge for edge in forbidden if edge[1] != reward or edge[0] not in indirect}
    else:
        candidate_forbidden = set(forbidden)
    candidates = []
    for target in targets:
        before = order if target == reward else order[: order.index(target)]
        if target == reward:
            before = tuple(name for name in before if name not in confounded)
        needed = tuple(name for name in before if (name, target) in required)
        possible = tuple(name for name in before if (name, target) not in {*candidate_forbidden, *required})
        always = (*context, *manipulable) if target == reward else None
        if always is not None and any((name, target) in candidate_forbidden for name in always):
            always = None
        skipped = confounded if target == reward else ()
        expected = None if given is None else _given_parents(given, target, before, skipped)
        candidates.append(_candidate_parents(target, before, needed, possible, largest, always, expected))
    return StructurePrior(reward, tuple(observed), largest, tuple(candidates), required, forbidden, given, latent=pairs)


def _given_parents(
    given: Mapping[str, tuple[str, ...]], target: str, before: tuple[str, ...], skipped: Sequence[str]
) -> tuple[str, ...]:
    """The parents in the given graph; those of skipped parents in their place."""
    found, open_names = set(), list(given.get(target, ()))
    while open_names:
        name = open_names.pop()
        if name not in skipped:
            found.add(name)
        else:
            open_names += given.get(name, ())
    return tuple(name for name in before if name in found)


def _is_possible(cause: str, effect: str, order: Sequence[str], forbidden: Iterable[tuple[str, str]]) -> bool:
    """Whether an edge agrees with the order and is not forbidden."""
    return order.index(cause) < order.index(effect) and (cause, effect) not in forbidden


def _find_confounded(
    reward: str,
    observed: Sequence[str],
    latent: tuple[tuple[str, str], ...],
    forbidden: Iterable[tuple[str, str]],
) -> tuple[str, ...]:
    """Observed variables that may share an unobserved cause with the reward or each other, and their possible effects.

    >>> _find_confounded("y", ("u", "v", "w"), (("v", "y"),), ())
    ('v', 'w')
    >>> _find_confounded("y", ("u", "v", "w"), (("v", "y"), ("u", "v")), (("v", "w"), ("u", "w")))
    ('u', 'v')
    """
    found = {reward}
    while True:
        tied = {name for pair in latent if found & set(pair) for name in pair}
        effects = {
            name for name in observed for cause in found - {reward} if _is_possible(cause, name, observed, forbidden)
        }
        if tied | effects <= found:
            return tuple(name for name in observed if name in found)
        found |= tied | effects


def _candidate_parents(
    target: str,
    before: tuple[str, ...],
    needed: tuple[str, ...],
    possible: tuple[str, ...],
    largest: int,
    always: tuple[str, ...] | None,
    expected: tuple[str, ...] | None,
) -> CandidateParents:
    """The candidate sets of one variable: up to `largest` parents, with the needed ones among them."""
    position = {name: place for place, name in enumerate(before)}
    sizes = range(max(0, min(largest - len(needed), len(possible))) + 1)
    sets = [
        tuple(sorted((*needed, *chosen), key=position.__getitem__))
        for n in sizes
        for chosen in itertools.combinations(possible, n)
    ]
    if always is not None and len(always) > largest and set(needed) <= set(always):
        sets.append(always)
    prior = dict.fromkeys(sets, 1.0 / len(sets))
    if expected is not None:
        prior = {names: 0.5 * probability for names, probability in prior.items()}
        prior[expected] = prior.get(expected, 0.0) + 0.5
    total = math.fsum(prior.values())
    return CandidateParents(target, tuple(prior), tuple(math.log(p / total) for p in prior.values()))


def refuse_unset_variables(actions: ActionSpace) -> None:
    """Raise an error if an action of an explicit list leaves a manipulable variable unset."""
    for choices in actions.explicit_choices or ():
        if 0 in choices:
            unset = actions.names[choices.index(0)]
            raise ProblemError(
                "Where the structure is learned, every action sets all manipulable variables; "
                f"{actions.decode(choices)} leaves {unset!r} unset. Set it, or give a graph. If leaving it unset is a "
                f"choice, declare it: a manipulable variable 'set_{unset}' with the values 'no' and those of "
                f"{unset!r}, and {unset!r} as an observed variable."
            )


def count_structure_cells(prior: StructurePrior, sizes: Mapping[str, int]) -> int:
    """The number of counts that the candidate parent sets need; refused if there are too many."""
    cells = sum(
        math.prod(sizes[name] for name in names) * sizes.get(candidate.variable, 1)
        for candidate in prior.candidates
        for names in candidate.sets
    )
    if cells > CELL_LIMIT:
        raise SizeError(
            f"The candidate parent sets need {cells} counts; the limit is {CELL_LIMIT}. Lower max_parents (it is "
            f"{prior.max_parents}), forbid edges, leave out variables that cannot matter, or merge their values."
        )
    return cells


def _parse_max_parents(max_parents: object) -> int:
    if max_parents is None:
        return MAX_PARENTS
    if not is_integer(max_parents) or max_parents < 0:
        raise ProblemError(f"max_parents must be an integer ≥ 0, such as {MAX_PARENTS}; got {max_parents!r}.")
    return int(max_parents)


def _parse_edges(
    argument: str, edges: Edges | None, causes: tuple[str, ...], effects: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Edges as pairs of names, each from a variable to one that comes after it."""
    if edges is None:
        return ()
    if isinstance(edges, str) or not is_iterable(edges):
        raise ProblemError(f"{argument} must list edges, such as [('purpose', 'subject')]; got {short_repr(edges)}.")
    parsed = []
    for edge in edges:
        if isinstance(edge, str) or not is_iterable(edge) or len(names := tuple(edge)) != 2:
            raise ProblemError(f"{argument} must list pairs of a cause and an effect; got {short_repr(edge)}.")
        cause, effect = names
        for name, possible in ((cause, causes), (effect, effects)):
            if name not in possible:
                role = "cause" if possible is causes else "effect"
                raise ProblemError(unknown_name_message(f"{role} in {argument}:", name, possible))
        if effect in causes and causes.index(effect) <= causes.index(cause):
            raise ProblemError(
                f"{argument}: {_format_edge(edge)} points from a later variable to an earlier one. List "
                f"{effect!r} after {cause!r} in values= or tiers=."
            )
        parsed.append((str(cause), str(effect)))
    return tuple(dict.fromkeys(parsed))


def _parse_latent(latent: Edges | None, observed: Sequence[str], reward: str) -> tuple[tuple[str, str], ...]:
    """Pairs of observed variables, or of one and the reward."""
    if latent is None:
        return ()
    if isinstance(latent, str) or not is_iterable(latent):
        raise ProblemError(f"latent must list pairs, such as [('template', 'click')]; got {short_repr(latent)}.")
    possible = (*observed, reward)
    parsed: dict[frozenset[str], tuple[str, str]] = {}
    for pair in latent:
        if isinstance(pair, str) or not is_iterable(pair) or len(names := tuple(pair)) != 2 or names[0] == names[1]:
            raise ProblemError(f"latent must list pairs of two variables; got {short_repr(pair)}.")
        for name in names:
            if name not in possible:
                raise ProblemError(
                    unknown_name_message("observed variable in latent:", name, possible)
                    + " Variables that are set, and the context, need no declaration."
                )
        parsed.setdefault(frozenset(names), (str(names[0]), str(names[1])))
    if parsed and not any(reward in names for names in parsed):
        raise ProblemError(
            f"latent must contain a pair with the reward, such as [({observed[0]!r}, {reward!r})]: unobserved "
            "causes of observed variables alone need no declaration."
        )
    return tuple(parsed.values())


def _format_edge(edge: Iterable[str]) -> str:
    return " -> ".join(map(str, edge))
