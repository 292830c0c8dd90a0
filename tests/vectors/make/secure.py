"""Vectors of the secret-shared products, from Python integers and an AES written out here: python3 secure.py OUT

Nothing but the standard library. The masks are made as the documentation of `common/src/secure/masks.rs` says, the products with integers
modulo the whole modulus instead of residues.
"""

import hashlib
import hmac
import json
import math
import struct
import sys
from fractions import Fraction
from pathlib import Path

PRIMES = [2097143, 2097133, 2097131, 2097097, 2097091, 2097083]
ROWS = 2048
FIELD = (1 << 21) - 1


# AES-256, FIPS 197, encryption of one block.
def xtime(a):
    return ((a << 1) ^ 0x1B) & 0xFF if a & 0x80 else a << 1


def times(a, b):
    result = 0
    while b:
        if b & 1:
            result ^= a
        a, b = xtime(a), b >> 1
    return result


def rotate(a, by):
    return ((a << by) | (a >> (8 - by))) & 0xFF


INVERSE = [0] + [next(b for b in range(1, 256) if times(a, b) == 1) for a in range(1, 256)]
SBOX = [i ^ rotate(i, 1) ^ rotate(i, 2) ^ rotate(i, 3) ^ rotate(i, 4) ^ 0x63 for i in INVERSE]
TWICE = [xtime(a) for a in range(256)]
THRICE = [xtime(a) ^ a for a in range(256)]
SHIFT = [(i + 4 * (i % 4)) % 16 for i in range(16)]


def expand(key):
    words, constant = [list(key[i : i + 4]) for i in range(0, 32, 4)], 1
    for i in range(8, 60):
        word = list(words[-1])
        if i % 8 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = xtime(constant)
        elif i % 8 == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(words[-8], word)])
    return [sum(words[i : i + 4], []) for i in range(0, 60, 4)]


def encrypt(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for key in keys[1:14]:
        s = [SBOX[state[SHIFT[i]]] for i in range(16)]
        state = []
        for c in range(0, 16, 4):
            a, b, d, e = s[c : c + 4]
            state += [
                TWICE[a] ^ THRICE[b] ^ d ^ e ^ key[c],
                a ^ TWICE[b] ^ THRICE[d] ^ e ^ key[c + 1],
                a ^ b ^ TWICE[d] ^ THRICE[e] ^ key[c + 2],
                THRICE[a] ^ b ^ d ^ TWICE[e] ^ key[c + 3],
            ]
    return bytes(SBOX[state[SHIFT[i]]] ^ keys[14][i] for i in range(16))


assert encrypt(expand(bytes(range(32))), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == "8ea2b7ca516745bfeafc49904b496089"


# The ring.
class Ring:
    def __init__(self, words):
        self.words, self.primes = words, PRIMES[: 3 * words]
        self.modulus = math.prod(self.primes)

    def signed(self, value):
        value %= self.modulus
        return value - self.modulus if value > self.modulus // 2 else value

    def pack(self, values):
        """bytes of elements: the first word of every element, then the second"""
        out = b""
        for half in range(self.words):
            p, q, r = self.primes[3 * half : 3 * half + 3]
            out += b"".join(struct.pack("<Q", (v % p) | (v % q) << 21 | (v % r) << 42) for v in values)
        return out

    def join(self, halves):
        """integers modulo the modulus from the words of each half, by the Chinese remainder theorem"""
        weights = [self.modulus // p * pow(self.modulus // p, -1, p) for p in self.primes]
        out = []
        for words in zip(*halves):
            fields = [(word >> (21 * place)) & FIELD for word in words for place in range(3)]
            out.append(sum(f * w for f, w in zip(fields, weights)) % self.modulus)
        return out


STUDY, RUN = bytes(range(100, 132)), bytes(range(200, 216))
SEEDS = {"left": bytes(range(32)), "right": bytes(range(32, 64))}


class Mask:
    def __init__(self, seed, label, index, ring):
        fields = [b"fedreg/secure/1", STUDY, RUN, label.encode(), struct.pack("<Q", index)]
        text = b"".join(struct.pack("<Q", len(field)) + field for field in fields)
        self.keys, self.ring = expand(hmac.new(seed, text, hashlib.sha256).digest()), ring

    def stream(self, block, half):
        counter = 0
        while True:
            data = encrypt(self.keys, struct.pack(">QII", block, half, counter))
            yield from (word & (2**63 - 1) for word in struct.unpack("<2Q", data))
            counter += 1

    def halves(self, block, count):
        """words of each half, and where one was replaced"""
        halves, replaced = [], []
        for half in range(self.ring.words):
            primes = self.ring.primes[3 * half : 3 * half + 3]
            sound = lambda word: all((word >> (21 * k)) & FIELD < p for k, p in enumerate(primes))
            stream = self.stream(block, half)
            words = [next(stream) for _ in range(count)]
            for at, word in enumerate(words):
                if not sound(word):
                    replaced.append([half, at])
                    while not sound(word):
                        word = next(stream)
                    words[at] = word
            halves.append(words)
        return halves, replaced

    def block(self, block, count):
        return self.ring.join(self.halves(block, count)[0])


def columns(values, rows):
    return [values[at : at + rows] for at in range(0, len(values), rows)]


def product(left, right):
    """A'B of lists of columns, column by column"""
    return [sum(a * b for a, b in zip(x, y)) for y in right for x in left]


def fixed(value, bits):
    return round(Fraction(value) * 2**bits)


def table(ring, rows, left, right, bits, scale):
    """every word that is sent, by row block, and what opens"""
    # One division, which is rounded the same way everywhere.
    value = lambda side, j, i: scale * ((7919 * i + 1047 * j + 313 * side) % 1009 / 1009 - 0.5)
    blocks = [(b, range(b * ROWS, min(rows, (b + 1) * ROWS))) for b in range(-(-rows // ROWS))]
    shapes = {"left": left + 1, "right": right + 1}
    masks = {side: Mask(SEEDS[side], "table/" + side, 0, ring) for side in shapes}
    share, canary = Mask(SEEDS["left"], "table/share", 0, ring), Mask(bytes(32), "canary", 0, Ring(1))
    size = shapes["left"] * shapes["right"]
    sums = {name: [0] * size for name in ("left", "right", "masks", "exact")}
    frames = {"left": [], "right": []}
    for b, numbers in blocks:
        public = canary.halves(b, len(numbers))[0][0]
        own, mask, sent = {}, {}, {}
        for which, side in enumerate(shapes):
            own[side] = [[fixed(value(which, j, i), bits) for i in numbers] for j in range(shapes[side] - 1)]
            own[side].append([(word >> (21 * which)) & 0xFFFFF for word in public])
            mask[side] = columns(masks[side].block(b, shapes[side] * len(numbers)), len(numbers))
            sent[side] = [[(v - m) % ring.modulus for v, m in zip(x, y)] for x, y in zip(own[side], mask[side])]
            frames[side].append(ring.pack(sum(sent[side], [])))
        for name, terms in {
            "left": (own["left"], sent["right"]),
            "right": (sent["left"], mask["right"]),
            "masks": (mask["left"], mask["right"]),
            "exact": (own["left"], own["right"]),
        }.items():
            sums[name] = [a + b for a, b in zip(sums[name], product(*terms))]
    dealt = share.block(0, size)
    correction = [z - c for z, c in zip(sums["masks"], dealt)]
    shares = {
        "left": [a + c for a, c in zip(sums["left"], dealt)],
        "right": [a + c for a, c in zip(sums["right"], correction)],
    }
    opened = [ring.signed(a + b) for a, b in zip(shares["left"], shares["right"])]
    assert opened == sums["exact"]
    inner = [k * shapes["left"] + j for k in range(right) for j in range(left)]
    pick = lambda values, places: ring.pack([values[at] for at in places]).hex()
    digest = lambda frame: hashlib.sha256(frame).hexdigest()
    return {
        "words": ring.words,
        "rows": rows,
        "left": left,
        "right": right,
        "bits": bits,
        "scale": scale,
        "frames": {side: [digest(frame) for frame in frames[side]] for side in frames},
        "first_frame": {side: frames[side][0].hex() for side in frames} if rows < 10 else None,
        "correction": ring.pack(correction).hex(),
        "canary": {side: pick(shares[side], [size - 1]) for side in shares},
        "shares": {side: pick(shares[side], inner) for side in shares},
        "opened": [str(opened[at]) for at in inner],
    }


def masks():
    cases = []
    for purpose, index, words, block, count in [
        ("table/left", 0, 1, 0, 3),
        ("table/left", 1, 2, 0, 3),
        ("table/right", 0, 2, 7, 5),
        ("table/share", 0, 2, 0, 1),
        ("canary", 2, 1, 2**32 + 1, 2),
    ]:
        cases.append(mask(purpose, index, words, block, count))
    # Words that are replaced, at least two in one half.
    index = 0
    while True:
        found = mask("table/left", index, 2, 3, 6000)
        halves = [half for half, _ in found["replaced"]]
        if halves.count(0) >= 1 and halves.count(1) >= 2:
            cases.append(found)
            return cases
        index += 1


def mask(purpose, index, words, block, count):
    ring = Ring(words)
    made = Mask(SEEDS["left"], purpose, index, ring)
    halves, replaced = made.halves(block, count)
    data = b"".join(struct.pack("<Q", word) for half in halves for word in half)
    assert data == ring.pack(ring.join(halves))
    return {
        "purpose": purpose,
        "index": index,
        "words": words,
        "block": block,
        "count": count,
        "bytes": data.hex() if count < 10 else None,
        "replaced": replaced,
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def ring():
    cases = []
    for words in (1, 2):
        r = Ring(words)
        most = r.modulus // 2
        values = [0, 1, -1, 2**20, -(2**52) - 1, most, -most, most - 1, 1 - most, *PRIMES, -PRIMES[0] * PRIMES[1]]
        values += [(-1) ** k * 3**k % most for k in range(5, 40, 7)]
        cases.append(
            {
                "words": words,
                "modulus": str(r.modulus),
                "integers": [str(v) for v in values],
                "bytes": r.pack(values).hex(),
                "sums": r.pack([a + b for a, b in zip(values, values[::-1])]).hex(),
                "differences": r.pack([a - b for a, b in zip(values, values[::-1])]).hex(),
                "products": r.pack([a * b for a, b in zip(values, values[::-1])]).hex(),
            }
        )
    values = [0.0, 1.5, -1.5, 0.1, -0.1, 127.999, -(2.0**7), 2.0**7, 2.0**-45, 3 * 2.0**-45, 1e-300]
    return {"integers": cases, "fixed": [{"words": w, "bits": 44, "values": values, "bytes": Ring(w).pack([fixed(v, 44) for v in values]).hex()} for w in (1, 2)]}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    head = {"generator": "make/secure.py", "versions": {"python": sys.version.split()[0]}}
    names = {"study": STUDY.hex(), "run": RUN.hex(), "seeds": {side: seed.hex() for side, seed in SEEDS.items()}}
    tables = [table(Ring(2), 5, 2, 3, 44, 2.0), table(Ring(1), 5, 1, 1, 20, 2.0), table(Ring(2), 2049, 2, 1, 40, 2.0)]
    for name, body in [("ring", ring()), ("masks", {"cases": masks()}), ("tables", {"cases": tables})]:
        with open(out / f"{name}.json", "w") as file:
            json.dump({**head, **({} if name == "ring" else names), **body}, file, indent=1)
            file.write("\n")
