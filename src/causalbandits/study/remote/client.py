"""A study at the other end of HTTP: the same `ask` and `tell`. Needs nothing but the standard library."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import EllipsisType
from typing import Any, overload
from urllib.parse import quote

from causalbandits.campaign import Context, Decision, Recommendation, Recommendations, validate_parents_argument
from causalbandits.errors import ConflictError, PolicyError, TellError, UnknownDecisionError
from causalbandits.model import Intervention, State
from causalbandits.policies import POLICIES, AnyPolicy, as_policy, encode_parameters
from causalbandits.policies.robust import Evidence
from causalbandits.problem import BudgetStatus, Problem
from causalbandits.study.remote.transport import Transport
from causalbandits.study.remote.wire import decode_evidence, decode_recommendation, decode_recommendations
from causalbandits.study.storage import Verification
from causalbandits.study.tell import Id, Observed, Parents, Receipt

EligibleInterventions = Iterable[Mapping[str, State]]
"""Eligible interventions; a function cannot travel."""


class RemoteStudy:
    """Made by `connect`. May be used by several threads; each has a connection of its own.

    Whatever is sent may be sent again without harm: a question has a key, and an outcome counts once.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        self._transport = Transport(url, key, timeout)

    def __enter__(self) -> RemoteStudy:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, of all threads."""
        self._transport.close()

    @cached_property
    def problem(self) -> Problem:
        """As `Study.problem`; it never changes."""
        return Problem.from_record(self.description()["problem"])

    @overload
    def ask(
        self,
        n: None = None,
        *,
        context: Context | None = ...,
        eligible: EligibleInterventions | None = ...,
        key: str | None = ...,
    ) -> Decision: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        context: Context | None = ...,
        eligible: EligibleInterventions | None = ...,
        key: str | None = ...,
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        context: Context | None = None,
        eligible: EligibleInterventions | None = None,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """As `Study.ask`; 1,000 at most."""
        body = {
            "n": n,
            "key": secrets.token_hex(16) if key is None else key,
            "context": None if context is None else dict(context),
            "eligible": None if eligible is None else [dict(item) for item in eligible],
        }
        response = self._transport.send("POST", "/decisions", body)
        return _decode_decision(response) if n is None else [_decode_decision(item) for item in response["items"]]

    def tell(
        self,
        id: Id,
        parents: Parents | EllipsisType = ...,
        reward: float | None = math.nan,
        *,
        observed: Observed = None,
    ) -> Receipt:
        """As `Study.tell`."""
        validate_parents_argument(self.problem, parents)
        if isinstance(reward, float) and math.isnan(reward):
            raise TellError("A reward must be a finite number; it is missing, or nan. Nothing was changed.")
        values = {} if isinstance(parents, EllipsisType) else parents
        (receipt,) = self.tell_many([{"id": id, "parents": values, "reward": reward, "observed": observed}])
        if receipt.status == "conflict":
            raise ConflictError(receipt.why)
        if receipt.status == "unknown":
            raise UnknownDecisionError(receipt.why)
        if receipt.status == "refused":
            raise TellError(receipt.why)
        return receipt

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """As `Study.tell_many`; 1,000 at most."""
        response = self._transport.send("POST", "/outcomes", {"items": [dict(outcome) for outcome in outcomes]})
        return [_decode_receipt(item) for item in response["items"]]

    def correct(self, id: Id, parents: Parents, reward: float, *, observed: Observed = None) -> Receipt:
        """As `Study.correct`."""
        body = {"parents": parents, "reward": reward, "observed": observed}
        return _decode_receipt(self._transport.send("POST", _decision_path(id, "/correct"), body))

    def retract(self, id: Id) -> None:
        """As `Study.retract`."""
        self._transport.send("POST", _decision_path(id, "/retract"), {})

    def forget(self, id: Id) -> None:
        """As `Study.forget`."""
        self._transport.send("POST", _decision_path(id, "/forget"), {})

    def expire(self) -> int:
        """As `Study.expire`."""
        return int(self._transport.send("POST", "/expire", {})["expired"])

    def use(self, policy: AnyPolicy | str) -> None:
        """As `Study.use`; a policy travels by its id and its parameters."""
        new_policy = as_policy(policy)
        kind, fixed = POLICIES.get(new_policy.id, (None, {}))
        parameters = {name: value for name, value in encode_parameters(new_policy).items() if name not in fixed}
        if type(new_policy) is not kind or any(isinstance(value, dict) for value in parameters.values()):
            raise PolicyError(
                f"{new_policy} holds code of yours, which cannot travel: study.use() it where the study is."
            )
        self._transport.send("POST", "/policy", {"policy": new_policy.id, "parameters": parameters})

    def set_mode(self, mode: str, *, baseline: Mapping[str, State] | None = None, why: str = "") -> None:
        """As `Study.set_mode`; the service knows by whom."""
        body = {"mode": mode, "baseline": None if baseline is None else dict(baseline), "why": why}
        self._transport.send("POST", "/mode", body)

    @property
    def mode(self) -> str:
        """As `Study.mode`."""
        return str(self.modes()[-1]["mode"])

    def modes(self) -> list[dict[str, Any]]:
        """As `Study.modes`."""
        return self._transport.send("GET", "/mode")["modes"]  # type: ignore[no-any-return]

    def description(self) -> dict[str, Any]:
        """As `Study.description`."""
        return self._transport.send("GET", "")  # type: ignore[no-any-return]

    def report(self) -> dict[str, Any]:
        """As `Study.report().to_record()`."""
        return self._transport.send("GET", "/report")  # type: ignore[no-any-return]

    def lines(self) -> list[dict[str, Any]]:
        """As `Study.lines`."""
        return self._transport.send("GET", "/statistics")["lines"]  # type: ignore[no-any-return]

    @property
    def decided(self) -> int:
        """As `Study.decided`."""
        return sum(self.report()["decisions"].values())

    @property
    def rounds(self) -> int:
        """As `Study.rounds`."""
        return int(self.report()["outcomes"]["n"])

    @property
    def budget(self) -> BudgetStatus | None:
        """As `Study.budget`."""
        spent = self.report()["budget"]
        return None if spent is None else BudgetStatus(**spent)

    def recommend(self, *, context: Context | None = None, level: float = 0.95, epsilon: float = 0.0) -> Recommendation:
        """As `Study.recommend`."""
        body = {"context": None if context is None else dict(context), "level": level, "epsilon": epsilon}
        return decode_recommendation(self.problem, self._transport.send("POST", "/recommendation", body))

    def recommendations(
        self, *, level: float = 0.95, epsilon: float = 0.0, at_most: int | None = None
    ) -> Recommendations:
        """As `Study.recommendations`; 100 at most."""
        body = {"level": level, "epsilon": epsilon, "at_most": at_most}
        return decode_recommendations(self.problem, self._transport.send("POST", "/recommendations", body))

    def evidence(self, *, level: float | None = None) -> Evidence:
        """As `Study.evidence`; needs an admin's key, because it looks at every outcome."""
        return decode_evidence(self._transport.send("POST", "/evidence", {"level": level}))

    def events(self, after: int = 0, at_most: int = 1000) -> list[dict[str, Any]]:
        """As `Study.events`; 1,000 at most."""
        return self._transport.send("GET", f"/events?after={int(after)}")["events"][:at_most]  # type: ignore[no-any-return]

    def verify(self) -> Verification:
        """As `Study.verify`; needs an admin's key."""
        response = self._transport.send("POST", "/verify", {})
        return Verification(response["decisions"], response["events"], tuple(response["differences"]))

    def replay(self, id: Id) -> bool:
        """As `Study.replay`."""
        return bool(self.explain(id)["comes_out_again"])

    def status(self, id: Id) -> str | None:
        """As `Study.status`."""
        try:
            return str(self.explain(id)["status"])
        except UnknownDecisionError:
            if isinstance(id, str):
                return None
            raise

    def explain(self, id: Id) -> dict[str, Any]:
        """As `Study.explain`."""
        return self._transport.send("GET", _decision_path(id))  # type: ignore[no-any-return]


def _decode_decision(record: Mapping[str, Any]) -> Decision:
    return Decision(record["id"], Intervention(record["intervention"]), record["propensity"])


def _decode_receipt(record: Mapping[str, Any]) -> Receipt:
    return Receipt(record["status"], record["why"], tuple(record["missing"]))


def connect(url: str, key: str | None = None) -> RemoteStudy:
    """A study that `causalbandits serve` serves, such as http://127.0.0.1:8000/campaign."""
    return RemoteStudy(url, key)


def _decision_path(id: Id, command: str = "") -> str:
    """The address of a decision: by its number or its key, which digits alone would not tell."""
    return f"/decisions/-{command}?{'key' if isinstance(id, str) else 'number'}={quote(str(id), safe='')}"
