"""A module that cannot be served is told about in one line that names the place."""

import pytest


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import headgate\napp = headgate.Headgate(\n", "broken.py:2: '(' was never closed"),
        ("import nowhere_to_be_found\n", "broken.py:1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = 1 / 0\n", "broken.py:1: ZeroDivisionError: division by zero"),
        (
            "import headgate\napp = headgate.Headgate()\n@app.task(lanee='x')\nasync def a() -> None: ...\n",
            "@app.task has no option 'lanee'; did you mean 'lane'?",
        ),
        (
            "import headgate\napp = headgate.Headgate()\n@app.task(uses='disk')\nasync def a() -> None: ...\n",
            "a: uses must be a list of resources: uses=['disk']",
        ),
        (
            "import headgate\napp = headgate.Headgate()\n@app.task(retry=3)\nasync def a() -> None: ...\n",
            "retry must be a policy: headgate.exponential(60, retries=3)",
        ),
        (
            "import headgate\napp = headgate.Headgate()\n" + 2 * "@app.task\nasync def a() -> None: ...\n",
            "two handlers for a in broken:a: rename one, or give it another code",
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_told_about_in_one_line(folder, run, text, told):
    (folder / "broken.py").write_text(text)
    answer = run("submit", "-m", "broken", "a")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert told in answer.err


def test_a_file_in_place_of_a_module_is_told_apart(folder, run):
    answer = run("submit", "-m", "shop.py", "greet")
    assert (answer.code, answer.err) == (2, "error: expected a module, not a file: use shop\n")
