"""Every code block of the README and of docs/ runs."""

import re
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", blocks("python"))
def test_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert keras.models.load_model(tmp_path / "model.keras").count_params() > 0


@pytest.mark.parametrize(
    "page", sorted(path.name for path in (ROOT / "docs").glob("*.md") if "```python" in path.read_text())
)
def test_python_blocks_of_a_page_run_in_their_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    exec(compile("\n".join(found), page, "exec"), {})


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"make ([\w-]+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(commands)
    for target in commands:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_commands_are_understood():
    from comet_keras.cli import make_parser

    lines = [line for block in blocks("bash") for line in block.splitlines()]
    commands = [line.split("#")[0].split()[1:] for line in lines if line.startswith("comet-keras")]
    assert commands
    for command in commands:
        if "--help" in command:
            with pytest.raises(SystemExit) as stop:
                make_parser().parse_args(command)
            assert stop.value.code == 0
        else:
            assert make_parser().parse_args(command)
