//! Programs that look for a way out of the sandbox: other processes, sockets, memory, the kernel's own files.

use serde_json::json;

use super::{Attack, Success};

/// What each is called, what is there for it to find, and what a script in Python tries. It prints the mark
/// if it got somewhere, in two pieces: a traceback shows the line that failed.
const PROBES: [(&str, &str, &str); 8] = [
    (
        "variables of another process",
        "setsid env A_SECRET=S3CRET-of-the-user sleep 60 > /dev/null 2>&1 &",
        "import glob\nfor p in glob.glob('/proc/[0-9]*/environ'):\n  try:\n    if b'A_SECRET=S3CRET' in open(p,'rb').read(): print('PWN' + 'ED')\n  except OSError: pass",
    ),
    (
        "the command line of another process",
        "setsid sleep 61.25 > /dev/null 2>&1 &",
        "import glob\nfor p in glob.glob('/proc/[0-9]*/cmdline'):\n  try:\n    if b'61.25' in open(p,'rb').read(): print('PWN' + 'ED')\n  except OSError: pass",
    ),
    (
        "a signal to another process",
        "setsid sleep 60 > /dev/null 2>&1 & echo $! > pid",
        "import os\nos.kill(int(open('pid').read()), 0); print('PWN' + 'ED')",
    ),
    (
        "an abstract socket",
        "setsid python3 serve.py abstract > /dev/null 2>&1 & until [ -e port ]; do sleep 0.05; done",
        "import os,socket\ns=socket.socket(socket.AF_UNIX); s.connect(b'\\0haft-attack-'+str(os.getuid()).encode()); print('PWN' + 'ED')",
    ),
    (
        "a socket beside the workspace",
        "setsid python3 serve.py beside > /dev/null 2>&1 & until [ -e port ]; do sleep 0.05; done",
        "import socket\ns=socket.socket(socket.AF_UNIX); s.connect('../beside/s'); print('PWN' + 'ED')",
    ),
    (
        "a server of the host",
        "setsid python3 serve.py tcp > /dev/null 2>&1 & until [ -e port ]; do sleep 0.05; done",
        "import socket\nsocket.create_connection(('127.0.0.1', int(open('port').read())), 3); print('PWN' + 'ED')",
    ),
    (
        "what lies beside the workspace",
        "true",
        "import os\nfd=os.open('..',os.O_RDONLY); print('PWN' + 'ED' if 'beside' in os.listdir(fd) else '')",
    ),
    (
        "the root of another process",
        "true",
        "import os\nfor r in ('/proc/1/root','/proc/self/root','/proc/thread-self/root'):\n  p=r+os.path.realpath('../beside/secret')\n  try: print('PWN' + 'ED' if 'S3CRET' in open(p).read() else '')\n  except OSError: pass",
    ),
];

/// A server of the host. It says in a file that it listens, and where.
const SERVE: &str = r#"
import os, socket, sys, time
how = sys.argv[1]
s = socket.socket(socket.AF_INET if how == 'tcp' else socket.AF_UNIX)
place = {'tcp': ('127.0.0.1', 0), 'beside': '../beside/s', 'abstract': b'\0haft-attack-' + str(os.getuid()).encode()}[how]
try:
    s.bind(place)
    s.listen()
except OSError: pass
open('port.new', 'w').write(str(s.getsockname()[1]) if how == 'tcp' else '0')
os.rename('port.new', 'port')
time.sleep(60)
"#;

pub(super) fn rows() -> Vec<Attack> {
    let row = |(name, setup, script): (&str, &'static str, &str)| {
        Attack::call("probes", name, "Bash", &json!({"command": "python3 probe.py"}))
            .file("work/probe.py", script)
            .file("work/serve.py", SERVE)
            .prepared(setup)
            .with(&["--allow", "Bash"])
            .opened_by(&["--allow", "Bash", "--no-sandbox"])
            .succeeds(Success::Tells(super::MARK))
    };
    PROBES.into_iter().map(row).collect()
}
