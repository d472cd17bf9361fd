"""What the documents show is what happens."""

import inspect
from pathlib import Path

import headgate
from headgate import registry
from headgate.task_function import TaskFunction
from tests.docs.guides import Guide

ROOT = Path(__file__).parents[2]


def test_the_readme_prints_what_it_says(tmp_path):
    """Spec: D3, X3"""
    assert Guide("../README.md").tried(tmp_path) > 7


def test_every_option_and_every_word_of_the_context_is_in_the_python_guide():
    """Spec: D3"""
    guide = (ROOT / "docs" / "python.md").read_text()
    declared = {*registry.TYPE_OPTIONS, *registry.HANDLER_OPTIONS}
    options = {*inspect.signature(TaskFunction.using).parameters, *declared} - {"self"}
    context = {name for name in vars(headgate.Context) if not name.startswith("_")}
    assert {name for name in options | context if f"`{name}" not in guide and f"{name}`" not in guide} == set()
