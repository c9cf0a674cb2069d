"""Transformations of array functions, with JAX's names: look at them, compile, differentiate, batch."""

from pypto.api.checkpointing import checkpoint, checkpoint_policies
from pypto.api.compiling import Jitted, jit
from pypto.api.custom import custom_jvp, custom_vjp
from pypto.api.differentiating import grad, jvp, linearize, value_and_grad, vjp
from pypto.api.inspecting import ShapeDtypeStruct, eval_shape, explain_cache, make_jaxpr
from pypto.api.jacobians import hessian, jacfwd, jacrev
from pypto.api.mapping import vmap

__all__ = [
    "Jitted",
    "ShapeDtypeStruct",
    "checkpoint",
    "checkpoint_policies",
    "custom_jvp",
    "custom_vjp",
    "eval_shape",
    "explain_cache",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "make_jaxpr",
    "value_and_grad",
    "vjp",
    "vmap",
]
