//! Containers, clusters, clouds and services.

use haft::effects::AccessKind::{Change, Observe};

use crate::model::AddressForm::{Address, Image};
use crate::model::OperandPosition::*;
use crate::model::*;

/// The registry of images that name no other.
const REGISTRY: &str = "docker.io";
const STOPS: WordSyntax = WordSyntax { stop: StopRule::AtOperand, ..EXACT };

const GLOBAL: &[OptionSpec] = &[
    flags("-Dv tls tlsverify debug remote noout verbose no-ansi compatibility dry-run"),
    values("-lcfp config context log-level tlscacert tlscert tlskey file project-name profile project-directory env-file ansi progress parallel url \
            connection root runroot storage-driver identity"),
    value("-H host", &[connect(Address, Change)]),
];
const CONTAINER: &[OptionSpec] = &[
    flags("-ditPqT rm detach interactive tty init privileged publish-all read-only no-healthcheck oom-kill-disable sig-proxy quiet disable-content-trust \
           no-deps service-ports no-TTY build use-aliases remove-orphans quiet-pull"),
    values("-aceEhlmpuvw name network env workdir user publish volume mount memory cpus platform label add-host hostname restart gpus ulimit shm-size \
            ipc pid device cap-add cap-drop security-opt env-file pull"),
    value("entrypoint", &[meaning(MeaningKind::Head)]),
];
const RUN: ProgramEntry = program("exec run create", WordSyntax { stop: StopRule::AfterOperands(1), ..EXACT }).unknown(UnknownOption::Value)
    .options(&[CONTAINER]).operands(&[at(From(1), &[LAUNCH_CONTAINED]), at(Missing(1), &[LAUNCH_CONTAINED])]);
const DOWN: ProgramEntry = program("down", EXACT).options(&[&[act("-v volumes", &[destroys("volumes")]), flags("remove-orphans"), values("-t timeout rmi")]]);
const IMAGES: &[ProgramEntry] = &[
    RUN,
    program("system volume", STOPS).subcommands(&[program("prune rm remove", EXACT).operands(&[at(Always, &[destroys("volumes or containers")])])]),
    program("compose container", STOPS).options(&[GLOBAL]).subcommands(&[RUN, DOWN]),
    program("pull", EXACT).operands(&[at(Last, &[connect(Image(REGISTRY), Observe)]), at(Missing(0), &[connect(Image(REGISTRY), Observe)])]),
    program("push", EXACT).operands(&[at(Last, &[connect(Image(REGISTRY), Change)])]),
    program("login", EXACT).options(&[&[values("-up username password"), flags("password-stdin")]])
        .operands(&[at(Last, &[connect(Image(REGISTRY), Change)]), at(Missing(0), &[meaning(MeaningKind::At(REGISTRY, &[connect(Address, Change)]))])]),
];
const KUBE: &[OptionSpec] = &[
    flags("insecure-skip-tls-verify match-server-version warnings-as-errors"),
    values("-nsv namespace context cluster user kubeconfig server token as as-group as-uid request-timeout certificate-authority client-key \
            client-certificate cache-dir tls-server-name username password v vmodule profile profile-output"),
];

/// A program of which only the options before its sub-command are known.
const fn client(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    program(names, EXACT).has_subcommands().options(options)
}

pub(super) const ENTRIES: &[ProgramEntry] = &[
    client("docker podman nerdctl", &[GLOBAL]).version("--version -v").subcommands(IMAGES),
    client("docker-compose udocker", &[GLOBAL]).subcommands(&[RUN, DOWN]),
    client("kubectl oc", &[KUBE]).subcommands(&[
        program("delete", EXACT).operands(&[at(Always, &[destroys("resources of the cluster")])]),
        program("exec debug run", EXACT).unknown(UnknownOption::Flag).operands(&[at(AfterDashes, &[LAUNCH_CONTAINED])]),
    ]),
    client("helm", &[&[flags("debug"), value("post-renderer", &[PROGRAM]), values("-n namespace kube-context kubeconfig kube-apiserver kube-token registry-config repository-config")]]),
    client("aws", &[&[
        flags("debug no-verify-ssl no-paginate no-sign-request no-cli-pager"),
        values("profile region endpoint-url output query ca-bundle color cli-read-timeout cli-connect-timeout"),
    ]]),
    client("az", &[&[flags("debug verbose only-show-errors"), values("-o output query subscription")]]),
    client("gcloud", &[&[flags("-q quiet"), values("project account configuration format verbosity impersonate-service-account")]]),
    client("gh", &[&[values("-R repo hostname")]]).level(RepositoryLevel::Data).subcommands(&[
        program("pr", EXACT).options(&[&[values("-R repo hostname")]]).subcommands(&[program("checkout co", EXACT).operands(&[at(Always, &[CONFIGURATION])])]),
    ]),
    client("glab", &[&[values("-R repo hostname")]]).level(RepositoryLevel::Data),
    client("hg", &[&[flags("-yvq noninteractive verbose quiet debug"), values("-R repository cwd encoding"), value("config config-file", &[UNDETERMINED])]]),
    client("svn", &[&[flags("-qv quiet verbose non-interactive no-auth-cache trust-server-cert"), values("username password"), value("config-dir config-option", &[UNDETERMINED]), value("diff-cmd diff3-cmd merge-cmd editor-cmd", &[PROGRAM])]]),
    client("systemctl", &[&[
        flags("-alqfri user system global no-pager quiet now force runtime no-block no-legend all full wait no-ask-password"),
        values("-HMtpPonsS host machine type state property output lines root image job-mode signal kill-whom"),
    ]]),
    client("terraform", &[]).syntax(ONE_DASH).unknown(UnknownOption::Flag).subcommands(&[program("destroy", ONE_DASH).unknown(UnknownOption::Flag).operands(&[at(Always, &[destroys("the infrastructure")])])]),
    program("rclone", EXACT).guards_patterns().options(&[&[value("password-command sftp-ssh metadata-mapper", &[PROGRAM])]]),
    program("restic", EXACT).guards_patterns().options(&[&[values("-prf"), value("-o option", &[one_of("*command=* *program=*", &[part(WordPart::After("="), &[PROGRAM])], &[])]), value("password-command", &[PROGRAM])]]),
    client("jj", &[&[flags("no-pager quiet"), values("-R repository at-operation color"), value("config config-toml config-file", &[UNDETERMINED]), value("tool", &[PROGRAM])]]).level(RepositoryLevel::Data).subcommands(&[
        program("util", STOPS).subcommands(&[program("exec", STOPS).operands(&[at(From(0), &[LAUNCH])])]),
    ]),
    client("repo west", &[]).level(RepositoryLevel::Data).subcommands(&[program("forall", EXACT).options(&[&[with_arity("-c", ValueArity::Rest, &[meaning(MeaningKind::Joined(TextLanguage::Shell))])]])]),
    client("firebase", &[]).subcommands(&[program("emulators:exec", EXACT).options(&[&[values("only project import")]]).operands(&[at(From(0), &[SHELL])])]),
    client("borg", &[&[value("rsh remote-path", &[PROGRAM])]]).subcommands(&[
        program("create", EXACT).options(&[&[flags("content-from-command paths-from-command"), value("rsh remote-path", &[PROGRAM])]]).operands(&[at(AfterDashes, &[COMMAND])]),
    ]),
    program("rdiff-backup unison", ONE_DASH).options(&[&[value("remote-schema sshcmd rshcmd", &[PROGRAM])]]),
    program("pm2 forever", EXACT).options(&[&[value("interpreter", &[PROGRAM])]]).operands(&[at(From(1), &[SHELL])]),
    program("chromium chromium-browser chromium-headless-shell google-chrome google-chrome-stable", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[
        value("renderer-cmd-prefix gpu-launcher utility-cmd-prefix ppapi-plugin-launcher browser-subprocess-path", &[PROGRAM]),
    ]]),
];
