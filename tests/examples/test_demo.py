import importlib.util
from pathlib import Path

import keras
import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.slow
def test_demo_with_tiny_settings(tmp_path, capsys, monkeypatch):
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    assert list(demo.GATES) == ["Softmax", "Top-k", "Top-k+", "DSelect-k", "COMET", "COMET+"]
    monkeypatch.setattr(demo, "GATES", {"Softmax": "softmax", "COMET+": "comet+"})  # each is traced
    results = demo.main(["--epochs", "1", "--pairs", "50", "--output-dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert list(results) == ["Softmax", "COMET+"]
    assert "top_left accuracy" in out and "experts per sample" in out
    for label, result in results.items():
        (row,) = [line for line in out.splitlines() if line.startswith(f"{label} ")]
        assert f"{result.test['loss']:.4f}" in row
    for name in ("loss.png", "expert_load.png", "permutation.png"):
        assert (tmp_path / name).stat().st_size > 1000
    assert keras.saving.load_model(tmp_path / "best.keras").name == "multi_digits"
