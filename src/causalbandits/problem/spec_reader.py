"""A problem as a document: the entries of a specification in TOML or JSON, their JSON schema, and their reader.

The file that `Problem.from_spec` reads, the options of the command line and the body of `POST /v1/studies` have the
same entries, which are the arguments of `Problem`. Errors name an entry in the terms of the interface (`SpecTerms`).
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import networkx as nx

from causalbandits._files import DuplicateKeyError, parse_json
from causalbandits._typing import is_real
from causalbandits.errors import CausalBanditsError, DataError, ProblemError, short_repr, unknown_name_message
from causalbandits.formats import read, read_json
from causalbandits.model import (
    LABEL_LIMIT,
    CausalGraph,
    CausalModel,
    Knowledge,
    LatentModel,
    State,
    Variable,
    as_causal_graph,
)
from causalbandits.problem.actions import LARGEST_PRICE
from causalbandits.problem.sources import Source, is_path, parse_knowledge

SCHEMA_ID = "urn:causalbandits:problem:1"

SPEC_SUFFIXES = (".toml", ".json")

EXPERIMENT_TABLES = ("environment", "simulation", "policies")
"""Sections that a file may have in addition to the problem: the environment and the settings of a simulation."""

# The entries: their JSON schemas, and an example of each.

_NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_EDGES = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
}
_STATE_TYPES = ["string", "number", "boolean"]
_STATE = {"type": _STATE_TYPES, "maxLength": LABEL_LIMIT}
_STATES = {"type": "array", "items": _STATE, "minItems": 1, "uniqueItems": True}
_COLUMN = {"type": "array", "items": {"type": [*_STATE_TYPES, "null"], "maxLength": LABEL_LIMIT}}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_PRICE = {"type": "number", "minimum": 0, "maximum": LARGEST_PRICE}


def _object_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


class SpecEntry(NamedTuple):
    """An entry of a specification."""

    description: str
    schema: Mapping[str, Any]
    example: Any


SPEC_ENTRIES: dict[str, SpecEntry] = {
    "graph": SpecEntry(
        "The causal graph: a text (a -> b; {a, b} -> c; a <-> c; or DOT), a mapping from each variable to its causes, "
        "or, in a file, the name of a .dot file. Without `graph` and `model` no graph is known: with `values`, the "
        "structure is learned; otherwise a mean per action is learned.",
        {"anyOf": [{"type": "string"}, {**_object_of(_NAMES), "minProperties": 1}]},
        "A, B -> C -> Y",
    ),
    "model": SpecEntry(
        "A causal model with CPTs, in place of a graph: the name of a .json, .bif or .xmlbif file, or the content of "
        "such a JSON file.",
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "model.json",
    ),
    "reward": SpecEntry("The outcome whose mean is maximised.", {"type": "string"}, "Y"),
    "reward_parents": SpecEntry(
        "The direct causes of a reward that is not in the graph. Empty: a mean per action is learned.",
        _NAMES,
        ["A", "B"],
    ),
    "manipulable": SpecEntry(
        "The variables that decisions set, each with the values that it may be set to; or their names alone, if the "
        "graph, the model or the data have their values.",
        {
            "anyOf": [
                {**_object_of({"anyOf": [_STATES, {"type": "null"}]}), "minProperties": 1},
                {**_NAMES, "minItems": 1},
            ]
        },
        ["A", "B"],
    ),
    "values": SpecEntry(
        "The values of observed variables that are not manipulable, if neither the graph nor the data have them.",
        _object_of(_STATES),
        {"C": ["x", "y"]},
    ),
    "context": SpecEntry(
        "The variables whose values may be known before a decision: their names, or a mapping from each to its values.",
        {"anyOf": [_NAMES, _object_of(_STATES)]},
        ["A"],
    ),
    "optional": SpecEntry(
        "Manipulable variables that a decision may leave to their natural mechanism; true for all.",
        {"anyOf": [_NAMES, {"type": "boolean"}]},
        ["A"],
    ),
    "max_set": SpecEntry(
        "The number of variables that a decision may set, at most.", {"type": "integer", "minimum": 1}, 2
    ),
    "actions": SpecEntry(
        "A list of the actions, in place of all combinations of values.",
        {"type": "array", "items": _object_of(_STATE), "minItems": 1, "uniqueItems": True},
        [{"A": "x"}, {"A": "x", "B": "y"}],
    ),
    "reduce": SpecEntry(
        "Whether causal policies search only the actions that can be optimal.", {"type": "boolean"}, False
    ),
    "costs": SpecEntry(
        "The cost of setting a variable, or of setting it to a value, in units of the reward.",
        _object_of({"anyOf": [_PRICE, _object_of(_PRICE)]}),
        {"A": 0.1, "B": {"x": 0.2}},
    ),
    "max_probability": SpecEntry(
        "Chance constraints: the largest allowed probability of a variable's value.",
        _object_of(_object_of({"type": "number", "minimum": 0, "exclusiveMaximum": 1})),
        {"C": {"y": 0.01}},
    ),
    "adjust": SpecEntry(
        "`smallest`: use the smallest adjustment set in place of the reward's parents.",
        {"const": "smallest"},
        "smallest",
    ),
    "can_observe": SpecEntry("The variables that can be observed.", _NAMES, ["A", "B"]),
    "reward_range": SpecEntry(
        "The declared bounds of every reward, the least and the largest.",
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        [0, 1],
    ),
    "noise_scale": SpecEntry("The declared sub-Gaussian scale of rewards, given the parents.", _POSITIVE, 0.5),
    "data": SpecEntry(
        "Past rows from which the CPTs of the graph are estimated: in a file, the name of a .csv or .parquet file; or "
        "a mapping from each variable to its column.",
        {"anyOf": [{"type": "string"}, _object_of(_COLUMN)]},
        "past.csv",
    ),
    "bins": SpecEntry(
        "Bins of numeric columns: the edges of the intervals, or the number of quantiles of the data.",
        _object_of(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 2},
                    {"type": "array", "items": {"type": "number"}, "minItems": 2, "uniqueItems": True},
                ]
            }
        ),
        {"age": [0, 30, 45, 60]},
    ),
    "interventions": SpecEntry(
        "The rows in which variables were set at random: the column that names them, or a mapping from each variable "
        "to a column of truth values.",
        {"anyOf": [{"type": "string"}, _object_of({"type": "array", "items": {"type": "boolean"}})]},
        "was_set",
    ),
    "missing": SpecEntry("Rows of the data with missing values.", {"enum": ["refuse", "drop", "em"]}, "drop"),
    "prior": SpecEntry(
        "The pseudo-count of every cell of every CPT, or a mapping from each variable to its pseudo-count; of "
        "CPTs that are estimated from data and, without data, of those that are learned online.",
        {"anyOf": [{"type": "number", "minimum": 0}, _object_of({"type": "number", "minimum": 0})]},
        1.0,
    ),
    "known": SpecEntry(
        "`partly`: the graph is a prior, and the structure is learned. Without it a given graph is taken for right.",
        {"const": "partly"},
        "partly",
    ),
    "max_parents": SpecEntry(
        "The largest candidate parent set, where the structure is learned. Default: 4.",
        {"type": "integer", "minimum": 0},
        3,
    ),
    "tiers": SpecEntry(
        "The order of the observed variables, where the structure is learned: lists of variables, the earliest first.",
        {"type": "array", "items": _NAMES},
        [["C"], ["D"]],
    ),
    "require_edges": SpecEntry(
        "Edges from a cause to an effect that the structure has, where it is learned.", _EDGES, [["A", "C"]]
    ),
    "forbid_edges": SpecEntry(
        "Edges from a cause to an effect that the structure lacks, where it is learned.", _EDGES, [["B", "C"]]
    ),
    "latent": SpecEntry(
        "Pairs of variables that may share an unobserved cause, one of them with the reward, where the structure is "
        "learned.",
        _EDGES,
        [["C", "Y"]],
    ),
}
"""All entries of a specification: the knowledge, and the arguments of `Problem` except for the function `forbid`."""


def problem_schema() -> dict[str, Any]:
    """The JSON schema of a specification, in draft 2020-12.

    >>> sorted(problem_schema()["properties"])[:3]
    ['actions', 'adjust', 'bins']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "ProblemSpecification",
        "description": "A causal bandit problem: a graph or model, its reward, and the variables that decisions set.",
        "type": "object",
        "properties": {
            name: {"description": entry.description, **entry.schema, "examples": [entry.example]}
            for name, entry in SPEC_ENTRIES.items()
        },
        "required": ["manipulable"],
        "anyOf": [{"required": ["reward"]}, {"required": ["reward_parents"]}],
        "not": {"required": ["graph", "model"]},
        "additionalProperties": False,
    }


def format_toml(value: Any) -> str:
    """A value in TOML.

    >>> format_toml({"A": 0.1, "B": {"x y": True}})
    '{ A = 0.1, B = { "x y" = true } }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(key)} = {format_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: object) -> str:
    text = str(key)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text, ensure_ascii=False)


# Errors, in the terms of the interface.


class SpecError(ProblemError):
    """An invalid entry of a specification; `path` has the keys to it."""

    def __init__(self, message: str, path: tuple[str | int, ...] = (), detail: str = "") -> None:
        super().__init__(message, path=path)
        self.detail = detail or message


class SpecTerms:
    """The terms by which errors name entries: by default those of a file."""

    reads_files = True
    """Whether entries may name files."""

    def name(self, entry: str) -> str:
        """The name of an entry."""
        return entry

    def parameter_example(self, name: str) -> str:
        """A parameter of an environment of the zoo, with a placeholder for its value."""
        return f"[environment] {name} = ..."

    def example(self, entry: str, value: Any = None) -> str:
        """An entry with a value."""
        return f"{self.name(entry)} = {format_toml(SPEC_ENTRIES[entry].example if value is None else value)}"

    def assignment(self, entry: str, value: str) -> str:
        """An entry with a value that an error message has as Python code.

        >>> SpecTerms().assignment("values", "{'m': [...]}"), SpecTerms().assignment("reward", "'click'")
        ('values = { m = [...] }', 'reward = "click"')
        """
        if value.startswith("{"):
            value = "{ " + re.sub(r"'([^']*)': ", r"\1 = ", value[1:-1]) + " }"
        elif value.startswith("'"):
            value = f'"{value[1:-1]}"'
        return f"{self.name(entry)} = {value.lower() if value in ('True', 'False') else value}"

    def translate(self, message: str) -> str:
        """A message about arguments of `Problem`, in these terms.

        >>> SpecTerms().translate("Give them, values={'m': [...]}, or data (data=); or reduce=False.")
        'Give them, values = { m = [...] }, or data (data); or reduce = false.'
        """
        message = _WITH_VALUE.sub(lambda match: self.assignment(match[1], match[2]), message)
        return _ALONE.sub(lambda match: self.name(match[1]), message)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate the errors that `Problem` raises into these terms."""
        try:
            yield
        except SpecError:
            raise
        except CausalBanditsError as error:
            error.path = error.path or _mentioned_entry(error)
            error.args = (self.translate(str(error)), *error.args[1:])
            raise


def _mentioned_entry(error: CausalBanditsError) -> tuple[str, ...]:
    """The entry that an error without a path refers to: the first word of the message, or its first argument."""
    message = str(error)
    match = re.match(rf"({_ENTRY})\b", message) or re.search(rf"\b({_ENTRY})=", message)
    return (match[1],) if match else ("data",) if isinstance(error, DataError) else ()


_ENTRY = "|".join(SPEC_ENTRIES)
_WITH_VALUE = re.compile(rf"\b({_ENTRY})=(\{{[^{{}}]*\}}|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|True\b|False\b|[\d.]*\d)")
_ALONE = re.compile(rf"\b({_ENTRY})=")


# Files.


def load_spec(
    spec: Mapping[str, Any] | str | os.PathLike[str], folder: str | os.PathLike[str] | None
) -> tuple[dict[str, Any], Path]:
    """The entries of a problem's specification, and the folder of its files."""
    if isinstance(spec, Mapping):
        return dict(spec), Path("." if folder is None else folder)
    if not isinstance(spec, str | os.PathLike):
        raise ProblemError(
            "A specification is the name of a .toml or .json file, or a mapping with its entries; got "
            f"{short_repr(spec)}."
        )
    path = Path(spec)
    content = read_spec_content(path)
    environment = content.get("environment")
    if isinstance(environment, Mapping) and "zoo" in environment:
        raise ProblemError(
            f"{path} describes an example environment, which defines its own problem. Use "
            f"cb.zoo.{environment['zoo']}(...).problem, or pass the file to `causalbandits simulate`."
        )
    entries = {name: value for name, value in content.items() if name not in EXPERIMENT_TABLES}
    return entries, path.parent if folder is None else Path(folder)


def read_spec_content(path: Path) -> dict[str, Any]:
    """The content of a specification in TOML or JSON."""
    suffix = path.suffix.lower()
    if suffix not in SPEC_SUFFIXES:
        raise ProblemError(f"A specification is a .toml or .json file; got {str(path)!r}.")
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if suffix == ".toml" else parse_json(text)
    except OSError as error:
        raise ProblemError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = "TOML" if suffix == ".toml" else "JSON"
        raise ProblemError(f"{path} is not a {kind} file: {error}.") from None
    except DuplicateKeyError as error:
        raise ProblemError(f"{path}: {error}. Keep one of them.") from None
    if not isinstance(content, dict):
        raise ProblemError(
            f"{path}: a specification is an object with entries such as graph; got {short_repr(content)}."
        )
    return content


# The reader.


class SpecReader:
    """The arguments of `Problem` from the entries of a specification."""

    def __init__(self, entries: Mapping[str, Any], folder: Path, terms: SpecTerms) -> None:
        self._terms, self._folder = terms, folder
        for entry in entries:
            if entry not in SPEC_ENTRIES:
                self.fail((entry,), unknown_name_message("entry", entry, SPEC_ENTRIES), prefixed=False)
            if entries[entry] is None:
                self.fail(
                    (entry,), f"expected {'a value' if entry == 'manipulable' else 'a value, or no entry'}; got null."
                )
        self._entries = dict(entries)
        self._knowledge = self._parse_knowledge()
        names = () if self._knowledge is None else tuple(as_causal_graph(self._knowledge).parents)
        self._names: tuple[str, ...] | None = names or None
        self._arguments: dict[str, Any] = {}
        for entry, value in self._entries.items():
            if entry in _PARSERS:
                self._arguments[entry] = _PARSERS[entry](self, entry, value)
        self._validate_estimation()
        self._validate_actions()
        self._validate_reward()
        if (
            "can_observe" in self._arguments
            and "reward_parents" not in self._arguments
            and _has_known_cpts(self._knowledge)
        ):
            self._arguments.setdefault("adjust", "smallest")

    def source_arguments(self) -> dict[str, Any]:
        """The arguments of `load_source`."""
        names = (
            "manipulable", "reward_parents", "values", "data", "bins", "interventions", "missing", "prior", "context",
            "optional", "max_set", "actions", "max_probability", "can_observe", "known", "max_parents", "tiers",
            "require_edges", "forbid_edges", "latent",
        )  # fmt: skip
        arguments = {name: self._arguments[name] for name in names if name in self._arguments}
        return {"knowledge": self._knowledge, "reward": self._arguments.get("reward"), **arguments}

    def action_arguments(self, source: Source) -> dict[str, Any]:
        """The other arguments of `Problem`; values are converted to the source's states with the same text."""
        names = ("reward", "optional", "max_set", "reduce", "adjust", "reward_range", "noise_scale")
        arguments = {name: self._arguments[name] for name in names if name in self._arguments}
        states = _StatesOf(source.knowledge, self)
        if "actions" in self._arguments:
            arguments["actions"] = [
                {name: states.find(("actions", k, name), name, value) for name, value in action.items()}
                for k, action in enumerate(self._arguments["actions"])
            ]
        for entry in ("costs", "max_probability"):
            if entry in self._arguments:
                arguments[entry] = {
                    name: {states.find((entry, name, key), name, key): value for key, value in numbers.items()}
                    if isinstance(numbers, dict)
                    else numbers
                    for name, numbers in self._arguments[entry].items()
                }
        manipulable = source.manipulable
        if isinstance(manipulable, Mapping):
            manipulable = {
                name: settings
                and [states.find(("manipulable", name, k), name, value) for k, value in enumerate(settings)]
                for name, settings in manipulable.items()
            }
        return {"source": source._replace(manipulable=manipulable), **arguments}

    def fail(self, path: tuple[str | int, ...], detail: str, *, prefixed: bool = True) -> NoReturn:
        """Raise the error of an entry."""
        message = f"{self._terms.name(str(path[0]))}: {detail}" if prefixed else detail
        raise SpecError(message, path, detail)

    # Knowledge and data.

    def _parse_knowledge(self) -> Knowledge | None:
        entries = [entry for entry in ("graph", "model") if entry in self._entries]
        if not entries:
            return None
        if len(entries) == 2:
            self.fail(("model",), f"a model includes its graph. Leave out {self._terms.name('graph')}.")
        (entry,) = entries
        value = self._entries[entry]
        try:
            if isinstance(value, CausalModel | LatentModel | CausalGraph | nx.DiGraph):
                return parse_knowledge(value)
            if isinstance(value, str) and (entry == "model" or is_path(value)):
                return parse_knowledge(read(self._file(entry, value)))
            if isinstance(value, str) or (entry == "graph" and isinstance(value, Mapping)):
                return parse_knowledge(value)
            if entry == "model" and isinstance(value, Mapping):
                return read_json(json.dumps(value), "model")
        except SpecError:
            raise
        except CausalBanditsError as error:
            self.fail((entry,), self._terms.translate(str(error)))
        return self.fail((entry,), f"expected {_EXPECTED[entry]}; got {_as_json(value)}.")

    def _file(self, entry: str, value: str) -> Path:
        if not self._terms.reads_files:
            self.fail(
                (entry,),
                f"{value!r:.80} looks like the name of a file, and this interface does not read files: "
                f"{_IN_PLACE_OF_FILE[entry]}.",
            )
        return self._folder / value

    def _parse_data(self, entry: str, value: object) -> Any:
        if isinstance(value, str):
            return str(self._file(entry, value))
        if not isinstance(value, Mapping) or not all(isinstance(column, list) for column in value.values()):
            self.fail(
                (entry,),
                f"expected the name of a file or a column of values for each variable; got {_as_json(value)}.",
            )
        for name, column in value.items():
            for k, item in enumerate(column):
                if not (_is_state(item) or is_real(item) or item is None):
                    self.fail(
                        (entry, name, k),
                        f"expected text of at most {LABEL_LIMIT:,} characters, a number, a boolean or null in row "
                        f"{k} of {name!r}; got {_as_json(item)}.",
                    )
        return dict(value)

    # Names and values.

    def _parse_name(self, entry: str, value: object, *path: str | int) -> str:
        """The name of a variable, at `path` within the entry; by default among its keys."""
        place = (entry, *(path or ((value,) if isinstance(value, str) and entry != "reward" else ())))
        if not isinstance(value, str):
            self.fail(place, f"expected the name of a variable; got {_as_json(value)}.")
        if self._names is not None and value not in self._names:
            self.fail(place, unknown_name_message("variable", value, self._names) + self._misplaced_entry_hint(value))
        return str(value)

    def _misplaced_entry_hint(self, name: str) -> str:
        """A hint if a name is that of an entry, which in TOML belongs above the first section."""
        if name not in SPEC_ENTRIES or not self._terms.reads_files:
            return ""
        return f" In TOML, the entry {name} must stand above the first table (the first line in brackets)."

    def _parse_reward(self, entry: str, value: object) -> str:
        if isinstance(value, str) and "reward_parents" in self._entries:
            return value  # the reward need not be in the graph
        return self._parse_name(entry, value)

    def _parse_names(self, entry: str, value: object) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.fail((entry,), f"expected a list of names; got {_as_json(value)}.")
        for k, name in enumerate(value):
            self._parse_name(entry, name, k)
            if name in value[:k]:
                self.fail((entry, k), f"expected every name once; got {name!r} twice.")
        return list(value)

    def _parse_states(self, entry: str, value: object) -> dict[str, list[State] | None]:
        """Values by variable; None stands for all values."""
        if not isinstance(value, dict):
            self.fail(
                (entry,),
                f"expected the values of variables, such as {self._terms.example(entry, _STATES_EXAMPLE)}; got "
                f"{_as_json(value)}.",
            )
        states: dict[str, list[State] | None] = {}
        for name, domain in value.items():
            self._parse_name(entry, name)
            if domain is None and entry == "manipulable":
                states[name] = None
                continue
            if not isinstance(domain, list) or not domain:
                self.fail((entry, name), f"expected a list of the values of {name!r}; got {_as_json(domain)}.")
            for k, value in enumerate(domain):
                if not _is_state(value):
                    self.fail(
                        (entry, name, k),
                        f"expected text of at most {LABEL_LIMIT:,} characters, a finite number or a boolean for "
                        f"{name!r}; got {_as_json(value)}.",
                    )
            written: dict[str, int] = {}
            for k, value in enumerate(domain):
                first = written.setdefault(_key_text(value), k)
                if first != k:
                    if domain[first] == value:
                        self.fail((entry, name, k), f"expected every value of {name!r} once; got {value!r} twice.")
                    self.fail(
                        (entry, name, k),
                        f"the values of {name!r} must differ as texts, because keys are texts; "
                        f"{json.dumps(domain[first])} and {json.dumps(value)} are equal. Rename one of them.",
                    )
            states[name] = list(domain)
        return states

    def _parse_manipulable(self, entry: str, value: object) -> Any:
        return self._parse_states(entry, value) if isinstance(value, dict) else self._parse_names(entry, value)

    def _parse_context(self, entry: str, value: object) -> Any:
        return self._parse_states(entry, value) if isinstance(value, dict) else self._parse_names(entry, value)

    def _parse_optional(self, entry: str, value: object) -> list[str] | bool:
        return value if isinstance(value, bool) else self._parse_names(entry, value)

    def _parse_actions(self, entry: str, value: object) -> list[dict[str, State]]:
        if not isinstance(value, list) or not all(isinstance(action, dict) for action in value):
            self.fail(
                (entry,),
                f"expected a list of assignments, such as {self._terms.example(entry)}; got {_as_json(value)}.",
            )
        for k, action in enumerate(value):
            for name in action:
                self._parse_name(entry, name, k, name)
        return [dict(action) for action in value]

    # Numbers.

    def _parse_positive_integer(self, entry: str, value: object) -> int:
        if not is_real(value) or value < 1 or value != math.floor(value):
            self.fail((entry,), f"expected a whole number, 1 or more; got {_as_json(value)}.")
        return int(value)

    def _parse_boolean(self, entry: str, value: object) -> bool:
        if not isinstance(value, bool):
            self.fail((entry,), f"expected true or false; got {_as_json(value)}.")
        return bool(value)

    def _parse_costs(self, entry: str, value: object) -> dict[str, Any]:
        return self._parse_numbers(
            entry, value, lambda number: 0 <= number <= LARGEST_PRICE, f"a number from 0 to {LARGEST_PRICE:g}", True
        )

    def _parse_max_probability(self, entry: str, value: object) -> dict[str, Any]:
        return self._parse_numbers(entry, value, lambda number: 0 <= number < 1, "a number from 0 to below 1", False)

    def _parse_numbers(
        self, entry: str, value: object, is_valid: Callable[[float], bool], expected: str, has_totals: bool
    ) -> dict[str, Any]:
        """A number for each value of some variables, or, with `has_totals`, one number per variable."""
        if not isinstance(value, dict):
            self.fail(
                (entry,),
                f"expected numbers by variable, such as {self._terms.example(entry)}; got {_as_json(value)}.",
            )

        def parse(path: tuple[str, ...], number: object) -> float:
            if not is_real(number) or not is_valid(number):
                subject = " of ".join(map(repr, reversed(path[1:])))
                self.fail(path, f"expected {expected} for {subject}; got {_as_json(number)}.")
            return float(number)

        numbers: dict[str, Any] = {}
        for name, item in value.items():
            self._parse_name(entry, name)
            if isinstance(item, dict):
                numbers[name] = {state: parse((entry, name, state), number) for state, number in item.items()}
            elif has_totals:
                numbers[name] = parse((entry, name), item)
            else:
                self.fail(
                    (entry, name),
                    f"expected a number for a value of {name!r}, such as {self._terms.example(entry)}; got "
                    f"{_as_json(item)}.",
                )
        return numbers

    def _parse_reward_range(self, entry: str, value: object) -> tuple[float, float]:
        bounds = value if isinstance(value, list) else []
        if len(bounds) != 2 or not all(map(is_real, bounds)) or not bounds[0] < bounds[1]:
            self.fail(
                (entry,),
                f"expected the least and the largest possible reward, such as {self._terms.example(entry)}; got "
                f"{_as_json(value)}.",
            )
        return float(bounds[0]), float(bounds[1])

    def _parse_noise_scale(self, entry: str, value: object) -> float:
        if not is_real(value) or not value > 0:
            self.fail(
                (entry,),
                f"expected a positive number, such as {self._terms.example(entry)}; got {_as_json(value)}.",
            )
        return float(value)

    # The structure, where it is learned.

    def _parse_known(self, entry: str, value: object) -> str:
        if value != "partly":
            self.fail((entry,), f'expected "partly"; got {_as_json(value)}.')
        return "partly"

    def _parse_max_parents(self, entry: str, value: object) -> int:
        if not is_real(value) or value < 0 or value != math.floor(value):
            self.fail((entry,), f"expected a whole number, 0 or more; got {_as_json(value)}.")
        return int(value)

    def _parse_tiers(self, entry: str, value: object) -> list[list[str]]:
        if not isinstance(value, list):
            self.fail(
                (entry,), f"expected lists of names, such as {self._terms.example(entry)}; got {_as_json(value)}."
            )
        return [self._parse_name_list((entry, k), tier) for k, tier in enumerate(value)]

    def _parse_edges(self, entry: str, value: object) -> list[tuple[str, str]]:
        kind, pair = ("pairs", "two names") if entry == "latent" else ("edges", "a cause and an effect, two names")
        if not isinstance(value, list):
            self.fail(
                (entry,), f"expected a list of {kind}, such as {self._terms.example(entry)}; got {_as_json(value)}."
            )
        edges = []
        for k, edge in enumerate(value):
            if not isinstance(edge, list) or len(edge) != 2 or not all(isinstance(name, str) for name in edge):
                self.fail((entry, k), f"expected {pair}; got {_as_json(edge)}.")
            edges.append((edge[0], edge[1]))
        return edges

    def _parse_name_list(self, path: tuple[str | int, ...], value: object) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.fail(path, f"expected a list of names; got {_as_json(value)}.")
        if len(set(value)) < len(value):
            self.fail(path, f"expected every name once; got {_as_json(value)}.")
        return list(value)

    # Words and estimation.

    def _parse_adjust(self, entry: str, value: object) -> str:
        if value != "smallest":
            self.fail((entry,), f'expected "smallest"; got {_as_json(value)}.')
        return "smallest"

    def _parse_missing(self, entry: str, value: object) -> str:
        if value not in ("refuse", "drop", "em"):
            self.fail((entry,), f'expected "refuse", "drop" or "em"; got {_as_json(value)}.')
        return str(value)

    def _parse_bins(self, entry: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(
                (entry,),
                f"expected the edges of bins, or their number, such as {self._terms.example(entry)}; got "
                f"{_as_json(value)}.",
            )
        for name, bins in value.items():
            self._parse_name(entry, name)
            if not (isinstance(bins, list) and all(map(is_real, bins))) and not (
                isinstance(bins, int) and not isinstance(bins, bool)
            ):
                self.fail(
                    (entry, name),
                    f"expected the edges of the bins of {name!r}, or their number; got {_as_json(bins)}.",
                )
        return dict(value)

    def _parse_interventions(self, entry: str, value: object) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and all(isinstance(column, list) for column in value.values()):
            for name in value:
                self._parse_name(entry, name)
            return dict(value)
        return self.fail(
            (entry,),
            f"expected the name of a column, or a column of truth values for each variable; got {_as_json(value)}.",
        )

    def _parse_prior(self, entry: str, value: object) -> Any:
        numbers = value.values() if isinstance(value, dict) else [value]
        if not all(is_real(number) and number >= 0 for number in numbers):
            self.fail((entry,), f"expected a number, 0 or more, or one for each variable; got {_as_json(value)}.")
        for name in value if isinstance(value, dict) else ():
            self._parse_name(entry, name)
        return value

    # Checks of entries against each other.

    def _validate_estimation(self) -> None:
        """`missing` requires data; `prior` requires CPTs that are estimated, from data or online."""
        name = self._terms.name
        if "missing" in self._arguments and "data" not in self._arguments:
            self.fail(("missing",), f"this entry requires {name('data')}. Add the data, or leave this entry out.")
        learns_cpts = (
            isinstance(self._knowledge, CausalGraph)
            and self._arguments.get("reward_parents") != []
            and "known" not in self._arguments
        )
        if "prior" in self._arguments and not learns_cpts:
            self.fail(
                ("prior",),
                (
                    f"a prior of CPTs requires {name('graph')}, because the CPTs of a model are given. Leave this "
                    "entry out."
                ),
            )

    def _validate_actions(self) -> None:
        arguments, terms = self._arguments, self._terms
        manipulable: Any = arguments.get("manipulable")
        optional = arguments.get("optional", False)
        if not manipulable:
            known = f" The variables are {', '.join(self._names)}." if self._names else ""
            self.fail(
                ("manipulable",),
                f"The manipulable variables are missing, for example {terms.example('manipulable')}.{known}",
                prefixed=False,
            )
        for k, name in enumerate(optional if isinstance(optional, list) else ()):
            if name not in manipulable:
                self.fail(("optional", k), unknown_name_message("manipulable variable", name, manipulable))
        for name in arguments.get("costs", ()):
            if name not in manipulable:
                self.fail(("costs", name), unknown_name_message("manipulable variable", name, manipulable))
        n_always_set = len(manipulable) - len(optional) if isinstance(optional, list) else 0
        if arguments.get("max_set", n_always_set) < n_always_set:
            self.fail(
                ("max_set",),
                f"expected no less than the {n_always_set} variables that every action sets; got "
                f"{arguments['max_set']}.",
            )
        if arguments.get("max_set", 0) > len(manipulable):
            self.fail(
                ("max_set",),
                f"expected at most {len(manipulable)}, the number of manipulable variables; got "
                f"{arguments['max_set']}. Leave it out if a decision may set all of them.",
            )

    def _validate_reward(self) -> None:
        """Check that the reward's direct causes are given or can be found."""
        arguments, name, example = self._arguments, self._terms.name, self._terms.example
        searching = [entry for entry in ("adjust", "can_observe") if entry in arguments]
        if searching == ["can_observe"] and not _has_known_cpts(self._knowledge):
            searching = []  # other variables are marginalised out of CPTs that are learned
        if "reward_parents" not in arguments and "reward" not in arguments:
            if searching:
                self.fail(
                    ("reward",),
                    f"{name(searching[0])} requires the name of the reward: {example('reward')}.",
                    prefixed=False,
                )
            self.fail(
                ("reward",),
                f"The reward is missing. Add its name, {example('reward')}; or, if the reward is not in the graph, "
                f"its direct causes, {example('reward_parents')}.",
                prefixed=False,
            )
        if arguments.get("reward_parents") == [] and "reward" not in arguments:
            self.fail(
                ("reward_parents",),
                "an empty list means that a mean per action is learned, which requires the name of the reward to "
                f"select the possibly optimal actions. Add {example('reward')}.",
            )
        if searching and "reward_parents" in arguments:
            self.fail(
                (searching[0],),
                f"{name(searching[0])} replaces the reward's parents by an adjustment set. Leave out "
                f"{name('reward_parents')}.",
                prefixed=False,
            )
        if arguments.get("reward") in arguments.get("can_observe", ()):
            self.fail(
                ("can_observe",),
                f"{name('can_observe')} must not contain the reward {arguments['reward']!r}, because the reward is "
                "observed last.",
                prefixed=False,
            )


def _has_known_cpts(knowledge: Knowledge | None) -> bool:
    return isinstance(knowledge, CausalModel) and knowledge.posterior is None


_EXPECTED = {
    "graph": 'a text such as "A, B -> C -> Y", or a mapping from each variable to a list of its causes',
    "model": "the name of a file, or the content of a model's JSON file",
}
_IN_PLACE_OF_FILE = {
    "graph": 'write the graph as a text, such as "A, B -> C -> Y"',
    "model": "write the content of the model's JSON file",
    "data": "write a column of values for each variable",
}
_STATES_EXAMPLE = {"A": ["x", "y"]}

_PARSERS: dict[str, Callable[[SpecReader, str, Any], Any]] = {
    "reward": SpecReader._parse_reward,
    "reward_parents": SpecReader._parse_names,
    "manipulable": SpecReader._parse_manipulable,
    "values": SpecReader._parse_states,
    "context": SpecReader._parse_context,
    "optional": SpecReader._parse_optional,
    "max_set": SpecReader._parse_positive_integer,
    "actions": SpecReader._parse_actions,
    "reduce": SpecReader._parse_boolean,
    "costs": SpecReader._parse_costs,
    "max_probability": SpecReader._parse_max_probability,
    "adjust": SpecReader._parse_adjust,
    "can_observe": SpecReader._parse_names,
    "reward_range": SpecReader._parse_reward_range,
    "noise_scale": SpecReader._parse_noise_scale,
    "data": SpecReader._parse_data,
    "bins": SpecReader._parse_bins,
    "interventions": SpecReader._parse_interventions,
    "missing": SpecReader._parse_missing,
    "prior": SpecReader._parse_prior,
    "known": SpecReader._parse_known,
    "max_parents": SpecReader._parse_max_parents,
    "tiers": SpecReader._parse_tiers,
    "require_edges": SpecReader._parse_edges,
    "forbid_edges": SpecReader._parse_edges,
    "latent": SpecReader._parse_edges,
}


class _StatesOf:
    """The states of a source's variables by their text form, because keys of TOML and JSON are texts."""

    def __init__(self, knowledge: Knowledge, reader: SpecReader) -> None:
        self._knowledge, self._reader = knowledge, reader

    def find(self, path: tuple[str | int, ...], name: str, value: State) -> State:
        """The state for a value: the value itself, or the state with the same text (the number 1 for the text
        "1").
        """
        if name not in self._knowledge.names:
            return value  # Problem refuses it
        try:
            return match_state(self._knowledge[name], value)
        except CausalBanditsError as error:
            return self._reader.fail(path, str(error))


def _is_state(value: object) -> bool:
    """Whether a document can contain this as the value of a variable."""
    if isinstance(value, str):
        return len(value) <= LABEL_LIMIT
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _as_json(value: object) -> str:
    """A value in JSON (or TOML), shortened; dates as in TOML."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return short_repr(value)
    text = value.isoformat() if isinstance(value, date) else text
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text):,} characters)"


def _key_text(value: State) -> str:
    """A value as a key of TOML or JSON, which is a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def match_state(variable: Variable, value: Any) -> State:
    """The state of a variable that equals a value or has its text."""
    if value in variable.states:
        return variable.states[variable.states.index(value)]
    matches = [state for state in variable.states if _key_text(state) == _key_text(value)]
    return matches[0] if len(matches) == 1 else variable.states[variable.code(value)]
