"""A collector: takes OTLP over HTTP, reads it by OpenTelemetry's own classes, and writes it down as JSON, a line a request.

The first argument is the file; the address is printed. Requests that aren't what the protocol says are refused.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


def unknown(message):
    """Whether any part of a message has fields that its class doesn't know."""
    from google.protobuf import unknown_fields

    if len(unknown_fields.UnknownFieldSet(message)):
        return True
    parts = []
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts += [value] if hasattr(value, "ListFields") else list(value)
    return any(unknown(part) for part in parts)


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        kind = KINDS.get(self.path)
        if kind is None or self.headers["content-type"] != "application/x-protobuf":
            return self.answer(400)
        message = kind()
        try:
            message.ParseFromString(body)
        except Exception:
            return self.answer(400)
        if unknown(message):
            return self.answer(400)
        said = {"path": self.path, "key": self.headers.get("x-key"), "message": MessageToDict(message)}
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(said) + "\n")
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
