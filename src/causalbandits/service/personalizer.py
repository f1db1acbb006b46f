"""Azure Personalizer's rank and reward, for those who come from there: they change an endpoint and a key.

rank       the actions' features name what each would set; those of the context that the problem knows are used. An
           event is a decision, its id the decision's key: ranked again, the same answer. A probability that is not
           known is null.
reward     of an event. A causal policy learns from the reward's parents: tell them as well, in `parents`.
activate   of an event that was ranked with deferActivation: until then it counts as not carried out, and its silence
           as nothing. Its window begins when it is ranked. A reward activates it, too, unless late ones are ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from causalbandits.errors import CausalBanditsError
from causalbandits.service.bodies import RankAction, RankWanted, RewardTold, Value
from causalbandits.study import Study
from causalbandits.study.rows import IS_FORGOTTEN, IS_OPEN


def ranked(study: Study, wanted: RankWanted) -> dict[str, Any]:
    """The actions, that which is to be shown first."""
    known = {k: v for k, v in _merged(wanted.contextFeatures).items() if k in study.problem.context}
    actions = _interventions(wanted.actions)
    eligible = [do for id, do in actions.items() if id not in wanted.excludedActions]
    event = secrets.token_hex(16) if wanted.eventId is None else wanted.eventId
    is_new = study.status(event) is None
    decision = study.ask(context=known or None, eligible=eligible, key=event)
    if wanted.deferActivation and is_new and study.status(event) == IS_OPEN:
        study.forget(event)
    chances = _chances(study, decision.id, eligible)
    (best,) = (id for id, do in actions.items() if do == dict(decision.intervention))
    order = sorted(actions, key=lambda id: id != best)
    ranking = [{"id": id, "probability": chances.get(_set(actions[id]), 0.0)} for id in order]
    return {"ranking": ranking, "eventId": event, "rewardActionId": best}


def _chances(study: Study, id: int, eligible: list[dict[str, Value]]) -> dict[Any, float | None]:
    """Of each action that could be chosen, its probability; None if it is not known, 1 if there was no choice."""
    known: dict[Any, float | None] = {_set(do): chance for do, chance in study.chances(id).items()}
    return known or {_set(do): 1.0 if len(eligible) == 1 else None for do in eligible}


def _set(done: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset(done.items())


def activated(study: Study, event: str) -> None:
    """What was ranked was shown after all."""
    if study.status(event) == IS_FORGOTTEN:
        study.retract(event)


def rewarded(study: Study, event: str, told: RewardTold) -> None:
    """The reward of an event."""
    study.tell(event, told.parents, told.value)


def _interventions(actions: Iterable[RankAction]) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for action in actions:
        done = _merged(action.features)
        if action.id in found or done in found.values():
            raise CausalBanditsError(f"Two actions must differ by their ids and by what they set; got {action.id!r}.")
        found[action.id] = done
    return found


def _merged(features: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for own in features:
        found |= own
    return found
