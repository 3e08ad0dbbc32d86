from thumbindex.encode.models import run_child


def test_output_of_a_child_is_discarded(capfd):
    assert run_child("this") is None  # a module that prints nineteen lines
    assert capfd.readouterr() == ("", "")


def test_failed_child_returns_its_last_error_line(tmp_path):
    complaint = run_child("py_compile", str(tmp_path / "missing.py"))
    assert "missing.py" in complaint
    assert "\n" not in complaint


def test_child_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "this.py").write_text("raise SystemExit('code of the vault was run')")
    monkeypatch.chdir(tmp_path)
    assert run_child("this") is None
