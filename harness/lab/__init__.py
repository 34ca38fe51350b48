"""How the miniature models are made: vocabulary, corpus, training and measurement.

Leaves out: reinforcement learning on them (`harness.core`) and the problems themselves (`harness.tasks.arithmetic`).
"""
