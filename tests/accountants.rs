//! The privacy accountants' vectors, made again by their script.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Largest relative difference between any two numbers at the same place; other shapes are infinitely far apart.
fn distance(one: &Value, other: &Value) -> f64 {
    match (one, other) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| distance(a, b)).fold(0.0, f64::max)
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().map(|(key, a)| distance(a, &b[key])).fold(0.0, f64::max)
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if a == b { 0.0 } else { (a - b).abs() / a.abs().max(b.abs()) }
        }
        _ => f64::INFINITY,
    }
}

#[test]
fn a_difference_between_vectors_is_seen() {
    let one = serde_json::json!({"a": [1.0, 2.0], "b": 3.0});
    assert_eq!(distance(&one, &one), 0.0);
    for other in [
        serde_json::json!({"a": [1.0, 2.0], "b": 3.5}),
        serde_json::json!({"a": [1.0], "b": 3.0}),
        serde_json::json!({"a": [1.0, 2.0], "c": 3.0}),
    ] {
        assert!(distance(&one, &other) > 0.1);
    }
}

/// Needs Python with dp-accounting and mpmath: the interpreter is `FEDREG_PYTHON`, else `python3`.
#[test]
#[ignore = "needs Python with dp-accounting and mpmath"]
fn the_script_makes_the_vectors_of_the_accountants_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let python = std::env::var_os("FEDREG_PYTHON").unwrap_or_else(|| "python3".into());
    let script = folder.join("make/privacy.py");
    let made = Command::new(&python).arg(script).arg("--print").stderr(Stdio::inherit()).output();
    let made = made.unwrap_or_else(|error| panic!("cannot run {}: {error}", python.display()));
    assert!(made.status.success(), "{} ended with {}", python.display(), made.status);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let known: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("privacy/accountant.json")).unwrap()).unwrap();
    // Fifty digits are the same everywhere; loss distributions are sums of doubles, whose order may differ between versions.
    for (key, largest) in
        [("gaussian", 1e-15), ("concentrated", 1e-15), ("calibration", 1e-15), ("loss_distribution", 1e-6)]
    {
        let found = distance(&made[key], &known[key]);
        println!("{key}: at most {found:.1e} apart");
        assert!(found <= largest, "{key}: {found}");
    }
    // What is committed is what the accountants are compared with; here they meet what was just made.
    for case in made["loss_distribution"].as_array().unwrap() {
        let of = |key: &str| case[key].as_f64().unwrap();
        let sum = of("count") / of("sigma").powi(2);
        let ours = fedreg_common::privacy::accountant::Accountant::Exact.epsilon(sum, of("delta"));
        assert!((ours - of("epsilon")).abs() < 1e-3, "{case}: {ours}");
    }
}
