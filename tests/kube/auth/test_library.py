"""The library is loaded without what we do not use."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from multikueue.kube.auth.library import spare_models
spare_models()
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config, load_kube_config_from_dict
assert Configuration.__module__ == "kubernetes_asyncio.client.configuration"
loaded = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.")]
print(len(loaded))
"""

WHOLE = """
import kubernetes_asyncio.client
from multikueue.kube.auth.library import spare_models
spare_models()
assert kubernetes_asyncio.client.BatchV1Api
"""


def test_the_models_stay_out() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(answer.stdout) < 10


def test_a_library_that_is_loaded_whole_stays_whole() -> None:
    subprocess.run([sys.executable, "-c", WHOLE], check=True)
