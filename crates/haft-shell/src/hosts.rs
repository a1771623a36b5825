//! Which hosts a command reaches, by its words.
//!
//! For programs that are known to reach some. A host that isn't in the words (`curl $U`, `git fetch origin`) is said to
//! be unknown, with the reason; [`super::SubCommand::reaches_unknown`] passes that on. What isn't in the table may reach
//! anything, and nothing is said of it.

use haft::effects::Access;

use super::{Word, base_name, globals, marks};

/// What a command reaches.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) hosts: Vec<(String, Access)>,
    /// Why there may be more.
    pub(super) unknown: Option<String>,
    /// Files that are named by an address: `file:///etc/passwd`.
    pub(super) files: Vec<String>,
    /// Whether the program is one that reaches hosts by its words.
    pub(super) known: bool,
}

impl Reached {
    fn host(&mut self, host: String, access: Access) {
        if !self.hosts.iter().any(|(known, _)| *known == host) {
            self.hosts.push((host, access));
        }
    }

    fn open(&mut self, why: impl Into<String>) {
        self.unknown.get_or_insert(why.into());
    }

    /// An address, or a host alone.
    fn address(&mut self, word: &Word, access: Access) {
        match word {
            Word::Literal(text) => self.text(text, access),
            Word::Dynamic(open) => {
                // What is expanded behind the host doesn't matter: `https://x.io/$path`.
                let start = open.shape.split(|c| c <= marks::GLOB).next().unwrap_or("");
                let rest = start.split_once("://").map_or(start, |(_, rest)| rest);
                let ended = rest.contains(['/', '?', '#']) && !rest.starts_with(['/', '.']);
                if ended { self.text(start, access) } else { self.expanded(word) }
            }
        }
    }

    fn expanded(&mut self, word: &Word) {
        self.open(format!("which host `{}` is, is known only when it runs", word.plain()));
    }

    fn text(&mut self, text: &str, access: Access) {
        if let Some(path) = text.strip_prefix("file://") {
            return self.files.push(path.strip_prefix("localhost").unwrap_or(path).to_owned());
        }
        match host_of(text) {
            Some(host) => self.host(host, access),
            None => self.open(format!("which host `{text}` is can't be read")),
        }
    }
}

/// The host of an address with or without a scheme, if it is plain.
pub(super) fn host_of(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if text.contains(['\\', '{', '}', '\n', '\t', ' ']) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Some(inside) = host.strip_prefix('[') {
        let (address, _) = inside.split_once(']')?;
        let plain =
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
        return plain.then(|| address.to_ascii_lowercase());
    }
    let port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, number)| port(number)).map_or(host, |(host, _)| host);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let host = host.trim_end_matches('.');
    (!host.is_empty() && !host.starts_with('-') && host.bytes().all(plain)).then(|| host.to_ascii_lowercase())
}

/// The host of `[user@]host:path` as `scp` and `git` read it.
fn remote(text: &str) -> Option<&str> {
    let (front, _) = text.split_once(':')?;
    (!front.is_empty() && !front.contains('/')).then_some(front)
}

/// How the operands and options of a program name hosts.
struct Client {
    name: &'static str,
    /// Single letters with a value, and those of which it is a host.
    valued: &'static str,
    hosts: &'static str,
    /// Long options with a host; all others that aren't `flags` have some value.
    long: &'static [&'static str],
    flags: &'static [&'static str],
    operands: Operands,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Each is a host or an address.
    All,
    /// The first is.
    First,
    /// Those of the form `host:path` or with a scheme.
    Copies,
    /// Names to look up; the second, or one with `@`, is who is asked.
    Lookup,
    /// None but those with a scheme.
    Urls,
}

use Access::{Change, Observe};
use Operands::{All, Copies, First, Lookup, Urls};

const fn client(
    name: &'static str,
    valued: &'static str,
    hosts: &'static str,
    long: &'static [&'static str],
    operands: Operands,
    access: Access,
) -> Client {
    Client { name, valued, hosts, long, flags: &[], operands, access }
}

impl Client {
    const fn flags(mut self, flags: &'static [&'static str]) -> Client {
        self.flags = flags;
        self
    }
}

const CURL_FLAGS: &[&str] = &[
    "silent",
    "show-error",
    "fail",
    "fail-with-body",
    "fail-early",
    "location",
    "location-trusted",
    "verbose",
    "head",
    "include",
    "insecure",
    "compressed",
    "http0.9",
    "http1.0",
    "http1.1",
    "http2",
    "http2-prior-knowledge",
    "http3",
    "ipv4",
    "ipv6",
    "globoff",
    "get",
    "progress-bar",
    "remote-name",
    "remote-name-all",
    "remote-header-name",
    "remote-time",
    "parallel",
    "path-as-is",
    "create-dirs",
    "junk-session-cookies",
    "netrc",
    "netrc-optional",
    "anyauth",
    "basic",
    "digest",
    "ntlm",
    "negotiate",
    "ssl",
    "ssl-reqd",
    "tlsv1",
    "tlsv1.0",
    "tlsv1.1",
    "tlsv1.2",
    "tlsv1.3",
    "tcp-nodelay",
    "tcp-fastopen",
    "raw",
    "tr-encoding",
    "post301",
    "post302",
    "post303",
    "list-only",
    "use-ascii",
    "disable",
    "crlf",
    "append",
    "proxy-insecure",
    "proxytunnel",
    "xattr",
    "retry-all-errors",
    "retry-connrefused",
    "styled-output",
    "manual",
    "help",
    "version",
    "next",
    "skip-existing",
    "trace-time",
    "doh-insecure",
    "ca-native",
];
const WGET_FLAGS: &[&str] = &[
    "quiet",
    "verbose",
    "no-verbose",
    "recursive",
    "mirror",
    "page-requisites",
    "convert-links",
    "no-clobber",
    "continue",
    "timestamping",
    "server-response",
    "spider",
    "no-check-certificate",
    "no-parent",
    "no-host-directories",
    "no-directories",
    "force-directories",
    "adjust-extension",
    "content-disposition",
    "trust-server-names",
    "background",
    "inet4-only",
    "inet6-only",
    "https-only",
    "no-cookies",
    "no-proxy",
    "span-hosts",
    "delete-after",
    "show-progress",
    "no-dns-cache",
    "relative",
    "backup-converted",
    "help",
    "version",
    "force-html",
    "xattr",
    "debug",
    "no-hsts",
    "no-config",
    "random-wait",
    "retry-connrefused",
    "auth-no-challenge",
    "ignore-length",
    "no-netrc",
    "no-cache",
];

const CLIENTS: &[Client] = &[
    client("aria2c", "dojxstkmTOlCbuUi", "", &["all-proxy", "http-proxy", "https-proxy"], Urls, Observe),
    client(
        "curl",
        "AbcCdDeEFhHKmoPQrtTuUwxXyYzZ",
        "x",
        &[
            "url",
            "proxy",
            "preproxy",
            "socks4",
            "socks4a",
            "socks5",
            "socks5-hostname",
            "doh-url",
            "ipfs-gateway",
            "proxy1.0",
        ],
        All,
        Observe,
    )
    .flags(CURL_FLAGS),
    client("dig", "bcfkmpqtxy", "", &[], Lookup, Observe),
    client("drill", "bcfikowp", "", &[], Lookup, Observe),
    client("ftp", "NoPrTuxsqw", "", &[], First, Change),
    client("host", "cNmRtWpU", "", &[], Lookup, Observe),
    client("http", "aApsod", "", &["proxy", "auth", "session", "output"], First, Change),
    client("https", "aApsod", "", &["proxy", "auth", "session", "output"], First, Change),
    client("lynx", "", "", &[], Urls, Observe),
    client("mariadb", "DePSu", "h", &["host"], Urls, Change),
    client("mongosh", "pu", "", &["host"], Urls, Change),
    client("mosh", "", "", &[], First, Change),
    client("mtr", "acfiImnoPsTUwZ", "", &[], All, Observe),
    client("mysql", "DePSu", "h", &["host"], Urls, Change),
    client("mysqldump", "DPSur", "h", &["host"], Urls, Observe),
    client("nc", "cegGiIkmMoOpPqsTVwWxX", "xX", &[], First, Change),
    client("ncat", "ceEdgGiopstwxm", "", &["proxy"], First, Change),
    client("netcat", "cegGiIkmMoOpPqsTVwWxX", "x", &[], First, Change),
    client("nmap", "oegDSipTP", "", &[], All, Observe),
    client("nslookup", "", "", &[], Lookup, Observe),
    client("pg_dump", "dfFUpnNtTEjZ", "h", &["host"], Urls, Observe),
    client("ping", "cIilmMpQsStTwWF", "", &[], All, Observe),
    client("ping6", "cIilmMpQsStTwWF", "", &[], All, Observe),
    client("psql", "cdfFLopPRTUv", "h", &["host"], Urls, Change),
    client("redis-cli", "apnirDx", "hu", &[], Urls, Change),
    client("rsync", "BMTef@", "", &["rsh"], Copies, Change),
    client("scp", "DFJPSXcilo", "J", &[], Copies, Change),
    client("sftp", "BDFJPRSXbcilos", "J", &[], First, Change),
    client("ssh", "BbcDEeFIiLlmOopRSWw", "J", &[], First, Change),
    client("ssh-copy-id", "ipoF", "", &[], First, Change),
    client("telnet", "belnSX", "", &[], First, Change),
    client("tracepath", "lmp", "", &[], First, Observe),
    client("traceroute", "fgimNpqstwz", "g", &[], First, Observe),
    client("w3m", "ITO", "", &[], Urls, Observe),
    client("wget", "aABDeGiIlloOPQRtTUwX", "", &[], All, Observe).flags(WGET_FLAGS),
    client("whois", "hpTstig", "h", &["host"], First, Observe),
];

/// What a command reaches, as far as its words say.
pub(super) fn reached(argv: &[Word]) -> Reached {
    let mut found = Reached::default();
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return found };
    match name {
        "git" => git(argv, &mut found),
        "docker" | "podman" | "nerdctl" => images(argv, &mut found),
        "openssl" => option(argv, &["-connect", "-proxy", "-host"], Change, &mut found),
        "pip" | "pip3" | "uv" | "pipx" => {
            option(
                argv,
                &[
                    "--index-url",
                    "-i",
                    "--extra-index-url",
                    "--proxy",
                    "--default-index",
                    "--index",
                    "--find-links",
                    "-f",
                ],
                Observe,
                &mut found,
            );
            urls(&argv[1..], &mut found);
        }
        "npm" | "pnpm" | "yarn" | "npx" | "bun" => {
            option(argv, &["--registry", "--proxy", "--https-proxy"], Observe, &mut found);
            urls(&argv[1..], &mut found);
        }
        "python" | "python3" if argv.get(1).and_then(Word::literal) == Some("-m") && argv.len() > 2 => {
            return reached(&argv[2..]);
        }
        "socat" => {
            for word in &argv[1..] {
                let text = word.prefix();
                let kind = text.split(':').next().unwrap_or("").to_ascii_uppercase();
                if ["TCP", "UDP", "OPENSSL", "SSL", "SOCKS", "PROXY"]
                    .iter()
                    .any(|start| kind.starts_with(start))
                    && !kind.contains("LISTEN")
                {
                    found.known = true;
                    match (word.literal(), text.split(':').nth(1)) {
                        (Some(_), Some(host)) => found.text(host, Change),
                        _ => found.expanded(word),
                    }
                }
            }
        }
        _ => {
            if let Ok(at) = CLIENTS.binary_search_by(|client| client.name.cmp(name)) {
                found.known = true;
                clients(&CLIENTS[at], &argv[1..], &mut found);
            }
        }
    }
    found
}

fn clients(client: &Client, arguments: &[Word], found: &mut Reached) {
    let mut access = client.access;
    if client.name == "curl" {
        let sends = |word: &Word| {
            let text = word.prefix();
            ["-d", "-F", "-T", "--data", "--form", "--upload-file", "--json"]
                .iter()
                .any(|start| text.starts_with(start))
                || (text.starts_with("-X") || text.starts_with("--request")) && !text.ends_with("GET")
        };
        if arguments.iter().any(sends) {
            access = Change;
        }
    }
    let mut operands: Vec<&Word> = Vec::new();
    let mut at = 0;
    let mut ended = false;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.prefix();
        if ended
            || text.len() < 2
            || !text.starts_with('-')
            || (client.name == "dig" && text.starts_with('+'))
        {
            if !text.starts_with('+') || client.name != "dig" {
                operands.push(word);
            }
            // What follows the host is a command for it.
            if matches!(client.name, "ssh" | "mosh") {
                break;
            }
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (long, inline) = match long.split_once('=') {
                Some((long, value)) => (long, Some(value)),
                None => (long, None),
            };
            let value = match inline {
                Some(value) => {
                    Some(Word::Literal(value.to_owned()).clone()).filter(|_| word.literal().is_some())
                }
                None if client.flags.contains(&long) || long.starts_with("no-") || long == "rsh" => continue,
                // Which of the others have a value isn't known for every program.
                None if client.flags.is_empty() && !client.long.contains(&long) => continue,
                None => {
                    at += 1;
                    arguments.get(at - 1).cloned()
                }
            };
            special(client, long, value.as_ref(), access, found);
            if client.long.contains(&long) && long != "rsh" {
                match value {
                    Some(value) => found.address(&value, access),
                    None => found.expanded(word),
                }
            }
            continue;
        }
        let letters = &text[1..];
        let Some(place) = letters.find(|c| client.valued.contains(c) || client.hosts.contains(c)) else {
            continue;
        };
        let letter = &letters[place..=place];
        let rest = &letters[place + 1..];
        let value = if rest.is_empty() && word.literal().is_some() {
            at += 1;
            arguments.get(at - 1).cloned()
        } else {
            word.literal().map(|_| Word::Literal(rest.to_owned()))
        };
        special(client, letter, value.as_ref(), access, found);
        if client.hosts.contains(letter) {
            match value {
                // `-J a,b`.
                Some(Word::Literal(text)) => text.split(',').for_each(|one| found.text(one, access)),
                Some(word) => found.expanded(&word),
                None => found.expanded(word),
            }
        }
    }
    match client.operands {
        All => operands.iter().for_each(|word| found.address(word, access)),
        First => operands.first().into_iter().for_each(|word| match word.literal().and_then(remote) {
            Some(host) if host.parse::<u16>().is_err() && !word.plain().contains("://") => {
                found.text(host, access)
            }
            _ => found.address(word, access),
        }),
        Copies => operands.iter().for_each(|word| copied(word, access, found)),
        Urls => operands.iter().for_each(|word| {
            if word.prefix().contains("://") {
                found.address(word, access);
            } else if let Some(host) = word.literal().and_then(|text| text.split_once("host=")) {
                found.text(host.1.split(' ').next().unwrap_or(""), access);
            }
        }),
        Lookup => {
            for word in operands {
                match word.prefix().strip_prefix('@') {
                    Some(server) if word.literal().is_some() => found.text(server, access),
                    _ => found.address(word, access),
                }
            }
        }
    }
}

/// Options whose value names a host in a way of their own, or takes names from elsewhere.
fn special(client: &Client, option: &str, value: Option<&Word>, access: Access, found: &mut Reached) {
    let text = value.and_then(Word::literal);
    match (client.name, option) {
        ("curl", "resolve" | "connect-to") => {
            // `name:port:address` and `name:port:other:port`: the third is who is reached.
            let parts = text.map(|text| text.trim_start_matches('+'));
            match parts.and_then(|text| text.splitn(3, ':').nth(2)) {
                Some(rest) => {
                    let other = if option == "connect-to" {
                        rest.rsplit_once(':').map_or(rest, |(host, _)| host)
                    } else {
                        rest
                    };
                    other.split(',').filter(|one| !one.is_empty()).for_each(|one| {
                        let bare = one.contains(':') && !one.starts_with('[');
                        found.text(&if bare { format!("[{one}]") } else { one.to_owned() }, access);
                    });
                }
                None => found.open(format!("what `--{option}` names can't be read")),
            }
        }
        ("curl", "K" | "config")
        | ("wget", "i" | "input-file" | "config")
        | ("dig", "f")
        | ("aria2c", "i") => {
            found.open("addresses come from a file");
        }
        ("wget", "e" | "execute") => found.open("a setting may name a host"),
        ("ssh" | "scp" | "sftp", "o") => {
            let (key, value) = text.and_then(|text| text.split_once(['=', ' '])).unwrap_or(("", ""));
            match &*key.to_ascii_lowercase() {
                "hostname" | "proxyjump" => value.split(',').for_each(|one| found.text(one, access)),
                "proxycommand" => found.open("a command makes the connection"),
                _ => {}
            }
        }
        ("ssh" | "scp" | "sftp", "F") => found.open("hosts come from a file"),
        _ => {}
    }
}

/// `[user@]host:path`, an address, or a local file.
fn copied(word: &Word, access: Access, found: &mut Reached) {
    let text = word.prefix();
    if text.contains("://") {
        return found.address(word, access);
    }
    match (word.literal(), remote(text)) {
        (Some(_), Some(host)) => found.text(host, access),
        // `$x:path` and `$x`, which may be anything.
        (None, None)
            if text.is_empty() && !word.plain().starts_with('~') && !word.plain().starts_with(['*', '?']) =>
        {
            found.expanded(word);
        }
        (None, Some(host)) => found.text(host, access),
        _ => {}
    }
}

/// The values of some options.
fn option(argv: &[Word], options: &[&str], access: Access, found: &mut Reached) {
    for (at, word) in argv.iter().enumerate() {
        let text = word.prefix();
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if !options.contains(&name) {
            continue;
        }
        found.known = true;
        match (inline, word.literal()) {
            (Some(value), Some(_)) => found.text(value, access),
            (Some(_), None) => found.expanded(word),
            (None, _) => match argv.get(at + 1) {
                // A folder of packages.
                Some(Word::Literal(value))
                    if matches!(name, "-f" | "--find-links") && !value.contains("://") => {}
                Some(value) => found.address(value, access),
                None => {}
            },
        }
    }
}

/// Operands with a scheme.
fn urls(arguments: &[Word], found: &mut Reached) {
    for word in
        arguments.iter().filter(|word| !word.prefix().starts_with('-') && word.prefix().contains("://"))
    {
        found.known = true;
        found.address(word, Observe);
    }
}

fn git(argv: &[Word], found: &mut Reached) {
    let Some(verb) = globals::verb(argv, 1) else { return };
    let Some(name) = argv[verb].literal() else { return };
    let arguments = &argv[verb + 1..];
    let access = if name == "push" { Change } else { Observe };
    let mut operands = operands(arguments, name);
    let remotes = match name {
        "clone" | "ls-remote" | "fetch" | "pull" | "push" => 1,
        "archive" => {
            option(argv, &["--remote"], access, found);
            return;
        }
        "remote" => match operands.first().and_then(|word| word.literal()) {
            Some("add" | "set-url") => {
                // The name, then the address.
                found.known = true;
                if let Some(word) = operands.get(2) {
                    place(word, access, false, found);
                }
                return;
            }
            Some("update" | "show" | "prune") => {
                found.known = true;
                return found.open("git knows the hosts of its remotes");
            }
            _ => return,
        },
        "submodule" => match operands.first().and_then(|word| word.literal()) {
            Some("add") => {
                operands.remove(0);
                1
            }
            Some("update") => {
                found.known = true;
                return found.open("git knows the hosts of its submodules");
            }
            _ => return,
        },
        "lfs" | "svn" | "p4" => {
            found.known = true;
            return found.open("git knows the hosts of its remotes");
        }
        _ => return,
    };
    found.known = true;
    for word in arguments {
        if let Some(address) = word.literal().and_then(|text| text.strip_prefix("--repo=")) {
            found.text(address, access);
        }
    }
    match operands.first() {
        None if name != "clone" => found.open("git knows the host of the remote"),
        None => {}
        Some(_) => operands.iter().take(remotes).for_each(|word| place(word, access, name != "clone", found)),
    }
    if arguments.iter().any(|word| matches!(word.literal(), Some("--all" | "--multiple")))
        && matches!(name, "fetch" | "pull")
    {
        found.open("git knows the hosts of its remotes");
    }
}

/// An address for git: a URL, `host:path`, a folder, or else the name of a remote.
fn place(word: &Word, access: Access, named: bool, found: &mut Reached) {
    let text = word.prefix();
    if let Some(path) = word.literal().and_then(|text| text.strip_prefix("file://")) {
        return found.files.push(path.to_owned());
    }
    if text.contains("::") {
        return found.open(format!("`{}` is a command that makes the connection", word.plain()));
    }
    if text.contains("://") {
        return found.address(word, access);
    }
    match (word.literal(), remote(text)) {
        (None, None) => found.expanded(word),
        (_, Some(host)) => found.text(host, access),
        (Some(text), None) if text.starts_with(['/', '.', '~']) => found.files.push(text.to_owned()),
        (Some(text), None) if named => found.open(format!("git knows the host of the remote `{text}`")),
        (Some(text), None) => found.files.push(text.to_owned()),
    }
}

/// The words of a sub-command of git that aren't options or their values.
fn operands<'w>(arguments: &'w [Word], name: &str) -> Vec<&'w Word> {
    let valued: &[&str] = match name {
        "clone" => &[
            "-b",
            "--branch",
            "-o",
            "--origin",
            "-u",
            "--upload-pack",
            "-c",
            "--config",
            "--depth",
            "-j",
            "--jobs",
            "--reference",
            "--separate-git-dir",
            "--shallow-since",
            "--shallow-exclude",
            "--filter",
            "--template",
            "--server-option",
            "--bundle-uri",
            "--revision",
        ],
        "push" => &["-o", "--push-option", "--receive-pack", "--exec", "--repo"],
        "fetch" | "pull" | "ls-remote" => &[
            "--depth",
            "--deepen",
            "-j",
            "--jobs",
            "--upload-pack",
            "--refmap",
            "-s",
            "-X",
            "--strategy",
            "--shallow-since",
            "-o",
            "--server-option",
            "--filter",
            "--negotiation-tip",
            "--sort",
        ],
        "remote" => &["-t", "-m"],
        "submodule" => &["-b", "--branch", "--name", "--reference", "--depth"],
        _ => &[],
    };
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.prefix();
        if valued.contains(&text) {
            words.next();
        } else if text.len() < 2 || !text.starts_with('-') {
            found.push(word);
        }
    }
    found
}

/// The registry of an image, and of the daemon if that is elsewhere.
fn images(argv: &[Word], found: &mut Reached) {
    option(argv, &["-H", "--host"], Change, found);
    let Some(verb) = globals::verb(argv, 1) else { return };
    if !matches!(argv[verb].literal(), Some("pull" | "push" | "login")) {
        return;
    }
    found.known = true;
    let access = if argv[verb].literal() == Some("pull") { Observe } else { Change };
    let Some(image) = argv[verb + 1..].iter().rfind(|word| !word.prefix().starts_with('-')) else {
        return found.host("docker.io".to_owned(), access);
    };
    let Some(text) = image.literal() else { return found.expanded(image) };
    let first = text.split('/').next().unwrap_or(text);
    let registry = (text.contains('/') || argv[verb].literal() == Some("login"))
        && (first.contains(['.', ':']) || first == "localhost");
    if registry { found.text(first, access) } else { found.host("docker.io".to_owned(), access) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(CLIENTS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn hosts_of_addresses() {
        for (text, host) in [
            ("example.com", Some("example.com")),
            ("https://Example.com:8080/x?y", Some("example.com")),
            ("user:pass@x.io/y", Some("x.io")),
            ("https://good.io@evil.io/", Some("evil.io")),
            ("http://[::1]:80/", Some("::1")),
            ("http://x.io.", Some("x.io")),
            ("http://{a,b}.io", None),
            ("http://x.io\\@y.io", None),
            ("", None),
            ("-x", None),
        ] {
            assert_eq!(host_of(text).as_deref(), host, "{text}");
        }
    }
}
