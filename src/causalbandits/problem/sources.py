"""Conversion of a user's knowledge (text, mapping, file, graph, data) to the knowledge of a problem.

| input | knowledge |
|---|---|
| a `CausalModel` or a latent model | the model |
| a graph and data | the CPTs that `fit` estimates |
| a graph without data | unknown CPTs, learned online |
| a graph and `reward_parents=[]`, or no graph | a graph: a mean per action is learned |
| no graph and `values`, or a graph that is known partly | a prior over parent sets: the structure is learned |

The reward needs no CPT: the reward and its effects are left out of the model. d-separation is then checked in the whole
graph.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx

from causalbandits._typing import is_iterable, is_real
from causalbandits.errors import DataWarning, ProblemError, caller_stacklevel, short_repr, unknown_name_message, warn
from causalbandits.formats import FORMATS, read, read_dot
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    Knowledge,
    LatentModel,
    State,
    as_causal_graph,
    validate_unique_names,
)
from causalbandits.problem.actions import Manipulable, always_set_names
from causalbandits.problem.separators import find_reward_node
from causalbandits.problem.structure_prior import Edges, StructurePrior, build_structure_prior, count_structure_cells

if TYPE_CHECKING:
    from causalbandits.fitting import Bins

Values = Mapping[str, Iterable[State]]

Context = Iterable[str] | Mapping[str, Iterable[State]]
"""Names of variables that are known before a decision, or a mapping from each to its values."""

_DOT_BEGINNING = re.compile(r"\s*(strict\s+)?(di)?graph\b[^;\n]*\{|\s*(dag|pdag|mag)\b[^;\n]*\{", re.IGNORECASE)

EXAMPLE = "'purpose -> subject -> click; send_time -> click'"


def parse_knowledge(source: Any) -> Knowledge | None:
    """A model or a graph from any of the forms in which it may be given; None if no graph is known.

    >>> parse_knowledge("a, b -> c -> d")
    CausalGraph('{a, b} -> c; c -> d')
    >>> parse_knowledge({"c": ["a", "b"]})
    CausalGraph('{a, b} -> c')
    """
    if source is None or isinstance(source, CausalModel | LatentModel | CausalGraph):
        return source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and is_path(source)):
        content = read(source)
        return content if isinstance(content, CausalModel | LatentModel) else as_causal_graph(content)
    if isinstance(source, str):
        return read_dot(source) if _DOT_BEGINNING.match(source) else CausalGraph.from_text(source)
    if isinstance(source, Mapping | nx.DiGraph):
        return as_causal_graph(source)
    raise ProblemError(
        f"The first argument of Problem is the graph: a text such as {EXAMPLE}, a mapping from each variable to its "
        "causes, a networkx.DiGraph, a CausalGraph, a CausalModel, the path of a file (.dot, .bif, .json), or None if "
        f"no graph is known; got {short_repr(source)}."
    )


def is_path(text: str) -> bool:
    """Whether a text is the name of a file, by its extension; a graph's text has an arrow or several words."""
    if "->" in text or "<-" in text or "\n" in text or ";" in text or "{" in text:
        return False
    suffixes = [suffix.lower() for suffix in Path(text).suffixes]
    return bool(suffixes) and (suffixes[-1] in FORMATS or (suffixes[-1] == ".gz" and len(suffixes) > 1))


class Source(NamedTuple):
    """The knowledge of a problem from the user's input: a model, a graph, or a graph and data."""

    knowledge: Knowledge
    structure: CausalGraph | None
    """The graph with the reward in it, if the model lacks the reward."""
    manipulable: Manipulable
    context: Context
    reward_parents: Iterable[str] | None
    can_observe: Iterable[str] | None
    structure_prior: StructurePrior | None = None
    """The candidate parent sets, where the structure is learned."""


def load_source(
    knowledge: Any,
    *,
    reward: str | None,
    manipulable: Manipulable,
    reward_parents: Iterable[str] | None = None,
    values: Values | None = None,
    data: Any = None,
    bins: Bins | None = None,
    interventions: Any = None,
    missing: Any = "refuse",
    prior: Any = 1.0,
    context: Context = (),
    optional: Iterable[str] | bool | None = None,
    max_set: int | None = None,
    actions: Iterable[Mapping[str, State]] | None = None,
    max_probability: Mapping[str, Any] | None = None,
    can_observe: Iterable[str] | None = None,
    known: str | None = None,
    max_parents: int | None = None,
    tiers: Iterable[Iterable[str]] | None = None,
    require_edges: Edges | None = None,
    forbid_edges: Edges | None = None,
    latent: Edges | None = None,
) -> Source:
    """The model or graph of a problem: as given, with CPTs estimated from data, or with CPTs to be learned online."""
    source = parse_knowledge(knowledge)
    if reward is not None and not isinstance(reward, str):
        raise ProblemError(f"reward must be the name of a variable, such as 'click'; got {reward!r}.")
    if reward is not None and is_iterable(manipulable) and any(isinstance(n, str) and n == reward for n in manipulable):
        raise ProblemError(f"The reward {reward!r} must not be manipulable. Remove it from manipulable=.")
    if reward_parents is not None:
        reward_parents = _parse_reward_parents(reward_parents)
    estimation = {"data": data, "bins": bins, "interventions": interventions, "values": values}
    if _is_structure_learned(source, known, values):
        if data is not None:
            raise ProblemError(
                "Where the structure is learned, past rows are outcomes with rewards, and data= has no place for them. "
                "Name the values of the variables in manipulable= and values=, and pass the rows to the method learn "
                "of the agent or of the study, with the variables that were set in each row. A row then counts once, "
                "for the structure, the CPTs and the mean rewards.",
                path=("data",),
            )
        del estimation["values"], estimation["data"]
        if not (is_real(prior) and prior == 1.0):
            estimation["prior"] = prior
        if missing != "refuse":
            estimation["missing"] = missing
        _refuse_estimation("Where the structure is learned, CPTs are learned online from a flat prior", estimation)
        if reward_parents is not None or can_observe is not None:
            raise ProblemError(
                "Where the structure is learned, leave reward_parents= and can_observe= out: they need a graph."
            )
        if optional or max_set is not None:
            raise ProblemError(
                "Where the structure is learned, every manipulable variable is set in every decision: leave optional= "
                "and max_set= out, or give a graph."
            )
        assert source is None or isinstance(source, CausalGraph)
        return _learn_structure(
            source, reward, manipulable, context, values, max_parents, tiers, require_edges, forbid_edges, latent
        )
    options = {"max_parents": max_parents, "tiers": tiers, "require_edges": require_edges, "forbid_edges": forbid_edges}
    options["latent"] = latent
    if superfluous := [f"{name}=" for name, value in options.items() if value is not None]:
        raise ProblemError(
            f"{', '.join(superfluous)}: only where the structure is learned, that is, without a graph and with the "
            "values= of the observed variables, or with known='partly'."
        )
    if source is None:
        _refuse_estimation("Without a graph there are no CPTs", estimation)
        source, reward_parents = graph_of_manipulable(manipulable, context, reward), ()
    if not isinstance(source, CausalGraph):
        _refuse_estimation("The model has its values and CPTs", estimation)
        return Source(source, None, manipulable, context, reward_parents, can_observe)
    find_reward_node(source, reward, reward_parents)
    manipulable, context = _parse_manipulable(manipulable), _parse_context(context)
    graph = GraphSource(source, manipulable, context, values, bins if data is None else None, reward)
    estimated = (
        None
        if data is None
        else graph.estimate(data, bins=bins, interventions=interventions, missing=missing, prior=prior)
    )
    if reward_parents == ():
        states = {} if estimated is None else {name: estimated[name].states for name in estimated.names}
        return Source(graph.graph.with_values(states), None, manipulable, context, reward_parents, can_observe)
    if estimated is not None:
        return Source(estimated, graph.structure(), manipulable, context, reward_parents, can_observe)
    del estimation["values"], estimation["bins"]
    _refuse_estimation("Without data there is nothing to estimate", estimation)
    if can_observe is not None:
        can_observe = validate_unique_names("observable", can_observe, source.validate_name)
    model, can_observe = graph.learn_online(
        always_set_names(graph.manipulable, optional, max_set, actions),
        [*(reward_parents or ()), *(max_probability if isinstance(max_probability, Mapping) else ())],
        can_observe,
        prior,
    )
    return Source(model, graph.structure(), manipulable, context, reward_parents, can_observe)


def _refuse_estimation(why: str, arguments: Mapping[str, object]) -> None:
    """Raise an error for arguments of an estimation if nothing is estimated."""
    superfluous = [name for name, value in arguments.items() if value is not None]
    if superfluous:
        raise ProblemError(
            f"{why}. Leave out {', '.join(f'{name}=' for name in superfluous)}. CPTs are estimated if a graph is "
            "passed with data=."
        )


def _parse_reward_parents(names: Iterable[str]) -> tuple[str, ...]:
    """The names of the reward's direct causes."""
    is_list = is_iterable(names) and not isinstance(names, str | set | frozenset)
    parents = tuple(names) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in parents):
        raise ProblemError(f"reward_parents must be a list of names, such as ['subject']; got {short_repr(names)}.")
    return parents


def _parse_manipulable(manipulable: Manipulable) -> Manipulable:
    """The manipulable variables, as a mapping or a tuple of names."""
    if isinstance(manipulable, str) or not is_iterable(manipulable):
        raise ProblemError(
            "manipulable must map variables to the values that they may be set to, such as {'price': [9, 12]}, or "
            f"list them, ['price']; got {manipulable!r}."
        )
    return manipulable if isinstance(manipulable, Mapping) else tuple(manipulable)


def _parse_context(context: Context) -> Context:
    """The context, as a mapping or a tuple of names."""
    is_list = is_iterable(context) and not isinstance(context, str)
    names = tuple(context) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in names):
        raise ProblemError(
            f"context must list variables, such as ['segment'], or map them to their values; got {short_repr(context)}."
        )
    return context if isinstance(context, Mapping) else names


class GraphSource:
    """A graph whose CPTs are estimated from data, or learned online."""

    def __init__(
        self,
        graph: CausalGraph,
        manipulable: Manipulable,
        context: Context,
        values: Values | None,
        bins: Bins | None,
        reward: str | None,
    ) -> None:
        for name in _mapping("values", values):
            if name not in graph.parents:
                raise ProblemError(f"values: {unknown_name_message('variable', name, graph.parents)}")
        if reward is not None and reward in _mapping("values", values):
            raise ProblemError(
                f"values must not contain the reward {reward!r}, because rewards are numbers. Leave it out.",
                path=("values", reward),
            )
        self.reward = reward
        self.declared_values = dict(_mapping("values", values)) | (
            dict(context) if isinstance(context, Mapping) else {}
        )
        if bins is not None:
            for name in bins:
                if name not in graph.parents:
                    raise ProblemError(f"bins: {unknown_name_message('variable', name, graph.parents)}")
            from causalbandits.fitting import bin_labels

            self.declared_values |= bin_labels(bins)
        self.settings = {
            name: list(settings)
            for name, settings in (manipulable.items() if isinstance(manipulable, Mapping) else ())
            if settings is not None and is_iterable(settings) and not isinstance(settings, str | Mapping)
        }
        declared = {name: domain for name, domain in self.declared_values.items() if name in graph.parents}
        self.given_graph = graph.with_values(declared)
        settable = {name: domain for name, domain in self.settings.items() if name in graph.parents and domain}
        self.graph = self.given_graph.with_values(
            {name: domain for name, domain in settable.items() if name not in self.given_graph.states}
        )
        self.manipulable = tuple(name for name in manipulable if isinstance(name, str))
        self.context = tuple(context)
        effects = self._after_reward()
        if self.manipulable and effects.issuperset(self.manipulable):
            raise ProblemError(
                f"The manipulable variables must not all be effects of the reward {reward!r}; "
                f"{', '.join(map(repr, self.manipulable))} cannot change it. In a mapping, the graph has the causes of "
                f"each variable, such as {{{reward!r}: [{self.manipulable[0]!r}]}}.",
                path=("graph",),
            )

    def estimate(self, data: Any, **options: Any) -> CausalModel | LatentModel:
        """The model with CPTs estimated from data; values that may be set need not occur in the data."""
        from causalbandits.fitting import fit

        observed = _without(self.given_graph, self._after_reward())
        model = fit(observed, data, **options)
        unseen = {
            name: new
            for name, settings in self.settings.items()
            if name in model.names
            and name not in self.given_graph.states
            and (new := [value for value in settings if value not in model[name].states])
        }
        for name, new in unseen.items():
            warn(
                f"No row of the data has {name} = {' or '.join(map(repr, new))}: its effects are not estimated from "
                f"data. The data have {', '.join(map(repr, model[name].states))}.",
                DataWarning,
                stacklevel=caller_stacklevel(),
            )
        if unseen:
            states = {name: [*model[name].states, *new] for name, new in unseen.items()}
            model = fit(observed.with_values(states), data, **options)
        return model

    def learn_online(
        self,
        always_set: Collection[str],
        targets: Iterable[str],
        can_observe: tuple[str, ...] | None,
        prior: Any,
    ) -> tuple[CausalModel, tuple[str, ...] | None]:
        """The model with the graph and the values but unknown CPTs, and the variables that can be observed.

        It contains only ancestors of `targets`, the context and the reward's parents, and these variables themselves.
        """
        from causalbandits.fitting import prior_model

        graph = self._relevant(self.graph, [*targets, *self.context, *self.manipulable])
        graph = _cut_hidden_causes(graph, always_set)
        hidden = [name for name in graph.hidden if isinstance(name, str)]
        parents, states = dict(graph.parents), dict(graph.states)
        for group in graph.groups:
            name = f"unobserved confounder of {', '.join(group)}"
            hidden.append(name)
            parents = {effect: (*causes, name) if effect in group else causes for effect, causes in parents.items()}
        states |= dict.fromkeys(hidden, (0, 1))
        missing = [name for name in parents if name not in states and name not in hidden]
        if can_observe is not None:
            unobservable = [n for n in missing if n not in (*can_observe, *self.manipulable, *self.context)]
            states |= dict.fromkeys(unobservable, (0, 1))
            missing = [name for name in missing if name not in unobservable]
        if missing:
            raise self._missing_values_error(missing)
        if hidden:
            observable = tuple(name for name in graph.names if name not in hidden)
            can_observe = observable if can_observe is None else tuple(n for n in can_observe if n not in hidden)
        model = prior_model({name: list(causes) for name, causes in parents.items()}, values=states, prior=prior)
        return model, can_observe

    def _missing_values_error(self, missing: Sequence[str]) -> ProblemError:
        """The error that variables lack values; the message shows how to pass them."""
        settable = [name for name in missing if name in self.manipulable]
        observed = [name for name in missing if name not in self.manipulable]
        entries = [("manipulable", settable), ("values", observed)]
        examples = [
            f"{entry}={{{', '.join(f'{name!r}: [...]' for name in names)}}}" for entry, names in entries if names
        ]
        never = (
            f" Or mark a variable that is never observed: {observed[0]!r} [hidden] in the graph." if observed else ""
        )
        return ProblemError(
            "Learning CPTs online requires the values of every variable between the manipulable variables and the "
            f"reward. Missing: the values of {', '.join(map(repr, missing))}. Pass {' and '.join(examples)}, or data= "
            f"with these values.{never}",
            path=("manipulable" if settable else "values",),
        )

    def structure(self) -> CausalGraph | None:
        """The graph with the reward in it; None if it lacks the reward."""
        return self.graph if self.reward in self.graph.parents else None

    def _after_reward(self) -> set[str]:
        """The reward and its effects."""
        if self.reward is None or self.reward not in self.graph.parents:
            return set()
        effects = nx.descendants(self.graph.graph, self.reward)
        return {self.reward, *(name for name in effects if isinstance(name, str))}

    def _relevant(self, graph: CausalGraph, targets: Iterable[str]) -> CausalGraph:
        """The graph without the reward, its effects, and variables that are not ancestors of the targets."""
        after = self._after_reward()
        reward_parents = () if self.reward not in graph.parents else graph.parents[str(self.reward)]
        ends = {name for name in (*targets, *reward_parents) if name in graph.parents and name not in after}
        kept = ends.union(*(nx.ancestors(graph.graph, name) for name in ends))
        return _without(graph, [name for name in graph.parents if name not in kept or name in after])


def _without(graph: CausalGraph, names: Collection[str]) -> CausalGraph:
    """The graph without some variables, none of which is a cause of another variable."""
    if not names:
        return graph
    parents = {
        name: [cause for cause in causes if cause not in names]
        for name, causes in graph.parents.items()
        if name not in names
    }
    groups = [tuple(name for name in group if name not in names) for group in graph.groups]
    hidden = [part for part in graph.hidden if isinstance(part, str) and part not in names]
    return CausalGraph(
        parents,
        hidden=[*hidden, *dict.fromkeys(group for group in groups if len(group) > 1)],
        values={name: domain for name, domain in graph.states.items() if name in parents},
    )


def _cut_hidden_causes(graph: CausalGraph, always_set: Collection[str]) -> CausalGraph:
    """The graph without unobserved causes of variables that every action sets, because no action leaves them any
    effect.
    """
    hidden = {part for part in graph.hidden if isinstance(part, str)}
    parents = {
        name: [cause for cause in causes if name not in always_set or cause not in hidden]
        for name, causes in graph.parents.items()
    }
    groups = [tuple(name for name in group if name not in always_set) for group in graph.groups]
    return CausalGraph(
        parents,
        hidden=[*hidden, *dict.fromkeys(group for group in groups if len(group) > 1)],
        values=graph.states,
    )


def _is_structure_learned(source: Knowledge | None, known: str | None, values: Values | None) -> bool:
    """Whether the structure is learned: there is no graph, or one that is known partly."""
    if known not in (None, "partly"):
        raise ProblemError(f"known must be 'partly', or left out for a graph that is right; got {known!r}.")
    if known is None:
        return source is None and values is not None
    if not isinstance(source, CausalGraph):
        kind = "no graph" if source is None else "a model"
        raise ProblemError(f"known='partly' is for a graph without CPTs; there is {kind}. Leave known= out.")
    if source.hidden:
        raise ProblemError(
            "known='partly' is for graphs without unobserved variables and bidirected edges: structure is learned from "
            "observed variables alone. Leave them out of the graph, and declare confounders of the reward with latent=."
        )
    return True


def _learn_structure(
    source: CausalGraph | None,
    reward: str | None,
    manipulable: Manipulable,
    context: Context,
    values: Values | None,
    max_parents: int | None,
    tiers: Iterable[Iterable[str]] | None,
    require_edges: Edges | None,
    forbid_edges: Edges | None,
    latent: Edges | None,
) -> Source:
    """The knowledge where the structure is learned: variables and their values, and the candidate parent sets."""
    if reward is None:
        raise ProblemError("Name the reward: reward='sale'.")
    domains: dict[str, Iterable[State]] = {} if source is None else dict(source.states)
    domains |= _mapping("values", values)
    domains |= dict(context) if isinstance(context, Mapping) else {}
    domains |= {k: v for k, v in dict(manipulable).items() if v is not None} if isinstance(manipulable, Mapping) else {}
    before = (*context, *manipulable)
    if reward in domains:
        raise ProblemError(f"values= must not contain the reward {reward!r}: its values need no declaration.")
    names = [name for name in domains if name not in before]
    if source is not None:
        after = {reward, *nx.descendants(source.graph, reward)} if reward in source.parents else {reward}
        topological = [name for name in nx.topological_sort(source.graph) if name not in after and name not in before]
        names = [*topological, *(name for name in names if name not in topological)]
    missing = [name for name in (*before, *names) if name not in domains]
    if missing:
        raise ProblemError(f"No values are known of {', '.join(map(repr, missing))}: name them in values=.")
    observed = names if tiers is None else _order_by_tiers(tiers, names)
    prior = build_structure_prior(
        reward,
        tuple(context),
        tuple(manipulable),
        observed,
        max_parents=max_parents,
        require_edges=require_edges,
        forbid_edges=forbid_edges,
        given=None if source is None else dict(source.parents),
        latent=latent,
    )
    parents: dict[str, list[str]] = {name: [] for name in before}
    parents |= {name: list(before) for name in observed}
    parents[reward] = [*before, *observed]
    graph = CausalGraph(parents, values={name: tuple(domains[name]) for name in (*before, *observed)})
    count_structure_cells(prior, {name: len(graph.states[name]) for name in (*before, *observed)})
    return Source(graph, None, manipulable, context, (), None, prior)


def _order_by_tiers(tiers: Iterable[Iterable[str]], names: list[str]) -> list[str]:
    """The observed variables in the order of the tiers, each of which lists some of them."""
    if isinstance(tiers, str) or not is_iterable(tiers):
        raise ProblemError(f"tiers must list lists of variables, such as [['subject'], ['page']]; got {tiers!r}.")
    ordered = []
    for tier in tiers:
        if isinstance(tier, str) or not is_iterable(tier):
            raise ProblemError(f"Each of tiers must be a list of variables; got {short_repr(tier)}.")
        ordered += [str(name) for name in tier]
    for name in ordered:
        if name not in names:
            raise ProblemError(unknown_name_message("variable in tiers:", name, names))
    if sorted(ordered) != sorted(names):
        missing = [name for name in names if name not in ordered] or [name for name in names if ordered.count(name) > 1]
        raise ProblemError(f"tiers must list every observed variable once; see {', '.join(map(repr, missing))}.")
    return ordered


def graph_of_manipulable(manipulable: Manipulable, context: Context, reward: str | None) -> CausalGraph:
    """The graph of a problem without one: every manipulable variable, and the context, is a cause of the reward."""
    if not isinstance(manipulable, Mapping):
        raise ProblemError(
            "Without a graph, manipulable= must map each variable to its values, such as {'price': [9, 12]}; got "
            f"{short_repr(manipulable)}."
        )
    if reward is None:
        raise ProblemError("The reward is missing. Pass its name, such as reward='sale'.")
    return CausalGraph({**{name: [] for name in (*manipulable, *context)}, reward: [*manipulable, *context]})


def _mapping(name: str, values: object) -> Mapping[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ProblemError(f"{name} must map variables to their values, such as {{'x': [0, 1]}}; got {values!r:.200}.")
    return values
