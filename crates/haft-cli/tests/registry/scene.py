"""Package registries on a private address in a network namespace of its own, and `haft` at a terminal in front of them.

Usage: scene.py PEM_DIR ANSWER TERMINAL_ARGV…, as root of new user, network and mount namespaces. Every question is
answered with ANSWER. Prints one JSON object: the exit code, how many questions there were, and the screen.
"""

import base64, fcntl, gzip, hashlib, http.server, io, json, os, pty, socket, ssl, struct, subprocess, sys, tarfile
import tempfile, threading, zipfile

ADDRESS = '10.77.0.1'
HOSTS = ['pypi.org', 'files.pythonhosted.org', 'registry.npmjs.org', 'registry.yarnpkg.com', 'index.crates.io',
         'static.crates.io', 'index.mirror.test', 'files.mirror.test']


def wheel():
    files = {
        'tiny.py': 'VALUE = 1\n',
        'tiny-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n',
        'tiny-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    }
    digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()
    lines = [f'{name},sha256={digest(text)},{len(text)}' for name, text in files.items()]
    files['tiny-1.0.dist-info/RECORD'] = '\n'.join(lines + ['tiny-1.0.dist-info/RECORD,,']) + '\n'
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    # Without a time, so that it is the same in every run.
    return gzip.compress(out.getvalue(), mtime=0)


WHEEL = wheel()
PACKAGE = tar({'package/package.json': '{"name": "tiny", "version": "1.0.0"}'})
CRATE = tar({'tiny-1.0.0/Cargo.toml': '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n',
             'tiny-1.0.0/src/lib.rs': ''})


def simple(files):
    digest = hashlib.sha256(WHEEL).hexdigest()
    return f'<a href="https://{files}/tiny-1.0-py3-none-any.whl#sha256={digest}">tiny-1.0-py3-none-any.whl</a>'


def npm(files):
    return json.dumps({'name': 'tiny', 'dist-tags': {'latest': '1.0.0'}, 'time': {'1.0.0': '2020-01-01T00:00:00Z'}, 'versions': {'1.0.0': {
        'name': 'tiny', 'version': '1.0.0', 'dist': {
            'tarball': f'https://{files}/tiny/-/tiny-1.0.0.tgz',
            'integrity': 'sha512-' + base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()}}}})


PAGES = {
    ('pypi.org', '/simple/tiny/'): ('text/html', simple('files.pythonhosted.org')),
    ('files.pythonhosted.org', '/tiny-1.0-py3-none-any.whl'): ('application/octet-stream', WHEEL),
    ('index.mirror.test', '/simple/tiny/'): ('text/html', simple('files.mirror.test')),
    ('files.mirror.test', '/tiny-1.0-py3-none-any.whl'): ('application/octet-stream', WHEEL),
    ('registry.npmjs.org', '/tiny'): ('application/json', npm('registry.yarnpkg.com')),
    ('registry.yarnpkg.com', '/tiny'): ('application/json', npm('registry.npmjs.org')),
    ('registry.npmjs.org', '/tiny/-/tiny-1.0.0.tgz'): ('application/octet-stream', PACKAGE),
    ('registry.yarnpkg.com', '/tiny/-/tiny-1.0.0.tgz'): ('application/octet-stream', PACKAGE),
    ('index.crates.io', '/config.json'): ('application/json', json.dumps(
        {'dl': 'https://static.crates.io/crates/{crate}/{version}/download', 'api': 'https://crates.io'})),
    ('index.crates.io', '/ti/ny/tiny'): ('text/plain', json.dumps(
        {'name': 'tiny', 'vers': '1.0.0', 'deps': [], 'features': {}, 'yanked': False,
         'cksum': hashlib.sha256(CRATE).hexdigest()}) + '\n'),
    ('static.crates.io', '/crates/tiny/1.0.0/download'): ('application/octet-stream', CRATE),
}


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        host = self.headers.get('Host', '').split(':')[0]
        kind, body = PAGES.get((host, self.path.split('?')[0]), ('', ''))
        body = body.encode() if isinstance(body, str) else body
        self.send_response(200 if kind else 404)
        self.send_header('Content-Type', kind or 'text/plain')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client):
        # The handshake in the thread of the connection: a client that is slow holds up nobody.
        with context.wrap_socket(request, server_side=True) as stream:
            self.RequestHandlerClass(stream, client, self)

    def handle_error(self, *_):
        pass


def up():
    """The loopback with the address of the registries, and their names."""
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    address = lambda text: struct.pack('H2s4s8x', socket.AF_INET, b'', socket.inet_aton(text))
    for name, at in (b'lo', '127.0.0.1'), (b'lo:1', ADDRESS):
        fcntl.ioctl(control, 0x8916, struct.pack('16s16s', name, address(at)))
        fcntl.ioctl(control, 0x8914, struct.pack('16sH14s', name, 0x49, b''))
    with tempfile.NamedTemporaryFile('w', delete=False) as hosts:
        hosts.write('127.0.0.1 localhost\n' + ''.join(f'{ADDRESS} {host}\n' for host in HOSTS))
    os.chmod(hosts.name, 0o644)
    subprocess.run(['mount', '--bind', hosts.name, '/etc/hosts'], check=True)
    os.unlink(hosts.name)


folder, answer, *argv = sys.argv[1:]
try:
    up()
except (OSError, subprocess.CalledProcessError) as error:
    sys.exit(f'no network of its own: {error}')
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + '/cert.pem', folder + '/key.pem')
threading.Thread(target=Server((ADDRESS, 443), Registry).serve_forever, daemon=True).start()

pid, terminal = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
screen, answered = b'', 0
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        more = b''
    if not more:
        break
    screen += more
    while screen.count(b'   [n]') > answered:
        answered += 1
        os.write(terminal, answer.encode() + b'\n')
_, status = os.waitpid(pid, 0)
print(json.dumps({'code': os.waitstatus_to_exitcode(status), 'questions': answered,
                  'screen': screen.decode(errors='replace')}))
