"""The notebooks of examples/notebooks, run in kernels of their own."""

import os
import pathlib

import pytest

from conftest import ROOT

jupytext = pytest.importorskip("jupytext")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.py"))


def test_all_are_named():
    text = (ROOT / "examples/notebooks/README.md").read_text()
    assert len(NOTEBOOKS) == 4 and all(f"`{path.name}`" in text for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_says(path: pathlib.Path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    # What a cell ends with: progress is drawn beside it on a slow machine only.
    ends = {kind for out in outputs if out["output_type"] == "execute_result" for kind in out["data"]}
    assert "text/html" in ends
    assert "image/png" in {kind for out in outputs for kind in out.get("data", {})}
    assert not [out for out in outputs if out["output_type"] == "error"]
    # Nothing red: warnings of packages go to standard error.
    said = [out["text"] for out in outputs if out["output_type"] == "stream" and out["name"] == "stderr"]
    assert not [text for text in said if "Warning" in text], said
