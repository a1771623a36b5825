"""An MCP server that wants a sign-in, and whoever gives tokens for it, on one port of this machine.

Prints its port. The page of the sign-in says yes at once: it sends the browser back with a code. A code counts once, a token
until it is given back. Everything that is wrong is refused, so that a test that passes has done everything right.
"""

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlparse

CLIENTS, CODES, TOKENS = {}, {}, set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlparse(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path.startswith("/.well-known/oauth-protected-resource"):
            return self.reply(200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        if url.path == "/.well-known/oauth-authorization-server":
            return self.reply(200, {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "revocation_endpoint": f"{self.base}/revoke",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })
        if url.path == "/authorize":
            client = CLIENTS.get(asked.get("client_id"))
            if client is None or asked.get("redirect_uri") not in client["redirect_uris"]:
                return self.reply(400, {"error": "invalid_client"})
            code = secrets.token_urlsafe()
            CODES[code] = asked
            back = {"code": code, "state": asked["state"]}
            return self.reply(302, location=f"{asked['redirect_uri']}?{urlencode(back)}")
        return self.reply(405 if url.path == "/mcp" else 404)

    def do_DELETE(self):
        self.reply(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/mcp":
            return self.mcp(json.loads(body))
        if self.path == "/register":
            client = {**json.loads(body), "client_id": secrets.token_urlsafe()}
            CLIENTS[client["client_id"]] = client
            return self.reply(201, client)
        asked = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if self.path == "/revoke":
            TOKENS.discard(asked.get("token"))
            return self.reply(200, {})
        if self.path == "/token":
            question = CODES.pop(asked.get("code"), None)
            digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if question is None or question["code_challenge"] != proof or question["redirect_uri"] != asked["redirect_uri"]:
                return self.reply(400, {"error": "invalid_grant"})
            token = secrets.token_urlsafe()
            TOKENS.add(token)
            return self.reply(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})
        return self.reply(404)

    def mcp(self, message):
        if self.headers.get("authorization", "").removeprefix("Bearer ") not in TOKENS:
            where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            return self.reply(401, {"error": "invalid_token"}, www_authenticate=where)
        if "id" not in message:
            return self.reply(202)
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "signed", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "who", "description": "Says who you are.", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "somebody who signed in"}]},
        }
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in results:
            answer["result"] = results[message["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        return self.reply(200, answer)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
