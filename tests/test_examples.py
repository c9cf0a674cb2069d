"""Each program in docs/examples runs."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "examples"
EXAMPLES = sorted(file for file in FOLDER.glob("*.py") if file.name != "demo.py" and not file.name.startswith("_"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_runs(file, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    name = f"example_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    assert callable(getattr(module, "main", None)), f"{file.name} has no main()"
    module.main()
