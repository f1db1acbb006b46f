"""Settings of all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no hurry", deadline=None)  # a machine may be busy, or have to compile first
settings.load_profile("no hurry")

SLOW = {
    "browser": ["service/dashboard/test_browser.py", "journeys/test_live_campaign.py"],
    "postgres": ["study/storage/test_postgres.py"],
    "kills": ["service/test_reliability.py", "study/test_reliability.py", "engine/test_resume.py"],
    "fuzz": ["journeys/test_fuzz.py", "journeys/test_fuzz_calls.py", "formats/test_hostile_files.py"],
}
"""Which files are slow, by what makes them so; `pytest -m "not browser and not postgres"` leaves some out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    markers = {Path(__file__).parent / file: marker for marker, files in SLOW.items() for file in files}
    for item in items:
        if item.path in markers:
            item.add_marker(markers[item.path])
