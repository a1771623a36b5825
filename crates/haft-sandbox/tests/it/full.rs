//! What a child in the full sandbox can do, and what it can't.

use haft::ports::{Exit, Processes as _};

use crate::confined::{Ground, said};

#[tokio::test]
async fn what_is_granted_works() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let script = "echo hello > made; cat made; ls /; id -u; echo out > /dev/stdout; echo x > /dev/null; cat /proc/self/comm; ls /dev";
    let outcome = sandbox.run(ground.bash(script)).await.unwrap();
    assert_eq!(outcome.exit, Exit::Code(0), "{}", said(&outcome));
    assert_eq!(std::fs::read_to_string(ground.workspace().join("made")).unwrap(), "hello\n");
}
