//! Programs in everyday use that run the command which they are given. Who doesn't know one takes it for any other program,
//! and a rule that denies the command doesn't meet it.

use crate::commands::{found, not_understood};
use crate::started::{finds, meets};

/// Programs that run a command which they are given, as far as they are in use: none is read-only, and a rule that denies
/// the command does, or there is a doubt.
#[test]
fn whatever_runs_its_arguments_is_not_overlooked() {
    for starter in [
        "ts",
        "ts -n",
        "tsp",
        "zrun",
        "chronic",
        "ifne",
        "annotate-output",
        "systemd-cat -t x",
        "with-lock-ex -q l",
        "landrun --rw /x",
        "cross-env A=1",
        "cross-env-shell",
        "viddy -n 1",
        "hwatch",
        "watch",
        "entr",
        "retry -t 3 --",
        "mpirun -n 2",
        "srun",
        "watchexec",
        "apptainer exec i.sif",
        "singularity exec -B /a i.sif",
        "buildah run c",
        "crictl exec -it c",
        "udocker run image",
        "enroot start c",
        "ch-run image --",
        "lima",
        "limactl shell default",
        "colima ssh --",
        "minikube ssh --",
        "adb shell",
        "vagrant ssh --",
        "flatpak-spawn --host",
        "snap run",
        "nsjail --",
        "proot-distro login debian --",
        "dvc run -n s -d a",
        "pixi run",
        "pixi exec -s x",
        "flox activate --",
        "devenv shell",
        "fnm exec --using 20",
        "volta run --node 20",
        "jenv exec",
        "goenv exec",
        "plenv exec",
        "nvm exec 20",
        "n exec 20",
        "perlbrew exec --with p",
        "opam exec --",
        "cabal exec",
        "cabal exec --",
        "stack exec --",
        "dune exec --",
        "ghcup run --ghc 9 --",
        "chruby-exec 3 --",
        "tox exec -e py --",
        "lerna exec --",
        "nx exec --",
        "nyc",
        "c8",
        "env-cmd -f x",
        "envchain ns",
        "summon -f s.yml",
        "berglas exec --",
        "teller run --",
        "foreman run",
        "honcho run",
        "goreman run",
        "gum spin --title x --",
        "samply record",
        "flamegraph --",
        "py-spy record --",
        "austin -i 9",
        "kcov out",
        "onchange '*.c' --",
        "cargo watch --",
        "pkgx",
        "sops exec-env f",
        "sops exec-file f",
    ] {
        let command = format!("{starter} rm x");
        finds(&command);
        assert!(!found(&command).is_read_only(), "{command}");
    }
    for command in [
        "flox activate -c 'rm x'",
        "vagrant ssh -c 'rm x'",
        "cargo watch -s 'rm x'",
        "sops exec-env f 'rm x'",
        "dvc run -n s 'rm x'",
        "nix-shell --run 'rm x'",
        "hyperfine 'rm x'",
        "mise exec -c 'rm x'",
    ] {
        finds(command);
        assert!(!found(command).is_read_only(), "{command}");
    }
    for command in ["pee 'rm x'", "mispipe 'rm x' cat", "poop 'rm x'", "scl enable y 'rm x'"] {
        not_understood(command);
    }
    for command in [
        "cargo build",
        "make | ts",
        "dvc pull",
        "stack build",
        "nx build x",
        "pixi install",
        "vagrant up",
        "snap list",
    ] {
        assert_eq!(found(command).doubts, [], "{command}");
        assert!(!meets(command, "build") && !meets(command, "x"), "{command}");
    }
}
