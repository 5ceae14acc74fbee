#!/usr/bin/env python3
"""A second reader of .gpk, written from docs/format-gpk.md alone, to test that document and the C reader by.

  gpk_reader.py --check FILE     every check of the document; prints "ok" and the fingerprint
  gpk_reader.py --info FILE      what the file says, as JSON
  gpk_reader.py --tsv FILE       FID, IID and the dosages (NA for missing) of every person
  gpk_reader.py --example DOC OUT.gpk   the worked example of the document, as a file

FILE may be "-". Plain Python; XXH3 and zstd come from the C libraries libxxhash and libzstd.
"""
import ctypes
import json
import struct
import sys


class Bad(Exception):
    """The file is not what the document says."""


def library(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    sys.exit("gpk_reader.py: none of the libraries %s is there" % ", ".join(names))


_xx = library("libxxhash.so.0", "libxxhash.so")
_xx.XXH3_64bits.restype = ctypes.c_uint64
_xx.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return _xx.XXH3_64bits(data, len(data))


def unzstd(frame, size):
    z = library("libzstd.so.1", "libzstd.so")
    z.ZSTD_decompress.restype = ctypes.c_size_t
    z.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size or 1)
    got = z.ZSTD_decompress(out, size, frame, len(frame))
    need(got == size, "a block holds %d bytes, not %d" % (got, size))
    return out.raw[:size]


def need(condition, what):
    if not condition:
        raise Bad(what)


def up(n, to):
    return -(-n // to) * to


def u64s(*numbers):
    return struct.pack("<%dQ" % len(numbers), *numbers)


STRINGS = {b"FID ": "n", b"IID ": "n", b"SNP ": "m", b"CHR ": "m", b"A1  ": "m", b"A2  ": "m", b"CLAS": None}
ARRAYS = {b"POS ": ("m", "q"), b"LABL": ("n", "q"), b"TARG": ("n", "d"), b"PLAC": ("m", "Q")}


class Gpk:
    def __init__(self, data):
        self.data = data
        self.header()
        self.read_sections()
        self.read_rows()
        self.trailer()

    def take(self, n):
        need(len(self.data) - self.pos >= n, "ends at byte %d, %d bytes too early" % (len(self.data), n - len(self.data) + self.pos))
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def zeros(self, to):
        need(not any(self.take(up(self.pos, to) - self.pos)), "padding before byte %d is not zero" % self.pos)

    def header(self):
        self.pos = 0
        raw = self.take(72)
        need(raw[:8] == b"\x89GPK\r\n\x1a\n", "wrong magic")
        (self.major, self.minor, flags, self.n, self.m, self.row_bytes, self.rows_offset, self.n_sections, self.block_rows,
         self.level, _, self.hash) = struct.unpack("<HHIQQQQIIIIQ", raw[8:])
        need(self.major == 1, "major version %d" % self.major)
        need(self.hash == xxh3(raw[:64]), "hash of the header")
        need(flags & 0xFFFE == 0, "reserved flags")
        self.compressed = flags & 1
        need(1 <= self.n <= 1 << 32 and 1 <= self.m <= 1 << 31, "counts")
        need(self.row_bytes == up(up(self.m, 4) // 4, 64), "row_bytes")
        need(self.rows_offset % 4096 == 0 and self.n_sections <= 1024, "rows_offset or n_sections")
        if self.compressed:
            need(1 <= self.block_rows <= self.n, "block_rows")
            need(self.block_rows == 1 or self.block_rows * self.row_bytes <= 1 << 26, "size of a block")

    def read_sections(self):
        self.head_hash = self.hash
        self.section = {}
        for _ in range(self.n_sections):
            head = self.take(24)
            tag, flags, length, h = struct.unpack("<4sIQQ", head)
            need(length <= self.rows_offset - self.pos, "length of section %r" % tag)
            payload = self.take(length)
            need(h == xxh3(head[:16] + u64s(xxh3(payload))), "hash of section %r" % tag)
            need(flags & 0xFFFE == 0, "reserved flags of section %r" % tag)
            self.head_hash = xxh3(u64s(self.head_hash, h))
            self.zeros(8)
            known = tag in STRINGS or tag in ARRAYS or tag == b"MODL"
            need(known or flags & 1, "unknown required section %r" % tag)
            if known:
                need(tag not in self.section, "section %r twice" % tag)
                self.section[tag] = self.parse(tag, payload)
        self.zeros(4096)
        need(self.pos == self.rows_offset, "rows_offset")
        for tag in (b"FID ", b"IID ", b"SNP "):
            need(tag in self.section, "section %r is absent" % tag)
        need((b"CLAS" in self.section) == (b"LABL" in self.section), "CLAS without LABL or the reverse")
        need((b"MODL" in self.section) == (b"PLAC" in self.section), "MODL without PLAC or the reverse")
        classes = self.section.get(b"CLAS", [])
        need(len(classes) <= 4096 and all(-1 <= c < len(classes) for c in self.section.get(b"LABL", [])), "labels")
        place = self.section.get(b"PLAC", [])
        if place:
            need(all(a < b for a, b in zip(place, place[1:])) and place[-1] < self.section[b"MODL"][0], "places")
            need(self.section[b"MODL"][0] >= self.m, "size of the model")

    def parse(self, tag, payload):
        if tag in STRINGS:
            need(not payload or payload[-1] == 0, "section %r does not end in a zero byte" % tag)
            items = payload.split(b"\0")[:-1]
            want = getattr(self, STRINGS[tag]) if STRINGS[tag] else len(items)
            need(len(items) == want, "section %r holds %d strings, not %d" % (tag, len(items), want))
            need(all(len(s) <= 4096 for s in items), "a string of section %r is too long" % tag)
            return items
        n, kind = (2, "Q") if tag == b"MODL" else (getattr(self, ARRAYS[tag][0]), ARRAYS[tag][1])
        need(len(payload) == 8 * n, "length of section %r" % tag)
        items = list(struct.unpack("<%d%s" % (n, kind), payload))
        if kind == "d":
            bits = struct.unpack("<%dQ" % n, payload)
            need(all(b >> 52 & 0x7FF != 0x7FF or b == 0x7FF8 << 48 for b in bits), "regression labels")
        return items

    def read_rows(self):
        self.rows, self.offsets = [], []
        left = self.n
        while left:
            k = min(left, self.block_rows) if self.compressed else 1
            if self.compressed:
                self.offsets.append(self.pos)
                block = unzstd(self.take(struct.unpack("<Q", self.take(8))[0]), k * self.row_bytes)
                self.zeros(8)
            else:
                block = self.take(self.row_bytes)
            self.rows += [block[i * self.row_bytes : (i + 1) * self.row_bytes] for i in range(k)]
            left -= k
        self.offsets += [self.pos] if self.compressed else []
        used = up(self.m, 4) // 4
        for i, row in enumerate(self.rows):
            tail = self.m % 4
            need(row[used:] == b"\xff" * (self.row_bytes - used) and (not tail or row[used - 1] >> 2 * tail == 0xFF >> 2 * tail),
                 "padding of row %d" % (i + 1))

    def trailer(self):
        start = self.pos
        head = self.take(48)
        magic, n_rows, n_index, head_hash, self.rows_hash, missing = struct.unpack("<8sQQQQQ", head)
        need(magic == b"GPKtrail" and n_rows == self.n and n_index == len(self.offsets), "trailer")
        need(head_hash == self.head_hash, "head hash")
        hashes = struct.unpack("<%dQ" % self.n, self.take(8 * self.n))
        index = list(struct.unpack("<%dQ" % n_index, self.take(8 * n_index)))
        need(index == self.offsets, "block offsets")
        offset, size, h, magic = struct.unpack("<QQQ8s", self.take(32))
        need(magic == b"\x89GPKend\n" and offset == start and size == self.pos, "footer")
        need(h == xxh3(self.data[start : self.pos - 16]), "hash of the trailer")
        need(self.pos == len(self.data), "%d bytes after the footer" % (len(self.data) - self.pos))
        for i, row in enumerate(self.rows):
            need(xxh3(row) == hashes[i], "hash of row %d" % (i + 1))
        need(xxh3(b"".join(self.rows)) == self.rows_hash, "rows_hash")
        threes = bytes(sum(b >> s & 3 == 3 for s in (0, 2, 4, 6)) for b in range(256))
        found = sum(sum(row.translate(threes)) for row in self.rows)
        need(found - self.n * (4 * self.row_bytes - self.m) == missing, "number of missing calls")

    def fingerprint(self):
        s = self.section

        def strings(items):
            return u64s(len(items)) + b"".join(x + b"\0" for x in items)

        snps = strings(s[b"SNP "])
        if b"A1  " in s:
            snps += strings([x.upper() for x in s[b"A1  "]]) + strings([x.upper() for x in s.get(b"A2  ", [])])
        parts = [self.n, self.m, xxh3(strings(s[b"FID "])), xxh3(strings(s[b"IID "])), xxh3(snps), self.rows_hash, 0, 0, 0]
        if b"LABL" in s:
            parts[6] = xxh3(strings(s[b"CLAS"]))
            parts[7] = xxh3(struct.pack("<%dq" % self.n, *s[b"LABL"]))
        if b"TARG" in s:
            parts[8] = xxh3(struct.pack("<%dd" % self.n, *s[b"TARG"]))
        return xxh3(u64s(*parts)) or 1

    def info(self):
        out = {"version": [self.major, self.minor], "people": self.n, "snps": self.m, "row_bytes": self.row_bytes,
               "rows_offset": self.rows_offset, "block_rows": self.block_rows, "fingerprint": "%016x" % self.fingerprint()}
        for tag, items in self.section.items():
            out[tag.decode().strip()] = [x.decode("latin-1") if isinstance(x, bytes) else None if x != x else x for x in items]
        return out


def example(doc, out):
    """The hex dump of the document; `*` fills up with zeros."""
    data = bytearray()
    for line in open(doc, encoding="utf-8"):
        if len(line) > 10 and line[8] == ":" and all(c in "0123456789abcdef" for c in line[:8]):
            data += bytes(int(line[:8], 16) - len(data)) + bytes.fromhex(line[10:57])
    with open(out, "wb") as f:
        f.write(data)


def main(args):
    if len(args) == 3 and args[0] == "--example":
        return example(args[1], args[2])
    if len(args) != 2 or args[0] not in ("--check", "--info", "--tsv"):
        sys.exit(__doc__)
    data = sys.stdin.buffer.read() if args[1] == "-" else open(args[1], "rb").read()
    try:
        g = Gpk(data)
    except Bad as e:
        sys.exit("%s: %s" % (args[1], e))
    if args[0] == "--check":
        print("ok %016x" % g.fingerprint())
    elif args[0] == "--info":
        json.dump(g.info(), sys.stdout, indent=1)
    else:
        text = [[("0", "1", "2", "NA")[b >> s & 3] for s in (0, 2, 4, 6)] for b in range(256)]
        quads = ["\t".join(t) for t in text]
        for i in range(g.n):
            row = [quads[b] for b in g.rows[i][: g.m // 4]]
            row += text[g.rows[i][g.m // 4]][: g.m % 4] if g.m % 4 else []
            sys.stdout.buffer.write(b"\t".join([g.section[b"FID "][i], g.section[b"IID "][i], "\t".join(row).encode()]) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
