"""The client of a study over HTTP, with the same `ask` and `tell`; uses only the standard library."""

from __future__ import annotations

import base64
import itertools
import math
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, overload
from urllib.parse import quote

from causalbandits._hashing import is_ours
from causalbandits.campaign import (
    NO_ID,
    ActionTable,
    Context,
    Decision,
    FallbackDecision,
    LearnedStructure,
    Recommendation,
    Recommendations,
    parse_id,
    validate_observed_argument,
    validate_page,
)
from causalbandits.errors import (
    CausalBanditsError,
    CausalBanditsWarning,
    ConflictError,
    InterventionError,
    PolicyError,
    StorageError,
    TellError,
    UnknownDecisionError,
    warn,
)
from causalbandits.model import Intervention, State
from causalbandits.policies import AnyPolicy, FamilyPolicy, as_policy, encode_parameters
from causalbandits.policies.changes import MechanismChanges
from causalbandits.policies.robust import Evidence
from causalbandits.problem import BudgetStatus, Problem
from causalbandits.study.remote.transport import Timeout, Transport, Unavailable
from causalbandits.study.remote.wire import (
    decode_action_table,
    decode_changes,
    decode_evidence,
    decode_recommendation,
)
from causalbandits.study.storage import Verification
from causalbandits.study.tell import EarlyOutcome, Id, Observed, Receipt, RemovedOutcome

ACTIONS_PER_PAGE = 1000
"""The maximum number of actions per response of the service."""

EligibleInterventions = Iterable[Mapping[str, State]]
"""Eligible interventions; a function cannot be sent over HTTP."""


PAGE_LIMIT = 1000
"""The number of items requested per page."""


class RemoteStudy:
    """A study over HTTP, made by `connect`; several threads may share it.

    Requests can be repeated safely: every `ask` has an idempotency key, and an outcome counts once. In this example, no
    service listens:

    >>> from causalbandits import connect
    >>> study = connect("http://127.0.0.1:9/campaign", timeout=0.2, fallback={"banner": "plain"})
    >>> study.ask().fallback, study.unsettled
    (True, 1)
    >>> study.close()

    Args:
        url: The URL of the study, such as "http://127.0.0.1:8000/campaign".
        key: The API key. Default: none.
        timeout: The number of seconds that a call may take, retries included; or a pair, the seconds for connecting and
            for the whole call.
        fallback: The action that `ask` returns if the service does not answer in time. Default: `ask` raises an error.

    Raises:
        InterventionError: If `fallback` is not a mapping.
        CausalBanditsError: If the URL or the timeout is malformed.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: Timeout = 30.0,
        fallback: Mapping[str, State] | None = None,
    ) -> None:
        if fallback is not None and not isinstance(fallback, Mapping):
            raise InterventionError(
                f"fallback must be an action, such as {{'banner': 'plain'}} or {{}}; got {fallback!r:.100}."
            )
        self._transport = Transport(url, key, timeout)
        self._fallback = None if fallback is None else Intervention(fallback)
        self._unsettled: deque[dict[str, Any]] = deque()

    def __enter__(self) -> RemoteStudy:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of all threads."""
        self._transport.close()

    @cached_property
    def problem(self) -> Problem:
        """The problem; it is fetched once."""
        return Problem.from_record(self.description()["problem"])

    @overload
    def ask(
        self,
        n: None = None,
        *,
        context: Context | None = ...,
        eligible: EligibleInterventions | None = ...,
        key: str | None = ...,
        unit: str | None = ...,
        sticky: bool = ...,
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
        unit: str | None = None,
        sticky: bool = True,
    ) -> Decision | list[Decision]:
        """Decide on the next action, or on `n` actions at once, as `Study.ask` does.

        If the service does not answer in time, a single decision is the fallback, marked `decision.fallback`; it has no
        outcome.

        Args:
            n: The number of decisions, at most 1,000. Default: one decision, which is not wrapped in a list.
            context: The known values of the problem's context, by variable.
            eligible: The interventions that may be chosen, as a list; a function cannot be sent.
            key: An idempotency key, one per exposure. Default: a random key.
            unit: The visitor, patient or machine, as for `Study.ask`.
            sticky: Whether a unit's later decisions repeat its latest action.

        Returns:
            The decision, or a list of `n` decisions.

        Raises:
            StorageError: If the service does not answer in time and there is no fallback.
            CausalBanditsError: If the service refuses the request.
        """
        body = {
            "n": n,
            "key": secrets.token_hex(16) if key is None else key,
            "unit": unit,
            "sticky": sticky,
            "context": None if context is None else dict(context),
            "eligible": None if eligible is None else [dict(item) for item in eligible],
        }
        if n is None and self._fallback is not None:
            response = self._transport.send_if_available("POST", "/decisions", body)
            return self._fall_back(body, response.error) if isinstance(response, Unavailable) else _decode(response)
        response = self._transport.send("POST", "/decisions", body)
        return _decode(response) if n is None else [_decode(item) for item in response["items"]]

    def _fall_back(self, body: dict[str, Any], error: CausalBanditsError) -> Decision:
        """The fallback, if it is eligible; `settle` later checks whether the service made a decision."""
        fallback, eligible = self._fallback, body["eligible"]
        assert fallback is not None
        self._unsettled.append(body)
        if eligible is not None and fallback not in eligible:
            raise StorageError(f"{error} The fallback {fallback} is not eligible in this request.") from error
        return FallbackDecision(NO_ID, dict(fallback), None)

    @property
    def unsettled(self) -> int:
        """The number of fallback decisions whose request `settle` has not yet cancelled in the service."""
        return len(self._unsettled)

    def settle(self, limit: int | None = None) -> int:
        """Cancel the decisions in the service for which this client used the fallback.

        A request that timed out may have reached the service. It is repeated with the same key, which makes no second
        decision, and that decision is cancelled because it was not carried out.

        Args:
            limit: The number of decisions. Default: all.

        Returns:
            The number of decisions that are left.

        Raises:
            StorageError: If the service does not answer.
        """
        for _ in range(len(self._unsettled) if limit is None else limit):
            try:
                body = self._unsettled.popleft()
            except IndexError:
                break
            if not self._cancel_if_available(body):
                self._unsettled.appendleft(body)
                break
        return len(self._unsettled)

    def _cancel_if_available(self, body: dict[str, Any]) -> bool:
        """Whether the service answered; if it rejects the request, there is nothing to cancel."""
        try:
            response = self._transport.send_if_available("POST", "/decisions", body)
            if not isinstance(response, Unavailable):
                path = _decision_path(response["id"], "/cancel")
                response = self._transport.send_if_available("POST", path, {})
        except CausalBanditsError as error:
            warn(
                f"The service could not cancel a decision that was replaced by the fallback: {error}",
                CausalBanditsWarning,
                stacklevel=4,
            )
            return True
        return not isinstance(response, Unavailable)

    def tell(
        self,
        decision: Decision | Id,
        *,
        reward: float | None = math.nan,
        observed: Observed = None,
    ) -> Receipt:
        """Report the outcome of a decision, as `Study.tell` does.

        Args:
            decision: The decision, its id or its key.
            reward: The reward, without subtracting costs. None stores observed values while the reward is awaited.
            observed: The observed values by variable.

        Returns:
            The receipt.

        Raises:
            TellError: If the outcome is refused, or the decision is a fallback.
        """
        id = _decision_id(decision)
        if id == NO_ID:
            raise TellError(
                "This decision is a fallback, which the service does not know. Do not report outcomes of decisions "
                "with `fallback` true. Nothing was changed."
            )
        validate_observed_argument(observed)
        if isinstance(reward, float) and math.isnan(reward):
            raise TellError("The reward must be a finite number; it is missing, or nan. Nothing was changed.")
        (receipt,) = self.tell_many([{"id": id, "reward": reward, "observed": observed}])
        if receipt.status == "conflict":
            raise ConflictError(receipt.why)
        if receipt.status == "unknown":
            raise UnknownDecisionError(receipt.why)
        if receipt.status == "refused":
            raise TellError(receipt.why)
        return receipt

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Report many outcomes in one durable transaction, as `Study.tell_many` does.

        Args:
            outcomes: At most 1,000 mappings with `id`, `reward` and optionally `observed`.

        Returns:
            A receipt for each outcome.
        """
        response = self._transport.send("POST", "/outcomes", {"items": [dict(outcome) for outcome in outcomes]})
        if self._unsettled:
            self.settle(limit=1)  # the service is available again
        return [_decode_receipt(item) for item in response["items"]]

    def correct(self, decision: Decision | Id, *, reward: float, observed: Observed = None) -> Receipt:
        """Replace an outcome that was already reported, as `Study.correct` does.

        Args:
            decision: The decision, its id or its key.
            reward: The correct reward.
            observed: The correct observed values; they replace all earlier ones. Default: the earlier ones are kept.

        Returns:
            The receipt.
        """
        body = {"reward": reward, "observed": observed}
        return _decode_receipt(self._transport.send("POST", _decision_path(_decision_id(decision), "/correct"), body))

    def early_outcomes(self, after: str = "", limit: int = 1000) -> list[EarlyOutcome]:
        """List the stored outcomes that arrived before their decision, as `Study.early_outcomes` does.

        Args:
            after: The key after which the list begins. Default: the beginning.
            limit: The length of the list.

        Returns:
            The early outcomes.
        """
        cursor = base64.urlsafe_b64encode(after.encode()).decode()
        items = itertools.islice(self._pages("/early-outcomes", cursor), limit)
        return [EarlyOutcome(**item) for item in items]

    def removed_outcomes(self, after: int = 0, limit: int = 1000) -> list[RemovedOutcome]:
        """List the early outcomes that were removed, as `Study.removed_outcomes` does.

        Args:
            after: The number of the removal after which the list begins. Default: the beginning.
            limit: The length of the list.

        Returns:
            The removed outcomes.
        """
        return [RemovedOutcome(**item) for item in itertools.islice(self._pages("/removed-outcomes", after), limit)]

    def retract(self, decision: Decision | Id) -> None:
        """Remove a reported outcome, as `Study.retract` does.

        Args:
            decision: The decision, its id or its key.
        """
        self._transport.send("POST", _decision_path(_decision_id(decision), "/retract"), {})

    def cancel(self, decision: Decision | Id) -> None:
        """Stop waiting for the outcome of a decision that was not carried out, as `Study.cancel` does.

        Args:
            decision: The decision, its id or its key.
        """
        self._transport.send("POST", _decision_path(_decision_id(decision), "/cancel"), {})

    def expire(self) -> int:
        """Assign the default reward to all decisions whose attribution window has closed; returns their number."""
        return int(self._transport.send("POST", "/expire", {})["expired"])

    def changes(self) -> MechanismChanges:
        """The changes of mechanisms so far, as `Study.changes` does.

        Returns:
            The changes; they print as text.

        Raises:
            PolicyError: If the study was created without `changes=`.
        """
        return decode_changes(self._transport.send("GET", "/changes"))

    def changed(self, mechanism: str) -> None:
        """Report that a mechanism has changed, as `Study.changed` does; needs an admin's API key.

        The service logs the name that belongs to the key.

        Args:
            mechanism: The variable whose CPT changed, or the reward.

        Raises:
            PolicyError: If the study was created without `changes=`, or the mechanism is unknown.
        """
        self._transport.send("POST", "/changes", {"mechanism": mechanism})

    def use(self, policy: AnyPolicy | str) -> None:
        """Change the policy, as `Study.use` does.

        Args:
            policy: The new policy, of a family of this library, as an object or a text.

        Raises:
            PolicyError: If the policy cannot be sent, or the service refuses it.
        """
        new_policy = as_policy(policy)
        parameters = encode_parameters(new_policy)
        has_code = any(isinstance(value, dict) for value in parameters.values())
        if not isinstance(new_policy, FamilyPolicy) or not is_ours(type(new_policy)) or has_code:
            raise PolicyError(
                f"{new_policy} contains functions or objects, which cannot be sent over HTTP. Call study.use() on the "
                "machine of the study."
            )
        self._transport.send("POST", "/policy", {"policy": new_policy.family, "parameters": parameters})

    def set_mode(self, mode: str, *, baseline: Mapping[str, State] | None = None, why: str = "") -> None:
        """Change how decisions are made, as `Study.set_mode` does; the service logs the name that belongs to the API
        key.

        Args:
            mode: The mode, as for `Study.set_mode`.
            baseline: The action in shadow mode.
            why: The reason, for the log.
        """
        body = {"mode": mode, "baseline": None if baseline is None else dict(baseline), "why": why}
        self._transport.send("POST", "/mode", body)

    @property
    def mode(self) -> str:
        """The mode, as `Study.mode`."""
        return str(self.modes()[-1]["mode"])

    def modes(self) -> list[dict[str, Any]]:
        """All modes of the study so far, with time, author and reason."""
        return list(self._pages("/mode"))

    def description(self) -> dict[str, Any]:
        """The problem, the policy and the rules as a JSON-ready description."""
        return self._transport.send("GET", "")  # type: ignore[no-any-return]

    def report(self) -> dict[str, Any]:
        """The summary of the study, as `Study.report().to_record()`."""
        return self._transport.send("GET", "/report")  # type: ignore[no-any-return]

    def lines(self) -> list[dict[str, Any]]:
        """The statistic as JSON-ready rows: one for each context, action and configuration that occurred, most frequent
        first.
        """
        return sorted(self._pages("/statistics"), key=lambda record: -record["n"])[:10_000]

    @property
    def n_decisions(self) -> int:
        """The number of decisions."""
        return sum(self.report()["decisions"].values())

    @property
    def n_outcomes(self) -> int:
        """The number of outcomes that count."""
        return int(self.report()["outcomes"]["n"])

    @property
    def budget(self) -> BudgetStatus | None:
        """The amounts spent and left of the budget; None without a budget."""
        spent = self.report()["budget"]
        return None if spent is None else BudgetStatus(**spent)

    def recommend(
        self, *, context: Context | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Recommendation:
        """Recommend an action, as `Study.recommend` does.

        Args:
            context: The known values of the problem's context, by variable. Default: marginal over the context.
            confidence: The probability of the interval, and of the stopping rule.
            tolerance: The acceptable loss in mean reward, in units of the reward.

        Returns:
            The recommendation.
        """
        body = {
            "context": None if context is None else dict(context),
            "confidence": confidence,
            "tolerance": tolerance,
        }
        return self._decode_recommendation(self._transport.send("POST", "/recommendation", body))

    def recommendations(
        self, *, confidence: float = 0.95, tolerance: float = 0.0, limit: int | None = None
    ) -> Recommendations:
        """Recommend an action for each context, as `Study.recommendations` does.

        Args:
            confidence: The probability of each interval, and of each stopping rule.
            tolerance: The acceptable loss in mean reward, in units of the reward.
            limit: The number of contexts, at most 100.

        Returns:
            Pairs of the context's probability and its recommendation, the most probable context first.
        """
        body = {"confidence": confidence, "tolerance": tolerance, "limit": limit}
        response = self._transport.send("POST", "/recommendations", body)
        pairs = [(item["share"], self._decode_recommendation(item)) for item in response["contexts"]]
        return Recommendations(pairs, [(item["share"], item["why"]) for item in response["refused"]])

    def _decode_recommendation(self, record: Mapping[str, Any]) -> Recommendation:
        """A recommendation whose table is requested from the service."""
        recommendation = decode_recommendation(self.problem, record)
        body = {
            "context": dict(recommendation.context) or None,
            "confidence": recommendation.confidence,
            "tolerance": recommendation.certainty.tolerance,
        }

        def ranking(limit: int | None, offset: int) -> ActionTable:
            validate_page(limit, offset)
            pages: list[ActionTable] = []
            while not pages or (pages[-1].rows and (limit is None or sum(map(len, pages)) < limit)):
                n = sum(map(len, pages))
                size = ACTIONS_PER_PAGE if limit is None else min(ACTIONS_PER_PAGE, limit - n)
                page = {**body, "limit": size, "offset": offset + n}
                pages.append(decode_action_table(self._transport.send("POST", "/actions", page)))
                if offset + n + len(pages[-1]) >= pages[-1].n_ranked:
                    break
            return replace(pages[0], rows=tuple(row for page in pages for row in page))

        return replace(recommendation, ranking=ranking)

    def evidence(self, *, alpha: float | None = None) -> Evidence:
        """Test the model by e-values, as `Study.evidence` does; needs an admin's API key.

        Args:
            alpha: The limit of the probability of any false alarm. Default: 0.05, or the guard's own level.

        Returns:
            The claims with their e-values.
        """
        return decode_evidence(self._transport.send("POST", "/evidence", {"alpha": alpha}))

    def structure(self) -> LearnedStructure:
        """The causal structure learned so far, as `Study.structure` returns it.

        Returns:
            The structure, with the 100 likeliest parent sets of each variable.

        Raises:
            PolicyError: If the graph is given, or the policy does not learn the structure.
        """
        return LearnedStructure.from_record(self._transport.send("GET", "/structure"))

    def policies(self) -> list[dict[str, Any]]:
        """All policies of the study so far, with time and author."""
        return list(self._pages("/policy"))

    def events(self, after: int | str = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """List the events of the log in order, as `Study.events` does.

        Args:
            after: The `id` of the last event that you have, or its number. Default: the beginning.
            limit: The length of the list.

        Returns:
            JSON-ready events.
        """
        return list(itertools.islice(self._pages("/events", after), limit))

    def _pages(self, path: str, cursor: int | str | None = None) -> Iterator[dict[str, Any]]:
        """The items of a list, fetched page by page."""
        query: str | None = f"?limit={PAGE_LIMIT}" + (
            "" if cursor is None else f"&cursor={quote(str(cursor), safe='')}"
        )
        while query is not None:
            page = self._transport.send("GET", path + query)
            yield from page["items"]
            query = page["next"]

    def verify(self) -> Verification:
        """Replay the event log and compare the result with the stored state; needs an admin's API key."""
        response = self._transport.send("POST", "/verify", {})
        return Verification(response["decisions"], response["events"], tuple(response["differences"]))

    def replay(self, id: Id) -> bool:
        """Whether a decision is reproduced from the outcomes that were known when it was made.

        Args:
            id: The decision's id or its key.

        Returns:
            True if the decision is the same again.
        """
        return bool(self.explain(id)["comes_out_again"])

    def status(self, decision: Decision | Id) -> str | None:
        """The status of a decision.

        Args:
            decision: The decision, its id or its key.

        Returns:
            "open", "held", "told", "expired" or "cancelled"; None for a key without a decision.
        """
        try:
            return str(self.explain(decision)["status"])
        except UnknownDecisionError:
            if isinstance(_decision_id(decision), str):
                return None
            raise

    def explain(self, decision: Decision | Id) -> dict[str, Any]:
        """Explain a decision, as `Study.explain` does.

        Args:
            decision: The decision, its id or its key.

        Returns:
            A JSON-ready description.
        """
        return self._transport.send("GET", _decision_path(_decision_id(decision)))  # type: ignore[no-any-return]


def _decode(record: Mapping[str, Any]) -> Decision:
    return Decision(record["id"], dict(record["action"]), record["propensity"])


def _decode_receipt(record: Mapping[str, Any]) -> Receipt:
    return Receipt(record["status"], record["why"], tuple(record["missing"]))


def connect(
    url: str,
    key: str | None = None,
    *,
    timeout: Timeout = 30.0,
    fallback: Mapping[str, State] | None = None,
) -> RemoteStudy:
    """Connect to a study that `causalbandits serve` serves over HTTP.

    No request is sent before the first call. With a fallback, `ask` works without the service; here, none listens:

    >>> study = connect("http://127.0.0.1:9/campaign", timeout=0.2, fallback={"banner": "plain"})
    >>> decision = study.ask()
    >>> decision.action, decision.fallback
    ({'banner': 'plain'}, True)
    >>> study.close()

    Args:
        url: The URL of the study, such as "http://127.0.0.1:8000/campaign".
        key: The API key. Default: none.
        timeout: The number of seconds that a call may take, retries included; or a pair, the seconds for connecting and
            for the whole call.
        fallback: The action that `ask` returns if the service does not answer in time. Default: `ask` raises an error.

    Returns:
        The study.

    Raises:
        InterventionError: If `fallback` is not a mapping.
        CausalBanditsError: If the URL or the timeout is malformed.
    """
    return RemoteStudy(url, key, timeout=timeout, fallback=fallback)


def _decision_path(id: Id, command: str = "") -> str:
    """The path of a decision: by its id, or by its number or key with a parameter that distinguishes them."""
    if isinstance(id, str) and parse_id("d", id) is not None:
        return f"/decisions/{id}{command}"
    return f"/decisions/-{command}?{'key' if isinstance(id, str) else 'number'}={quote(str(id), safe='')}"


def _decision_id(decision: Decision | Id) -> Id:
    return decision.id if isinstance(decision, Decision) else decision
