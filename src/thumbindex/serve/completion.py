"""The command `completion`: a script for a shell that completes commands, options and folders by
itself, so that no key press starts Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.serve.clients.table import CLIENTS
from thumbindex.serve.opening import FOUND, Opening, reported
from thumbindex.serve.options import takes_opening
from thumbindex.serve.usage import PROGRAM

_PLAIN = re.compile(r"[\w.+-]+")
"""A folder's name that no shell takes for anything else."""

_VALUES = {
    "CLIENT": tuple(each.name for each in CLIENTS),
    "same|apart": ("same", "apart"),
    "SHELL": ("bash", "zsh", "fish", "powershell"),
}
"""By what help calls an argument, the values that it takes."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What may follow the name of a command, each with its sentence of help; `path` is empty for
    the program itself.
    """

    path: str
    words: Mapping[str, str]
    options: Mapping[str, str]
    directories: tuple[str, ...]  # options that take a directory
    with_value: frozenset[str]


def completed(command: Any, path: tuple[str, ...] = ()) -> Iterator[Completed]:
    """Yield a command of typer, and all commands in it."""
    commands = {
        name: each for name, each in getattr(command, "commands", {}).items() if not each.hidden
    }
    words = {name: _sentence(each.help) for name, each in commands.items()}
    options, directories, with_value = (
        {"--help": "Show this message and exit."},
        list[str](),
        set[str](),
    )
    for each in command.params:
        if each.param_type_name == "argument":
            words |= dict.fromkeys(_VALUES.get(each.metavar or "", ()), "")
            continue
        options |= dict.fromkeys(each.opts, _sentence(each.help))
        with_value |= set() if each.is_flag else set(each.opts)
        directories += each.opts if each.metavar == "DIR" else []
    yield Completed(" ".join(path), words, options, tuple(directories), frozenset(with_value))
    for name, each in commands.items():
        yield from completed(each, (*path, name))


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


@reported
@takes_opening
def completion(
    ctx: typer.Context,
    opening: Opening,
    shell: Annotated[
        str, typer.Argument(metavar="SHELL", help="One of bash, zsh, fish, powershell.")
    ],
) -> int:
    """Print a script with which a shell completes commands, options and folders; no file is
    changed.

    Its first line says where to put it.
    """
    if shell not in _SCRIPTS:
        raise UsageError(
            f"There is no completion for {shell!r}: name one of {', '.join(_SCRIPTS)}."
        )
    folders = tuple(name for name in opening.load().folders if _PLAIN.fullmatch(name))
    typer.echo(_SCRIPTS[shell](tuple(completed(ctx.find_root().command)), folders))
    return FOUND


_BASH = """\
_{program}() {{
    local IFS=$'\\n' word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="" words="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
            {paths}) command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$before" in
        --folder) words="{folders}" ;;
    esac
    case "$before" in
        {directories})
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -d -- "$word"))
            return ;;
        {others}) COMPREPLY=(); return ;;
    esac
    case "$command" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _{program} {program}"""


def bash_script(commands: Sequence[Completed], folders: Sequence[str]) -> str:
    """Return the script for bash."""
    return (
        f"# Completion of {PROGRAM}: `{PROGRAM} completion bash >> ~/.bashrc`, anew after an "
        f"update.\n{_functions(commands, folders)}"
    )


def zsh_script(commands: Sequence[Completed], folders: Sequence[str]) -> str:
    """Return the script for zsh, which takes bash's."""
    begins = "autoload -Uz compinit bashcompinit && compinit && bashcompinit"
    return (
        f"# Completion of {PROGRAM}: `{PROGRAM} completion zsh >> ~/.zshrc`, anew after an "
        f"update.\n{begins}\n{_functions(commands, folders)}"
    )


def _functions(commands: Sequence[Completed], folders: Sequence[str]) -> str:
    directories = sorted({name for each in commands for name in each.directories})
    others = sorted({name for each in commands for name in each.with_value} - {*directories})
    cases = [
        f'        "{each.path}") words="' + "\n".join([*each.words, *each.options]) + '" ;;'
        for each in commands
    ]
    # A command within another is known by both names.
    paths = [
        f'"{" ".join(each.path.split()[:-1])} {each.path.split()[-1]}"'
        for each in commands
        if each.path
    ]
    return _BASH.format(
        program=PROGRAM,
        paths="|".join(paths),
        folders="\n".join(folders),
        directories="|".join(directories),
        others="|".join(others),
        cases="\n".join(cases),
    )


def fish_script(commands: Sequence[Completed], folders: Sequence[str]) -> str:
    """Return the script for fish."""
    lines = [
        (
            f"# Completion of {PROGRAM}: `{PROGRAM} completion fish > "
            f"~/.config/fish/completions/{PROGRAM}.fish`, anew after an update."
        )
    ]
    for each in commands:
        names = each.path.split()
        inner = [
            name
            for name in each.words
            if f"{each.path} {name}".strip() in {other.path for other in commands}
        ]
        seen = [f"__fish_seen_subcommand_from {name}" for name in names] or [
            "__fish_use_subcommand"
        ]
        if names and inner:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(inner)}")
        begin = f"complete -c {PROGRAM} -n '{'; and '.join(seen)}'"
        lines += [
            f"{begin} -f -a '{word}' -d {_quoted(about)}" for word, about in each.words.items()
        ]
        for option, about in each.options.items():
            named = f"-s {option.removeprefix('-')}"
            if option.startswith("--"):
                named = f"-l {option.removeprefix('--')}"
            value = " -r" if option in each.with_value else ""
            if option in each.directories:
                own_folders = folders if option == "--folder" else ()
                value = f" -x -a '{' '.join([*own_folders, '(__fish_complete_directories)'])}'"
            lines.append(f"{begin} {named}{value} -d {_quoted(about)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName {program} -ScriptBlock {{
    param($word, $ast, $position)
    $known = @{{
{cases}
    }}
    $command = ''
    $before = ''
    foreach ($each in @($ast.CommandElements | Select-Object -Skip 1 |
            ForEach-Object {{ "$_" }})) {{
        if ($each -eq $word) {{ break }}
        if ($known.ContainsKey("$command $each".Trim())) {{ $command = "$command $each".Trim() }}
        $before = $each
    }}
    $words = if ($before -eq '--folder') {{ @({folders}) }} else {{ $known[$command] }}
    $words | Where-Object {{ $_ -like "$word*" }} | ForEach-Object {{
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }}
}}"""


def powershell_script(commands: Sequence[Completed], folders: Sequence[str]) -> str:
    """Return the script for PowerShell."""
    cases = [
        f"        '{each.path}' = @({_listed((*each.words, *each.options))})" for each in commands
    ]
    begins = (
        f"# Completion of {PROGRAM}: `{PROGRAM} completion powershell >> $PROFILE`, anew after an "
        "update."
    )
    script = _POWERSHELL.format(program=PROGRAM, cases="\n".join(cases), folders=_listed(folders))
    return f"{begins}\n{script}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in words)


_SCRIPTS: Mapping[str, Callable[[Sequence[Completed], Sequence[str]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
    "powershell": powershell_script,
}
