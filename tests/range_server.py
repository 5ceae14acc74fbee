"""A small HTTP server on 127.0.0.1 that continues downloads (Range): range_server.py FOLDER. Prints its port; requests go to
server.log beside the folder."""
import http.server
import os
import sys

root = os.path.abspath(sys.argv[1])
log = open(os.path.join(os.path.dirname(root), "server.log"), "a", buffering=1)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = os.path.join(root, self.path.lstrip("/"))
        log.write(f"{self.path} {self.headers.get('Range', '-')}\n")
        if not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as f:
            data = f.read()
        start = int((self.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        if start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
