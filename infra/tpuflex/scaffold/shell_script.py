"""A shell script as the commands that it would run, read and never run.

Enough of the shell for scripts that start a server: quotes, continued lines, comments,
redirections, pipelines, compound commands, assignments, arrays, here-documents, and the usual
expansions. What only a run could tell stands in a word as a :class:`Gap`: a variable that nothing
sets, or sets under a condition, and a command whose output would be filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tpuflex.errors import Finding, SettingsError
from tpuflex.settings.stack_yaml import LONGEST

#: What stands around the text of a gap within a word; no script has these characters.
_OPEN, _CLOSE = "\ue000", "\ue001"
_GAP = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_VARIABLE_GAP = re.compile(rf"{_OPEN}\$\w+{_CLOSE}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?P<all>\[[@*]\])?"
    r"(?:(?P<operator>:?[-=?+])(?P<word>.*))?",
    re.DOTALL,
)
#: A line goes on after `\`, also where a copy has left blanks or a comment behind it, and over
#: lines that are comments alone, if flags follow; in the shells of Windows after a backtick or `^`.
_CONTINUED = re.compile(
    r"\\[ \t]*(?:[ \t]#[^\n]*)?\n(?:(?:[ \t]*#[^\n]*\n)+(?=[ \t]*-))?|\\[ \t]*\Z|[`^]\n"
)
#: Numbers of lines, as in a listing that was copied.
_NUMBERED = re.compile(r"^\s*\d+\s{1,3}(?=\S)|^\s*\d+\s+")
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_OPENING = frozenset({"if", "for", "while", "until", "case", "select", "{"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_INNER = frozenset({"then", "do", "else", "elif", "!", "time", "in"})
_NO_HEAD = re.compile("")
#: What stands between such a word and the commands.
_HEADS = {
    "for": re.compile(r"\s*([A-Za-z_]\w*)[^;\n]*"),
    "select": re.compile(r"\s*([A-Za-z_]\w*)[^;\n]*"),
    "case": re.compile(r"[^\n]*?\sin(?=\s)"),
}
_REDIRECTION = re.compile(r"(\d*|&)(<<<|<<-?|>>|>\||>&|<&|<>|>|<)(?!\()")
#: No script that starts a server comes near: more is a bomb.
_MOST_EXPANDED, _DEEPEST = 8 * LONGEST, 50
_WORD_ENDS = " \t\n;&|<>()"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script.

    Attributes:
        words: its words, after expansion; texts may hold gaps.
        variables: what is set for it alone, as in ``A=b command``.
        dropped: where its output goes, or is fed to.
        line: the line on which it starts.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str]
    dropped: tuple[str, ...]
    line: int


@dataclass(slots=True)
class Script:
    """What a script holds.

    Attributes:
        commands: in order; assignments are none.
        exported: variables that commands inherit.
        used: names of variables whose values stand in words.
        expanded: characters that expansions have become so far.
    """

    commands: list[Command] = field(default_factory=list)
    exported: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    expanded: int = 0


def gap(text: str) -> str:
    """A gap that stands for ``text``, such as ``$TP`` or ``$(…)``."""
    return f"{_OPEN}{text}{_CLOSE}"


def gaps(text: str) -> tuple[str, ...]:
    """The gaps in ``text``: ``$NAME`` for a variable, else the expansion as it is written."""
    return tuple(_GAP.findall(text))


def readable(text: str) -> str:
    """``text`` with its gaps as they were written."""
    return _GAP.sub(r"\1", text)


def read_script(text: str, given: Mapping[str, str]) -> Script:
    """The commands of the script ``text``, if ``given`` is the environment that it starts in.

    Raises:
        SettingsError: a quote or an expansion has no end.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if all(not line.strip() or _NUMBERED.match(line) for line in lines):
        lines = [_NUMBERED.sub("", line) for line in lines]
    reader = _Reader("\n".join(lines), given)
    try:
        reader.read()
    except RecursionError:
        raise reader.refused("is nested too deeply", "Write it flat.") from None
    return reader.script


def without_gaps(text: str) -> str:
    """``text`` of a file without the characters that mark gaps."""
    return text.translate({ord(_OPEN): None, ord(_CLOSE): None})


def expanded(text: str, given: Mapping[str, str]) -> str:
    """``text`` with the variables in it replaced, as Compose does it: quotes mean nothing."""
    return "".join(_Reader(text, given).expanded_text())


class _Reader:
    """Reads one script from left to right; an expansion sees what was set before it."""

    def __init__(self, text: str, given: Mapping[str, str]) -> None:
        self.script = Script()
        self._text, self._at = text, 0
        self._given = given
        #: None: what it is only a run could tell.
        self._values: dict[str, list[str] | None] = {}
        self._open: list[str] = []
        self._pattern = False
        self._here: list[str] = []
        self._counted = 0, 1
        self._depth = 0

    # Commands

    def read(self) -> None:
        """Read all commands."""
        while self._at < len(self._text):
            self._command()

    def _command(self) -> None:
        """Read up to the next separator."""
        self._skip_blanks()
        if self._pattern:
            self._skip_pattern()
        line, begin = self._line(), self._at
        words: list[str] = []
        own: dict[str, list[str]] = {}
        dropped: list[str] = []
        while self._at < len(self._text):
            self._skip_blanks()
            rest = self._text[self._at : self._at + 3]
            if not rest or rest[0] in "\n;|()" or (rest[0] == "&" and rest[1:2] != ">"):
                break
            if self._redirection(words, dropped):
                continue
            here = _ASSIGNMENT.match(self._text, self._at)
            if here and (not words or words[0] in _DECLARING):
                self._at = here.end()
                own[here[1]] = self._assigned(here[1], add=bool(here[2]))
                continue
            words += self._word()
            words = self._without_keywords(words)
        self._separator(words)
        self._finish(words, own, dropped, line)
        if self._at == begin and not words:
            self._at += 1

    def _finish(
        self, words: list[str], own: dict[str, list[str]], dropped: list[str], line: int
    ) -> None:
        declaring = words[0] if words and words[0] in _DECLARING else None
        if declaring or not words:
            for name, value in own.items():
                self._set(name, value)
        if declaring == "export":
            for name in (*own, *(word for word in words[1:] if _NAME.fullmatch(word))):
                known = self._values.get(name)
                self.script.exported[name] = gap(f"${name}") if known is None else " ".join(known)
        elif words and not declaring:
            texts = {name: " ".join(value) for name, value in own.items()}
            self.script.commands.append(Command(tuple(words), texts, tuple(dropped), line))

    def _without_keywords(self, words: list[str]) -> list[str]:
        """``words`` of a command so far, without a word that only groups commands."""
        if len(words) != 1:
            return words
        word = words[0]
        if word == "[[" or word.startswith("(("):
            self._skip_past("]]" if word == "[[" else "))")
            return []
        if word in _OPENING:
            self._open.append(word)
            if match := _HEADS.get(word, _NO_HEAD).match(self._text, self._at):
                self._at = match.end()
                self._values |= dict.fromkeys(match.groups())
                if word == "case":
                    self._skip_pattern()
            return []
        if word in _CLOSING:
            if self._open:
                self._open.pop()
            return []
        return [] if word in _INNER or word == "$" else words

    def _separator(self, words: list[str]) -> None:
        """Step over what ends a command."""
        rest = self._text[self._at : self._at + 2]
        if rest[:1] == "(" and len(words) == 1:  # name() { …
            self._skip_past(")")
            words.clear()
        elif rest == ";;":
            self._at += 2
            self._pattern = self._open[-1:] == ["case"]
        elif rest[:1] == "\n":
            self._at += 1
            self._skip_here_documents()
        elif rest[:1]:
            self._at += 2 if rest in ("&&", "||", "|&") else 1

    def _skip_blanks(self) -> None:
        """Step over blanks, comments and ends of lines that go on."""
        while self._at < len(self._text):
            if self._text[self._at] in " \t":
                self._at += 1
            elif match := _CONTINUED.match(self._text, self._at):
                self._at = match.end()
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _skip_pattern(self) -> None:
        """Step over `pattern)` of a `case`."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        if not self._text.startswith("esac", self._at):
            self._skip_past(")")
        self._pattern = False

    def _skip_past(self, end: str) -> None:
        found = self._text.find(end, self._at)
        self._at = len(self._text) if found < 0 else found + len(end)

    def _skip_here_documents(self) -> None:
        for end in self._here:
            while self._at < len(self._text):
                begin, self._at = self._at, (self._text.find("\n", self._at) + 1) or len(self._text)
                line = self._text[begin : self._at]
                if line.lstrip("\t").rstrip(" \t\n") == end:
                    break
        self._here.clear()

    def _redirection(self, words: list[str], dropped: list[str]) -> bool:
        match = _REDIRECTION.match(self._text, self._at)
        if match is None:
            return False
        self._at = match.end()
        self._skip_blanks()
        target = readable(" ".join(self._word(split=False)))
        if match[2] in ("<<", "<<-"):
            self._here.append(target)
        elif words:
            dropped.append(f"{match[0]}{' ' if match[0][-1:] != '&' else ''}{target}")
        return True

    # Variables

    def _assigned(self, name: str, *, add: bool) -> list[str]:
        """The value behind `NAME=`."""
        array = self._text[self._at : self._at + 1] == "("
        if array:
            self._at += 1
            value = self._array()
        else:
            value = self._word(split=False) or [""]
        before = self._values.get(name, []) if add else []
        if before is None:
            return [gap(f"${name}")]
        return before + value if array else [*before[:-1], "".join(before[-1:]) + value[0]]

    def _array(self) -> list[str]:
        items: list[str] = []
        while self._at < len(self._text):
            self._skip_blanks()
            char = self._text[self._at : self._at + 1]
            if char == ")":
                self._at += 1
                return items
            if char == "\n":
                self._at += 1
            elif char and char in _WORD_ENDS:
                break
            else:
                items += self._word()
        raise self._unended("(")

    def _set(self, name: str, value: list[str]) -> None:
        """Take in an assignment, unless a condition decides about it or a run its value."""
        filled = any(not _VARIABLE_GAP.search(each) for each in value if gaps(each))
        if sum(len(each) + 1 for each in value) > LONGEST:
            raise self.refused(
                f"makes {name} longer than {LONGEST} characters", "Write it shorter."
            )
        self._values[name] = None if self._open or filled else value

    def _value(self, name: str) -> list[str] | None:
        """What ``name`` stands for; None if nothing tells."""
        self.script.used.add(name)
        if name in ("@", "*"):
            return []  # a script that is started without arguments
        value = self._values.get(name)
        if value is None and name in self._given:
            return [self._given[name]]
        return value

    # Words

    def _word(self, *, split: bool = True) -> list[str]:
        """The next word, as the words that it becomes."""
        words, begun = [""], False
        while self._at < len(self._text) and self._text[self._at] not in _WORD_ENDS:
            char = self._text[self._at]
            if char == "'":
                words[-1] += self._single_quoted()
                begun = True
            elif char == '"':
                parts = self._double_quoted()
                words[-1] += parts[0] if parts else ""
                words += parts[1:]
                begun = begun or bool(parts)
            elif char == "\\":
                if match := _CONTINUED.match(self._text, self._at):
                    self._at = match.end()
                    continue
                words[-1] += self._text[self._at + 1 : self._at + 2]
                self._at += 2
                begun = True
            elif char == _OPEN and (match := _GAP.match(self._text, self._at)):
                words[-1] += match[0]
                self._at, begun = match.end(), True
            elif char in "$`":
                parts = self._expansion()
                if split:
                    parts = [part for each in parts for part in _fields(each)]
                words[-1] += parts[0] if parts else ""
                words += parts[1:]
                begun = begun or bool(parts)
            else:
                words[-1] += char
                self._at += 1
                begun = True
        if self._text[self._at : self._at + 2] in ("<(", ">("):
            words[-1] += self._substituted(self._at + 1, ")")
            begun = True
        return words if begun else []

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._unended("'")
        begin, self._at = self._at + 1, end + 1
        return self._text[begin:end]

    def _double_quoted(self) -> list[str]:
        """Between quotes: one word, but for an array, of which each member stays one."""
        words, begun, start = [""], False, self._at
        self._at += 1
        while (char := self._text[self._at : self._at + 1]) != '"':
            if not char:
                self._at = start
                raise self._unended('"')
            if char in "$`":
                parts = self._expansion()
                begun = begun or bool(parts)
                words[-1] += parts[0] if parts else ""
                words += parts[1:]
                continue
            begun = True
            following = self._text[self._at + 1 : self._at + 2]
            if char == "\\" and following and following in '$`"\\\n':
                words[-1] += following.strip("\n")
                self._at += 2
            else:
                words[-1] += char
                self._at += 1
        begun = begun or self._at == start + 1
        self._at += 1
        return words if begun else []

    def expanded_text(self) -> Iterator[str]:
        """All text, with its variables replaced."""
        while self._at < len(self._text):
            if self._text.startswith("$$", self._at):
                self._at += 2
                yield "$"
            elif self._text[self._at] == "$":
                yield " ".join(self._expansion())
            else:
                yield self._text[self._at]
                self._at += 1

    def _expansion(self) -> list[str]:
        """What `$…` at this place becomes."""
        parts = self._expanded()
        self.script.expanded += sum(map(len, parts))
        if self.script.expanded > _MOST_EXPANDED:
            raise self.refused(
                f"makes variables into more than {_MOST_EXPANDED} characters", "Write it shorter."
            )
        return parts

    def _expanded(self) -> list[str]:
        begin = self._at
        following = self._text[begin + 1 : begin + 2]
        if self._text[begin] == "`":
            return [self._substituted(begin, "`")]
        if following == "(":
            return [self._substituted(begin + 1, ")")]
        if following == "{":
            end = self._closing(begin + 1, "{", "}")
            self._at = end + 1
            return self._parameter(self._text[begin + 2 : end])
        if following and (following in "@*" or following.isdigit()):
            self._at += 2
            return self._parameter(following)
        if match := _NAME.match(self._text, begin + 1):
            self._at = match.end()
            return self._parameter(match[0])
        self._at += 1
        if following and following in "#?$!-":
            self._at += 1
            return [gap(f"${following}")]
        return ["$"]

    def _parameter(self, text: str) -> list[str]:
        """What ``${text}`` becomes."""
        match = _PARAMETER.fullmatch(text)
        if match is None:
            return [gap(f"${{{(_NAME.match(text) or ['?'])[0]}…}}")]
        value = self._value(match["name"])
        known = None if value is None else "".join(value)
        missing = known is None or ((match["operator"] or "").startswith(":") and not known)
        operator = (match["operator"] or "")[-1:]
        if operator == "+":
            return [] if missing else self._default(match["word"])
        if missing and operator in ("-", "="):
            conditional = match["name"] in self._values and value is None
            if not conditional:
                default = self._default(match["word"])
                if operator == "=":
                    self._set(match["name"], default)
                return default
        if value is None:
            return [gap(f"${match['name']}")]
        if match["all"] or match["name"] in ("@", "*"):
            return value
        return value[:1] or [""]

    def _default(self, text: str) -> list[str]:
        if self._depth == _DEEPEST:
            raise self.refused("is nested too deeply", "Write it flat.")
        inner = _Reader(text, self._given)
        inner._values, inner.script, inner._depth = self._values, self.script, self._depth + 1
        words: list[str] = []
        while inner._at < len(text):
            words += inner._word(split=False)
            if inner._at < len(text):
                words.append(text[inner._at])
                inner._at += 1
        return ["".join(words)]

    def _substituted(self, at: int, end: str) -> str:
        """A gap for the output of the command that starts at ``at``."""
        last = self._text.find("`", at + 1) if end == "`" else self._closing(at, "(", ")")
        if last < 0:
            raise self._unended("`")
        program = re.match(r"\s*([\w./-]*)", self._text[at + 1 : last])
        self._at = last + 1
        return gap(f"$({f'{program[1]} ' if program and program[1] else ''}…)")

    def _closing(self, at: int, opening: str, closing: str) -> int:
        """Where the bracket at ``at`` is closed."""
        depth = 0
        for place in range(at, len(self._text)):
            depth += {opening: 1, closing: -1}.get(self._text[place], 0)
            if depth == 0:
                return place
        raise self._unended(opening)

    def _line(self) -> int:
        place, line = self._counted
        self._counted = self._at, line + self._text.count("\n", place, self._at)
        return self._counted[1]

    def _unended(self, what: str) -> SettingsError:
        return self.refused(f"{what} has no end", "Close it.")

    def refused(self, problem: str, remedy: str) -> SettingsError:
        """An error about the line that is being read."""
        return SettingsError("The script", (Finding(f"line {self._line()}", problem, remedy),))


def _fields(text: str) -> Sequence[str]:
    """``text`` of a variable without quotes, as the words that it becomes."""
    if gaps(text):
        return [text]
    return text.split()
