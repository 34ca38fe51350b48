"""What the core has of transformers, imported without scikit-learn, which would be a fifth of a worker's start.

transformers imports it, where it is there (MLflow brings it), for a kind of assisted decoding that nothing here asks
for; so these names come from here. Leaves out: what is done with them.
"""

from transformers import utils

_asked = utils.is_sklearn_available
utils.is_sklearn_available = lambda: False
try:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_layers import GradientCheckpointingLayer
finally:
    utils.is_sklearn_available = _asked

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "GradientCheckpointingLayer"]
