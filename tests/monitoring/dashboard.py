"""Reads the Grafana dashboard with Grafana's own models, which must know every field of it.

    pip install grafana-foundation-sdk && python3 tests/monitoring/dashboard.py
"""

import copy
import json
import pathlib

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

FOLDER = pathlib.Path(__file__).parents[2] / "runtime/monitoring"


def lost(read, written, path="dashboard"):
    """The fields of the file that the models do not write again: they do not know them."""
    if isinstance(read, dict):
        for name, value in read.items():
            if not isinstance(written, dict) or name not in written:
                yield f"{path}.{name}"
            else:
                yield from lost(value, written[name], f"{path}.{name}")
    elif isinstance(read, list):
        if not isinstance(written, list) or len(read) != len(written):
            yield path
        else:
            for number, (one, other) in enumerate(zip(read, written)):
                yield from lost(one, other, f"{path}[{number}]")
    elif read != written:
        yield path


def unknown_fields(dashboard):
    # The models keep what they are given, and change it.
    parsed = Dashboard.from_json(copy.deepcopy(dashboard))
    return list(lost(dashboard, json.loads(JSONEncoder().encode(parsed))))


def check(name):
    dashboard = json.loads((FOLDER / name).read_text())
    assert unknown_fields(dashboard) == [], unknown_fields(dashboard)

    # The control: fields with a mistake in their names.
    for place, field in [
        (lambda broken: broken, "titel"),
        (lambda broken: broken["panels"][3], "datasorce"),
        (lambda broken: broken["panels"][3]["targets"][0], "expression"),
    ]:
        broken = copy.deepcopy(dashboard)
        place(broken)[field] = "x"
        assert len(unknown_fields(broken)) == 1, field
    print(f"{name}: {len(dashboard['panels'])} panels")


plugins.register_default_plugins()
for name in ["dashboard.json", "fleet.json"]:
    check(name)
