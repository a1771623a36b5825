//! Programs that connect to other machines.

use haft::effects::AccessKind::{self, Change, Observe};

use crate::model::AddressForm::*;
use crate::model::OperandPosition::*;
use crate::model::*;

const SENDS: ModeBits = mode_bit(0);
const REMOTE_NAME: ModeBits = mode_bit(1);
const INTO: ModeBits = mode_bit(2);
const SPIDER: ModeBits = mode_bit(3);
const REMOVES_SOURCE: ModeBits = mode_bit(4);
const REMOVES_TARGET: ModeBits = mode_bit(5);

const OBSERVE: ValueMeaning = connect(Address, Observe);
const CHANGE: ValueMeaning = connect(Address, Change);
const FROM_FILE: ValueMeaning = unknown_host("addresses come from a file");

const CURL_HOST: ValueMeaning = connect(Address, Observe).unless(SENDS);
const CURL_CHANGE: ValueMeaning = connect(Address, Change).when(SENDS);
const SENT: &[ValueMeaning] = &[prefixed("@", &[READ], &[]), part(WordPart::After("=@"), &[part(WordPart::Before(';'), &[READ])])];
const CURL: &[OptionSpec] = &[
    flags("-sSfvIigk46 silent show-error fail verbose head include insecure compressed http2"),
    value("-HAe header user-agent", &[prefixed("@", &[READ], &[])]), values("-m max-time connect-timeout retry"),
    mode("-LGnNpqRajJlBM012389#: fail-with-body fail-early location location-trusted http0.9 http1.0 http1.1 http2-prior-knowledge http3 ipv4 ipv6 globoff get \
          progress-bar remote-header-name remote-time parallel path-as-is create-dirs junk-session-cookies netrc netrc-optional anyauth basic digest \
          ntlm negotiate ssl ssl-reqd tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tcp-nodelay tcp-fastopen raw tr-encoding post301 post302 post303 list-only \
          use-ascii disable crlf append proxy-insecure proxytunnel xattr retry-all-errors retry-connrefused styled-output manual help version next \
          skip-existing trace-time doh-insecure ca-native no-progress-meter no-buffer no-keepalive", OPEN_ENDED),
    value("-bCEhPQrtuUwyYzZ cookie user proxy-user range rate write-out interface limit-rate cookie-jar-file referer", &[prefixed("@", &[READ], &[])]).sets(OPEN_ENDED),
    mode("-O remote-name remote-name-all", REMOTE_NAME | OPEN_ENDED),
    value("-o output", &[WRITE]),
    value("-Dc dump-header cookie-jar trace trace-ascii stderr etag-save hsts libcurl alt-svc", &[WRITE]).sets(OPEN_ENDED),
    value("output-dir", &[WRITE_INTO]).sets(INTO | OPEN_ENDED),
    value("-T upload-file", &[READ]).sets(SENDS | OPEN_ENDED),
    value("-K config", &[READ, FROM_FILE, UNDETERMINED]).sets(OPEN_ENDED),
    value("cacert cert key netrc-file", &[READ]).sets(OPEN_ENDED),
    value("-dF data data-raw data-binary data-urlencode data-ascii form form-string json url-query", SENT).sets(SENDS | OPEN_ENDED),
    value("-X request", &[]).sets(SENDS | OPEN_ENDED).except("GET HEAD"),
    value("-x url proxy preproxy socks4 socks4a socks5 socks5-hostname doh-url ipfs-gateway proxy1.0", &[CURL_HOST, CURL_CHANGE]).sets(OPEN_ENDED),
    value("resolve", &[connect(Mapping(false), Observe)]).sets(OPEN_ENDED),
    value("connect-to", &[connect(Mapping(true), Observe)]).sets(OPEN_ENDED),
];
const WGET: &[OptionSpec] = &[
    flags("-qvrmpkcNSFbdEHKLnxV46 quiet verbose no-verbose recursive mirror page-requisites convert-links no-clobber continue timestamping server-response \
           no-check-certificate no-parent no-host-directories no-directories force-directories adjust-extension content-disposition trust-server-names \
           background inet4-only inet6-only https-only no-cookies no-proxy span-hosts delete-after show-progress no-dns-cache relative backup-converted \
           help version force-html xattr debug no-hsts no-config random-wait retry-connrefused auth-no-challenge ignore-length no-netrc no-cache"),
    flags("=nv =nc =nd =nH =np"),
    mode("spider", SPIDER),
    values("-ABDGIlQRtTUwX tries timeout wait user-agent header level accept reject domains user password method limit-rate referer"),
    value("-O output-document", &[WRITE]).sets(INTO), value("-ao output-file append-output save-cookies warc-file rejected-log", &[WRITE]),
    value("-P directory-prefix", &[WRITE_INTO]).sets(INTO), value("-i input-file", &[READ, FROM_FILE]), value("post-file body-file load-cookies", &[READ]),
    value("post-data body-data", &[]),
    value("-e execute", &[UNDETERMINED, unknown_host("a setting may name a host")]), value("config", &[UNDETERMINED, FROM_FILE]), value("use-askpass", &[PROGRAM]),
];

const SSH_SETTING: KeyTable = KeyTable {
    separators: &['=', ' '], fold_case: true, alone: "",
    keys: &[
        key("proxycommand", &[SHELL, unknown_host("a command makes the connection")]),
        key("localcommand knownhostscommand", &[SHELL]),
        key("hostname proxyjump", &[part(WordPart::Each(','), &[CHANGE])]),
        key("permitlocalcommand remotecommand", &[EXACT_ONLY]),
        key("addkeystoagent batchmode checkhostip ciphers clearallforwardings compression connectionattempts connecttimeout controlmaster controlpath \
             controlpersist forwardagent hostkeyalgorithms identitiesonly identityfile kexalgorithms loglevel numberofpasswordprompts \
             passwordauthentication port preferredauthentications pubkeyacceptedalgorithms pubkeyauthentication requesttty serveralivecountmax \
             serveraliveinterval stricthostkeychecking tcpkeepalive user userknownhostsfile", &[]),
    ],
    other: &[UNDETERMINED],
};
const SSH_COMMON: &[OptionSpec] = &[
    value("-o", &[keys(&SSH_SETTING)]), value("-F", &[READ, UNDETERMINED, unknown_host("hosts come from a file")]), value("-i", &[READ]),
    value("-J", &[part(WordPart::Each(','), &[CHANGE])]),
];
const SSH: &[OptionSpec] = &[flags("-46AaCfGgKkMNnqsTtVvXxYy"), values("-BbcDelLmOpQRSWw"), value("-I", &[UNDETERMINED]), value("-E", &[WRITE])];
const SSH_OPERANDS: &[OperandSpec] = &[
    at(Nth(0), &[connect(Host, Change)]), at(From(1), &[JOINED]), at(Missing(1), &[COMMANDS_IN.unless(NO_ARGUMENT)]),
];
const SSH_SYNTAX: WordSyntax = WordSyntax { stop: StopRule::AfterOperands(1), ..POSIX };
const COPY: ValueMeaning = connect(Copy, Change);
const LOCAL_TREE: &[ValueMeaning] = &[COPY, when(WordTest::Remote, &[], &[READ_TREE, MOVE_AWAY.when(REMOVES_SOURCE)])];
const LOCAL_TARGET: &[ValueMeaning] = &[COPY, when(WordTest::Remote, &[], &[
    WRITE_TREE.when(TWO_OPERANDS), DELETE_MATCHES.when(TWO_OPERANDS | REMOVES_TARGET), READ_TREE.unless(TWO_OPERANDS),
])];
const COPIES: &[OperandSpec] = &[at(ButLast, LOCAL_TREE), at(Last, LOCAL_TARGET)];

/// A client whose operands or options are hosts.
const fn client(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, EXACT).unknown(UnknownOption::Flag).options(options).operands(operands)
}

const ALL: &[OperandSpec] = &[at(From(0), &[OBSERVE])];
const FIRST: &[OperandSpec] = &[at(Nth(0), &[connect(Host, Change)])];
const FIRST_OBSERVED: &[OperandSpec] = &[at(Nth(0), &[connect(Host, Observe)])];
const URLS: &[OperandSpec] = &[at(From(0), &[connect(Url, Observe)])];
const LOOKUP: &[OperandSpec] = &[at(From(0), &[prefixed("@", &[OBSERVE], &[OBSERVE])])];
const NETCAT: &[OptionSpec] = &[values("-gGiIkmMoOpPqsTVwWX"), flags("-lnuvzNdDhrtUFCSb46"), value("-x", &[CHANGE]), value("-ec", &[PROGRAM])];
/// `EXEC:command,option`. Two addresses with `!!` between them aren't parsed.
const SOCKET_ADDRESS: KeyTable = KeyTable {
    separators: &[':'], fold_case: true, alone: "", keys: &[key("exec system shell", &[part(WordPart::Before(','), &[SHELL])])], other: &[],
};
const SOCKETS: &[ValueMeaning] = &[connect(Socket, AccessKind::Change), keys(&SOCKET_ADDRESS), when(WordTest::Holds("!! ,exec: ,system: ,shell:"), &[UNDETERMINED], &[])];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("curl", GNU).listed().traits(ProgramTraits::COMPLETE).guards_patterns().version("--version -V").options(&[CURL]).operands(&[
        at(From(0), &[CURL_HOST, CURL_CHANGE, derived(DerivedPath::UrlFileName).when(REMOTE_NAME).unless(INTO)]), at(Missing(0), &[OPENS]), at(Always, &[CHANGES_LISTED]),
    ]),
    program("wget", GNU).guards_patterns().options(&[WGET]).operands(&[at(From(0), &[OBSERVE, derived(DerivedPath::UrlFileName).unless(INTO | SPIDER)])]),
    program("ssh", SSH_SYNTAX).guards_patterns().version("-V").unknown(UnknownOption::Doubt).traits(ProgramTraits::COMMANDS_ELSEWHERE).options(&[SSH_COMMON, SSH]).operands(SSH_OPERANDS),
    program("autossh", SSH_SYNTAX).unknown(UnknownOption::Doubt).traits(ProgramTraits::COMMANDS_ELSEWHERE).options(&[SSH_COMMON, &[values("-M")], SSH]).operands(SSH_OPERANDS),
    program("scp", POSIX).guarded().options(&[SSH_COMMON, &[value("-SD", &[PROGRAM]), flags("-346AaBCOpqrRTv"), values("-PXcl")]]).operands(COPIES),
    program("sftp", POSIX).guarded().options(&[SSH_COMMON, &[value("-SD", &[PROGRAM]), flags("-46AaCfNpqrv"), values("-BPRXbcls")]]).operands(FIRST)
        .input(&[input(TextLanguage::Commands(&BANGS))]),
    client("ssh-copy-id", &[&[values("-ip"), value("-oF", &[UNDETERMINED])]], FIRST),
    program("rsync", GNU).guarded().unknown(UnknownOption::Flag).options(&[&[
        flags("-avzrlptgoDPhniuHASxRcCdFIKkLmNOqWyEJUX archive verbose compress recursive progress partial human-readable dry-run"),
        values("-BMTf@ exclude include filter port bwlimit timeout chmod chown max-size min-size info out-format"),
        value("-e rsh rsync-path", &[PROGRAM]), value("log-file", &[WRITE]),
        value("backup-dir temp-dir partial-dir write-batch only-write-batch", &[WRITE_INTO]),
        value("files-from exclude-from include-from password-file link-dest copy-dest compare-dest read-batch", &[READ]),
        mode("remove-source-files", REMOVES_SOURCE), mode("delete del delete-before delete-during delete-delay delete-after delete-excluded delete-missing-args", REMOVES_TARGET),
    ]]).operands(COPIES),
    client("aria2c", &[&[values("-dojxstkmTOlCbuU"), value("-i", &[FROM_FILE]), value("all-proxy http-proxy https-proxy", &[OBSERVE]),
        value("on-bt-download-complete on-download-complete on-download-error on-download-pause on-download-start on-download-stop", &[PROGRAM])]], URLS).guards_patterns(),
    client("dig", &[&[values("-bckmpqtxy"), value("-f", &[FROM_FILE])]], LOOKUP).syntax(WordSyntax { plus: PlusWords::Value(&[]), ..EXACT }),
    client("drill", &[&[values("-bcfikowp")]], LOOKUP), client("host", &[&[values("-cNmRtWpU")]], LOOKUP), client("nslookup", &[], LOOKUP),
    client("ftp", &[&[values("-NoPrTuxsqw")]], FIRST).input(&[input(TextLanguage::Commands(&BANGS))]),
    client("telnet", &[&[values("-belnSX")]], FIRST).input(&[input(TextLanguage::Commands(&BANGS))]),
    client("http https", &[&[values("-aApsod auth session output"), value("proxy", &[CHANGE])]], FIRST),
    client("lynx w3m", &[&[values("-ITO")]], URLS),
    client("mtr", &[&[values("-acfiImnoPsTUwZ")]], ALL), client("nmap", &[&[values("-oegDSipTP")]], ALL), client("ping ping6", &[&[values("-cIilmMpQsStTwWF")]], ALL),
    client("tracepath", &[&[values("-lmp")]], FIRST_OBSERVED), client("traceroute", &[&[values("-fimNpqstwz"), value("-g", &[OBSERVE])]], FIRST_OBSERVED),
    client("whois", &[&[values("-pTstig"), value("-h host", &[OBSERVE])]], FIRST_OBSERVED),
    client("nc netcat", &[NETCAT], FIRST).guards_patterns(),
    client("ncat", &[&[values("-EdgGiopstwxm"), value("proxy", &[CHANGE]), value("-ec exec sh-exec lua-exec", &[PROGRAM])]], FIRST).guards_patterns(),
    // The words after the host, after `--`, are a command for it.
    client("mosh", &[&[value("ssh client server", &[PROGRAM])]], &[at(Nth(0), &[connect(Host, Change)]), at(AfterDashes, &[LAUNCH_CONTAINED])]).syntax(SSH_SYNTAX),
    program("socat", EXACT).operands(&[at(From(0), SOCKETS)]),
    program("youtube-dl yt-dlp", EXACT).guards_patterns().unknown(UnknownOption::Flag).options(&[&[values("-aforpuP"), value("exec exec-before-download downloader external-downloader netrc-cmd ffmpeg-location", &[PROGRAM]), value("config-location config-locations plugin-dirs", &[UNDETERMINED])]]),
    program("ssh-add", POSIX).options(&[&[value("-esS", &[UNDETERMINED]), values("-tEH")]]),
    program("sshfs", EXACT).options(&[&[value("-o", &[part(WordPart::Each(','), &[one_of("ssh_command=* *proxycommand=*", &[part(WordPart::After("="), &[SHELL])], &[])])]), values("-pF")]]),
    program("dbclient", POSIX).options(&[&[value("-J", &[SHELL]), values("-plibBcmLRWKI")]]),
    program("msmtp", EXACT).options(&[&[value("passwordeval", &[SHELL]), value("-CF file", &[UNDETERMINED])]]),
    program("fetchmail", EXACT).options(&[&[value("-m mda plugin plugout preconnect postconnect", &[SHELL]), value("-f fetchmailrc", &[UNDETERMINED])]]),
];

const BANGS: CommandEscapes = CommandEscapes {
    shell: &[], anywhere: Some("!"), unread: &["shell ", "system", "pipe", "python"], signs: &[], plain: "", exact: false, abbreviated: false, pipes: None,
};
