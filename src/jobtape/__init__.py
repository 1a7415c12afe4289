"""jobtape: the flight recorder of elastic training jobs."""

__version__ = "0.1.0"
