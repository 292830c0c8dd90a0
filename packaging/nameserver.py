"""A name server for a trial: nameserver.py ADDRESS NAME=ADDRESS... answers questions for IPv4 addresses at port 53, and knows no
other names."""

import socket
import struct
import sys

FOUND, UNKNOWN = 0x8580, 0x8583
IPV4 = 1


def asked(query):
    """Name, type and bytes of the only question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii").lower())
        at += query[at] + 1
    (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
    return ".".join(labels), kind, query[12 : at + 5]


def answer(query, names):
    name, kind, question = asked(query)
    records = b""
    if name in names and kind == IPV4:
        # The name is that of the question, which stands at byte 12.
        records = struct.pack(">HHHIH", 0xC00C, IPV4, 1, 60, 4) + socket.inet_aton(names[name])
    flags = FOUND if name in names else UNKNOWN
    return query[:2] + struct.pack(">HHHHH", flags, 1, bool(records), 0, 0) + question + records


def main(address, *names):
    names = dict(pair.split("=") for pair in names)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("ready", flush=True)
    while True:
        query, peer = server.recvfrom(4096)
        server.sendto(answer(query, names), peer)


main(*sys.argv[1:])
