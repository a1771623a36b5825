//! Names of files and folders that hold credentials.
//!
//! The list affects only warnings in prompts. It is not a protection: commands see an allow-list of paths,
//! so a secret that is missing here stays hidden too.

use std::path::{Component, Path, PathBuf};

use haft_git::keys::fits_pattern;

/// Names of files or folders at any depth; a folder includes everything in it. `*` matches any part of a
/// name. The first matching row applies. A row that begins with `!` names something that holds no secret.
const NAMES: &[&str] = &[
    "!.env.dist",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.ssh/*.pub",
    "!.ssh/authorized_keys",
    "!.ssh/config",
    "!.ssh/known_hosts*",
    "*-key.pem",
    "*.jks",
    "*.kdbx",
    "*.key",
    "*.keystore",
    "*.p12",
    "*.pfx",
    ".aws",
    ".azure",
    ".boto",
    ".cache/containers/auth.json",
    ".cache/gh",
    ".cache/huggingface/*token*",
    ".cache/opencode",
    ".cargo/credentials*",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/composer/auth.json",
    ".config/configstore/firebase-tools.json",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/opencode/auth.json",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".config/sops/age",
    ".databrickscfg",
    ".docker/config.json",
    ".dotnet/corefx/cryptography",
    ".env",
    ".env.*",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".htpasswd",
    ".huggingface/*token*",
    ".kaggle",
    ".kube",
    ".local/share/keyrings",
    ".local/share/opencode/auth.json",
    ".local/share/uv/credentials",
    ".m2/settings*.xml",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".oci",
    ".password-store",
    ".pgpass",
    ".pki",
    ".pub-cache/credentials.json",
    ".pypirc",
    ".s3cfg",
    ".sbt/.credentials",
    ".ssh",
    ".terraform.d/credentials*",
    ".thunderbird",
    ".vault-token",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_rsa",
    "privkey*.pem",
];

/// Absolute paths.
const PATHS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/docker/key.json",
    "/etc/gshadow*",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/mysql/debian.cnf",
    "/etc/netrc",
    "/etc/openvpn",
    "/etc/pki/tls/private",
    "/etc/ppp/*-secrets",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/shadow*",
    "/etc/ssh/ssh_host_*_key",
    "/etc/ssl/private",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/run/secrets",
    "/var/run/secrets",
];

/// Returns whether the name says that a file, or everything in a folder, holds credentials.
pub(crate) fn is_credential(path: &Path) -> bool {
    let parts: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let begins = |at: usize, row: &str| {
        let mut parts = parts[at..].iter();
        row.split('/').all(|name| parts.next().is_some_and(|part| fits_pattern(&name.to_lowercase(), part)))
    };
    if path.is_absolute() && PATHS.iter().any(|row| begins(0, row.trim_start_matches('/'))) {
        return true;
    }
    let row = |row: &&&str| (0..parts.len()).any(|at| begins(at, row.trim_start_matches('!')));
    NAMES.iter().find(row).is_some_and(|row| !row.starts_with('!'))
}

/// Returns existing credentials below a folder: those in the home folder and in the system that have a name
/// without wildcards.
pub(crate) fn find_below(folder: &Path, home: &Path) -> Option<PathBuf> {
    let of_home = NAMES.iter().filter(|row| row.starts_with('.')).map(|row| home.join(row));
    let all = of_home.chain(PATHS.iter().map(PathBuf::from));
    let mut plain = all.filter(|path| !path.to_string_lossy().contains('*'));
    plain.find(|path| path.starts_with(folder) && path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_names() {
        for path in [
            "/home/me/.ssh/id_rsa",
            "/srv/me/.ssh",
            "/srv/me/.ssh/deploy",
            "/w/id_ed25519",
            "/w/.env",
            "/w/.env.production",
            "/home/me/.aws/credentials",
            "/home/me/.config/gh/hosts.yml",
            "/home/me/.docker/config.json",
            "/home/me/.m2/settings-security.xml",
            "/etc/shadow",
            "/etc/shadow-",
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/letsencrypt/live/x.io/privkey.pem",
            "/run/secrets/db",
            "/w/deploy.KEY",
        ] {
            assert!(is_credential(Path::new(path)), "{path}");
        }
        for path in [
            "/home/me/.ssh/id_rsa.pub",
            "/home/me/.ssh/known_hosts",
            "/home/me/.ssh/config",
            "/w/.env.example",
            "/w/.environment",
            "/w/env",
            "/home/me/.docker/daemon.json",
            "/etc/passwd",
            "/w/etc/shadow",
            "/w/key",
            "/w/src/id_rsa.rs",
            "/w/cert.pem",
        ] {
            assert!(!is_credential(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn what_is_there_below_a_folder_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("me");
        std::fs::create_dir_all(home.join("work")).unwrap();
        assert_eq!(find_below(dir.path(), &home), None);
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        assert_eq!(find_below(dir.path(), &home), Some(home.join(".ssh")));
        assert_eq!(find_below(&home.join("work"), &home), None);
    }
}
