"""The causal bandit problem as known to a learner: the graph, the actions and P(z | do(a)), but not the reward."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from causalbandits._cache import BoundedCache, Cached
from causalbandits._random import Seed
from causalbandits._typing import Array, Codes, Z
from causalbandits.errors import (
    InterventionError,
    ProblemError,
    ProblemWarning,
    SizeError,
    StateError,
    unknown_name_message,
    warn,
)
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    DirichletPosterior,
    Intervention,
    Knowledge,
    LatentModel,
    State,
    Variable,
    as_causal_graph,
)
from causalbandits.model.graph import ancestors
from causalbandits.problem.actions import (
    Action,
    ActionConstraint,
    ActionSpace,
    Choices,
    Costs,
    Manipulable,
    Prices,
    format_count,
)
from causalbandits.problem.candidates import (
    AllActions,
    CandidateSet,
    ListedActions,
    Reduction,
    candidates_by_structure,
    reduce_space,
)
from causalbandits.problem.chance_constraints import (
    ChanceConstraints,
    Limits,
    format_event,
    parse_structure_limits,
)
from causalbandits.problem.contexts import Contexts
from causalbandits.problem.inference import (
    DRAW_BATCH_SIZE,
    ENTRY_LIMIT,
    Block,
    ConditionedBlocks,
    ConditionedDistricts,
    build_conditioned_blocks,
    has_support,
    joint_distribution,
)
from causalbandits.problem.projection import Projection, compatible_configurations
from causalbandits.problem.separators import encode_context, format_names
from causalbandits.problem.situation import EligibleSituations, Situation
from causalbandits.problem.sources import Context, Source, Values, load_source
from causalbandits.problem.spec_reader import SpecReader, SpecTerms, load_spec
from causalbandits.problem.specification import (
    Specification,
    decode_specification,
    first_difference,
    parse_specification,
)
from causalbandits.problem.structure_prior import Edges, StructurePrior, refuse_unset_variables

if TYPE_CHECKING:
    from causalbandits.fitting import Bins, Interventions

CONDITIONED_CACHE_SIZE, CONDITIONED_CACHE_CONFIGURATIONS = 2**12, 2**24
"""The largest number of cached conditioned problems, and of their configurations together."""

SUPPORT_CACHE_SIZE = 2**12
"""The number of cached pairs of an action and a configuration whose support was checked."""


PUBLIC_ATTRIBUTES = (
    "actions", "can_observe", "condition", "configurations", "context", "cost", "costs", "fingerprint", "from_record",
    "from_spec", "graph", "manipulable", "model", "must_observe", "noise_scale", "parent_distribution", "parents",
    "reduction", "reward", "reward_range", "structure_prior", "to_record", "unit", "with_model",
)  # fmt: skip
"""The attributes of a problem that are documented for users; the others are for the library's own modules."""


class CredibleInterval(NamedTuple):
    """The mean of an uncertain distribution, entry by entry, with the limits of credible intervals."""

    mean: Array
    lower: Array
    upper: Array


class Problem(Cached):
    """A causal bandit problem: the graph, the actions and the reward's parents, without the rewards themselves.

    >>> problem = Problem(
    ...     "purpose -> subject -> click; send_time -> click",
    ...     reward="click",
    ...     manipulable={"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
    ...     values={"subject": ["short", "long"]},
    ... )
    >>> problem
    Problem(4 actions on purpose, send_time; 4 configurations of subject, send_time; observe subject; CPTs are learned \
online)

    Every manipulable variable is set in every decision, unless `optional` says otherwise. If the reward is a node of
    the graph, its parents are read off the graph. Policies search only the actions that can be optimal for some reward
    (see `reduction`). An action is judged by its mean reward minus its cost; rewards are reported without subtracting
    costs.

    Args:
        knowledge: The graph: a text (`a -> b; {a, b} -> c; a <-> c`), a mapping from each variable to its causes, a
            `networkx.DiGraph`, a `CausalGraph`, or the path of a file (.dot, also dagitty's; .bif; .json). Or a model
            with CPTs: a `CausalModel`, or the result of `fit`. None if no graph is known: with `values`, the structure
            is learned, and otherwise one mean per action.
        reward: The name of the outcome. Its parents are read off the graph if it is a node of the graph. It needs
            neither a data column nor values.
        manipulable: The variables that a decision sets: their names, or a mapping from each name to the values that it
            may be set to (None for all values).
        reward_parents: The direct causes of a reward that is not a node of the graph. If the reward is a node, they are
            checked to d-separate it from every intervention. An empty list learns one mean per action instead; only
            actions that can be the only optimal one by the graph are kept (POMIS, see `CausalGraph.optimal_sets`).
        values: The values of variables that are observed and not set, by name. Default: those found in `data` or in the
            model.
        data: Past data in any form that `fit` accepts; the CPTs are then estimated from it. Without data, the CPTs of a
            graph are learned online.
        bins: The bins of numeric columns of `data`, as for `fit`.
        interventions: The variables that were set in each row of `data`, as for `fit`. Default: none were.
        missing: The treatment of missing values in `data`, as for `fit`: "refuse" (default), "drop" or "em".
        prior: The pseudo-count of every CPT entry, as for `fit`. Default: 1.
        context: The variables whose values may be known before a decision, as a list of names or a mapping from names
            to values. No action may change them. Given the parents, the reward must not depend on them; this is checked
            if the reward is a node of the graph, and assumed otherwise. Default: none.
        optional: The manipulable variables that an action may also leave to their natural mechanism, or True for all of
            them (`do()` is then an action, too). Default: none. A warning says where leaving a variable unset may be
            optimal.
        max_set: The largest number of variables that one action sets. A value below the number of manipulable variables
            makes all of them optional. Default: no limit.
        actions: An explicit list of actions, each a mapping from variables to values. Default: all combinations.
        forbid: A function of an `Intervention` that returns True for actions to remove. Default: none are removed.
        reduce: Whether policies skip actions that cannot be optimal for any reward. Default: True.
        costs: The cost of setting a variable, or of setting it to each value, in units of the reward, such as
            `{"product": 0.02, "send_time": {"morning": 0.01}}`. Everything else costs 0.
        max_probability: Chance constraints: upper limits on the probability of values, such as `{"complaint": {"yes":
            0.01}}`. A number alone is the limit for the value 1 of a variable with values 0 and 1. If CPTs were
            estimated from data, or the structure is learned, the constraint must hold with posterior probability 0.95.
            In a context it limits P(. | do(a), c). Where the structure is learned, the variables must be observed ones.
        adjust: "smallest" replaces the reward's parents by the adjustment set with the fewest configurations among
            `can_observe`. Default: the parents are used.
        can_observe: The variables that can be observed. Where CPTs are learned online, all others except the
            manipulable ones and the context are marginalised out. Default: all variables except the reward.
        reward_range: Declared bounds of every reward, such as `(0, 1)`; rewards outside are refused. Stopping rules
            with a guaranteed error probability need this or `noise_scale`. Default: no bounds are declared.
        noise_scale: The declared sub-Gaussian scale of rewards given the parents, in units of the reward. Default: none
            is declared.
        known: "partly" makes the graph half of a prior over structures, instead of a constraint. Default: the graph is
            taken as correct.
        max_parents: The largest candidate parent set, if the structure is learned. Default: 4.
        tiers: The order of the observed variables, if the structure is learned: lists of variables, the earliest first.
            Default: the order of `values`, or that of the graph.
        require_edges: Pairs of a cause and an effect that the learned structure has. Default: none.
        forbid_edges: Pairs of a cause and an effect that the learned structure lacks. Default: none.
        latent: Pairs of variables that may share an unobserved cause, such as `[("template", "click")]`, if the
            structure is learned. The reward is then estimated without the observed variables of these pairs and without
            those that they may affect, which come later in the order. Default: no unobserved variable affects an
            observed variable and the reward.

    Attributes:
        actions: The action space.
        manipulable: The manipulable variables, in order.
        parents: The reward's parents (or the adjustment set), whose joint values are called configurations.
        configurations: The number of configurations.
        reward: The name of the outcome; None if it has none.
        can_observe: The variables that were declared observable; empty if none were.
        costs: The costs of actions; None if no action has a cost.
        context: The variables whose values may be known before a decision.
        reward_range: The declared bounds of every reward; None if there are none.
        noise_scale: The declared sub-Gaussian scale of rewards given the parents; None if there is none.
        structure_prior: The candidate parent sets, if the structure is learned; otherwise None.

    Raises:
        ProblemError: If the arguments do not form a problem, such as constraints that no action meets.
        NotIdentifiedError: If P(z | do(a)) is not identified because of unobserved confounders.
        ModelError: If the graph is malformed or has a cycle.
        DataError: If `data` cannot be read or does not fit the graph.
        FormatError: If a file with the graph cannot be read or does not follow its format.
        SizeError: If the problem is too large to enumerate.
    """

    knowledge: Knowledge
    """The graph with its CPTs, the graph with the CPTs of its observed variables, or the graph alone."""
    actions: ActionSpace
    manipulable: tuple[str, ...]
    parents: tuple[str, ...]
    shape: tuple[int, ...]
    """The number of values of each parent."""
    configurations: int
    """The number of configurations of the parents: the product of `shape`."""
    blocks: tuple[Block, ...]
    """The factors of P(z | do(a)): groups of parents that are independent of each other under every action."""
    reward: str | None
    can_observe: tuple[str, ...]
    """The variables that were declared observable; empty if none were."""
    reduce: bool
    costs: Costs | None
    """The costs of actions; None if no action has a cost."""
    context: tuple[str, ...]
    """The variables whose values may be known before a decision."""
    reward_range: tuple[float, float] | None
    """The declared bounds of every reward."""
    noise_scale: float | None
    """The declared sub-Gaussian scale of rewards given the parents."""
    structure_prior: StructurePrior | None
    context_codes: Z | None
    """The codes of the context, -1 for unknown values; None if no value is known."""
    context_codes_by_name: dict[str, int]
    """The codes of the known context values, by name."""
    unconditional: Problem
    """The problem without known values of the context."""
    _conditioned_blocks: ConditionedBlocks | ConditionedDistricts | None

    def __init__(
        self,
        knowledge: Any,
        *,
        reward: str | None = None,
        manipulable: Manipulable,
        reward_parents: Iterable[str] | None = None,
        values: Values | None = None,
        data: Any = None,
        bins: Bins | None = None,
        interventions: Interventions = None,
        missing: Literal["refuse", "drop", "em"] = "refuse",
        prior: Any = 1.0,
        context: Context = (),
        optional: Iterable[str] | bool | None = None,
        max_set: int | None = None,
        actions: Iterable[Mapping[str, State]] | None = None,
        forbid: Callable[[Intervention], bool] | None = None,
        reduce: bool = True,
        costs: Prices | None = None,
        max_probability: Limits | None = None,
        adjust: Literal["smallest"] | None = None,
        can_observe: Iterable[str] | None = None,
        reward_range: tuple[float, float] | None = None,
        noise_scale: float | None = None,
        known: Literal["partly"] | None = None,
        max_parents: int | None = None,
        tiers: Iterable[Iterable[str]] | None = None,
        require_edges: Edges | None = None,
        forbid_edges: Edges | None = None,
        latent: Edges | None = None,
    ) -> None:
        source = load_source(
            knowledge,
            reward=reward,
            manipulable=manipulable,
            reward_parents=reward_parents,
            values=values,
            data=data,
            bins=bins,
            interventions=interventions,
            missing=missing,
            prior=prior,
            context=context,
            optional=optional,
            max_set=max_set,
            actions=actions,
            max_probability=max_probability,
            can_observe=can_observe,
            known=known,
            max_parents=max_parents,
            tiers=tiers,
            require_edges=require_edges,
            forbid_edges=forbid_edges,
            latent=latent,
        )
        self._specify(
            source,
            reward=reward,
            optional=optional,
            max_set=max_set,
            actions=actions,
            forbid=forbid,
            reduce=reduce,
            costs=costs,
            max_probability=max_probability,
            adjust=adjust,
            reward_range=reward_range,
            noise_scale=noise_scale,
            stacklevel=3,
        )

    def _specify(
        self,
        source: Source,
        *,
        reward: str | None = None,
        optional: Iterable[str] | bool | None = None,
        max_set: int | None = None,
        actions: Iterable[Mapping[str, State]] | None = None,
        forbid: Callable[[Intervention], bool] | None = None,
        reduce: bool = True,
        costs: Prices | None = None,
        max_probability: Limits | None = None,
        adjust: Literal["smallest"] | None = None,
        reward_range: tuple[float, float] | None = None,
        noise_scale: float | None = None,
        stacklevel: int,
    ) -> None:
        """Set up the problem of a source."""
        specification = parse_specification(
            source.knowledge,
            manipulable=source.manipulable,
            reward=reward,
            reward_parents=source.reward_parents,
            adjust=adjust,
            can_observe=source.can_observe,
            optional=optional,
            max_set=max_set,
            actions=actions,
            forbid=forbid,
            reduce=reduce,
            costs=costs,
            max_probability=None if source.structure_prior is not None else max_probability,
            context=source.context,
            structure=source.structure,
            stacklevel=stacklevel,
        ).declare(reward_range, noise_scale)
        prior = source.structure_prior
        if prior is not None:
            refuse_unset_variables(specification.actions)
        if prior is not None and max_probability is not None:
            limits = parse_structure_limits(as_causal_graph(source.knowledge), prior.observed, max_probability)
            prior = prior._replace(limits=limits)
        specification = specification._replace(structure_prior=prior)
        self._set_up(specification)
        _warn_of_ineffective_variables(specification.idle, self.parents, stacklevel + 1)

    @classmethod
    def from_spec(
        cls,
        spec: Mapping[str, Any] | str | os.PathLike[str],
        *,
        folder: str | os.PathLike[str] | None = None,
        terms: SpecTerms | None = None,
    ) -> Problem:
        """The problem of a specification: a TOML or JSON file, or a mapping with its entries.

        >>> Problem.from_spec({
        ...     "graph": "purpose -> subject -> click; send_time -> click",
        ...     "reward": "click",
        ...     "manipulable": {"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
        ...     "values": {"subject": ["short", "long"]},
        ... })
        Problem(4 actions on purpose, send_time; 4 configurations of subject, send_time; observe subject; CPTs are \
learned online)

        The service, the command line and this method read specifications by the same code. Its JSON schema is
        `cb.problem.problem_schema()`.

        Args:
            spec: The path of a .toml or .json file, or a mapping with the entries: `graph` (a text, a mapping from each
                variable to its causes, or the name of a file) or `model` (the name of a file, or its content in JSON),
                and the arguments of `Problem` except `forbid`.
            folder: The folder of the files that the specification names. Default: the folder of the specification's
                file, or the working directory for a mapping.
            terms: The words by which error messages name entries. Default: those of the file format.

        Returns:
            The problem.

        Raises:
            CausalBanditsError: If an entry is unknown or malformed; `path` has the keys of the entry.
        """
        entries, spec_folder = load_spec(spec, folder)
        terms = terms or SpecTerms()
        reader = SpecReader(entries, spec_folder, terms)
        with terms.translate_errors():
            source = load_source(**reader.source_arguments())
            problem = cls.__new__(cls)
            problem._specify(**reader.action_arguments(source), stacklevel=3)
        return problem

    def _set_up(
        self, specification: Specification, context_codes: Z | None = None, unconditional: Problem | None = None
    ) -> Problem:
        """Set the attributes from the specification."""
        self._specification = specification
        self.knowledge, self.actions, self.parents, self.reward, self.can_observe, self.reduce = specification[:6]
        self.costs, self.context = specification.costs, specification.context
        self.reward_range, self.noise_scale = specification.reward_range, specification.noise_scale
        self.structure_prior = specification.structure_prior
        self.manipulable = self.actions.names
        self.shape = tuple(len(self.knowledge[name].states) for name in self.parents)
        self.configurations = math.prod(self.shape)
        self.context_codes = context_codes
        self.context_codes_by_name = dict(_codes_by_name(self.context, context_codes))
        self.unconditional = self if unconditional is None else unconditional
        self._conditioned_blocks = (
            _build_blocks(specification) if unconditional is None else unconditional._conditioned_blocks
        )
        self.blocks = () if self._conditioned_blocks is None else self._conditioned_blocks(self.context_codes_by_name)
        if unconditional is None and isinstance(self._conditioned_blocks, ConditionedDistricts):
            self._conditioned_blocks.validate_context(self.context)
        self._conditioned_cache: BoundedCache[Z, Problem] = BoundedCache(
            max(16, min(CONDITIONED_CACHE_SIZE, CONDITIONED_CACHE_CONFIGURATIONS // self.configurations))
        )
        self._conditioned_by_values: BoundedCache[frozenset[tuple[str, State]], Problem] = BoundedCache(
            CONDITIONED_CACHE_SIZE
        )
        self._eligible_situations = EligibleSituations()
        return self

    def __dir__(self) -> list[str]:
        """The attributes for users, for completion in a shell or an editor."""
        return sorted({*PUBLIC_ATTRIBUTES, *(name for name in super().__dir__() if name.startswith("_"))})

    def __repr__(self) -> str:
        costs = "" if self.costs is None else f"; costs on {format_names(self.costs.names)}"
        context = f"; context {format_names(self.context)}" if self.context else ""
        context_values = f", known: {self.contexts.format_context(self.context_codes)}" if self.context_codes else ""
        actions = f"{format_count(self.actions.size)} actions on {format_names(self.manipulable)}"
        if self.structure_prior is not None:
            observed = format_names(self.structure_prior.observed) if self.structure_prior.observed else "nothing"
            return f"Problem({actions}; observe {observed}; the structure is learned{costs}{context}{context_values})"
        if self.unit == "actions":
            return f"Problem({actions}; a mean per action is learned{costs}{context}{context_values})"
        observe = f"; observe {format_names(self.must_observe)}" if self.must_observe else ""
        learned = "; CPTs are learned online" if self.unknown_cpts else ""
        return (
            f"Problem({actions}; "
            f"{format_count(self.configurations)} configurations of "
            f"{format_names(self.parents)}{costs}{context}{context_values}{observe}{learned})"
        )

    @property
    def reward_node(self) -> str | None:
        """The reward, if it is a node of the model's graph; otherwise None."""
        return self.reward if self.reward in self.graph.parents else None

    # The knowledge, and the encoding of configurations z of the parents.

    @property
    def model(self) -> CausalModel:
        """The causal model with its CPTs; a `ProblemError` is raised if the CPTs are not known."""
        if isinstance(self.knowledge, LatentModel):
            raise ProblemError(
                "This problem has unobserved confounders, and so no CausalModel with a CPT per variable. Use a policy "
                "that neither learns nor tests CPTs, such as 'c-ts(prior=beta)'."
            )
        if isinstance(self.knowledge, CausalGraph):
            raise ProblemError(
                "This problem has a graph without CPTs and learns a mean per action, so P(z | do(a)) is not available. "
                "Pass data= or a model to Problem."
            )
        return self.knowledge

    @property
    def posterior(self) -> DirichletPosterior | None:
        """The posterior of the CPTs, if they were estimated; None if they are given or unknown."""
        return None if isinstance(self.knowledge, CausalGraph) else self.knowledge.posterior

    @cached_property
    def graph(self) -> CausalGraph:
        """The causal graph."""
        return as_causal_graph(self.knowledge)

    @property
    def graph_with_reward(self) -> CausalGraph:
        """The graph with the reward in it, also if the model has no CPT of the reward; `graph` if it lacks the
        reward.
        """
        structure = self._specification.structure
        return self.graph if structure is None else structure

    @property
    def unit(self) -> Literal["configurations", "actions"]:
        """The unit for which a mean reward is learned: "configurations" of the parents, or "actions" if there are no
        parents.
        """
        return "configurations" if self.parents else "actions"

    def require_parents(self, subject: str) -> None:
        """Raise an error if the problem has no parents, for a subject that needs them."""
        if self.structure_prior is not None:
            raise ProblemError(
                f"{subject} requires a graph, and this problem has none: the structure is learned. Create a problem "
                "with a graph, such as the learned one, agent.structure().graph()."
            )
        if self.unit == "actions":
            raise ProblemError(
                f"{subject} requires the reward's parents, and this problem has none: it learns a mean per action "
                "(reward_parents=[])."
            )

    def variable(self, name: str) -> Variable:
        """A variable by its name, with its states."""
        return self.knowledge[name]

    def configuration(self, z: Sequence[int]) -> int:
        """The number of a configuration; the last parent changes fastest."""
        number = 0
        try:
            for size, code in zip(self.shape, z, strict=True):
                if not 0 <= code < size:
                    raise IndexError
                number = number * size + code
            return index(number)
        except (TypeError, ValueError, IndexError, ArithmeticError):
            raise ProblemError(
                f"A configuration has one code per parent, each below {list(self.shape)}; got {z!r}."
            ) from None

    @cached_property
    def parent_names(self) -> frozenset[str]:
        """The `parents` as a set, for look-ups."""
        return frozenset(self.parents)

    @cached_property
    def _parent_codes(self) -> tuple[tuple[str, dict[State, int]], ...]:
        """Each parent with the code of each of its values."""
        return tuple(
            (name, {state: code for code, state in enumerate(self.variable(name).states)}) for name in self.parents
        )

    @cached_property
    def manipulable_parents(self) -> tuple[tuple[int, str, tuple[State, ...]], ...]:
        """Each parent that an action may set: its position among the manipulable variables, its name, its states."""
        return tuple(
            (k, name, self.variable(name).states)
            for k, name in enumerate(self.manipulable)
            if name in self.parent_names
        )

    def encode_parents(self, values: Mapping[str, State]) -> tuple[int, ...]:
        """The parents' values as codes; exactly the parents must be given."""
        if type(values) is not dict and not isinstance(values, Mapping):
            raise ProblemError(f"The parents' values must be a mapping from each parent to its value; got {values!r}.")
        if values.keys() != self.parent_names:
            for name in values:
                if name not in self.parents:
                    raise ProblemError(unknown_name_message("parent", name, self.parents))
            missing = [name for name in self.parents if name not in values]
            raise ProblemError(f"Every parent must be observed; missing: {', '.join(map(repr, missing))}.")
        try:
            return tuple([codes[values[name]] for name, codes in self._parent_codes])
        except (KeyError, TypeError):
            return tuple([self.variable(name).code(values[name]) for name in self.parents])  # raises the error

    def decode_parents(self, z: Sequence[int]) -> dict[str, State]:
        """The parents' values from their codes."""
        self.configuration(z)
        return {name: self.variable(name).states[code] for name, code in zip(self.parents, z, strict=True)}

    # The context: the variables that may be known before a decision, and conditioning on them.

    @cached_property
    def contexts(self) -> Contexts:
        """The contexts with their probabilities, given the known values."""
        return Contexts(self.knowledge if self.context else None, self.context, self.context_codes)

    @cached_property
    def context_number(self) -> int | None:
        """The number of the context; 0 without context, None if it is not fully known."""
        return self.contexts.number(self.context_codes)

    @cached_property
    def known_parents(self) -> dict[str, State]:
        """The known values of parents, by name."""
        return {name: value for name, value in self.contexts.values(self.context_codes).items() if name in self.parents}

    @cached_property
    def can_occur(self) -> bool:
        """Whether the known values have positive probability."""
        return (
            self.context_codes is None
            or not self.contexts.has_probabilities
            or self.contexts.probability(self.context_codes) > 0.0
        )

    @property
    def context_distribution(self) -> Array:
        """P(c), one axis per variable of the context."""
        return self.contexts.distribution

    def condition(self, context: Mapping[str, State]) -> Problem:
        """The problem with known values of its context: P(z | do(a)) becomes P(z | do(a), c).

        Actions and configurations keep their numbers. Results are cached.

        Args:
            context: The known values by variable; all or some of the problem's context.

        Returns:
            The conditioned problem.

        Raises:
            InterventionError: If a value is unknown.
            ProblemError: If a variable is not part of the problem's context, or `context` is not a mapping.
        """
        try:
            key = frozenset(context.items())
            found = self._conditioned_by_values.get(key)
        except (AttributeError, TypeError):
            key, found = frozenset(), None
        if found is None:
            self._refuse_variables_outside_context(context)
            codes = encode_context(self.knowledge, self.context, context)
            found = self.condition_codes(self._merge_context_codes(codes)) if codes else self
            self._conditioned_by_values.store(key, found)
        return found

    def _refuse_variables_outside_context(self, context: Mapping[str, State]) -> None:
        """Raise an error for variables that were not declared as context, with the way to declare them."""
        for name in context if self.context and isinstance(context, Mapping) else ():
            if isinstance(name, str) and name in self.graph.parents and name not in self.context:
                raise ProblemError(
                    f"{name!r} is a variable of the graph, and not context. Declare it: Problem(..., "
                    f"context={[*self.context, name]})."
                )

    def condition_codes(self, codes: Z | None) -> Problem:
        """As `condition`, for codes: one per context variable, -1 for unknown values; None for no known values."""
        if codes is None or codes == self.context_codes:
            return self.unconditional if codes is None else self
        found = self.unconditional._conditioned_cache.get(codes)
        if found is None:
            view = Problem.__new__(Problem)._set_up(self._specification, codes, self.unconditional)
            found = self.unconditional._conditioned_cache.store(codes, view)
        return found

    def _merge_context_codes(self, codes: Mapping[str, int]) -> Z:
        before = self.context_codes or (-1,) * len(self.context)
        for name, code in zip(self.context, before, strict=True):
            if code >= 0 and codes.get(name, code) != code:
                known, told = (self.knowledge[name].states[i] for i in (code, codes[name]))
                raise ProblemError(f"{name!r} has the known value {known!r} in this context; got {told!r}.")
        return tuple([codes.get(name, code) for name, code in zip(self.context, before, strict=True)])

    # The actions: by number or intervention, their costs, the feasible ones, and the candidates of a search.

    @cached_property
    def all_actions(self) -> AllActions:
        """All actions, in the order of their numbers."""
        return AllActions(self.actions, self.blocks, self.shape)

    def choices(self, action: Action | Mapping[str, State] | int) -> Choices:
        """The choices of an action (an `Action`, its number or its intervention), one per manipulable variable."""
        if isinstance(action, Action):
            return action.choices
        if isinstance(action, Mapping):
            choices = self.actions.encode(action)
            self.actions.rank(choices)
            return choices
        return self.actions.choices(action)

    def cost(self, action: Action | Mapping[str, State] | int) -> float:
        """The cost of an action, in units of the reward.

        Args:
            action: The action: a mapping from variables to values, an `Action` or its number.

        Returns:
            The cost; 0 in a problem without costs.

        Raises:
            InterventionError: If the action is not part of the action space.
        """
        choices = self.choices(action)
        return 0.0 if self.costs is None else self.costs.cost_of(choices)

    @cached_property
    def requirements(self) -> ActionConstraint | None:
        """The constraints on actions, conditional on the context; None if there are none."""
        constraints = self.actions.requirements
        return (
            constraints.condition(self.context_codes_by_name)
            if self.context_codes and isinstance(constraints, ChanceConstraints)
            else constraints
        )

    @property
    def constrained_variables(self) -> tuple[str, ...]:
        """The variables with chance constraints."""
        if self.structure_prior is not None:
            return tuple(dict.fromkeys(limit.variable for limit in self.structure_prior.limits))
        constraints = self.requirements
        return (
            tuple(dict.fromkeys(part.variable.name for part in constraints.parts))
            if isinstance(constraints, ChanceConstraints)
            else ()
        )

    @cached_property
    def _feasible_or_empty(self) -> tuple[int, ...] | None:
        """The numbers of the actions that meet constraints depending on the context; None if all actions do."""
        if not self.context or not isinstance(self.requirements, ChanceConstraints):
            return None
        complies = self.requirements.are_satisfied(self.actions.array())
        return None if complies.all() else tuple(np.flatnonzero(complies).tolist())

    @property
    def has_actions(self) -> bool:
        """Whether any action is feasible in this context."""
        return self._feasible_or_empty is None or bool(self._feasible_or_empty)

    @property
    def infeasibility(self) -> str:
        """The reason why no action is feasible in this context; empty if some action is."""
        if self.has_actions or not isinstance(self.requirements, ChanceConstraints):
            return ""
        place = (
            f" where {self.contexts.format_context(self.context_codes)}"
            if self.context_codes
            else " if the context is unknown"
        )
        return self.requirements.explain_infeasibility(self.actions.array(), place)

    @property
    def _feasible(self) -> tuple[int, ...] | None:
        """As `_feasible_or_empty`; raises an error if there are none."""
        if not self.has_actions:
            raise ProblemError(self.infeasibility)
        return self._feasible_or_empty

    @property
    def is_restricted(self) -> bool:
        """Whether chance constraints exclude actions in this context."""
        return self._feasible is not None

    @cached_property
    def _candidates_and_reduction(self) -> tuple[CandidateSet, Reduction]:
        if self._feasible is not None:
            size, why = len(self._feasible), "the others violate the limits on outcomes"
            return ListedActions(self.all_actions, self._feasible), Reduction(
                self.actions, (), (), size, unreduced_reason=why
            )
        if self.unit == "actions":
            why = (
                ("according to the graph, each of them may be the only optimal action")
                if self.reduce
                else "reduce=False"
            )
            return self.all_actions, Reduction(self.actions, (), (), self.actions.size, unreduced_reason=why)
        why = (
            "the action set is a list"
            if self.actions.explicit_choices is not None
            else ""
            if self.reduce
            else "reduce=False"
        )
        if why:
            return self.all_actions, Reduction(self.actions, (), (), self.actions.size, unreduced_reason=why)
        return reduce_space(self.actions, self.blocks, self.shape, self.costs)

    @property
    def candidates(self) -> CandidateSet:
        """The actions that can be optimal for some reward, which causal policies search."""
        return self._candidates_and_reduction[0]

    def reduction(self) -> Reduction:
        """The actions that policies need not search, with the reasons.

        >>> from causalbandits import zoo
        >>> zoo.lower_bound(3, delta=0.1).problem.reduction()
        27 actions -> 2 that can be optimal for some reward.
        Not set, because they have no effect on the reward's parents: X2, X3.
        X1 -> X1: 3 choices, 2 kept.
          do() = 0.5 do(X1=1) + 0.5 do(X1=2)

        Returns:
            The reduction, which prints as text.
        """
        return self._candidates_and_reduction[1]

    # P(z | do(a)), exact or with the uncertainty of fitted CPTs.

    @property
    def projection(self) -> Projection:
        """Sums over P(z | a) for every action, in the order of their numbers."""
        self.require_parents("P(z | do(a))")
        return self.all_actions.projection

    def projection_of(self, choices: Choices) -> Projection:
        """Sums over P(z | a) for a single action, equal to `projection`'s in every bit."""
        self.require_parents("P(z | do(a))")
        rows = [block.row(tuple(choices[k] for k in block.manipulable))[None] for block in self.blocks]
        return Projection(rows, None, self.shape, self.blocks, all_pairs=True)

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[False] = False,
        confidence: float = ...,
        samples: int = ...,
        rng: Seed = ...,
    ) -> Array: ...

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[True],
        confidence: float = ...,
        samples: int = ...,
        rng: Seed = ...,
    ) -> CredibleInterval: ...

    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: bool = False,
        confidence: float = 0.95,
        samples: int = 1000,
        rng: Seed = 0,
    ) -> Array | CredibleInterval:
        """The distribution P(z | do(a)) of the reward's parents under an action.

        Args:
            action: The action: a mapping from variables to values, an `Action` or its number.
            interval: Whether to add credible limits of each probability; only for CPTs that were estimated. Default:
                False.
            confidence: The posterior probability with which each probability lies between its limits.
            samples: The number of posterior samples of the CPTs for the limits.
            rng: The seed or generator of the posterior samples.

        Returns:
            An array with one axis per parent; with `interval=True`, a tuple of three such arrays, `mean`, `lower` and
            `upper`.

        Raises:
            ProblemError: If the problem has no parents, if an interval is requested although the CPTs are exact, or if
                `confidence` or `samples` is out of range.
            SizeError: If there are too many configurations for one array.
        """
        self.require_parents("P(z | do(a))")
        choices = self.choices(action)
        if self.configurations > ENTRY_LIMIT:
            raise SizeError(
                f"The joint distribution of {len(self.parents)} parents has {format_count(self.configurations)} "
                f"entries; the limit is {ENTRY_LIMIT}. Use features, whose means require only the parents' marginals."
            )
        choices_by_block = [tuple(choices[k] for k in block.manipulable) for block in self.blocks]
        mean = self.joint([block.row(c)[None] for block, c in zip(self.blocks, choices_by_block, strict=True)])[0]
        if not isinstance(interval, bool):
            raise ProblemError(f"interval must be True or False; got {interval!r}.")
        if not interval:
            return np.asarray(mean)
        if self.posterior is None:
            raise ProblemError(
                "Intervals require a model fitted to data; this model is known exactly. Leave out interval=."
            )
        if not isinstance(confidence, float | int) or not 0 < confidence < 1:
            raise ProblemError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        if not isinstance(samples, int | np.integer) or samples < 2 or samples * self.configurations > ENTRY_LIMIT:
            raise ProblemError(
                f"samples must be a whole number, 2 or more, and {ENTRY_LIMIT // self.configurations} at most for "
                f"{self.configurations} configurations; got {samples!r}."
            )
        cpts = self.posterior.draw_cpts(int(samples), rng, stacklevel=3)
        sampled_joints = self.joint(
            [block.rows_under_models(cpts, c) for block, c in zip(self.blocks, choices_by_block, strict=True)]
        )
        lower, upper = np.quantile(sampled_joints, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
        return CredibleInterval(mean, lower, upper)

    def sample_block_distributions(self, action: Action, samples: int = 400) -> list[Array] | None:
        """Posterior samples of each block's P(z_b | do(a)) under fitted CPTs, one row each; None if the CPTs are
        exact.

        The seed is fixed, so that an interval based on the samples is reproducible.
        """
        if self.posterior is None:
            return None
        cpts = self.posterior.draw_cpts(samples, np.random.default_rng(0), stacklevel=3)
        return [block.rows_under_models(cpts, [action.choices[k] for k in block.manipulable]) for block in self.blocks]

    def sample_parent_distributions(self, action: Action) -> Array | None:
        """Posterior samples of P(z | do(a)), as in `sample_block_distributions`."""
        rows = self.sample_block_distributions(action, max(2, min(400, DRAW_BATCH_SIZE // self.configurations)))
        return None if rows is None else self.joint(rows).reshape(len(rows[0]), -1)

    def joint(self, rows: Sequence[Array]) -> Array:
        """The product of the blocks' distributions, given with one row per model: models, then the parents' axes."""
        return joint_distribution(self.blocks, self.shape, rows)

    def parent_distributions(self) -> Array:
        """P(z | do(a)) for all actions at once: one row per action, then one axis per parent."""
        size = self.actions.size * self.configurations
        if size > ENTRY_LIMIT:
            raise SizeError(
                f"{self.actions.size} actions x {self.configurations} configurations are {size} numbers; the limit is "
                f"{ENTRY_LIMIT}. Compute one action at a time, or use project(), which avoids this matrix."
            )
        table = np.ones((self.actions.size, 1))
        for b, rows in enumerate(self.projection.rows):
            table = (table[:, :, None] * rows[self.projection.row_of_action(b)][:, None, :]).reshape(len(table), -1)
        axes = [axis for block in self.blocks for axis in block.parents]
        by_block = table.reshape(-1, *(self.shape[axis] for axis in axes))
        return np.ascontiguousarray(by_block.transpose(0, *(1 + np.argsort(axes))))

    def probability(self, action: int, z: Sequence[int]) -> float:
        """P(z | do(a)) of one configuration z, given by the parents' codes."""
        self.configuration(z)
        choices = self.actions.choices(action)
        return math.prod([block.probability(choices, z) for block in self.blocks])

    def is_supported(self, action: Action, z: Sequence[int]) -> bool:
        """Whether P(z | do(a)) > 0; only blocks with impossible configurations are evaluated."""
        if not self._blocks_with_zeros:
            return True
        key = action.choices, tuple(z)
        answer = self._support_cache.get(key)
        if answer is not None:
            return answer
        blocks, choices = self._blocks_with_zeros, action.choices
        return self._support_cache.store(key, all(block.probability(choices, z) > 0.0 for block in blocks))

    @cached_property
    def _support_cache(self) -> BoundedCache[tuple[Choices, Z], bool]:
        return BoundedCache(SUPPORT_CACHE_SIZE)

    def is_jointly_supported(self, action: Action, observed: Mapping[str, int]) -> bool:
        """Whether P(observed | do(a)) > 0 for values of any variables, given by their codes; True if this is hard
        to decide.
        """
        if not isinstance(self.knowledge, CausalModel):
            return True
        return not self._has_zeros or has_support(self.model, self.model.codes(action.intervention), observed)

    @cached_property
    def _has_zeros(self) -> bool:
        return any(not v.table.all() for v in self.model.variables.values())

    @cached_property
    def cells(self) -> Codes | None:
        """The configurations that agree with known values of the parents; None if all do."""
        return compatible_configurations(self.shape, self.blocks)

    @cached_property
    def _blocks_with_zeros(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.may_be_zero())

    # Situations: the problem at the time of a decision.

    def situation(
        self,
        *,
        context: Mapping[str, State] | None = None,
        every: bool = False,
        any_cpts: bool = False,
        eligible: Iterable[Action | Mapping[str, State]] | None = None,
    ) -> Situation:
        """The knowledge before one decision, in which all actions are eligible, or only the `eligible` ones.

        `context` has the values of some or all of its variables. By default, the actions that can be optimal for some
        reward are searched; with `any_cpts`, those that can be optimal under some CPTs; with `every`, all feasible
        actions. Situations are cached.
        """
        if context is not None:
            return self.condition(context).situation(every=every, any_cpts=any_cpts, eligible=eligible)
        for name, value in (("every", every), ("any_cpts", any_cpts)):
            if not isinstance(value, bool):
                raise ProblemError(f"{name} must be True or False; got {value!r}.")
        if eligible is None:
            return (
                self._full_situation if every else self._structural_situation if any_cpts else self._candidate_situation
            )
        return self._eligible_situations.situation(self, eligible, any_cpts=any_cpts)

    @cached_property
    def _candidate_situation(self) -> Situation:
        return Situation(self, self.candidates)

    @cached_property
    def _full_situation(self) -> Situation:
        return Situation(self, self.all_actions if self._feasible is None else self.candidates)

    @cached_property
    def _structural_situation(self) -> Situation:
        if (
            self.constrained_variables
        ):  # compliance is unknown: an action may comply although the actions of its mixture do not
            return Situation(self, self.all_actions)
        if not self.reduce or self.actions.explicit_choices is not None:
            return self._full_situation
        return Situation(self, candidates_by_structure(self.actions, self.blocks, self.shape, self.costs))

    # The problem with other CPTs, comparison and records.

    def with_model(self, model: CausalModel | LatentModel) -> Problem:
        """The problem with other CPTs.

        Args:
            model: A model of the same kind, with the same graph and the same values.

        Returns:
            The problem with the CPTs of the model.

        Raises:
            ProblemError: If graph or values differ, or if the problem learns one mean per action.
            ModelError: If the model lacks a variable.
        """
        if self.unit == "actions":
            raise ProblemError(
                "A problem that learns a mean per action uses no CPTs. Create a new Problem with the model."
            )
        knowledge = self.knowledge
        kind = LatentModel if isinstance(knowledge, LatentModel) else CausalModel
        if not isinstance(model, kind):
            raise ProblemError(f"with_model() takes a model of the same kind, {kind.__name__}; got {model!r}.")
        if isinstance(model, LatentModel) and model.causal_graph != self.graph:
            raise ProblemError(f"with_model() takes the same graph and states; got one of {model.causal_graph!r}.")
        for name in self.model.names if isinstance(model, CausalModel) else ():
            if model[name].states != self.model[name].states or model[name].parents != self.model[name].parents:
                raise ProblemError(f"with_model() takes the same graph and states; {name!r} differs.")
        reweighted = Problem.__new__(Problem)._set_up(self._specification._replace(knowledge=model))
        return reweighted.condition_codes(self.context_codes)

    def with_structure(self, model: CausalModel, parents: Iterable[str]) -> Problem:
        """A problem whose structure is learned, if the structure were this model, with these parents of the reward.

        The actions, the costs and the context are the same.
        """
        specification = self._specification._replace(
            knowledge=model, parents=tuple(parents), structure=None, structure_prior=None
        )
        return Problem.__new__(Problem)._set_up(specification)

    @cached_property
    def unknown_cpts(self) -> tuple[str, ...]:
        """The variables between manipulable variables and parents whose CPTs are unknown, as after `without_cpts`."""
        knowledge, posterior = self.knowledge, self.posterior
        if not self.parents or not isinstance(knowledge, CausalModel) or posterior is None:
            return ()
        between = {name for block in self.blocks for name in block.names if block.manipulable}.difference(
            self.manipulable
        )
        return tuple(name for name in knowledge.order if name in between and posterior.is_unknown(name))

    @property
    def unknown_limits(self) -> tuple[str, ...]:
        """The limited probabilities that depend on unknown CPTs; only policies that learn CPTs can enforce these
        limits.
        """
        if self.structure_prior is not None:
            limits = self.structure_prior.limits
            return tuple(format_event(self.variable(limit.variable), limit.codes) for limit in limits)
        constraints = self.requirements
        parts = constraints.parts if isinstance(constraints, ChanceConstraints) else ()
        return tuple(str(part) for part in parts if part.is_unknown)

    @cached_property
    def must_observe(self) -> tuple[str, ...]:
        """The variables whose values must be reported with every outcome, unless the decision set them.

        These are the reward's parents. Where CPTs are learned online, they include the ancestors of the parents, of the
        context and of constrained variables. Variables that every action sets and the context are left out.

        >>> graph, values = "{k, u} -> m -> z -> y", {name: [0, 1] for name in "umz"}
        >>> Problem(graph, reward="y", manipulable={"k": [0, 1]}, values=values).must_observe
        ('z', 'u', 'm')
        >>> Problem(graph, reward="y", manipulable={"k": [0, 1]}, values=values, can_observe=["m", "z"]).must_observe
        ('z', 'm')
        """
        names = dict.fromkeys(self.parents if self.structure_prior is None else self.structure_prior.observed)
        if self.unknown_cpts:
            targets = (*self.parents, *self.context, *self.constrained_variables)
            on_the_way = ancestors(self.model.graph, targets)
            names |= dict.fromkeys(name for name in self.model.order if name in on_the_way)
        known = self.actions.variables_always_set().union(self.context)
        return tuple(name for name in names if name not in known)

    def without_cpts(self) -> Problem:
        """The problem with unknown CPTs (flat priors), for policies that learn them.

        >>> from causalbandits import zoo
        >>> zoo.email_campaign().problem.without_cpts().parent_distribution({"purpose": "Promo"})[0, :, 0].round(3)
        array([0.083, 0.083])
        """
        return self.compute_once("without CPTs", lambda: self.with_model(self.model.with_flat_prior()))

    def is_same_except_cpts(self, other: Problem) -> bool:
        """Whether another problem differs at most in the numbers of its CPTs."""
        return not self.first_difference(other)

    def first_difference(self, other: Problem) -> str:
        """The first difference from another problem, as text; empty if they differ at most in their CPTs."""
        return first_difference(self._specification, other._specification, self.context_codes, other.context_codes)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description from which `from_record` restores the problem."""
        return {
            **self._specification.to_record(),
            **({"known": list(self.context_codes)} if self.context_codes else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Problem:
        """The problem that `to_record` describes.

        Args:
            record: The description.

        Returns:
            The problem.

        Raises:
            StateError: If the record does not describe a problem.
        """
        if not isinstance(record, Mapping):
            raise StateError(f"Not the description of a problem: a mapping is needed, not {record!r}.")
        try:
            problem = cls.__new__(cls)._set_up(decode_specification(record))
            return problem.condition_codes(problem.contexts.parse_codes(record.get("known")))
        except KeyError as error:
            raise StateError(f"Not the description of a problem: {error} is missing.") from None
        except (TypeError, ProblemError, InterventionError) as error:
            raise StateError(f"Not the description of a problem: {str(error).rstrip('.')}.") from None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the problem: equal problems have equal fingerprints."""
        record = self.to_record()
        record.get("model", {}).pop("properties", None)  # remarks are ignored in comparisons of models
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _codes_by_name(context: tuple[str, ...], context_codes: Z | None) -> Iterator[tuple[str, int]]:
    """The known values of the context as codes, by name."""
    return ((name, code) for name, code in zip(context, context_codes or (), strict=False) if code >= 0)


def _build_blocks(specification: Specification) -> ConditionedBlocks | ConditionedDistricts | None:
    """The blocks of z as a function of the context; None if there are no parents or no CPTs."""
    if not specification.parents or isinstance(specification.knowledge, CausalGraph):
        return None
    return build_conditioned_blocks(specification.knowledge, specification.actions, specification.parents)


def _warn_of_ineffective_variables(manipulable: tuple[str, ...], parents: tuple[str, ...], stacklevel: int) -> None:
    if manipulable:
        warn(
            f"No path leads from {format_names(manipulable)} to the reward's parents, {format_names(parents)}, so "
            "interventions on these variables have no effect. Causal policies will not try them; other policies will "
            "waste rounds. Remove these variables from manipulable, or add the missing arrow.",
            ProblemWarning,
            stacklevel=stacklevel,
        )
