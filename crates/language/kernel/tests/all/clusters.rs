//! Detection of the cluster form, and its parts.

use madelung_kernel::cluster::{Clusters, clusters};
use madelung_kernel::forms::{Form, Lists, Member, forms};
use madelung_kernel::ir::{Function, Kernel, Op, Role};
use madelung_kernel::layout::Layout;
use madelung_kernel::lower::lower_block;
use madelung_kernel::program::Phase;

/// The kernel of a loop body over pairs and the statements after it, and its forms.
fn kernel(in_loop: &str, after: &str) -> (Kernel, Vec<Form>) {
    let source = format!(
        "#[kernel(fast(positions), fast(positions, strain))] fn k(i: Atom, positions: &[Vec3; Atom], velocities: \
         &[Vec3; Atom], table: &[[Real; Type]; Type], kind: &Map<Atom, Type>, charges: &[Real; Atom], kinds: &[i32; Atom], cell: &[Mat3; System], strain: &[Zero<Mat3>; \
         System], cutoff: Real, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom], total: \
         &mut [Real; System]) {{ let b = atoms.of(i); let mut e = 0.0; let mut f = 0.0; for (j, shift) in \
         pairs.row(i) {{ let d = positions[j] - positions[i] + shift * cell[b]; let d = d + d * strain[b]; let r = \
         length(d); {in_loop} }} {after} }}"
    );
    let file = syn::parse_str(&source).expect("a file");
    let source = lower_block(&file).expect("a kernel").remove(0);
    let forms = forms(&source.kernel, &source.options).expect("forms");
    (source.kernel, forms)
}

fn of_value(in_loop: &str, after: &str) -> Option<Clusters> {
    let (kernel, forms) = kernel(in_loop, after);
    let value = forms.iter().find(|f| f.member == Member::Value).expect("values");
    clusters(&kernel, &value.parts[0])
}

const ENERGY: &str = "energy[i] = charges[i] * e; total[b] += 2.0 * f;";

#[test]
fn sums_over_the_pair_vector_have_one() {
    let found = of_value("if r < cutoff { e += charges[j] / r; f += kinds[i] * d.x; }", ENERGY);
    let found = found.expect("a cluster form");
    // Positions by component, the charge, the kind.
    let packed: Vec<_> = found.packed.iter().map(|p| (p.param, p.component)).collect();
    assert_eq!(packed, [(0, 0), (0, 1), (0, 2), (4, 0), (5, 0)]);
    assert!(found.packed.iter().all(|p| p.role == Role::VALUE));
    assert_eq!((found.positions, found.cell), (0, Some(6)));
    // The energy belongs to an atom, the other sum to the system, whichever atom brings it.
    let columns: Vec<_> = found.sums.iter().map(|s| s.column.is_some()).collect();
    assert_eq!(columns, [true, false]);
}

/// The map is packed, the table looked up; and what both sides have in common is computed once.
#[test]
fn tables_have_one() {
    let mean = "0.5 * (table[kind.of(i)][kind.of(j)] + table[kind.of(j)][kind.of(i)])";
    let found = of_value(&format!("if r < cutoff {{ e += exp(-r * {mean}); }}"), "energy[i] = e;");
    let found = found.expect("a cluster form");
    let packed: Vec<_> = found.packed.iter().map(|p| (p.param, p.component)).collect();
    assert_eq!(packed, [(0, 0), (0, 1), (0, 2), (3, 0)]);
    let exponentials = found.pair.body.ops().filter(|op| matches!(op, Op::Call(Function::Exp, _))).count();
    assert_eq!(exponentials, 1);
}

#[test]
fn gradients_have_one() {
    let (kernel, forms) = kernel("if r < cutoff { e += charges[j] / r; }", ENERGY);
    let fast: Vec<&Form> = forms.iter().filter(|f| f.gradients.is_some() && f.lists == Lists::Full).collect();
    assert_eq!(fast.len(), 2);
    for (form, sums) in fast.iter().zip([4, 10]) {
        let found = clusters(&kernel, &form.parts[0]).expect("a cluster form");
        assert_eq!(found.sums.len(), sums);
        // Energy and force of each atom; the strain's six sums are the system's.
        assert_eq!(found.sums.iter().filter(|s| s.column.is_some()).count(), 4);
    }
}

/// Gradients for any cotangent, and Hessian-vector products, have one without the gradient by the cell, which depends on
/// the image alone.
#[test]
fn general_gradients_have_one_without_the_cell() {
    let (_, forms) = kernel("if r < cutoff { e += charges[j] / r; }", ENERGY);
    let of = |member: Member| {
        let form = forms.iter().find(|f| f.member == member && f.lists == Lists::Full && !f.uniform);
        form.expect("the general form").clusters[0].clone().expect("a cluster form")
    };
    let (gradient, along) = (Role::COTANGENT, Role::COTANGENT.with(Role::FIRST));
    let columns = |c: &Clusters| c.sums.iter().filter(|s| s.column.is_some()).count();
    let found = of(Member::Gradient);
    assert_eq!(found.without, [(6, gradient)].into());
    // Force, energy, and charge gradient by the partner's weight; the strain's sums are the system's, and symmetric.
    assert_eq!((found.sums.len(), columns(&found)), (11, 5));
    let found = of(Member::GradientTangent);
    let direct = [0, 4, 6, 7].map(|p| (p, gradient));
    assert_eq!(found.without, direct.into_iter().chain([(6, along)]).collect());
    assert_eq!((found.sums.len(), columns(&found)), (15, 6));
    // Tangents of positions are packed as positions are.
    let of_positions = found.packed.iter().filter(|p| p.param == found.positions);
    assert_eq!(
        of_positions.map(|p| p.role).collect::<Vec<_>>(),
        [[Role::VALUE; 3], [Role::FIRST; 3]].concat()
    );
    // Without `fast` forms, and for other lists, there is none.
    let others = forms.iter().filter(|f| f.lists != Lists::Full && f.member != Member::Value);
    assert!(others.flat_map(|f| &f.clusters).all(Option::is_none));
}

#[test]
fn a_sum_that_rows_weigh_is_their_own() {
    for after in [
        "total[b] += charges[i] * f;",
        "total[b] += f * f;",
        "if charges[i] < 0.0 { total[b] += f; }",
        "energy[i] = f;",
    ] {
        let found = of_value("f += r;", after).expect("a cluster form");
        assert!(found.sums[0].column.is_some(), "{after}");
    }
    let found = of_value("f += r;", "total[b] -= 0.5 * f * cutoff;").expect("a cluster form");
    assert!(found.sums[0].column.is_none());
}

#[test]
fn others_have_none() {
    for in_loop in [
        // The image, or a position, apart from the vector between the two.
        "e += shift.x * r;",
        "e += positions[j].x * r;",
        "e += dot(positions[i], d);",
        "e += length(positions[j] - positions[i]) + r;",
        "e += length(d + shift * cell[b]);",
        // Another loop.
        "for k in 0..3 { e += r * (k as Real); }",
    ] {
        assert!(of_value(in_loop, ENERGY).is_none(), "{in_loop}");
    }
    // Other vectors of atoms play no part.
    assert!(of_value("e += dot(velocities[j] + velocities[i], d);", ENERGY).is_some());
    // A second loop.
    let twice = "for (j, shift) in pairs.row(i) { e += charges[j]; } energy[i] = e;";
    assert!(of_value("e += r;", twice).is_none());
}

/// In a difference of differences, what is taken in another order is there in any case.
#[test]
fn nested_differences_are_computed() {
    let (kernel, forms) =
        kernel("e += (charges[i] - (cutoff - (charges[j] - charges[i]))) * r;", "energy[i] = e;");
    let value = forms.iter().find(|f| f.member == Member::Value).expect("values");
    let found = clusters(&kernel, &value.parts[0]).expect("a cluster form");
    let phase = Phase::new(&kernel, &found, &Layout::new(&kernel, &value.parts[0]));
    assert!(!phase.joined.is_empty());
    let values: Vec<_> = phase.values().collect();
    for (v, j) in &phase.joined {
        assert!(values.contains(v) && values.contains(&j.varying), "{v}: {j:?}");
    }
}
