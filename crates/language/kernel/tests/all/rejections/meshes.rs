//! Loops over meshes.

use super::refused;

#[test]
fn loops_over_meshes() {
    let with = |body: &str, message: &str| {
        let parameters = "i: Atom, u: &[Vec3; Atom], q: &[Real; Atom], v: &[Real; Node], atoms: &Batch<Atom, System>, pairs: \
                          &Pairs<Atom>, mesh: &Mesh<System, Node>, out: &mut [Real; Node], e: &mut [Real; Atom], f: &[[Real; Feature]; Atom]";
        refused(
            &format!("#[kernel] fn k({parameters}) {{ let b = atoms.of(i); {body} e[i] = 0.0; }}"),
            message,
        );
    };
    with("for «node» in mesh.around(b, u[i]) { }", "`for (node, weight) in mesh.around(system, u)`");
    with("for (n, w) in «mesh.around(b)» { }", "`for (node, weight) in mesh.around(system, u)`");
    with("for (n, w) in mesh.around(«i», u[i]) { }", "an element per `System`, and the index is an `Atom`");
    with("for (n, w) in mesh.around(b, «q[i]») { }", "fractional coordinates");
    with("for (n, w) in «atoms.around(b, u[i])» { }", "`for (node, weight) in mesh.around(system, u)`");
    with(
        "let mut s = 0.0; for (n, w) in mesh.around(b, u[i]) { s += w * q[«n»]; }",
        "the index is an `Node`",
    );
    with("for (n, w) in mesh.around(b, u[i]) { «e[i] += w»; }", "adding to an output inside a loop");
    with("for (n, w) in mesh.around(b, u[i]) { «out[n] = w»; }", "an output is written once per row");
    with("let mut s = 0.0; for (n, w) in mesh.around(b, u[i]) { s += w * «s»; }", "is read inside the loop");
    with(
        "for (j, s) in pairs.row(i) { for (n, w) in «mesh.around(b, u[i])» { } }",
        "stands outside other loops and branches",
    );
    with(
        "if q[i] > 0.0 { for (n, w) in «mesh.around(b, u[i])» { } }",
        "stands outside other loops and branches",
    );
    with(
        "for (n, w) in mesh.around(b, u[i]) { for (j, s) in «pairs.row(i)» { } }",
        "stands outside a loop over a mesh",
    );
    with(
        "let mut s = 0.0; for (n, w) in mesh.around(b, u[i]) { «s = max(s, w)»; }",
        "a loop over a mesh only sums: it looks for nothing",
    );
    with(
        "for (n, w) in mesh.around(b, u[i]) { for c in «Feature» { } }",
        "stands outside a loop over a mesh",
    );
}
