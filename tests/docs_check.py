#!/usr/bin/env python3
"""Holds the documents against the programs.

    docs_check.py options DOC... -- PROGRAM...   commands in code blocks name only options that their program has
    docs_check.py manual DOC PROGRAM             the manual names every option of --help
    docs_check.py links FILE...                  relative links lead to files, and #anchors to headings
    docs_check.py messages DOC SOURCE...         message words in the first column of DOC's tables are in the sources
    docs_check.py block FILE WORD                prints the code block that holds WORD, without indentation
    docs_check.py run BIN FIXTURE DOC...         runs every command of the code blocks, each in a fresh copy of FIXTURE

Prints one line per finding and exits 1, or one line with what was checked.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ("bed2h5", "gpack", "snpmatch", "dnpredict", "dnsplit", "dntrain", "dncheck")


def blocks(path):
    """(first line number, text) of each code block, fenced or indented by four blanks."""
    out, fenced, start, text, blank = [], False, 0, [], True
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n"), 1):
        if line.startswith("```"):
            if fenced:
                out.append((start, text))
                text = []
            fenced, start = not fenced, number + 1
            continue
        if fenced:
            text.append(line)
        elif line.startswith("    ") and (text or blank):
            if not text:
                start = number
            text.append(line[4:])
        elif text and not line.strip():
            text.append("")
        elif text:
            out.append((start, text))
            text = []
        blank = not line.strip()
    if text:
        out.append((start, text))
    return [(n, t) for n, t in out if any(x.strip() for x in t)]


def help_options(program):
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    long, short = set(), set()
    for line in text.splitlines():
        m = re.match(r"^ +(?:-([A-Za-z@]), )?--([a-z0-9-]+)", line)
        if m:
            long.add(m.group(2))
            if m.group(1):
                short.add(m.group(1))
    return long, short


def lines(path):
    """(line number, command line) of every line in code blocks that begins with a program; continued lines are joined."""
    for first, text in blocks(path):
        i = 0
        while i < len(text):
            number, line = first + i, text[i]
            while line.endswith("\\") and i + 1 < len(text):
                i += 1
                line = line[:-1] + " " + text[i].strip()
            i += 1
            name = os.path.basename(line.split(" ")[0])
            if name in PROGRAMS and line.startswith(("build/bin/", name)):
                # Words after three blanks are a comment to the command.
                yield number, re.split(r" {3,}[^ -]", line)[0].rstrip()


def commands(path):
    """(line number, program, words) of every program call in code blocks; pipes are taken apart."""
    for number, line in lines(path):
        for part in re.split(r"\||;|&&", re.sub(r"\$\(.*?\)", "X", line)):
            name = os.path.basename(part.split()[0])
            if name in PROGRAMS:
                try:
                    yield number, name, shlex.split(part)[1:]
                except ValueError as e:
                    yield number, name, ["--unreadable:" + str(e)]


def check_options(args):
    docs, programs = args[:args.index("--")], args[args.index("--") + 1:]
    known = {os.path.basename(p): help_options(p) for p in programs}
    bad = n = 0
    for doc in docs:
        for number, name, words in commands(doc):
            n += 1
            long, short = known[name]
            for w in words:
                if w.startswith("--") and len(w) > 2:
                    ok = w[2:].split("=")[0] in long
                elif re.match(r"^-[A-Za-z@]", w):
                    ok = w[1] in short
                else:
                    ok = True
                if not ok:
                    print(f"{doc}, line {number}: {name} has no option {w}")
                    bad += 1
    assert n, "no command found"
    print(f"{n} commands in {len(docs)} documents")
    return bad


def check_manual(args):
    doc, program = args
    text = open(doc, encoding="utf-8").read()
    common = {"threads", "memory", "force", "quiet", "verbose", "help", "version"}
    bad = 0
    for o in sorted(help_options(program)[0] - (common - {"force"})):
        if not re.search(r"--" + re.escape(o) + r"(?![a-z0-9-])", text):
            print(f"{doc} does not name --{o}")
            bad += 1
    return bad


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def check_links(args):
    bad = n = 0
    for doc in args:
        text = re.sub(r"```.*?```", "", open(doc, encoding="utf-8").read(), flags=re.S)
        named = re.findall(r"(?<!\])\(?\b(docs/[\w-]+\.md)", text)
        for target in re.findall(r"\]\(([^)\s]+)\)", text) + ["/" + x for x in named]:
            if re.match(r"[a-z]+://", target):
                continue
            n += 1
            path, _, section = target.partition("#")
            here = os.path.dirname(doc)
            root = here if os.path.basename(here) != "docs" else os.path.dirname(here)
            full = os.path.join(root, path[1:]) if path.startswith("/") else os.path.join(here, path) if path else doc
            if not os.path.exists(full):
                print(f"{doc}: {target} leads nowhere")
                bad += 1
            elif section:
                heads = [anchor(h) for h in re.findall(r"^#+ (.*)$", open(full, encoding="utf-8").read(), re.M)]
                if section not in heads:
                    print(f"{doc}: no heading for {target}")
                    bad += 1
    print(f"{n} links")
    return bad


def check_messages(args):
    doc, sources = args[0], args[1:]
    strings = []
    for f in sources:
        text = open(f, encoding="utf-8").read()
        text = re.sub(r"'\\?\"'", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
        end = None
        for m in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
            piece = m.group(1).replace('\\"', '"')
            # Literals side by side, or with a PRI macro between, are one string.
            if end is not None and re.fullmatch(r"\s*(PRI\w+\s*)?", text[end:m.start()]):
                strings[-1] += piece
            else:
                strings.append(piece)
            end = m.end()
    everything = "\n".join(strings)
    bad = n = 0
    for line in open(doc, encoding="utf-8"):
        if not line.startswith("| `"):
            continue
        for message in re.findall(r"`([^`]+)`", re.split(r"(?<!\\) \| ", line)[0]):
            for piece in message.split("…"):
                piece = piece.replace("%", "%%").strip().strip(":").strip()
                if len(piece) < 4:
                    continue
                n += 1
                if piece not in everything and piece.replace("%%", "%") not in everything:
                    print(f"{doc}: no message says '{piece}'")
                    bad += 1
    print(f"{n} pieces of messages")
    return bad


def outputs(line):
    """Names that a command writes, so that they are not there before it."""
    words = line.replace("|", " ").split()
    out = [b for a, b in zip(words, words[1:]) if a in ("-o", "--report", "--scores", "--stats-npz", "--embedding-npz", "--confusion")]
    if words[0].endswith("gpack") and "-o" not in words and "-t" not in words and "-l" not in words:
        out += [os.path.splitext(w)[0] + (".h5" if "-d" in words else ".gpk") for w in words if w.endswith((".h5", ".gpk"))]
    return [o for o in out if o != "-"]


def run_commands(args):
    bin_dir, fixture, docs = os.path.abspath(args[0]), args[1], args[2:]
    bad = n = 0
    for doc in docs:
        for number, line in lines(doc):
            with tempfile.TemporaryDirectory() as work:
                here = os.path.join(work, "x")
                shutil.copytree(fixture, here)
                os.makedirs(os.path.join(here, "build"))
                os.symlink(bin_dir, os.path.join(here, "build", "bin"))
                for o in outputs(line):
                    if os.path.isfile(os.path.join(here, o)):
                        os.remove(os.path.join(here, o))
                env = dict(os.environ, PATH=bin_dir + ":" + os.environ["PATH"])
                r = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=here, env=env, capture_output=True)
                n += 1
                if r.returncode:
                    print(f"{doc}, line {number}: exit {r.returncode}: {line}\n    " + r.stderr.decode(errors="replace").replace("\n", "\n    "))
                    bad += 1
    print(f"{n} commands run")
    return bad


def print_block(args):
    for _, text in blocks(args[0]):
        if any(args[1] in line for line in text):
            print("\n".join(text).strip())
            return 0
    print(f"no block with {args[1]}")
    return 1


if __name__ == "__main__":
    todo = {"options": check_options, "manual": check_manual, "links": check_links, "messages": check_messages, "block": print_block, "run": run_commands}
    sys.exit(1 if todo[sys.argv[1]](sys.argv[2:]) else 0)
