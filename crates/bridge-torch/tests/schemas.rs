//! Registrations in the dispatcher, without a dispatcher.

use madelung_bridge_torch::layout::{Part, Type};
use madelung_bridge_torch::{Counts, Member, describe, register};
use madelung_core::op::{Op, Registry};

madelung_core::kernels! {
    /// Something of every kind of argument.
    #[kernel(small)]
    fn everything(
        i: Query,
        x: &[Vec3; Query],
        y: &[Vec3; Point],
        weight: &[Real; Element],
        strain: &[Zero<Mat3>; System],
        queries: &Batch<Query, System>,
        near: &Pairs<Query, Point, Edge>,
        element: &Map<Point, Element>,
        scale: Real,
        power: i32,
        out: &mut [Real; Query],
        length_of: &mut [Real; Edge],
    ) {
        let mut sum = 0.0;
        for (j, shift, p) in near.row(i) {
            let d = y[j] - x[i];
            let r2 = dot(d, d) + 0.0 * shift.x;
            length_of[p] = r2;
            sum += weight[element.of(j)] * r2;
        }
        out[i] = scale * sum * (power as Real) + dot(x[i] * strain[queries.of(i)], x[i]);
    }
}

fn registry() -> Registry {
    let op = Op::new("test", "everything", 3)
        .real("x", &["Query", "3"])
        .real("y", &["Point", "3"])
        .real("weight", &["Element"])
        .zero("strain", &["System", "3", "3"])
        .batch("queries", "Query", "System")
        .pairs_between("near", "Query", "Point", "Edge")
        .map("element", "Point", "Element")
        .scalar("scale")
        .int_scalar("power")
        .output("out", &["Query"])
        .output("length_of", &["Edge"])
        .step(&EVERYTHING)
        .build()
        .expect("an op");
    Registry::new([op]).expect("a registry")
}

const INPUTS: &str = "Tensor x, Tensor y, Tensor weight, Tensor strain, Tensor queries, int queries_systems, \
                      Tensor near_ptr, Tensor near, Tensor near_shifts, int near_kind, Tensor element, \
                      float scale, int power";

#[test]
fn schemas() {
    let registry = registry();
    let described = describe(&[&registry]).expect("a description").remove(0);
    let of = |suffix: &str| {
        let found = described.schemas.iter().find(|(s, _)| *s == suffix);
        found.map(|(_, schema)| schema.clone()).expect("a member")
    };
    assert_eq!(of(""), format!("everything_v3({INPUTS}) -> (Tensor, Tensor)"));
    let tangents = "Tensor tangent_x, Tensor tangent_y, Tensor tangent_weight, Tensor tangent_strain";
    assert_eq!(of("_jvp"), format!("everything_v3_jvp({INPUTS}, {tangents}, int mask) -> (Tensor, Tensor)"));
    let cotangents = "Tensor cotangent_out, Tensor cotangent_length_of";
    assert_eq!(
        of("_vjp"),
        format!(
            "everything_v3_vjp({INPUTS}, {cotangents}, int mask, int want) -> (Tensor, Tensor, Tensor, Tensor)"
        )
    );
    // An op without saved arrays has no member that saves.
    assert!(described.schemas.iter().all(|(suffix, _)| *suffix != "_saving"));
}

#[test]
fn numbers_stand_for_what_no_array_has() {
    let registry = registry();
    let described = describe(&[&registry]).expect("a description").remove(0);
    let numbers: Vec<(&str, Part)> = described
        .inputs
        .iter()
        .filter(|input| input.kind != Type::Tensor)
        .map(|input| (&*input.name, input.part))
        .collect();
    assert_eq!(
        numbers,
        [
            ("queries_systems", Part::Systems),
            ("near_kind", Part::ListKind),
            ("scale", Part::Scalar),
            ("power", Part::IntScalar),
        ]
    );
}

/// A schema has as many parts as a call has arguments and results.
#[test]
fn counts_fit_the_schemas() {
    let own = registry();
    let mut registries = vec![madelung_neighbors::registry(), madelung_electrostatics::registry()];
    registries.push(madelung_potentials::registry());
    registries.push(&own);
    for described in describe(&registries).expect("a description") {
        let counts = Counts::of(&described.op);
        for (suffix, schema) in &described.schemas {
            let member = Member::ALL.into_iter().find(|m| m.suffix() == *suffix).expect("a member");
            let (inputs, results) = schema.split_once(" -> ").expect("an arrow");
            assert_eq!(results.matches("Tensor").count(), member.results(counts), "{schema}");
            let flags = usize::from(member.has_mask()) + usize::from(member.has_want());
            let is_tensor = |kind: &Type| matches!(kind, Type::Tensor | Type::Integers);
            let tensors = described.inputs.iter().filter(|i| is_tensor(&i.kind)).count();
            assert_eq!(inputs.matches("Tensor ").count(), tensors + member.extra_tensors(counts), "{schema}");
            assert_eq!(
                inputs.matches(',').count() + 1,
                described.inputs.len() + member.extra_tensors(counts) + flags
            );
        }
        let json = serde_json::to_value(&described).expect("a description");
        assert!(json["inputs"].as_array().is_some_and(|inputs| inputs.len() == described.inputs.len()));
        let dtype = serde_json::to_value(described.op.outputs[0].dtype).expect("a dtype");
        assert_eq!(json["op"]["outputs"][0]["dtype"], dtype);
    }
}

#[test]
fn without_torch_there_is_an_error() {
    let error = register("/nowhere/libtorch_cpu.so", &[]).expect_err("no torch").to_string();
    assert!(error.contains("a libtorch that is loaded") && error.contains("/nowhere"), "{error}");
    // A library that is there and is not torch.
    let own = if cfg!(target_os = "macos") { "libSystem.B.dylib" } else { "libc.so.6" };
    let error = register(own, &[]).expect_err("no torch").to_string();
    assert!(error.contains("PyTorch 2.7 or newer"), "{error}");
}
