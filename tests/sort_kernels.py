"""Random kernels of the sort unit: runs sorted and merged in steps, of which windows, lanes and valid parts are read."""

from __future__ import annotations

import random

ROWS = 4
SIZES = (32, 64, 128, 256, 384, 512, 640, 1024, 2048)


def sort_kernel(seed: int) -> str:
    """The source of one kernel; the same seed always gives the same text."""
    rng = random.Random(seed)
    n, dtype = rng.choice(SIZES), rng.choice(("FP32", "FP16"))
    row = "x[r : r + 1, :]"
    if rng.random() < 0.3:  # many ties
        row = f"pl.cast(pl.cast({row}, pl.INT32), pl.{dtype})" if dtype == "FP32" else f"pl.cast(pl.cast({row}, pl.INT16), pl.FP16)"
    index = rng.choice((f"pl.arange({rng.randrange(99)}, [1, {n}], dtype=pl.UINT32)", "i[r : r + 1, :]"))
    valid = n
    if rng.random() < 0.3:
        valid = rng.randint(1, n)
        extent = f"pl.min({valid}, p + {valid})" if rng.random() < 0.3 else str(valid)
        row, index = (f"pl.set_validshape({what}, 1, {extent})" for what in (row, index))
    body = [f"s = pl.sort32({row}, {index})"]
    length = 64
    while 2 * n % (4 * length) == 0 and rng.random() < 0.85:
        body.append(f"s = pl.mrgsort(s, block_len={length})")
        length *= 4 if rng.random() < 0.9 else 1
        if rng.random() < 0.1:
            body.append("t = s[:, 0:16]")
    outs = []
    for k in range(rng.randint(1, 2)):
        width = rng.randint(1, min(70, 2 * valid))
        start = rng.randrange(min(20, 2 * valid - width + 1)) if rng.random() < 0.4 else 0
        window = f"s[:, {start} : {start + width}]"
        if rng.random() < 0.5 and start % 2 == 0 and width % 2 == 0:
            window, width = f"pl.gather({window}, mask_pattern=pl.tile.MaskPattern.{rng.choice(('P0101', 'P1010'))})", width // 2
        store = f"o{k}[r : r + 1, :] = {window}"
        body += [f"if p + r > {rng.randrange(3)}:", f"    {store}"] if rng.random() < 0.2 else [store]
        outs.append(f"    o{k}: pl.Out[pl.Tensor[[{ROWS}, {width}], pl.{dtype}]],")
    head = ["@pl.jit", "def kernel(", f"    x: pl.Tensor[[{ROWS}, {n}], pl.{dtype}],", f"    i: pl.Tensor[[{ROWS}, {n}], pl.UINT32],"]
    head += ["    p: pl.Scalar[pl.INT32],", *outs, "):"]
    loop = [f"    for r in pl.range({ROWS}):", "        with pl.at(level=pl.Level.CORE_GROUP):"]
    return "\n".join([*head, *loop, *(f"            {line}" for line in body)]) + "\n"
