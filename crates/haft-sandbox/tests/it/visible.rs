//! What commands see without a grant: nothing of the user and of `/etc` but what programs need, and that
//! works as outside.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use haft::files::{GrantedAccess, GrantedRoot};
use haft::ports::{ConfinementLevel, ProcessExit};

use crate::profile::{User, git};
use crate::skipped;

/// Where products keep secrets in a home folder.
const IN_HOME: [&str; 104] = [
    ".aws/credentials",
    ".aws/sso/cache/token.json",
    ".azure/accessTokens.json",
    ".azure/msal_token_cache.json",
    ".bash_history",
    ".bashrc",
    ".boto",
    ".cache/BraveSoftware/Brave-Browser/Default/Cache/data_0",
    ".cache/chromium/Default/Cache/data_0",
    ".cache/containers/auth.json",
    ".cache/gh/auth",
    ".cache/google-chrome/Default/Cache/data_0",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".cache/keyring-1/control",
    ".cache/microsoft-edge/Default/data_0",
    ".cache/mozilla/firefox/a.default/cache2/entries/1",
    ".cache/opencode/tokens.json",
    ".cache/pypoetry/auth.toml",
    ".cache/spotify/users/me",
    ".cache/thunderbird/a.default/cache",
    ".cache/vscode-cpptools/token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/BraveSoftware/Brave-Browser/Local State",
    ".config/Code/User/globalStorage/storage.json",
    ".config/NuGet/NuGet.Config",
    ".config/Slack/storage/root-state.json",
    ".config/composer/auth.json",
    ".config/configstore/firebase-tools.json",
    ".config/containers/auth.json",
    ".config/doctl/config.yaml",
    ".config/fish/fish_variables",
    ".config/gcloud/application_default_credentials.json",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/glab-cli/config.yml",
    ".config/google-chrome/Default/Login Data",
    ".config/heroku/config",
    ".config/hub",
    ".config/op/config",
    ".config/opencode/auth.json",
    ".config/pip/netrc",
    ".config/pypoetry/auth.toml",
    ".config/rclone/rclone.conf",
    ".config/sops/age/keys.txt",
    ".cursor/mcp.json",
    ".databrickscfg",
    ".docker/config.json",
    ".dotnet/corefx/cryptography/x509stores/my/key.pfx",
    ".env",
    ".fly/config.yml",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg/private-keys-v1.d/a.key",
    ".gradle/gradle.properties",
    ".gradle/init.d/company.gradle",
    ".gradle/init.gradle",
    ".huggingface/token",
    ".kaggle/kaggle.json",
    ".kube/config",
    ".lesshst",
    ".local/share/keyrings/login.keyring",
    ".local/share/opencode/auth.json",
    ".local/share/uv/credentials/credentials.toml",
    ".local/state/haft/trust.json",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla/firefox/a.default/logins.json",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npm/_logs/2024-01-01T00_00_00_000Z-debug-0.log",
    ".npm/_update-notifier-last-checked",
    ".nuget/NuGet/NuGet.Config",
    ".nvm/.npmrc",
    ".oci/config",
    ".password-store/a.gpg",
    ".pgpass",
    ".pki/nssdb/key4.db",
    ".psql_history",
    ".pub-cache/credentials.json",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".sbt/.credentials",
    ".ssh/config",
    ".ssh/id_ed25519",
    ".terraform.d/credentials.tfrc.json",
    ".thunderbird/a.default/logins.json",
    ".vault-token",
    ".viminfo",
    ".vscode-server/data/Machine/settings.json",
    ".wakatime.cfg",
    ".zsh_history",
    "Documents/passwords.kdbx",
    "go/src/private/key.go",
];

/// Where products keep secrets in `/etc`.
const IN_ETC: [&str; 120] = [
    "NetworkManager/system-connections/home.nmconnection",
    "amanda/amandapass",
    "ansible/vault_pass",
    "apache2/.htpasswd",
    "apt/auth.conf",
    "apt/auth.conf.d/private.conf",
    "apt/sources.list.d/private.list",
    "asterisk/manager.conf",
    "bacula/bacula-dir.conf",
    "bareos/bareos-dir.d/director/bareos-dir.conf",
    "boto.cfg",
    "borgmatic/config.yaml",
    "caddy/Caddyfile",
    "ceph/ceph.client.admin.keyring",
    "chef/client.pem",
    "cifs-credentials",
    "cloud/cloud.cfg.d/90_user.cfg",
    "cloudflared/cert.json",
    "consul.d/consul.hcl",
    "containers/auth.json",
    "cron.d/backup",
    "crontab",
    "cups/printers.conf",
    "datadog-agent/datadog.yaml",
    "davfs2/secrets",
    "ddclient.conf",
    "default/grafana-server",
    "default/k3s",
    "default/minio",
    "docker/daemon.json",
    "docker/key.json",
    "dovecot/dovecot-sql.conf.ext",
    "elasticsearch/elasticsearch.keystore",
    "environment",
    "environment.d/50-token.conf",
    "etcd/etcd.conf.yml",
    "exim4/passwd.client",
    "fetchmailrc",
    "filebeat/filebeat.yml",
    "freeradius/3.0/clients.conf",
    "fstab",
    "gemrc",
    "gitea/app.ini",
    "gitlab-runner/config.toml",
    "gitlab/gitlab-secrets.json",
    "grafana/grafana.ini",
    "gshadow",
    "haproxy/haproxy.cfg",
    "hostapd/hostapd.conf",
    "httpd/conf/.htpasswd",
    "icinga2/features-enabled/api.conf",
    "influxdb/influxdb.conf",
    "ipsec.secrets",
    "java-99-openjdk/management/jmxremote.password",
    "kibana/kibana.yml",
    "krb5.keytab",
    "kubernetes/admin.conf",
    "kubernetes/pki/ca.key",
    "ldap.secret",
    "letsencrypt/archive/example.org/privkey1.pem",
    "libvirt/secrets/a.base64",
    "logstash/logstash.keystore",
    "machine-id",
    "mail/sasl_passwd",
    "matrix-synapse/homeserver.yaml",
    "maven/settings.xml",
    "mongod.conf",
    "mosquitto/passwd",
    "msmtprc",
    "mumble-server.ini",
    "my.cnf",
    "mysql/debian.cnf",
    "nagios/resource.cfg",
    "netrc",
    "newrelic-infra.yml",
    "nginx/.htpasswd",
    "nginx/ssl/server.key",
    "nix/nix.conf",
    "nomad.d/nomad.hcl",
    "nslcd.conf",
    "nut/upsd.users",
    "odbc.ini",
    "openvpn/client.key",
    "pam_ldap.secret",
    "pgbouncer/userlist.txt",
    "php/8.2/fpm/pool.d/www.conf",
    "phpmyadmin/config-db.php",
    "pki/tls/private/server.key",
    "postfix/sasl_passwd",
    "postgresql-common/pg_service.conf",
    "postgresql/15/main/pg_hba.conf",
    "powerdns/pdns.conf",
    "ppp/chap-secrets",
    "ppp/pap-secrets",
    "profile.d/company-token.sh",
    "prometheus/web.yml",
    "puppetlabs/puppet/ssl/private_keys/host.pem",
    "rabbitmq/rabbitmq.conf",
    "rancher/k3s/k3s.yaml",
    "rancher/rke2/rke2.yaml",
    "redis/redis.conf",
    "rsnapshot.conf",
    "rsyncd.secrets",
    "salt/pki/minion/minion.pem",
    "security/opasswd",
    "shadow",
    "snmp/snmpd.conf",
    "squid/passwd",
    "ssh/ssh_host_ed25519_key",
    "ssl/private/server.key",
    "ssmtp/ssmtp.conf",
    "sssd/sssd.conf",
    "stunnel/psk.txt",
    "sudoers",
    "systemd/system/app.service",
    "telegraf/telegraf.conf",
    "traefik/acme.json",
    "turnserver.conf",
    "vault.d/vault.hcl",
    "wpa_supplicant/wpa_supplicant.conf",
];

/// Files of which commands see a copy without secrets.
const COPIES: [(&str, &str); 3] = [
    ("gitconfig", "[user]\n\tname = Machine\n[credential]\n\thelper = SECRET\n"),
    ("npmrc", "fund=false\n//r.example/:_authToken=SECRET\n"),
    ("pip.conf", "[global]\ntimeout = 5\nindex-url = https://me:SECRET@r.example/simple\n"),
];

fn plant(folder: &Path, names: &[&str]) {
    for name in names {
        let path = folder.join(name);
        // The machine may have it, even as a link to elsewhere.
        if path.symlink_metadata().is_ok() {
            let _ = fs::remove_file(&path);
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "SECRET").unwrap();
    }
}

/// Those of the files that one of the two kinds of commands can read.
async fn readable(user: &User, folder: &Path, names: &[&str]) -> Vec<String> {
    let session = user.session();
    let mut found = BTreeSet::new();
    let paths: Vec<String> = names.iter().map(|name| format!("'{}'", folder.join(name).display())).collect();
    let script =
        format!("for f in {}; do grep -qs SECRET \"$f\" && echo \"$f\"; done; true", paths.join(" "));
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let (exit, said, _) = session.run(session.request(&script).with_confinement(confinement)).await;
        assert_eq!(exit, ProcessExit::Code(0), "{said}");
        found.extend(said.lines().map(str::to_owned));
    }
    found.into_iter().collect()
}

#[tokio::test]
async fn no_secret_in_the_home_folder_can_be_read() {
    let user = User::new();
    let home = user.at("home");
    plant(&home, &IN_HOME);
    // The control: the same question answers where files are shown.
    fs::write(user.at("work/shown"), "SECRET").unwrap();
    fs::create_dir_all(home.join(".cache/pip/http")).unwrap();
    fs::write(home.join(".cache/pip/http/a"), "SECRET").unwrap();
    assert_eq!(readable(&user, &user.at("work"), &["shown"]).await.len(), 1);
    assert_eq!(readable(&user, &home, &[".cache/pip/http/a"]).await.len(), 1);
    assert_eq!(readable(&user, &home, &IN_HOME).await, [] as [&str; 0]);
}

/// What a grant names is seen, and nothing beside it.
#[tokio::test]
async fn an_approval_shows_the_path_that_it_names() {
    let user = User::new();
    plant(&user.at("home"), &IN_HOME);
    let session = user.session();
    for name in [".cache/huggingface/token", ".bashrc", ".config/fish/fish_variables"] {
        let path = user.at("home").join(name);
        let beside = path.with_file_name("beside");
        fs::write(&beside, "SECRET").unwrap();
        let access = GrantedAccess { read: vec![GrantedRoot::file(&path)], ..GrantedAccess::default() };
        let look = format!("cat {}; cat {} 2> /dev/null; true", path.display(), beside.display());
        let request = session.request(&look).with_access(access, Vec::new());
        let (_, said, _) = session.run(request).await;
        assert_eq!(said, "SECRET", "{name}");
    }
    let access =
        |path: &str| GrantedAccess { read: vec![GrantedRoot::subtree(path)], ..GrantedAccess::default() };
    let request = session.request("ls /etc/apt").with_access(access("/etc/apt"), Vec::new());
    let outside = Command::new("ls").arg("/etc/apt").output().unwrap();
    if outside.status.success() {
        let (_, said, _) = session.run(request).await;
        assert_eq!(said, String::from_utf8_lossy(&outside.stdout));
        session.bad("ls /etc/apt").await;
    }
    // All of it: but for what is always hidden.
    let request =
        session.request("ls -A /etc | wc -l; cat /etc/shadow; true").with_access(access("/etc"), Vec::new());
    let (_, said, _) = session.run(request).await;
    let all = fs::read_dir("/etc").unwrap().count().to_string();
    assert!(said.starts_with(&all) && said.contains("Permission denied"), "{said}");
    assert!(session.good("ls -A /etc | wc -l").await.trim() != all);
}

/// Settings may open what is hidden otherwise, in `/etc` too.
#[tokio::test]
async fn settings_open_folders_of_the_system() {
    let mut user = User::new();
    user.config.allow_read.push("/etc/skel".into());
    let outside = Command::new("ls").args(["-A", "/etc/skel"]).output().unwrap();
    if !outside.status.success() {
        return skipped("there is no /etc/skel");
    }
    assert_eq!(user.session().good("ls -A /etc/skel").await.as_bytes(), outside.stdout);
}

/// Says to a copy of a test that it has an `/etc` of its own.
const OWN_ETC: &str = "HAFT_TEST_OWN_ETC";

/// Root reads every file, so only root can show that none is readable, in an `/etc` of its own.
#[test]
fn no_secret_of_the_system_can_be_read() {
    let name = "visible::no_secret_of_the_system_can_be_read";
    if std::env::var_os(OWN_ETC).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(read_planted_etc());
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can have an /etc of its own");
    }
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let script =
        "cp -a /etc \"$1/etc\" && mount --bind \"$1/etc\" /etc && exec \"$2\" --exact \"$3\" --nocapture";
    let test = std::env::current_exe().unwrap();
    let mut own = Command::new("unshare");
    own.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(test)
        .arg(name);
    let done = own.env(OWN_ETC, "1").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&[done.stdout, done.stderr].concat()));
}

async fn read_planted_etc() {
    let etc = Path::new("/etc");
    plant(etc, &IN_ETC);
    for (name, content) in COPIES {
        fs::write(etc.join(name), content).unwrap();
    }
    symlink("/etc/vault.d/vault.hcl", "/etc/hosts.secret").unwrap();
    fs::write("/etc/ssl/certs/planted.pem", "SECRET").unwrap();
    let user = User::new();
    // The control: a certificate is public, and shown.
    assert_eq!(readable(&user, etc, &["ssl/certs/planted.pem"]).await.len(), 1);
    assert_eq!(readable(&user, etc, &IN_ETC).await, [] as [&str; 0]);
    assert_eq!(readable(&user, etc, &["hosts.secret"]).await, [] as [&str; 0]);
    assert_eq!(readable(&user, etc, &COPIES.map(|(name, _)| name)).await, [] as [&str; 0]);
    let copies = user.session().good("cd /etc; cat gitconfig npmrc pip.conf").await;
    for left in ["name = Machine", "fund=false", "timeout = 5"] {
        assert!(copies.contains(left), "{copies}");
    }
}

/// Commands work in the sandbox as they do outside: the same output, the same end. One that isn't installed
/// is left out.
async fn assert_twins(scripts: &[&str], compared_min: usize) {
    let mut user = User::new();
    user.config.home = std::env::home_dir();
    let outside = user.at("outside");
    for folder in [user.at("work"), outside.clone()] {
        fs::create_dir_all(&folder).unwrap();
        for (name, content) in [
            ("data.txt", "b\na\nc\n"),
            ("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }\n"),
            ("Makefile", "all:\n\t@echo made\n"),
            ("x.json", "{\"a\": 1}\n"),
            ("Hi.java", "class Hi { public static void main(String[] a) { System.out.println(42); } }\n"),
        ] {
            fs::write(folder.join(name), content).unwrap();
        }
    }
    git(&outside, &["init", "-q", "-b", "main"]);
    let session = user.session();
    let (mut compared, mut differ) = (0, Vec::new());
    for script in scripts {
        let done = Command::new("bash").args(["-c", script]).current_dir(&outside).output().unwrap();
        let Some(code @ (0 | 1)) = done.status.code() else { continue };
        if String::from_utf8_lossy(&done.stdout).contains("command not found") {
            continue;
        }
        compared += 1;
        let request = session.request(&format!("exec 2> /dev/null; {script}"));
        let (exit, said, _) = session.run(request).await;
        let twin = (ProcessExit::Code(code), String::from_utf8_lossy(&done.stdout).into_owned());
        if (&exit, &said) != (&twin.0, &twin.1) {
            differ.push(format!("{script}: {:?}, outside {twin:?}", (exit, said)));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(compared >= compared_min, "only {compared} of these programs work here at all");
}

#[tokio::test]
async fn everyday_programs_work_as_outside() {
    let scripts = [
        "awk '{ n += length($0) } END { print n }' data.txt",
        "base64 data.txt",
        "bc <<< 6*7",
        "bzip2 -k data.txt && bunzip2 -c data.txt.bz2",
        "curl -s file://$PWD/data.txt",
        "curl --version | head -n 1",
        "date -d @0",
        "TZ=Europe/Berlin date -d @0",
        "diff data.txt Makefile",
        "dpkg-architecture -qDEB_HOST_ARCH",
        "fc-list | wc -l",
        "file data.txt Makefile",
        "find . -name '*.txt'",
        "getent group root",
        "getent hosts localhost",
        "getent passwd $(id -u)",
        "getent services http/tcp",
        "git --version",
        "git -c user.name=a -c user.email=b@c commit -q --allow-empty -m one && git log -n 1 --format=%s",
        "gpg --version | head -n 1",
        "gzip -k data.txt && zcat data.txt.gz",
        "hostname",
        "id -un",
        "jq .a x.json",
        "ldd $(command -v ls) | wc -l",
        "locale",
        "locale -a | wc -l",
        "ls -l data.txt | cut -c 1-10",
        "make",
        "man -w ls",
        "openssl version",
        "openssl s_client -help 2>&1 | head -n 1",
        "patch --version | head -n 1",
        "perl -e 'use POSIX; print strftime(\"%Y\", gmtime(0)), \"\\n\"'",
        "pkg-config --version",
        "psql --version",
        "python3 --version",
        "python3 -c 'import ssl; print(len(ssl.create_default_context().get_ca_certs()))'",
        "python3 -c 'import socket; print(socket.gethostbyname(\"localhost\"))'",
        "python3 -c 'import mimetypes; print(mimetypes.guess_type(\"a.json\"))'",
        "python3 -c 'import locale; print(locale.setlocale(locale.LC_ALL, \"C.UTF-8\"))'",
        "python3 -c 'import time; print(time.tzname)'",
        "python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_dir)'",
        "ruby -v",
        "sed s/a/x/ data.txt",
        "sort data.txt",
        "sqlite3 :memory: 'select 42'",
        "ssh -V 2>&1",
        "ssh -G example.org | grep -c .",
        "stat -c '%U %G' /usr",
        "tar cf a.tar data.txt && tar tvf a.tar | cut -c 1-10",
        "tput -T xterm cols",
        "tree -L 1 /usr | head -n 2",
        "unzip -v | head -n 1",
        "vim --version | head -n 1",
        "wget --version | head -n 1",
        "which ls",
        "xmllint --version 2>&1 | head -n 1",
        "xz -k data.txt && xzcat data.txt.xz",
        "zip -q a.zip data.txt && unzip -p a.zip",
        "cat /etc/os-release | head -n 1",
        "cat /etc/hostname /etc/timezone",
        "readlink -f /etc/alternatives/awk",
        "ls /etc/ssl/certs | wc -l",
    ];
    assert_twins(&scripts, 30).await;
}

#[tokio::test]
async fn everyday_tool_chains_work_as_outside() {
    let scripts = [
        "cargo --version",
        "cmake --version",
        "cc -O1 hello.c -o hello && ./hello",
        "g++ -x c++ -c hello.c -o h.o && nm h.o | grep -c main",
        "python3 -m http.server 8931 --bind 127.0.0.1 > /dev/null 2>&1 & \
         for i in $(seq 100); do curl -s --noproxy '*' http://127.0.0.1:8931/data.txt && break; sleep 0.1; done; kill %1",
        "gdb -batch -ex 'print 6*7'",
        "java -version 2>&1",
        "javac Hi.java && java Hi",
        "mvn -v | head -n 1",
        "node -p 'process.version'",
        "node -e 'require(\"dns\").lookup(\"localhost\", (e, a) => console.log(e || a))'",
        "npm --version",
        "npm config get fund",
        "pip --version",
        "rustc --version",
        "yarn --version",
    ];
    assert_twins(&scripts, 10).await;
}

/// One that is replaced while a session runs stays as it was, and nothing of ours is left.
#[tokio::test]
async fn a_session_leaves_no_folder_for_etc_behind() {
    let user = User::new();
    let session = user.session();
    session.good("head -n 1 /etc/passwd").await;
    for attempt in ["touch /etc/passwd", "touch /etc/new", "rm /etc/hosts"] {
        session.bad(attempt).await;
    }
    drop(session);
    let left = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().count();
    for workspace in fs::read_dir(user.at("state/caches")).unwrap().flatten() {
        assert_eq!(left(workspace.path().join("etc/work")), 0, "{workspace:?}");
    }
    let mode = fs::metadata("/etc").unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}
