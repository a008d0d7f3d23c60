"""The SQL files and bodies are found wherever the package lies, and filled in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import graphalgo
from graphalgo import resources

PACKAGE = Path(graphalgo.__file__).parent


@pytest.fixture
def small(tmp_path: Path) -> resources.Resources:
    (tmp_path / "sql").mkdir()
    (tmp_path / "plpy").mkdir()
    (tmp_path / "plpy" / "walk.py").write_text("return [1] @ version@\n")
    for name in ("020_b.sql", "000_a.sql", "100_c.plpython.sql", "notes.sql"):
        (tmp_path / "sql" / name).write_text("select 1;\n")
    return resources.Resources(tmp_path)


def filled(small: resources.Resources, text: str, schema: str = "public") -> str:
    return small.render(text, trgm_schema=schema, version="1.2.3")


def test_files_come_in_the_order_of_their_numbers(small: resources.Resources) -> None:
    names = [file.name for file in small.sql_files()]
    assert names == ["000_a.sql", "020_b.sql", "100_c.plpython.sql"]


def test_without_plpython_its_files_are_left_out(small: resources.Resources) -> None:
    assert [file.name for file in small.sql_files(plpython=False)] == ["000_a.sql", "020_b.sql"]


def test_placeholders_are_filled_in(small: resources.Resources) -> None:
    assert filled(small, "x.@trgm@.y '@version@'") == "x.\"public\".y '1.2.3'"
    assert "return [1]" in filled(small, "$plpython$@plpy:walk@$plpython$")


def test_a_schema_is_quoted_whatever_it_holds(small: resources.Resources) -> None:
    assert filled(small, "@trgm@", 'od"d schema') == '"od""d schema"'


def test_what_is_filled_in_is_not_filled_in_again(small: resources.Resources) -> None:
    (small.plpy / "walk.py").write_text("x = '@trgm@ @other@'\n")
    assert "x = '@trgm@ @other@'" in filled(small, "@plpy:walk@")


def test_operators_with_at_signs_are_no_placeholders(small: resources.Resources) -> None:
    text = "select a @@ b, c @> d, e <@ f, 'me@example.org'"
    assert filled(small, text) == text


@pytest.mark.parametrize(
    "text", ["@trgmm@", "@version:x@", "@plpy@", "@plpy:none@", "@plpy:../walk@", "@plpy:@"]
)
def test_an_unknown_placeholder_is_refused(small: resources.Resources, text: str) -> None:
    with pytest.raises(resources.ResourceError, match=text.replace(".", r"\.")):
        filled(small, f"select {text}")


def test_a_body_that_would_end_its_own_quotes_is_refused(small: resources.Resources) -> None:
    (small.plpy / "walk.py").write_text("x = '$plpython$'\n")
    with pytest.raises(resources.ResourceError, match="would end"):
        filled(small, "@plpy:walk@")


def test_every_file_of_the_package_can_be_filled_in() -> None:
    for file in resources.sql_files():
        text = resources.render(file.read_text(), trgm_schema="public", version="1")
        assert "@plpy:" not in text
        assert "@trgm@" not in text


def test_the_digest_tells_any_change_of_text_or_name(small: resources.Resources) -> None:
    digests = [small.digest()]
    (small.sql / "000_a.sql").write_text("select 2;\n")
    digests.append(small.digest())
    (small.plpy / "walk.py").write_text("return []\n")
    digests.append(small.digest())
    (small.plpy / "walk.py").rename(small.plpy / "walks.py")
    digests.append(small.digest())
    assert len(set(digests)) == len(digests)


def test_no_files_at_all_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(resources.ResourceError, match="no SQL files"):
        resources.Resources(tmp_path).sql_files()


@pytest.mark.parametrize("place", ["graphalgo/_data", "."])
def test_the_files_are_found_in_a_wheel_and_beside_a_copy(tmp_path: Path, place: str) -> None:
    own = resources.find()
    ignored = shutil.ignore_patterns("__pycache__", "_data")
    shutil.copytree(PACKAGE, tmp_path / "graphalgo", ignore=ignored)
    shutil.copytree(own.sql, tmp_path / place / "sql")
    shutil.copytree(own.plpy, tmp_path / place / "plpy")
    found = run_elsewhere(tmp_path, "print(resources.find().root, resources.digest())")
    assert found.split() == [str((tmp_path / place).resolve()), own.digest()]


def test_another_packages_sql_folder_is_not_taken_for_ours(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "_data")
    shutil.copytree(PACKAGE, tmp_path / "graphalgo", ignore=ignored)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "001_other.sql").write_text("drop table users;")
    found = run_elsewhere(
        tmp_path,
        "try:\n    resources.find()\nexcept resources.ResourceError as error:\n    print(error)",
    )
    assert "Install the package again" in found


def test_a_copy_of_the_code_has_the_same_digest(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "_data")
    shutil.copytree(PACKAGE, tmp_path / "graphalgo", ignore=ignored)
    same = run_elsewhere(tmp_path, "print(resources.server_code_digest())").strip()
    with (tmp_path / "graphalgo" / "engine" / "errors.py").open("a") as file:
        file.write("# changed\n")
    changed = run_elsewhere(tmp_path, "print(resources.server_code_digest())").strip()
    assert same == resources.server_code_digest()
    assert changed != same


def run_elsewhere(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"from graphalgo import resources\n{program}"],
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
