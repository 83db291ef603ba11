//! Ops of every kind of argument and output, including kinds that the library's own ops do not (yet) have.

use madelung::array::DType;
use madelung::op::{Constraint, Op, Registry};
use std::sync::OnceLock;

madelung::kernels! {
    /// A kernel between two sets of points, with an element per pair, types and attributes.
    #[kernel]
    fn near(
        i: Atom,
        positions: &[Vec3; Atom],
        points: &[Vec3; Point],
        features: &[Real; Point],
        factor: &[Real; Edge],
        stiffness: &[Real; Element],
        sigma: &Real,
        kind: &Map<Edge, Element>,
        types: &[i32; Atom],
        cutoff: Real,
        terms: i32,
        list: &Pairs<Atom, Point, Edge>,
        weight: &mut [Real; Edge],
        sum: &mut [Real; Atom],
    ) {
        let mut e = 0.0;
        for (j, shift, p) in list.row(i) {
            let d = points[j] - positions[i];
            let r = sqrt(1.0 + dot(d, d));
            let t = factor[p] * features[j] * exp(-r * sigma * sigma) * stiffness[kind.of(p)];
            weight[p] = t;
            if r < cutoff {
                e += t;
            }
        }
        sum[i] = e * types[i] * (terms as Real);
    }

    /// The points of a grid around queries.
    #[kernel]
    fn around(
        i: Query,
        x: &[Vec3; Query],
        sites: &[Vec3; Site],
        charges: &[Real; Site],
        radius: Real,
        queries: &Batch<Query, System>,
        of_sites: &Batch<Site, System>,
        grid: &HashGrid<Query, Site>,
        potential: &mut [Real; Query],
        total: &mut [Real; System],
    ) {
        let mut e = 0.0;
        for (j, shift) in grid.query(x[i], radius) {
            let d = sites[j] - x[i];
            e += charges[j] / (1.0 + dot(d, d));
        }
        potential[i] = e;
        total[queries.of(i)] += e * e;
    }

    #[kernel]
    fn squares(i: Atom, sum: &[Real; Atom], out: &mut [Real; Atom]) {
        out[i] = sum[i] * sum[i];
    }

    #[func]
    fn wrapped(n: i32, m: i32) -> i32 {
        (n % m + m) % m
    }

    /// Points counted in bins.
    #[kernel(no_adjoint)]
    fn histogram(
        i: Point,
        x: &[Real; Point],
        width: Real,
        bin_of: &mut [i32; Point],
        counts: &mut [i32; Bin],
    ) {
        let c = wrapped(floor(x[i] / width) as i64, counts.len());
        bin_of[i] = c;
        atomic_add(counts[c], 1);
    }
}

/// The ops of this page.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let near = Op::new("test", "near", 1)
            .real("positions", &["Atom", "3"])
            .real("points", &["Point", "3"])
            .real("features", &["Point"])
            .stored()
            .real("factor", &["Edge"])
            .real("stiffness", &["Element"])
            .real("sigma", &[])
            .must_be(Constraint::Positive)
            .map("kind", "Edge", "Element")
            .ints("types", &["Atom"])
            .scalar("cutoff")
            .int_scalar("terms")
            .pairs_between("list", "Atom", "Point", "Edge")
            .output("weight", &["Edge"])
            .output("out", &["Atom"])
            .stored_as("features")
            .saved("sum", &["Atom"])
            .step(&NEAR)
            .step(&SQUARES);
        let histogram = Op::new("test", "histogram", 1)
            .real("x", &["Point"])
            .scalar("width")
            .ints("bins", &["Bin"])
            .integer_output("bin_of", &["Point"], DType::I32)
            .integer_output("counts", &["Bin"], DType::I32)
            .step(&HISTOGRAM);
        let around = Op::new("test", "around", 1)
            .real("x", &["Query", "3"])
            .real("sites", &["Site", "3"])
            .real("charges", &["Site"])
            .scalar("radius")
            .must_be(Constraint::Positive)
            .batch("queries", "Query", "System")
            .batch("of_sites", "Site", "System")
            .grid("grid", "Query", "Site", "sites")
            .output("potential", &["Query"])
            .output("total", &["System"])
            .step(&AROUND);
        let ops = [near, histogram, around].map(|op| op.build().expect("an op"));
        Registry::new(ops).expect("a registry")
    })
}
