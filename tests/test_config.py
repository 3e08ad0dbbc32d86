"""The configuration's layers and checks, and the files generated from the settings."""

import json
import re
from pathlib import Path

import pytest

from reference import render_config
from thumbindex.config import load_config, resolve_folders, with_folder_file
from thumbindex.errors import ConfigError, UnknownFolderError, UsageError
from thumbindex.process import is_offline
from thumbindex.settings import Config

NOWHERE = Path("/nowhere/config.toml")


def write_config(folder: Path, text: str, name: str = "config.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_folder_with_too_long_name_is_unknown() -> None:
    with pytest.raises(UnknownFolderError):
        resolve_folders(Config(), ["a" * 300])


def test_config_toml_has_all_defaults(tmp_path: Path) -> None:
    assert load_config(user_file=write_config(tmp_path, render_config())) == Config()


def test_later_layers_override_earlier_ones(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    user = write_config(
        tmp_path,
        "[query]\nlimit = 1\n[query.fuse]\nk = 1\n[query.rerank]\ntop = 1\n[query.recency]\n"
        "bias = 0.1\n",
    )
    write_config(
        vault,
        "[query.fuse]\nk = 2\n[query.rerank]\ntop = 2\n[query.recency]\nbias = 0.2\n",
        "thumbindex.toml",
    )
    named_file = write_config(
        tmp_path, "[query.rerank]\ntop = 3\n[query.recency]\nbias = 0.3\n", "given.toml"
    )
    query = load_config(
        user_file=user, config_file=named_file, overrides=["query.recency.bias=0.4"], folder=vault
    ).query
    assert (query.limit, query.fuse.k, query.rerank.top, query.recency.bias) == (1, 2, 3, 0.4)


@pytest.mark.parametrize("kind", ["a symlink to nowhere", "a loop", "a folder"])
def test_unreadable_user_file_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.toml"
    if kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("gone.toml" if kind == "a symlink to nowhere" else path.name)
    with pytest.raises(ConfigError, match=r"config\.toml: the configuration cannot be read"):
        load_config(user_file=path)


def test_folder_file_cannot_change_pinned_keys(tmp_path: Path) -> None:
    write_config(tmp_path, "[query]\nlimit = 9\n[query.fuse]\nk = 9\n", "thumbindex.toml")
    config = load_config(user_file=NOWHERE, overrides=["query.limit=3"])
    query = with_folder_file(config, tmp_path).query
    assert (query.limit, query.fuse.k) == (3, 9)


@pytest.mark.parametrize(
    "text",
    [
        "[encode.embed]\nmodel = 'x'",
        "[folders]\na = '/'",
        "[index]\ndirectory = '/'",
        "[corpus]\nhidden = true",
    ],
)
def test_folder_file_may_set_only_allowed_keys(tmp_path: Path, text: str) -> None:
    write_config(tmp_path, text, "thumbindex.toml")
    config = load_config(user_file=NOWHERE, folder=tmp_path)
    assert config == Config()
    assert re.match(
        r"thumbindex.toml: .* may not be set in a folder's own", config.folder_file_error
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[queries]\nlimit = 3", r"config.toml: unknown key `queries`: did you mean"),
        ("limit = 3", r"config.toml: unknown key `limit`: did you mean `query.limit`\?"),
        ("query = 3", r"config.toml: `query` is a table"),
        (
            "[query]\nlimit = 'five'",
            r"config.toml: `query.limit` must be a whole number, not 'five'",
        ),
        ("[query]\nlimit = 0", r"`query.limit` must be 1 to 100, not 0"),
        ("[query.recency]\nbias = nan", r"`query.recency.bias` must be a number, not nan"),
        (
            "[query.fuse]\nmethod = 'sum'",
            r"`query.fuse.method` cannot be 'sum': use convex, rrf",
        ),
        ("[corpus]\ninclude = 'a'", r"`corpus.include` must be a list of strings, not 'a'"),
        ("folders = 1", r"`folders` must be a table with one line"),
        ("[folders]\nnotes = 1", r"the folder 'notes' needs `path`, a string"),
        (
            "[corpus.chunk]\nchild_max = 3000",
            r"`corpus.chunk.child_max` \(3000\) must not be above "
            r"`corpus.chunk.parent_max` \(2000\)",
        ),
        (
            "[query.deduplicate]\nfield = 'front_matter.id'",
            r"`query.deduplicate.field` is 'front_matter.id': write .* such as `properties.id`",
        ),
        ("[query\nlimit = 3", r"config.toml:1: not valid TOML"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(user_file=NOWHERE, config_file=write_config(tmp_path, text))


def test_named_config_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.toml: the configuration cannot be read"):
        load_config(user_file=NOWHERE, config_file=tmp_path / "absent.toml")


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[query]\nlimit = 7\n")
    assert load_config(user_file=path).query.limit == 7


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("query.limit=7", lambda config: config.query.limit == 7),
        ("query.recency.bias=1", lambda config: config.query.recency.bias == 1.0),
        (
            "query.skip=expand,deduplicate",
            lambda config: config.query.skip == ("expand", "deduplicate"),
        ),
        ("query.skip=", lambda config: config.query.skip == ()),
        ("encode.embed.model=7", lambda config: config.encode.embed.model == "7"),
        (
            "corpus.exclude=drafts/**, old/**",
            lambda config: config.corpus.exclude == ("drafts/**", "old/**"),
        ),
        ('corpus.exclude=["a,b"]', lambda config: config.corpus.exclude == ("a,b",)),
    ],
)
def test_overrides_need_no_quotes(override: str, read: object) -> None:
    config = load_config(user_file=NOWHERE, overrides=[override])
    assert callable(read)
    assert read(config)


def test_configured_folders_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    config = load_config(user_file=write_config(tmp_path, "[folders]\nmine = 'notes'"))
    assert resolve_folders(config) == (("mine", tmp_path / "notes"),)


def test_folders_are_names_or_paths_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/docs", "b/docs", "own"):
        (tmp_path / name).mkdir(parents=True)
    config = load_config(user_file=write_config(tmp_path, "[folders]\nmine = 'own'"))
    assert resolve_folders(config, ["mine", tmp_path / "own"]) == (("mine", tmp_path / "own"),)
    assert resolve_folders(config, [tmp_path / "a/docs", tmp_path / "b/docs"]) == (
        ("a/docs", tmp_path / "a/docs"),
        ("b/docs", tmp_path / "b/docs"),
    )
    monkeypatch.chdir(tmp_path / "own")
    assert resolve_folders(Config()) == (("own", tmp_path / "own"),)


def test_unknown_folder_suggests_similar_name(tmp_path: Path) -> None:
    (tmp_path / "handbook").mkdir()
    config = load_config(user_file=write_config(tmp_path, "[folders]\nhandbook = 'handbook'"))
    with pytest.raises(UnknownFolderError, match="did you mean `handbook`"):
        resolve_folders(config, ["handbok"])


def test_missing_configured_folder_is_not_suggested(tmp_path: Path) -> None:
    config = load_config(user_file=write_config(tmp_path, "[folders]\ngone = 'gone'"))
    with pytest.raises(UnknownFolderError) as raised:
        resolve_folders(config)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "  "])
def test_empty_folder_name_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match="name is empty"):
        resolve_folders(Config(), [name])


@pytest.mark.parametrize(
    ("value", "forbidden"), [("1", True), ("true", True), ("0", False), ("", False)]
)
def test_environment_can_forbid_the_network(
    monkeypatch: pytest.MonkeyPatch, value: str, forbidden: bool
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert is_offline() is forbidden


def test_folders_may_have_tokens(tmp_path: Path) -> None:
    text = (
        '[[folders]]\nname = "a"\npath = "notes"\n\n[[folders]]\nname = "b"\npath = "/b"\n'
        'tokens = ["alice", "group:x"]\n'
    )
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", config_file=tmp_path / "c.toml")
    assert (config.folders, config.folder_tokens) == (
        {"a": str(tmp_path / "notes"), "b": "/b"},
        {"b": ("alice", "group:x")},
    )


def test_later_layer_may_replace_folders_with_their_tokens(tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text(
        '[[folders]]\nname = "a"\npath = "a"\ntokens = ["alice"]\n', encoding="utf-8"
    )
    (tmp_path / "c.toml").write_text('[folders]\nb = "b"\n', encoding="utf-8")
    config = load_config(user_file=tmp_path / "user.toml", config_file=tmp_path / "c.toml")
    assert (list(config.folders), config.folder_tokens) == (["b"], {})


@pytest.mark.parametrize(
    "again", ["a = 'fin'", "b = 'fin'", "b = 'fin/2024'", "b = '.'", "a = 'elsewhere'"]
)
def test_later_layer_cannot_drop_tokens_of_a_folder(tmp_path: Path, again: str) -> None:
    (tmp_path / "user.toml").write_text(
        '[[folders]]\nname = "a"\npath = "fin"\ntokens = ["alice"]\n', encoding="utf-8"
    )
    (tmp_path / "c.toml").write_text(f"[folders]\n{again}\n", encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=(
            r"c\.toml: the folder '[ab]' has no `tokens`, "
            r"but an earlier configuration sets them for 'a'"
        ),
    ):
        load_config(user_file=tmp_path / "user.toml", config_file=tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[folders]]\nname = "a"\n', ": the folder 'a' needs `path`"),
        (
            '[[folders]]\nname = "a"\npath = "x"\ntoken = ["b"]\n',
            ": unknown key `folders.token`: the keys of [[folders]] are",
        ),
        ('[[folders]]\nname = "a"\npath = "x"\ntokens = "b"\n', ": `tokens` must be a list"),
        (
            '[[folders]]\nname = "a"\npath = "x"\n\n[[folders]]\nname = "a"\npath = "y"\n',
            ": two folders are named 'a'",
        ),
        (
            '[[folders]]\nname = "a"\npath = "x"\ntokens = ["*"]\n\n'
            '[[folders]]\nname = "b"\npath = "./y/../x"\n',
            ": 'b' and 'a' are the same folder",
        ),
    ],
)
def test_wrong_folder_table_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config(user_file=tmp_path / "none", config_file=tmp_path / "c.toml")


def test_token_file_is_relative_to_config_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[serve.http]\ntoken_file = "tokens"\n', encoding="utf-8")
    assert load_config(
        user_file=tmp_path / "none", config_file=tmp_path / "c.toml"
    ).serve.http.token_file == str(tmp_path / "tokens")


GLOBS = [
    ("./private/**", "contains `./`"),
    (".\\private\\**", "contains `./`"),
    ("private//**", "or `//`, which no path has"),
    ("!./private/a.md", "contains `./`"),
    (" private/**", "begins with a space"),
    ("#private/**", "write '\\#'"),
    ("~/notes/private/**", "relative to the folder"),
    ("../notes/private/**", "relative to the folder"),
    ("C:\\notes\\private\\**", "relative to the folder"),
    ("{private,diary}/**", "write one glob for each"),
    ("{private/**", "write one glob for each"),
    ("!(public)/**", "write one glob for each"),
    ("private/..", "relative to the folder"),
    ("~", "relative to the folder"),
    (" ", "is empty: remove it"),
]


@pytest.mark.parametrize(("glob", "advice"), GLOBS)
def test_private_glob_without_possible_match_is_an_error(
    glob: str, advice: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"corpus\.private\.globs") as refused:
        load_config(
            user_file=write_config(tmp_path, f"[corpus.private]\nglobs = [{json.dumps(glob)}]\n")
        )
    assert advice in str(refused.value)


def test_absolute_private_glob_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="write it relative to the folder"):
        load_config(
            user_file=write_config(
                tmp_path, f"[corpus.private]\nglobs = ['{tmp_path.as_posix()}/private/**']\n"
            )
        )


@pytest.mark.parametrize(
    "glob",
    [
        "/private/**",
        "private/",
        "\\\\#private/**",
        "{{cookiecutter.name}}/**",
        "~archive",
        "!private/a.md",
        "**/.x",
    ],
)
def test_unusual_private_glob_is_accepted(glob: str, tmp_path: Path) -> None:
    load_config(user_file=write_config(tmp_path, f'[corpus.private]\nglobs = ["{glob}"]\n'))
