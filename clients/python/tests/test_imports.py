"""Importing the package takes nothing that need not be there."""

from __future__ import annotations

import subprocess
import sys

import fedreg

HEAVY = ("IPython", "matplotlib", "numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn", "statsmodels")


def imported(script: str) -> list[str]:
    code = f"import sys\n{script}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    return [name for name in said.split() if name in HEAVY]


def at_home(script: str) -> str:
    # `-I` keeps the folder of the tests out of the path.
    home = str(fedreg.__path__[0]).rpartition("fedreg")[0]
    return f"sys.path.insert(0, {home!r})\n{script}"


def test_nothing_heavy_is_imported_with_the_package() -> None:
    assert imported(at_home("import fedreg, fedreg.demo; fedreg.Result, fedreg.fit, fedreg.demo.vertical")) == []
    # The test can fail.
    assert "numpy" in imported(at_home("import fedreg.sklearn"))


def test_threads_may_be_the_first_to_look_for_the_programs() -> None:
    # Each in a process of its own: what threads race for is found once.
    script = at_home(
        "import threading\nfrom fedreg import _programs\nfailed = []\nthreading.excepthook = failed.append\n"
        "gate = threading.Barrier(8)\n"
        "def look():\n    gate.wait()\n    list(_programs._folders())\n"
        "threads = [threading.Thread(target=look) for _ in range(8)]\n"
        "[one.start() for one in threads]\n[one.join() for one in threads]\nprint(len(failed))"
    )
    for _ in range(5):
        run = subprocess.run([sys.executable, "-I", "-c", "import sys\n" + script], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "0"


def test_all_names_are_there() -> None:
    for name in fedreg.__all__:
        assert getattr(fedreg, name) is not None
    assert not hasattr(fedreg, "nothing")


def test_estimators_without_scikit_learn_say_what_to_install() -> None:
    script = at_home(
        "sys.modules['sklearn'] = None\ntry:\n    import fedreg.sklearn\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys\n{script}"], capture_output=True, text=True, check=True
    ).stdout
    assert "pip install scikit-learn" in said
