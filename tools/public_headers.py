"""The public headers, read: what each declares, and what its comments say of it."""
import re

DIRECTIVE = re.compile(r"#(?:\\\n|[^\n])*")
FUNCTION = re.compile(r"(\w+)\s*\(")


class Item:
    """One declaration: kind is function, struct, enum or macro; text as it stands in the header."""

    def __init__(self, kind, name, text):
        self.kind, self.name, self.text = kind, name, text

    @property
    def opaque(self):
        return self.kind == "struct" and "{" not in self.text


class Entry:
    """Declarations that stand together, the comment above them, and the heading above that, if there is one."""

    def __init__(self, comment):
        match = re.match(r"-{2,} (.*?) -{2,}\n?", comment)
        self.heading = match.group(1) if match else None
        self.comment, self.items = comment[match.end():] if match else comment, []


class Header:
    def __init__(self, path):
        self.path, self.name = path, f"rea/{path.name}"
        text = path.read_text()
        about, text = read_comment(text)
        self.about = plain(about)
        self.entries = list(read_entries(text))

    def items(self, *kinds):
        return [item for entry in self.entries for item in entry.items if item.kind in kinds]


def read_all(include):
    return [Header(path) for path in sorted(include.glob("rea/*.h"))]


def plain(comment):
    """A comment's text without its stars."""
    first, *rest = comment.removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join([first.strip()] + [re.sub(r"^\s*\* ?", "", line).rstrip() for line in rest]).strip("\n")


def read_comment(text):
    end = text.index("*/") + 2
    return text[:end], text[end:]


def read_directive(text):
    end = DIRECTIVE.match(text).end()
    return text[:end], text[end:]


def read_declaration(text):
    """Up to the semicolon or, of a function with a body, the brace that ends it."""
    depth = position = 0
    while True:
        if text.startswith("/*", position):
            position = text.index("*/", position) + 2
            continue
        letter = text[position]
        depth += (letter == "{") - (letter == "}")
        position += 1
        if depth == 0 and (letter == ";" or (letter == "}" and text.startswith("static inline"))):
            break
    # What is said of it at the end of the line.
    rest = re.match(r"[ \t]*/\*.*?\*/", text[position:], re.S)
    position += rest.end() if rest else 0
    return text[:position], text[position:]


def item_of(declaration):
    code = re.sub(r"/\*.*?\*/", " ", declaration, flags=re.S)
    tag = re.match(r"(struct|enum) (\w+)\s*[{;]", code)
    if tag:
        return Item(tag.group(1), tag.group(2), declaration)
    name = FUNCTION.search(code.removeprefix("static inline").split("{")[0])
    return Item("function", name.group(1), declaration)


def macro_of(directive):
    match = re.match(r"#\s*define (REA_\w+)", directive)
    # Not the guard, nor the mark of exported functions.
    if match is None or match.group(1) == "REA_API" or re.fullmatch(r"#define REA_\w+_H", directive):
        return None
    return Item("macro", match.group(1), directive)


def read_entries(text):
    entry = None
    while text:
        blank = re.match(r"\s*", text).group()
        text = text[len(blank):]
        if entry is not None and (blank.count("\n") > 1 or text.startswith("/*")):
            yield entry
            entry = None
        if text.startswith("/*"):
            comment, text = read_comment(text)
            entry = Entry(plain(comment))
            continue
        item = None
        if text.startswith("#"):
            directive, text = read_directive(text)
            item = macro_of(directive)
        elif text.startswith(('extern "C" {', "}")):
            text = text[text.index("\n"):] if "\n" in text else ""
        elif text:
            declaration, text = read_declaration(text)
            item = item_of(declaration)
        if item is not None:
            entry = entry or Entry("")
            entry.items.append(item)
    if entry is not None:
        yield entry
