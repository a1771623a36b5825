//! Commands that others start: behind wrappers and runners, and by options, scripts and settings. A rule that denies `rm`
//! must see each of them, or there must be a doubt; beside each stands a sibling that starts nothing.

use haft_shell::Started;

use crate::commands::{check, found, last, not_understood, understood};

/// Whether a rule that denies a program would meet some part of a command.
pub(crate) fn meets(command: &str, program: &str) -> bool {
    let texts = found(command).commands.into_iter().flat_map(|command| command.texts_for_deny());
    let mut texts = texts.collect::<Vec<_>>().into_iter();
    texts.any(|text| text == program || text.strip_prefix(program).is_some_and(|rest| rest.starts_with(' ')))
}

/// The program is found, so a rule that denies it does.
#[track_caller]
pub(crate) fn finds(command: &str) {
    assert!(meets(command, "rm"), "{command}: {:#?}", found(command));
}

/// The program is found, and nothing is left open.
#[track_caller]
fn finds_surely(command: &str) {
    finds(command);
    understood(command);
}

/// Nothing is started beside the command itself, and a rule with a wildcard allows it.
#[track_caller]
fn starts_nothing(command: &str) {
    let found = found(command);
    assert_eq!(found.doubts, [], "{command}");
    assert_eq!(found.commands.len(), 1, "{command}: {found:#?}");
    assert_eq!(found.commands[0].layers.len(), 1, "{command}");
    assert_eq!(found.commands[0].exact_only, None, "{command}");
}

#[test]
fn wrappers_of_every_kind() {
    for wrapper in [
        "pkexec",
        "pkexec --user me",
        "doas -u me",
        "prlimit --nofile=10",
        "prlimit -n",
        "numactl -N 0",
        "numactl --membind=0",
        "taskset -c 0",
        "taskset 0x1",
        "chrt -f 1",
        "chrt --rr 5",
        "gosu me",
        "su-exec me",
        "setpriv --reuid me",
        "setpriv --nnp",
        "runuser -u me --",
        "unshare -rn",
        "unshare --fork --pid",
        "nsenter -t 1 -m",
        "chroot /x",
        "bwrap --ro-bind / / --unshare-all",
        "firejail --net=none",
        "strace -f -o log",
        "strace -e trace=open",
        "ltrace -S",
        "perf stat",
        "perf record -g",
        "valgrind --tool=memcheck -q",
        "flock /tmp/l",
        "systemd-run --user --scope",
        "systemd-run -p X=1",
        "dbus-run-session --",
        "xvfb-run -a",
        "rlwrap",
        "unbuffer -p",
        "/lib64/ld-linux-x86-64.so.2",
        "ld-linux.so.2 --library-path /x",
        "torsocks",
        "proxychains -q",
        "caffeinate -i",
        "entr -r",
        "watch -x",
        "ionice -c 3",
        "setsid -w",
        "catchsegv",
        "cpulimit -l 50 --",
        "faketime yesterday",
        "fakeroot",
        "eatmydata",
        "dumb-init --",
        "tini --",
        "s6-setuidgid me",
        "chpst -u me",
        "sem",
        "sem -j2",
        "parallel",
        "busybox",
        "toybox",
        "env -S rm",
        "gtimeout 5",
        "genv A=1",
        "ip netns exec x",
        "sshpass -p x",
        "linux32",
        "aa-exec -p x --",
        "systemd-inhibit --what=idle",
        "chronic",
        "sudo -D /x",
        "ssh-agent",
        "ssh-agent -t 5 -D",
        "gpg-agent --daemon",
        "gpg-agent --homedir /x --daemon",
        "daemonize -a",
        "dtach -n /tmp/s",
        "abduco -n s",
        "run0 --user=me",
        "run-one",
        "lckdo -w /tmp/l",
        "nq -q",
        "tsp -n",
        "heaptrack -o f",
        "choom -n 1 --",
        "uclampset -m 1",
        "trickle -d 5",
        "tcpserver 0 80",
        "websocketd --port=80",
    ] {
        let command = format!("{wrapper} rm x");
        finds_surely(&command);
        assert!(found(&command).commands[0].exact_only.is_some(), "{command}");
        assert!(!found(&command).is_read_only(), "{command}");
    }
    // Only these are looked past by rules that allow.
    for wrapper in ["timeout 5", "nice", "nohup", "stdbuf -oL", "command", "time"] {
        assert!(last(&format!("{wrapper} rm x")).texts_for_allow().contains(&"rm x".to_owned()), "{wrapper}");
    }
    for wrapper in ["gtimeout 5", "strace", "doas"] {
        assert!(
            !last(&format!("{wrapper} rm x")).texts_for_allow().contains(&"rm x".to_owned()),
            "{wrapper}"
        );
    }
    for command in [
        "su -c 'rm x'",
        "su me -c 'rm x'",
        "su - me --command='rm x'",
        "runuser me -c 'rm x'",
        "sg g -c 'rm x'",
        "script -qec 'rm x' log",
        "script -c 'rm x'",
        "capsh --drop=all -- -c 'rm x'",
        "flock l -c 'rm x'",
        "watch 'rm x'",
        "entr -s 'rm x'",
        "env -S 'rm x'",
        "env --split-string='rm x' y",
    ] {
        finds_surely(command);
    }
    // These start nothing.
    for command in [
        "strace -V",
        "taskset -p 1",
        "chrt -p 1",
        "capsh --print",
        "crontab -l",
        "su --version",
        "sem --wait",
        "prlimit --pid 1",
    ] {
        understood(command);
        assert!(!meets(command, "1"), "{command}");
    }
}

#[test]
fn wrappers_with_options_that_are_not_known() {
    for command in [
        "timeout --new 5 rm x",
        "timeout --new=y 5 rm x",
        "sudo --new rm x",
        "sudo --new y rm x",
        "strace --new rm x",
        "unshare --new y rm x",
        "numactl -Z rm x",
        "setarch x86_64 rm x",
        "start-stop-daemon --start --exec rm",
        "perf stat --new y rm x",
        "docker run --new=y image rm x",
        "npx --new rm x",
        "parallel --new rm ::: x",
    ] {
        finds(command);
    }
    for command in [
        "timeout --new 5 rm x",
        "sudo --new y rm x",
        "strace --new rm x",
        "npx --new rm x",
        "expect -c 'spawn rm'",
        "zsh -c 'rm x'",
        "at now",
        "echo rm | at now",
        "crontab file",
        "run-parts d",
        "chroot /x",
        "unshare -r",
    ] {
        not_understood(command);
    }
}

#[test]
fn runners_are_allowed_by_their_own_name() {
    for runner in [
        "npx",
        "npx -y",
        "npx --package=y",
        "npm exec --",
        "npm --prefix y exec --",
        "pnpm dlx",
        "yarn dlx",
        "bunx",
        "xcrun",
        "xcrun --sdk macosx",
        "uvx",
        "uv run",
        "uv run --with y",
        "pipx run",
        "poetry run",
        "bundle exec",
        "direnv exec .",
        "mise exec node@20 --",
        "mise x --",
        "devbox run",
        "docker exec c",
        "docker exec -it -u me c",
        "docker run --rm -v /a:/b image",
        "docker -H y run image",
        "docker compose exec web",
        "docker compose -f y run --rm web",
        "podman run -d image",
        "kubectl exec -n y pod --",
        "kubectl -n y exec pod -c z --",
        "nix develop -c",
        "nix shell y --command",
        "rustup run nightly",
        "conda run -n y",
        "op run --",
        "doppler run --",
        "aws-vault exec p --",
    ] {
        let command = format!("{runner} rm x");
        finds_surely(&command);
        let found = last(&command);
        assert_eq!(found.exact_only, None, "{command}");
        assert_eq!(found.texts_for_allow(), [&*command], "{command}");
        assert!(found.layers.iter().any(|layer| layer.started == Started::Launched), "{command}");
    }
    finds_surely("npx rm@3 x");
    finds_surely("npx @scope/rm x");
    finds_surely("npx -c 'rm x'");
    finds_surely("nix-shell -p y --run 'rm x'");
    finds_surely("docker run --entrypoint rm image x");
    for command in [
        "npm test",
        "npm run build",
        "docker ps",
        "docker build -t x .",
        "docker run image",
        "kubectl get pods",
        "uv sync",
        "cargo build",
        "nix build",
        "poetry install",
    ] {
        starts_nothing(command);
    }
}

#[test]
fn programs_are_told_by_options() {
    for command in [
        "tar --to-command='rm x' -xf a",
        "tar --to-command=rm -xf a",
        "tar --to-com rm -xf a",
        "tar -I rm -xf a",
        "tar -Irm -xf a",
        "tar xfI a rm",
        "tar -xf a -I 'rm x'",
        "tar --use-compress-program=rm -cf a b",
        "tar --checkpoint=1 --checkpoint-action=exec='rm x' -cf a b",
        "tar -cf a b --checkpoint-action exec=rm",
        "tar --rsh-command=rm -cf h:a b",
        "tar -F rm -cf a b",
        "tar --info-script=rm -cf a b",
        "sort --compress-program=rm x",
        "sort --compress-prog rm x",
        "split --filter='rm $FILE' x",
        "split --fil=rm x",
        "rsync -e rm a h:b",
        "rsync -e 'rm x' a h:b",
        "rsync --rsh=rm a h:b",
        "rsync -ave rm a h:b",
        "scp -S rm a h:b",
        "sftp -S rm h",
        "ssh -o ProxyCommand='rm x' h ls",
        "ssh -oProxyCommand=rm h ls",
        "ssh -o 'proxycommand rm x' h ls",
        "scp -o ProxyCommand=rm a h:b",
        "man -P rm ls",
        "man --pager=rm ls",
        "less '+!rm x' y",
        "vim -c '!rm x' y",
        "vim '+!rm x' y",
        "vim -c ':!rm x' y",
        "ex --cmd '!rm'",
        "rg --pre rm x",
        "rg --pre=rm x",
        "fd -x rm",
        "fd . -x rm {}",
        "fd -X rm",
        "fd --exec rm {} \\; -x ls",
        "zip -T -TT 'rm x' a b",
        "make SHELL=rm",
        "gdb -ex 'shell rm x'",
        "gdb -batch -ex '!rm x'",
        "gdb --args rm x",
        "lldb -o 'platform shell rm x'",
        "nc -e rm h 1",
        "nc h 1 -c 'rm x'",
        "ncat --sh-exec 'rm x' h 1",
        "socat - EXEC:rm",
        "socat - SYSTEM:'rm x'",
        "hyperfine 'rm x'",
        "hyperfine --prepare 'rm x' ls",
        "tcpdump -z rm -w x",
        "go test -exec rm ./...",
        "go build -toolexec rm",
        "gcc -wrapper rm x.c",
        "bat --pager rm x",
        "wget --use-askpass=rm x.io",
        "find . -exec rm {} +",
        "find . -ok rm {} \\;",
        "find . -okdir rm {} \\;",
        "fzf --preview 'rm {}'",
    ] {
        finds(command);
        assert!(found(command).commands[0].exact_only.is_some(), "{command}");
        assert!(!found(command).is_read_only(), "{command}");
    }
    let held = found("tar --to-command='rm x' -xf a").commands.remove(1);
    assert_eq!(held.within, Some(0));
    assert_eq!(held.layers[0].started, Started::Held);
    for command in [
        "tar --to-command=\"$x\" -xf a",
        "tar -I $x -xf a",
        "sort --compress-program=$x y",
        "rsync -e \"$x\" a b",
        "make SHELL=$x",
        "ssh -o ProxyCommand=$x h ls",
        "ssh -F x h ls",
        "vim -c 'call system(\"x\")' y",
        "vim -S x y",
        "emacs --batch --eval '(x)'",
        "gdb -x file",
        "gdb -ex 'python x'",
        "tmux new-session -d 'rm x'",
        "tmux send-keys 'rm x' Enter",
        "cargo --config 'build.rustc-wrapper=\"x\"' build",
        "make --eval='x:;rm'",
        "make X='$(shell rm)'",
        "curl -K x",
        "fzf --bind 'enter:execute(rm)'",
        "apt-get -o DPkg::Pre-Invoke::=rm update",
    ] {
        not_understood(command);
    }
    for command in [
        "tar -xf a",
        "tar czf a b",
        "tar --checkpoint=5 -cf a b",
        "sort -r x",
        "split -l 5 x",
        "rsync -av a b",
        "scp -r a h:b",
        "man ls",
        "less x",
        "vim x",
        "vim +5 x",
        "vim -c 'set nu' x",
        "rg x",
        "fd x",
        "zip -r a b",
        "make test",
        "make CC=clang test",
        "gdb ./x",
        "nc -l 1",
        "socat - TCP:h:1",
        "go test ./...",
        "gcc -o a b.c",
        "wget x.io",
        "fzf",
        "tmux ls",
        "find . -name x",
        "cargo build --release",
        "npm install",
        "ssh-keygen -t ed25519",
        "curl -s x.io",
    ] {
        starts_nothing(command);
    }
    understood("ssh -o StrictHostKeyChecking=no -o ConnectTimeout=5 -p 2 h ls");
    assert!(found("tar --checkpoint-action=dot -cf a b").doubts.is_empty());
}

#[test]
fn git_is_told_by_settings_options_and_addresses() {
    for command in [
        "git -c alias.x='!rm x' x",
        "git -c alias.x='!rm x' -c a.b=c x",
        "git -c ALIAS.x='!rm' x",
        "git -C . -c alias.x='!rm x' x",
        "git -c core.pager=rm log",
        "git -c core.pager='rm x' -p log",
        "git -c pager.log=rm log",
        "git -c core.editor=rm commit",
        "git -c core.sshCommand='rm x' fetch",
        "git -c diff.external=rm diff",
        "git -c credential.helper='!rm x' fetch",
        "git -c core.fsmonitor=rm status",
        "git -c filter.x.smudge=rm checkout y",
        "git -c diff.x.textconv=rm show",
        "git -c sequence.editor=rm rebase -i HEAD~1",
        "git -c gpg.program=rm log --show-signature",
        "git rebase --exec 'rm x' HEAD~1",
        "git rebase -x 'rm x' HEAD~1",
        "git rebase --exec=rm main",
        "git -C d rebase -x rm y",
        "git bisect run rm x",
        "git submodule foreach rm x",
        "git submodule foreach 'rm x'",
        "git submodule foreach --recursive 'rm x'",
        "git filter-branch --tree-filter 'rm x' HEAD",
        "git filter-branch --index-filter='rm x' HEAD",
        "git difftool -x rm",
        "git difftool --extcmd=rm",
        "git clone -u rm h:x",
        "git clone --upload-pack=rm h:x",
        "git clone --upload-pack 'rm x' h:x",
        "git fetch --upload-pack rm h:x",
        "git ls-remote --upload-pack=rm h:x",
        "git push --receive-pack=rm h:x",
        "git clone -c core.pager=rm x",
        "git clone --config=alias.x='!rm' y",
        "git config alias.x '!rm x'",
        "git config --global core.pager 'rm x'",
        "git config set core.editor rm",
        "git grep -Orm x",
        "git clone 'ext::rm x' y",
        "git fetch 'ext::rm x'",
        "git remote add x 'ext::rm y'",
        "git archive --remote=h --exec=rm HEAD",
        "git send-email --to-cmd=rm x",
    ] {
        finds(command);
        assert!(found(command).commands[0].exact_only.is_some(), "{command}");
    }
    // An alias of git's own is a command of git.
    assert!(meets("git -c alias.x=push x origin", "git push"));
    assert!(!meets("git -c alias.x=log x", "git push"));
    for command in [
        "git -c core.hooksPath=d commit",
        "git -c include.path=x log",
        "git -c $x log",
        "git -c core.pager=$x log",
        "git -c a.b=c log",
        "git --config-env=core.pager=X log",
        "git --exec-path=d log",
        "git clone --template=d x",
        "git init --template=d",
        "git fetch foo::bar",
        "git rebase --exec \"$x\"",
        "git clone --upl=rm h:x",
        "git rebase --exe rm x",
        "git config core.pager \"$x\"",
        "git config $k v",
        "git -c url.x.insteadOf=y fetch",
    ] {
        not_understood(command);
    }
    for command in [
        "git -c user.name=x -c user.email=y commit -m z",
        "git -c color.ui=always diff",
        "git -c core.quotePath=false ls-files",
        "git -c core.pager=cat log",
        "git -c commit.gpgsign=false commit",
        "git -c user.name=\"$x\" commit",
        "git config user.name x",
        "git config --get core.pager",
        "git rebase main",
        "git bisect good",
        "git submodule update --init",
        "git clone https://x.io/r",
        "git push origin main",
        "git config --global core.pager cat",
    ] {
        understood(command);
    }
    starts_nothing("git rebase -i main");
    starts_nothing("git config user.name x");
    starts_nothing("git log -c --cc");
    assert!(found("git config core.hooksPath d").commands[0].exact_only.is_some());
}

#[test]
fn scripts_of_sed_run_and_other_code_is_noticed() {
    for command in [
        "sed '1e rm x' y",
        "sed -n 'e rm x' y",
        "sed -e p -e '$!e rm x' y",
        "sed --expression='e rm' y",
        "sed -ne 'e rm' y",
        "sed '/a/{e rm x\n}' y",
    ] {
        finds_surely(command);
    }
    for command in [
        "sed 's/a/b/e' x",
        "sed 's/.*/rm x/ge' y",
        "sed 's|a|b|e' x",
        "sed '1e' x",
        "sed 's/[/]/b/e' x",
        "sed -i 's/a/b/e' x",
    ] {
        not_understood(command);
    }
    for command in [
        "awk 'BEGIN{system(\"rm x\")}'",
        "awk '{print | \"rm x\"}' y",
        "awk '{\"rm x\" | getline}' y",
        "gawk 'BEGIN { \"rm x\" |& getline }'",
        "awk -F: '{ system(\"rm x\") }' y",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "python -c \"import os; os.system('rm x')\"",
        "perl -e 'system(\"rm x\")'",
        "perl -e '`rm x`'",
        "perl -ne 'exec \"rm x\"' y",
        "ruby -e 'system(\"rm x\")'",
        "ruby -e '`rm x`'",
        "node -e 'require(\"child_process\").execSync(\"rm x\")'",
        "node --eval='require(\"child_process\").exec(\"rm x\")'",
        "php -r 'system(\"rm x\");'",
        "lua -e 'os.execute(\"rm x\")'",
        "sqlite3 x '.shell rm y'",
        "sqlite3 x -cmd '.system rm y'",
        "sqlite3 x '.sh rm y'",
        "psql -c '\\! rm x'",
        "mysql -e 'system rm x'",
        "python3 <<'E'\nimport os\nos.system('rm x')\nE",
        "python3 - <<'E'\nimport os; os.system('rm x')\nE",
        "sqlite3 db <<'E'\n.shell rm x\nE",
    ] {
        finds(command);
    }
    for command in [
        "awk 'BEGIN{system(x)}'",
        "python3 -c 'import subprocess as s; s.run([\"x\"])'",
        "python3 -c '__import__(\"os\")'",
        "perl -e 'open(F, \"x|\")'",
        "sqlite3 x '.load y'",
        "sqlite3 -init x y",
        "node -p 'eval(\"x\")'",
        "awk -i x 'y'",
    ] {
        not_understood(command);
    }
    for command in ["awk \"$x\" y", "python3 -c \"$x\"", "sed \"s/$a/$b/\" x", "awk '{print > \"x\"}' y"] {
        understood(command);
        assert!(last(command).exact_only.is_some(), "{command}");
    }
    for command in [
        "awk '{print $1}' x",
        "awk -F, 'NR>1 && $3 > 5 {print $1, $2}' x",
        "awk '/a|b/ {print}' x",
        "awk '{s+=$1/2} END {print s}' x",
        "awk -v a=\"$x\" '{print a}' y",
        "awk -f x y",
        "python3 -c 'print(1 + 1)'",
        "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"a\"])'",
        "python3 x.py -c y",
        "python3 -m pytest -q",
        "perl -pe 's/a/b/' x",
        "perl -i -pe 's/a/b/g' x",
        "node -e 'console.log(1)'",
        "node x.js",
        "ruby -e 'puts 1'",
        "sqlite3 x 'select 1'",
        "sqlite3 x .tables",
        "psql -c 'select 1'",
        "sed -n 5p x",
        "sed 's/a/b/g' x",
        "sed -i 's/e/w/' x",
        "sed ':a;N;$!ba;s/\\n/ /g' x",
        "sed '/x/a e rm' y",
        "python3 <<'E'\nprint(1)\nE",
    ] {
        starts_nothing(command);
    }
}

#[test]
fn scripts_that_come_in_are_read_like_others() {
    for command in [
        "awk -f- <<< 'BEGIN{system(\"rm x\")}'",
        "mawk -f- <<< 'BEGIN{system(\"rm x\")}'",
        "awk -f - <<< 'BEGIN{system(\"rm x\")}'",
        "awk -f /dev/stdin <<< 'BEGIN{system(\"rm x\")}'",
        "gawk --file=/dev/fd/0 <<< 'BEGIN{system(\"rm x\")}'",
        "awk -F: -f/proc/self/fd/0 y <<< 'BEGIN{system(\"rm x\")}'",
        "sed -f- y <<< '1e rm x'",
        "sed -n -f /dev/stdin y <<< '1e rm x'",
        "sed --file=- y <<'E'\n1e rm x\nE",
        "make -f /dev/stdin <<< 'q:;rm x'",
        "make -f- <<< $'q:\\n\\t@rm x'",
        "make --makefile=- <<< 'q:;rm x'",
        "python3 /dev/stdin <<< 'import os;os.system(\"rm x\")'",
        "python3 -u /dev/fd/0 <<< 'import os;os.system(\"rm x\")'",
        "perl /proc/self/fd/0 <<< 'system(\"rm x\")'",
        "ed -s a <<< '!rm x'",
        "ed -s a <<< 'r !rm x'",
        "ex -s a <<< '!rm x'",
        "vim -es a <<< '!rm x'",
        "dc -e '!rm x'",
        "dc --expression='!rm x'",
        "dc <<< '!rm x'",
        "m4 <<< 'syscmd(rm x)'",
        "compgen -W '$(rm x)'",
        "compgen -W'`rm x`' -- q",
        "compgen -aW '$(rm x)'",
        "complete -W '$(rm x)' q",
        "bash /proc/self/fd/0 <<< 'rm x'",
    ] {
        finds(command);
    }
    for command in [
        "echo x | awk -f -",
        "echo x | sed -f- y",
        "echo x | make -f -",
        "echo x | python3 -",
        "echo x | python3",
        "echo x | ed y",
        "echo x | m4",
        "python3 <(echo x)",
        "awk -f <(echo x)",
        "python3 /dev/fd/3 3<<< x",
        "bash /dev/fd/3 3<<< x",
        "compgen -W \"$x\"",
        "compgen -F f",
        "php -f /dev/stdin <<< x",
    ] {
        not_understood(command);
    }
    for command in [
        "awk -f x.awk y",
        "awk -f- y <<< '{print $1}'",
        "sed -f x.sed y",
        "sed -f- y <<< 's/a/b/'",
        "make -f x.mk all",
        "python3 x.py /dev/stdin",
        "python3 --version",
        "ed -s a <<< 'p'",
        "dc -e '1 2 + p'",
        "m4 x.m4",
        "compgen -W 'a b c' a",
        "compgen -c",
    ] {
        starts_nothing(command);
    }
}

#[test]
fn options_that_name_a_program_in_each_form() {
    for command in [
        "zip -TT'rm x' -T y a",
        "zip -T -TT 'rm x' y a",
        "cmake -E env rm x",
        "cmake -E env A=1 --unset=B -- rm x",
        "cmake -E time rm x",
        "cmake -E chdir d rm x",
        "go build -toolexec='rm x' .",
        "go build -toolexec 'rm x' .",
        "go test -exec=rm .",
        "gcc -wrapper rm,x a.c",
        "gcc-12 -wrapper rm,x a.c",
        "x86_64-linux-gnu-g++ -wrapper rm,x a.c",
        "npm explore x -- rm y",
        "npm explore x rm y",
        "corepack yarn exec rm x",
        "corepack pnpm@9 exec rm x",
        "man -H'rm x' ls",
        "man -Hrm ls",
        "man --html=rm ls",
        "install -s --strip-program=rm a b",
        "install -s --strip-prog rm a b",
        "sdiff --diff-program=rm a b",
        "rustc -Clinker=rm x.rs",
        "rustc -C linker=rm x.rs",
        "nodemon --exec 'rm x'",
        "yt-dlp --exec 'rm {}' u",
        "just --command rm x",
        "git instaweb --httpd=rm",
        "git web--browse --browser=rm x",
    ] {
        finds(command);
    }
    for command in
        ["man ls", "go build ./...", "gcc -o a a.c", "install -m 644 a b", "npm explore x", "cmake -B build"]
    {
        assert!(!meets(command, "rm"), "{command}");
        understood(command);
    }
    for command in [
        "/usr/lib/git-core/git-push origin",
        "git-push origin",
        "git submodule--helper foreach git push",
        "git-submodule foreach git push",
    ] {
        assert!(meets(command, "git push"), "{command}: {:#?}", found(command));
    }
}

#[test]
fn options_before_a_sub_command_hide_nothing() {
    for (command, meant) in [
        ("git -C . push", "git push"),
        ("git -c user.name=b push", "git push"),
        ("git --no-pager push origin", "git push"),
        ("git --git-dir=x push", "git push"),
        ("git --git-dir x push", "git push"),
        ("git -C a -C b --work-tree=c push", "git push"),
        ("git --new push", "git push"),
        ("git --new x push", "git push"),
        ("git -c \"$x\" push", "git push"),
        ("npm --prefix x publish", "npm publish"),
        ("npm -C x publish", "npm publish"),
        ("npm --registry=x publish", "npm publish"),
        ("npm --silent publish", "npm publish"),
        ("npm --unknown x publish", "npm publish"),
        ("docker -H x run y", "docker run"),
        ("docker --context x rm y", "docker rm"),
        ("docker compose -f x up", "docker compose up"),
        ("docker-compose -f x down", "docker-compose down"),
        ("kubectl -n x delete pod y", "kubectl delete"),
        ("kubectl --context=x delete pod y", "kubectl delete"),
        ("cargo +nightly publish", "cargo publish"),
        ("cargo --config a=b publish", "cargo publish"),
        ("cargo -q publish", "cargo publish"),
        ("gh -R x pr merge 1", "gh pr merge"),
        ("gh pr -R x merge 1", "gh pr merge"),
        ("systemctl --user stop x", "systemctl stop"),
        ("systemctl -H h stop x", "systemctl stop"),
        ("pip --proxy x install y", "pip install"),
        ("python -m pip install y", "pip install"),
        ("python3 -m pip --proxy x install y", "pip install"),
        ("helm -n x uninstall y", "helm uninstall"),
        ("terraform -chdir=x apply", "terraform apply"),
        ("aws --profile x s3 rm y", "aws s3 rm"),
        ("make -C x deploy", "make deploy"),
        ("apt-get -y install x", "apt-get install"),
        ("/usr/bin/git -C . push", "git push"),
        ("sudo git -C . push", "git push"),
        ("env git --no-pager push", "git push"),
    ] {
        assert!(meets(command, meant), "{command}: {:?}", last(command).texts_for_deny());
        // Nothing is gained by rules that allow.
        assert!(last(command).texts_for_allow().iter().all(|text| !text.starts_with(meant)), "{command}");
    }
    for (command, other) in [
        ("git -C push status", "git push"),
        ("git log push", "git push"),
        ("npm --prefix publish test", "npm publish"),
        ("kubectl -n delete get pods", "kubectl delete"),
        ("git commit -m push", "git push"),
    ] {
        assert!(!meets(command, other), "{command}: {:?}", last(command).texts_for_deny());
    }
}

#[test]
fn patterns_that_may_become_options() {
    for command in [
        "tar cf a *",
        "tar -cf a *.txt",
        "rsync * h:b",
        "chown me *",
        "chmod 644 *",
        "zip a *",
        "sort *",
        "sed p *",
        "scp * h:b",
        "find * -name x",
        "git diff *",
        "7z a x *",
        "curl *",
        "gcc *",
        "ls | xargs tar cf a *",
    ] {
        assert!(last(command).exact_only.is_some(), "{command}");
    }
    for command in [
        "tar cf a ./*",
        "tar cf a -- *",
        "tar cf a src/*",
        "rsync ./* h:b",
        "chown me ./*",
        "zip a ./*.txt",
        "sort ./*",
        "sort a*",
        "git add *",
        "git rm *.o",
        "cat *",
        "grep x *",
        "ls *",
        "rm *.o",
        "cp *.txt d",
        "head *",
    ] {
        assert_eq!(last(command).exact_only, None, "{command}");
    }
    // A list stays one in quotes; an address is none.
    for command in
        ["git commit -m \"fix by me@x.io: $x\"", "git log --author=\"$x@y.io\" -- a", "scp a \"me@$h:b\""]
    {
        assert_eq!(last(command).exact_only, None, "{command}");
    }
    for command in ["git commit \"$@\"", "git commit -m x \"${a[@]}\"", "tar cf a \"${@:2}\""] {
        assert!(last(command).exact_only.is_some(), "{command}");
    }
}

#[test]
fn what_is_held_is_judged_like_any_other() {
    assert!(found("tar --to-command='rm -rf /' -xf a").critical().is_some());
    assert!(found("git -c alias.x='!rm -rf /' x").critical().is_some());
    assert!(found("npx rm -rf /").critical().is_some());
    assert!(found("sed '1e rm -rf /' x").critical().is_some());
    check("git rebase -x 'make test' main", "git rebase -x 'make test' main | make test");
    check("git bisect run npm test", "git bisect run npm test | npm test");
    check("tar -I 'zstd -T0' -cf a b", "tar -I 'zstd -T0' -cf a b | zstd -T0");
    not_understood("tar --to-command='rm (' -xf a");
    not_understood("git -c alias.x='!$y' x");
}

/// What reads commands behind a program that starts what it is given reads the same commands.
#[test]
fn shells_behind_rare_starters() {
    for starter in
        ["ssh-agent", "gpg-agent --daemon", "run-one", "dtach -n /tmp/s", "systemd-inhibit", "rr record"]
    {
        finds(&format!("{starter} bash -c 'rm x'"));
        finds(&format!("{starter} bash <<< 'rm x'"));
        not_understood(&format!("echo 'rm x' | {starter} sh"));
    }
    for starter in [
        "coresched new --",
        "rr record",
        "uftrace record",
        "mpirun -n 4",
        "srun",
        "systemd-nspawn -D /x",
        "watchexec -w src --",
        "schroot -c x --",
        "zellij run --",
        "gnome-terminal --",
        "konsole -e",
        "kitty",
    ] {
        finds(&format!("{starter} rm x"));
    }
    let texts = "scriptlive -c 'rm x' log|asciinema rec -c 'rm x' f|sbatch --wrap 'rm x'|sbatch --wrap='rm x'|\
                 vagrant ssh -c 'rm x'|watchman-make -p '*.c' --run 'rm x'|ansible localhost -m shell -a 'rm x'|\
                 concurrently 'ls' 'rm x'|pueue add 'rm x'|pueue add -- rm x|pdsh -w host rm x";
    texts.split('|').for_each(finds);
    for quiet in [
        "ssh-agent --help",
        "ssh-agent -k",
        "pueue status",
        "sbatch job.sh",
        "vagrant up",
        "asciinema play f",
    ] {
        assert!(!meets(quiet, "rm"), "{quiet}");
    }
    starts_nothing("pueue status");
    starts_nothing("vagrant up");
}
