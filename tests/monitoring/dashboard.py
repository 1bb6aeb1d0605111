"""Reads the Grafana dashboard with Grafana's own models, which must know every field of it.

    pip install grafana-foundation-sdk && python3 tests/monitoring/dashboard.py
"""

import copy
import json
import pathlib

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

FILE = pathlib.Path(__file__).parents[2] / "runtime/monitoring/dashboard.json"


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


plugins.register_default_plugins()
dashboard = json.loads(FILE.read_text())
assert unknown_fields(dashboard) == [], unknown_fields(dashboard)

# The control: fields with a mistake in their names.
for place, name in [
    (lambda broken: broken, "titel"),
    (lambda broken: broken["panels"][3], "datasorce"),
    (lambda broken: broken["panels"][3]["targets"][0], "expression"),
]:
    broken = copy.deepcopy(dashboard)
    place(broken)[name] = "x"
    assert len(unknown_fields(broken)) == 1, name

print(f"{len(dashboard['panels'])} panels")
