use haft::*;
use std::hint::black_box;
use std::time::Instant;
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct In {
    path: String,
    limit: u32,
    all: bool,
}
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct P {
    path: String,
}
fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    rt.block_on(async { tokio::spawn(async {
        let t = tool("small", "d", |i: In, _| async move { Ok(i.limit as u64 + i.path.len() as u64) }).effects(|_| Effects::none());
        let p = tool("pathy", "d", |i: P, _| async move { Ok(i.path.len()) }).effects(|i: &P| Effects::reads(&i.path));
        let engine = Engine::new(Registry::new().with(t).unwrap().with(p).unwrap());
        let text = r#"{"path": "src/lib.rs", "limit": 200, "all": true}"#;
        let schema = jsonschema::validator_for(engine.snapshot().find("small").unwrap().tool().input_schema()).unwrap();
        for _ in 0..5 {
            let n = 100_000;
            let t0 = Instant::now();
            for _ in 0..n {
                let v: serde_json::Value = serde_json::from_str(text).unwrap();
                assert!(schema.is_valid(&v));
                let i: In = serde::Deserialize::deserialize(&v).unwrap();
                let r = tokio::spawn(async move { black_box(i.limit as u64 + i.path.len() as u64) }).await.unwrap();
                black_box(serde_json::to_string(&r).unwrap());
            }
            let floor = t0.elapsed() / n;
            let t0 = Instant::now();
            for _ in 0..n {
                let r = engine.turn().run([ToolCall::new("1", "small", text)]).await;
                black_box(serde_json::to_string(&r[0].to_json().output).unwrap());
            }
            let one = t0.elapsed() / n;
            let t0 = Instant::now();
            for _ in 0..n {
                let r = engine.turn().run([ToolCall::new("1", "pathy", r#"{"path":"src/lib.rs"}"#)]).await;
                black_box(serde_json::to_string(&r[0].to_json().output).unwrap());
            }
            let path = t0.elapsed() / n;
            let t0 = Instant::now();
            for _ in 0..n/100 {
                let hs: Vec<_> = (0..100).map(|_| {
                    let v: serde_json::Value = serde_json::from_str(text).unwrap();
                    assert!(schema.is_valid(&v));
                    let i: In = serde::Deserialize::deserialize(&v).unwrap();
                    tokio::spawn(async move { black_box(i.limit as u64 + i.path.len() as u64) }) }).collect();
                for h in hs { black_box(serde_json::to_string(&h.await.unwrap()).unwrap()); }
            }
            let floor100 = t0.elapsed() / n;
            let t0 = Instant::now();
            for _ in 0..n/100 {
                let r = engine.turn().run((0..100).map(|_| ToolCall::new("1", "small", text))).await;
                for r in r { black_box(serde_json::to_string(&r.to_json().output).unwrap()); }
            }
            let hundred = t0.elapsed() / n;
            println!("floor {floor:?} one {one:?} {:.2} path {path:?} | floor100 {floor100:?} hundred {hundred:?} {:.2}", one.as_secs_f64()/floor.as_secs_f64(), hundred.as_secs_f64()/floor100.as_secs_f64());
        }
    }).await.unwrap() });
}
