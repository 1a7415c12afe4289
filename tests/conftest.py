"""What all tests share: a clean environment, and tests that need torch skipped where there is none."""

import importlib.util
import os

import hypothesis
import pytest

# Variables by which a job, a launcher or a terminal would change what is tested.
FOREIGN = ("JOBTAPE_", "PET_", "TORCH", "MASTER_", "SLURM_", "OMPI_", "PMI_", "PBS_", "LSB_", "KUBERNETES_")
FOREIGN_ENDS = ("RANK", "WORLD_SIZE", "ROLE_NAME", "JOB_ID", "LOGLEVEL", "COLOR", "COLUMNS")
OURS = {"JOBTAPE_WHEEL", "JOBTAPE_CASES"}

for _name in list(os.environ):
    if (_name.startswith(FOREIGN) or _name.endswith(FOREIGN_ENDS)) and _name not in OURS:
        del os.environ[_name]

# A shared machine may pause at any moment, so the time one example takes says nothing.
hypothesis.settings.register_profile(
    "default", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("default"), derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let test modules import torch as it is without jobtape, or ours would be compared with ours."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        return (yield)
    finally:
        del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]


def pytest_collection_modifyitems(items):
    """Skip what needs torch where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch") or item.get_closest_marker("torchrun"):
                item.add_marker(pytest.mark.skip(reason="needs torch"))
