"""The instrument: what to run (`harness.sweep`) and how one run trains (`harness.core`).

The two wings meet in a run's folder (`harness.store`) and share one configuration (`harness.config`).
Nothing here imports torch; only a worker that trains a run does.
"""
