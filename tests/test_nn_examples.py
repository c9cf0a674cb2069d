"""The networks in docs/examples/nn: gradients and training against JAX, kernels inside them, INT8 inference, and the picture."""

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import pypto
from pypto import dtypes, lax, tree
from tests.bits import identical

FOLDER = Path(__file__).parent.parent / "docs" / "examples" / "nn"
COMPILED = {"check": False, "executor": "cpu"}
NAMES = ("transformer", "flash_block", "heads", "int8_block", "training", "chart")


@pytest.fixture(scope="module")
def nn():
    """The modules of the folder, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield {name: importlib.import_module(name) for name in NAMES}


@pytest.fixture(scope="module")
def model(nn):
    return nn["transformer"]


@pytest.fixture(scope="module")
def batch(model):
    """Parameters as a vector, and tokens."""
    return [spec.make(seed=3) for spec in model.specs()[:2]]


@pytest.fixture(scope="module")
def trained(nn):
    """What training gives: the inputs, the losses of pypto, its parameters, and the losses of JAX."""
    training = nn["training"]
    inputs = [spec.make() for spec in training.specs()[:2]]
    losses, params = training.train(nn["transformer"].loss, nn["transformer"].unpacked(inputs[0]), inputs[1])
    return inputs, losses, params, training.golden(*inputs)


@pytest.fixture(scope="module")
def flash_losses(nn, trained):
    with pypto.override(**COMPILED):
        return nn["training"].flash_curve(*trained[0])


def apart(a, b):
    """The distance of two arrays relative to the second one's size."""
    return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b)))


# ---- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transformer", "flash_block", "heads", "int8_block"])
def test_the_example_runs_and_agrees_with_jax_on_other_inputs(nn, name, capsys):
    assert nn[name].check_example(seed=5).passed
    nn[name].main()
    assert "all " in capsys.readouterr().out


def test_every_gradient_of_both_attentions_is_that_of_jax_to_the_precision_of_bf16(nn, model, batch):
    _, want = model.jax_value_and_grad()(model.unpacked(batch[0]), batch[1])
    for module in (model, nn["flash_block"]):
        _, found = module.value_and_grad(model.unpacked(batch[0]), batch[1])
        far = {name: apart(found[name], want[name]) for name in want if apart(found[name], want[name]) > 2.0**-6}
        assert not far  # each rounding is up to 2**-9 of an element; those of some layers add up


def test_the_flash_kernels_give_the_gradients_of_the_attention_over_lax(nn, model, batch):
    value, plain = model.gradient(*batch)
    flash_value, flash = nn["flash_block"].gradient(*batch)
    assert abs(float(value) - float(flash_value)) < 2.0**-9  # weights are rounded before they are divided, not after
    assert apart(flash, plain) < 2.0**-7


@pytest.mark.parametrize("change", ["without a mask", "without a scale", "a head for another"])
def test_another_attention_is_outside_the_tolerance(nn, model, change):
    def attend(q, k, v):
        if change == "a head for another":
            return model.attend(q, v, k)
        scores = lax.matmul(q, k, b_trans=True)
        scores = scores * model.HEAD_DIM**-0.5 if change == "without a mask" else scores + model.CAUSAL
        weights = lax.exp(scores - scores.max(-1, keepdims=True))
        return model.bf16(lax.matmul(model.bf16(weights), v) / weights.sum(-1, keepdims=True))

    def gradient(params, tokens):
        changed = model.Parts(attend=attend)
        value, found = pypto.jit(pypto.value_and_grad(lambda p, t: model.loss(p, t, changed)))(model.unpacked(params), tokens)
        return value, model.packed(found)

    found = pypto.testing.check(gradient, model.golden, model.specs(), tolerance=model.TOLERANCE, raises=False, returns=True)
    assert not found.outputs["gradient"].passed


def test_a_jitted_gradient_has_the_bits_of_the_plain_one(model, batch):
    plain = pypto.value_and_grad(model.loss)(model.unpacked(batch[0]), batch[1])
    jitted = model.value_and_grad(model.unpacked(batch[0]), batch[1])
    assert all(identical(a, b) for a, b in zip(tree.leaves(plain), tree.leaves(jitted), strict=True))


def test_products_with_weights_are_bf16_accumulated_in_fp32_on_the_way_back_too(model, batch):
    jaxpr = pypto.make_jaxpr(pypto.value_and_grad(model.loss))(model.unpacked(batch[0]), batch[1])
    products = [eqn for eqn in jaxpr.walk() if eqn.op.name == "matmul"]
    weights = {(model.DIM, model.DIM), (model.DIM, model.HIDDEN), (model.HIDDEN, model.DIM)}
    own = [eqn for eqn in products if {tuple(a.aval.shape[-2:]) for a in eqn.ins} & weights]
    assert len(own) >= 14 and all(a.aval.dtype is dtypes.BF16 for eqn in own for a in eqn.ins)
    assert all(o.aval.dtype is dtypes.FP32 or eqn.params["out_dtype"] is dtypes.BF16 for eqn in own for o in eqn.outs)


# ---- kernels -----------------------------------------------------------------------------------------------------


def test_both_executors_give_the_same_gradient_through_the_kernels(nn, batch):
    with pypto.override(check=True, executor="reference"):
        reference = nn["flash_block"].gradient(*batch)
    with pypto.override(**COMPILED):
        compiled = nn["flash_block"].gradient(*batch)
    assert identical(reference[0], compiled[0]) and identical(reference[1], compiled[1])


@pytest.mark.parametrize("kernel", ["forward", "backward_q", "backward_kv"])
def test_the_flash_kernels_are_legal_on_the_chip(nn, kernel):
    with pypto.override(platform="a2a3", verify=True):
        assert getattr(nn["flash_block"], kernel).lower().kernels


def test_each_of_the_three_kernels_is_one_equation_for_all_heads_of_the_batch(nn, model, batch):
    jaxpr = pypto.make_jaxpr(pypto.value_and_grad(nn["flash_block"].loss))(model.unpacked(batch[0]), batch[1])
    kernels = {e.params["launch"].name: e.outs[0].aval.shape for e in jaxpr.walk() if e.op.name == "kernel"}
    shape = (model.BATCH, model.HEADS, model.SEQ, model.HEAD_DIM)
    assert kernels == {"forward": shape, "backward_q": shape, "backward_kv": shape}


def test_a_head_has_the_bits_of_the_kernel_called_for_it(nn):
    heads = nn["heads"]
    inputs = [spec.make(seed=2) for spec in heads.specs()[:3]]
    assert identical(heads.heads(*inputs), heads.one_by_one(*inputs))
    assert [e.op.name for e in pypto.make_jaxpr(heads.heads)(*inputs).eqns].count("kernel") == 1


# ---- INT8 --------------------------------------------------------------------------------------------------------


def test_an_int8_layer_has_the_bits_of_numpys_quantisation_and_jaxs_product(nn):
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    x, w = (np.array(pypto.Array(np.float32(rng.standard_normal(s)), "BF16")) for s in ((32, 64), (64, 48)))
    x[3] = 0  # a row of padding

    def codes(x, axis):  # in NumPy: XLA multiplies with the reciprocal of what it divides by
        wide = x.astype(np.float32)
        scale = np.maximum(np.abs(wide).max(axis, keepdims=True) / np.float32(127), np.float32(2.0**-100))
        return np.rint(wide / scale).astype(np.int8), scale

    (a, rows), (b, columns) = codes(x, -1), codes(w, 0)
    product = np.asarray(jnp.matmul(a, b, preferred_element_type=jnp.int32))
    found = nn["int8_block"].linear(x, nn["int8_block"].quantised(w, 0))
    assert identical(found, (product.astype(np.float32) * rows * columns).astype(x.dtype)) and not np.asarray(found)[3].any()


def test_every_matrix_of_the_block_is_multiplied_in_int8(nn, model, batch):
    int8 = nn["int8_block"]
    jaxpr = pypto.make_jaxpr(int8.logits)(int8.quantise(model.unpacked(batch[0])), batch[1][:, :-1])
    products = [[v.aval.dtype for v in (*e.ins, *e.outs)] for e in jaxpr.walk() if e.op.name == "matmul"]
    assert products.count([dtypes.INT8, dtypes.INT8, dtypes.INT32]) == len(int8.MATRICES)


@pytest.mark.slow
def test_int8_inference_is_near_the_bf16_version_after_training(nn, trained):
    inputs, _, params, _ = trained
    size, other = nn["int8_block"].error(params, inputs[1][-1][:, :-1])
    assert 0 < size < 0.03  # a step of a code is 1/127 of the largest of its row; errors of the elements of a sum partly cancel
    assert other < 0.03


# ---- training ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifty_steps_of_training_follow_those_in_jax(nn, trained):
    _, losses, _, jax_losses = trained
    assert losses[0] > 3 and losses[-10:].mean() < 0.2  # log(16) is 2.8
    assert pypto.testing.compare(losses, jax_losses, tolerance=nn["training"].TOLERANCE).passed


@pytest.mark.slow
def test_training_with_the_flash_kernels_follows_too(nn, trained, flash_losses):
    assert pypto.testing.compare(flash_losses, trained[3], tolerance=nn["training"].TOLERANCE).passed


@pytest.mark.slow
def test_a_rate_two_percent_off_is_outside_the_tolerance(nn, trained, monkeypatch):
    training = nn["training"]
    monkeypatch.setattr(training, "RATE", training.RATE * 1.02)
    inputs, _, _, jax_losses = trained
    assert not pypto.testing.compare(training.curve(*inputs), jax_losses, tolerance=training.TOLERANCE).passed


@pytest.mark.slow
def test_the_picture_shows_what_training_gives_now(nn, trained, flash_losses, pytestconfig):
    """The curves of pypto have the same bits everywhere, so their lines are compared as text; JAX's keep what they were drawn from."""
    training = nn["training"]
    _, losses, _, jax_losses = trained
    if pytestconfig.getoption("--update-golden"):
        training.PICTURE.write_text(training.picture(losses, flash_losses, jax_losses))
    text = training.PICTURE.read_text()
    lines = [e for e in ElementTree.fromstring(text).iter() if e.tag.endswith("polyline")]
    drawn = np.float32(lines[2].attrib["data-values"].split())
    assert text == training.picture(losses, flash_losses, drawn)
    assert np.abs(drawn - jax_losses).max() <= training.TOLERANCE.atol


# ---- the chart ---------------------------------------------------------------------------------------------------


def test_a_chart_has_a_title_labels_ticks_and_a_legend_and_needs_nothing_else(nn):
    chart = nn["chart"]
    text = chart.line_chart([chart.Line("a < b", [1.0, 0.5]), chart.Line("c", [2.0])], title="T", x_label="X", y_label="Y")
    root = ElementTree.fromstring(text)
    words = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert {"T", "X", "Y", "a < b", "c", "0", "0.5", "2"} <= set(words)
    assert "prefers-color-scheme: dark" in text and "href" not in text and "url(" not in text and "<script" not in text


def test_points_of_a_chart_lie_inside_its_axes(nn):
    chart = nn["chart"]
    text = chart.line_chart([chart.Line("a", [-3.0, 7.2, 0.0])], title="", x_label="", y_label="")
    (line,) = (e for e in ElementTree.fromstring(text).iter() if e.tag.endswith("polyline"))
    points = np.array([[float(v) for v in p.split(",")] for p in line.attrib["points"].split()])
    assert (points[:, 0] >= chart.LEFT).all() and (points[:, 0] <= chart.WIDTH - chart.RIGHT).all()
    assert (points[:, 1] >= chart.TOP).all() and (points[:, 1] <= chart.HEIGHT - chart.BOTTOM).all()
    assert points[1, 1] < points[2, 1] < points[0, 1]  # up is more


@pytest.mark.parametrize(
    ("low", "high", "wanted"), [(0, 3.4, [0, 1, 2, 3, 4]), (0, 49, [0, 10, 20, 30, 40, 50]), (-0.1, 0.2, [-0.1, 0, 0.1, 0.2])]
)
def test_ticks_are_round_numbers_around_the_values(nn, low, high, wanted):
    found = nn["chart"].ticks(low, high)
    assert found[0] <= low and found[-1] >= high and len(found) <= 8
    assert set(wanted) <= set(found)


@pytest.mark.parametrize("count", [0, 4])
def test_a_chart_has_at_most_as_many_lines_as_colours(nn, count):
    with pytest.raises(ValueError, match="lines"):
        nn["chart"].line_chart([nn["chart"].Line("a", [1.0])] * count, title="", x_label="", y_label="")
