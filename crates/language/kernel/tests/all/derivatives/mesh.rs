//! Loops over the nodes of a mesh: spreading, gathering and both, against a sum over all nodes.

use super::harness::{Check, Data, report};
use crate::by_chance::geometry::{MESHES, rows};
use crate::by_chance::interpreter::spline;

/// A kernel over atoms with fractional coordinates `at`, some cells away. They move slowly with `u`, so that finite
/// differences stay within one interval of the splines.
fn kernel(more: &str, body: &str) -> Check {
    let parameters = format!(
        "i: Atom, u: &[Vec3; Atom], charges: &[Real; Atom], atoms: &Batch<Atom, System>, mesh: &Mesh<System, Node>, {more}"
    );
    Check::new(&format!(
        "#[kernel] fn k({parameters}) {{ let b = atoms.of(i); let at = 0.3 * u[i] + vec3(2.0, -3.0, 1.0); {body} }}"
    ))
}

/// The weight of every node of the atom's system: the splines of all images of a node, summed.
fn weights(d: &Data<'_>, i: usize) -> Vec<(usize, f64)> {
    let away = [2.0, -3.0, 1.0];
    let u: [f64; 3] = std::array::from_fn(|c| 0.3 * d.vec3("u", i)[c] + away[c]);
    let (mesh, order) = MESHES[d.system(i)];
    let of_axis = |axis: usize, k: usize| -> f64 {
        let size = mesh[axis] as f64;
        // Atoms lie within four cells of the origin.
        (-6..=6).map(|n| spline(order, size * (u[axis] + f64::from(n)) - k as f64, 0)).sum()
    };
    let nodes = |mesh: [usize; 3]| mesh.iter().product::<usize>();
    let ahead: usize = MESHES[..d.system(i)].iter().map(|(mesh, _)| nodes(*mesh)).sum();
    (0..nodes(mesh))
        .map(|n| {
            let k = [n / (mesh[1] * mesh[2]), n / mesh[2] % mesh[1], n % mesh[2]];
            (ahead + n, (0..3).map(|axis| of_axis(axis, k[axis])).product())
        })
        .collect()
}

#[test]
fn spreading() {
    let check = kernel(
        "density: &mut [Real; Node]",
        "for (node, weight) in mesh.around(b, at) { density[node] += weight * charges[i]; }",
    )
    .total(|d| {
        let mut density = vec![0.0; rows("Node")];
        for i in 0..d.atoms() {
            for (node, weight) in weights(d, i) {
                density[node] += weight * d.real("charges", i);
            }
        }
        density
    });
    check.run();
    report("spreading");
}

#[test]
fn gathering() {
    let check = kernel(
        "potential: &[Real; Node], cell: &[Mat3; System], energy: &mut [Real; Atom]",
        "let mut phi = 0.0; let mut w = 0.0; \
         for (node, weight) in mesh.around(b, 0.3 * at * cell[b]) { phi += weight * sin(potential[node]); w += weight; } \
         energy[i] = charges[i] * phi * phi + w;",
    );
    check.run();
    report("gathering");
    kernel(
        "potential: &[Real; Node], energy: &mut [Real; Atom]",
        "let mut phi = 0.0; for (node, weight) in mesh.around(b, at) { phi += weight * potential[node]; } \
         energy[i] = charges[i] * phi;",
    )
    .value(|d, i| {
        let phi: f64 = weights(d, i).into_iter().map(|(node, w)| w * d.real("potential", node)).sum();
        vec![d.real("charges", i) * phi]
    })
    .run();
}

/// Vectors on nodes, a branch (smooth where it begins) and a loop inside, a second loop that uses the first one's sum, and
/// both directions.
#[test]
fn gathering_and_spreading() {
    let check = kernel(
        "potential: &[Vec3; Node], n: i32, field: &mut [Vec3; Node], energy: &mut [Real; System]",
        "let mut phi = vec3(0.0, 0.0, 0.0); \
         for (node, weight) in mesh.around(b, at) { \
             let over = 2.0 * potential[node].x - 0.7; \
             if over < 0.0 { continue; } \
             for k in 0..n { phi += weight * pow(over, 6) * potential[node] * (k as Real); } \
         } \
         for (node, weight) in mesh.around(b, at * 0.5) { field[node] -= weight * weight * charges[i] * phi; } \
         energy[b] += dot(phi, phi);",
    );
    check.run();
    report("gathering_and_spreading");
}
