use haft::*;
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Small {
    name: String,
    limit: u32,
    all: bool,
}
fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    rt.block_on(async {
        tokio::spawn(async {
            let t = tool("small", "d", |i: Small, _| async move {
                Ok(i.limit as u64 + i.name.len() as u64 + i.all as u64)
            })
            .effects(|_| Effects::none());
            let engine = Engine::new(Registry::new().with(t).unwrap());
            let text = r#"{"name": "src/lib.rs", "limit": 200, "all": true}"#;
            let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
            let k: usize = std::env::args().nth(2).unwrap().parse().unwrap();
            if k == 0 {
                let schema =
                    jsonschema::validator_for(engine.snapshot().find("small").unwrap().tool().input_schema())
                        .unwrap();
                let t0 = std::time::Instant::now();
                for _ in 0..n {
                    let v: serde_json::Value = serde_json::from_str(text).unwrap();
                    assert!(schema.is_valid(&v));
                    let i: Small = serde::Deserialize::deserialize(&v).unwrap();
                    let r = tokio::spawn(async move {
                        std::hint::black_box(i.limit as u64 + i.name.len() as u64 + i.all as u64)
                    })
                    .await
                    .unwrap();
                    std::hint::black_box(serde_json::to_string(&r).unwrap());
                }
                println!("floor {:?}", t0.elapsed() / n as u32);
                return;
            }
            let t0 = std::time::Instant::now();
            for _ in 0..n / k {
                let r = engine.turn().run((0..k).map(|_| ToolCall::new("1", "small", text))).await;
                for r in &r {
                    std::hint::black_box(r.outcome().unwrap().to_text());
                }
            }
            println!("{:?}", t0.elapsed() / n as u32);
        })
        .await
        .unwrap()
    });
}
