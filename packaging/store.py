"""A store that speaks S3, for a trial: store.py ADDRESS PORT CERTIFICATE KEY FOLDER has the files of FOLDER as the objects of the bucket
that its name is, gives parts of them by TLS to whoever signs with the key `trial`, and knows nothing else. The signature itself is not checked."""

import hashlib
import http.server
import pathlib
import ssl
import sys
import urllib.parse


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = pathlib.Path()

    def said(self, code, body=b"", more=()):
        self.send_response(code)
        for name, value in more:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        bucket, _, key = urllib.parse.unquote(self.path).lstrip("/").partition("/")
        file = self.folder / key
        if "Credential=trial/" not in self.headers.get("Authorization", ""):
            return self.said(403)
        if bucket != self.folder.name or "/" in key or not file.is_file():
            return self.said(404)
        whole = file.read_bytes()
        tag = f'"{hashlib.sha256(whole).hexdigest()}"'
        about = [("ETag", tag), ("Last-Modified", self.date_time_string(file.stat().st_mtime))]
        if self.headers.get("If-Match", tag) != tag:
            return self.said(412)
        if "Range" not in self.headers:
            return self.said(200, whole, about)
        first, last = (int(end) for end in self.headers["Range"].removeprefix("bytes=").split("-"))
        about.append(("Content-Range", f"bytes {first}-{last}/{len(whole)}"))
        return self.said(206, whole[first : last + 1], about)

    do_HEAD = do_GET


def main(address, port, certificate, key, folder):
    Answers.folder = pathlib.Path(folder)
    server = http.server.ThreadingHTTPServer((address, int(port)), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


main(*sys.argv[1:])
