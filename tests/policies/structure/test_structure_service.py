"""Problems whose structure is learned, with limits or past rows, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.policies.structure.worlds import MANIPULABLE, OBSERVED
from tests.service.test_service import Served

from causalbandits.service.server import build_service


@pytest.mark.filterwarnings("ignore:No action satisfies")
def test_a_study_over_http_takes_limits_and_refuses_data_in_words(tmp_path: Path) -> None:
    running = Served(build_service([], directory=tmp_path))
    body = {"reward": "click", "manipulable": MANIPULABLE, "values": OBSERVED}

    def create(name: str, **entries: object) -> tuple[int, dict]:
        content = json.dumps({"name": name, "problem": {**body, **entries}, "seed": 1})
        status, _, text = running.fetch("POST", "/v1/studies", content, **{"Content-Type": "application/json"})
        return status, json.loads(text)

    try:
        assert create("limited", max_probability={"template": {"1": 0.7}})[0] == 201
        content = json.dumps({})
        status, _, text = running.fetch(
            "POST", "/v1/studies/limited/decisions", content, **{"Content-Type": "application/json"}
        )
        assert status == 201
        assert set(json.loads(text)["action"]) == set(MANIPULABLE)
        for entries, part in (
            ({"max_probability": {"click": {"1": 0.7}}}, "click"),
            ({"data": {"purpose": ["Promo"]}}, "data"),
        ):
            status, answer = create("refused", **entries)
            assert status == 422
            assert part in json.dumps(answer)
    finally:
        running.stop()
