"""An agent with main effects that was saved when these were kept otherwise is made anew from its outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import causalbandits as cb
from causalbandits.agent import file


def test_an_older_file_is_made_anew_from_its_outcomes(tmp_path: Path) -> None:
    env, rng, path = cb.zoo.email_campaign(), np.random.default_rng(0), tmp_path / "agent.json"
    agent = cb.Agent(env.problem, "c-gittins(prior=main-effects)", seed=1)
    for _ in range(30):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    agent.save(path)
    content = file.read_agent_file(path)
    kept = content["statistic"]
    older = {name: kept[name] for name in ("rounds", "count", "total", "shape")}
    content["statistic"] = {**older, "pooled": [0.0] * 5, "R": [[1.0]], "u": [0.0], "ratios": [1.0, 1.0, 0.0, 31.0]}
    path.write_text(json.dumps({**content, "checksum": file._checksum(content)}))
    loaded = cb.Agent.load(path)
    assert [loaded.ask().action for _ in range(3)] == [agent.ask().action for _ in range(3)]
    assert loaded._statistic.to_record() == kept
