//! Grids among the arguments of an op: their declaration, and the searches ahead of the steps of a call.

use super::arrays::Arrays;
use super::bind::batches_over;
use super::call::Call;
use super::declare::{ArgKind, ArgSpec, Op, Step};

use super::request::{Arg, Request};
use super::size::Size;
use crate::backend::Check;
use crate::runtime::{Kernel, Query, Role, StructureKind};
use crate::structure::pairs::Kind;
use crate::structure::{GridSearch, PointGrid, Structure};
use crate::{Error, Result};

impl Op {
    /// Every grid names the positions of its points, and the batch of its queries; no shape that callers see depends on the
    /// number of pairs that are found.
    pub(super) fn check_grids(&self) -> Result<()> {
        let wrong = |arg: &ArgSpec, expected: String, got: String| {
            Err(Error::argument(format!("{}::{}", self.full_name(), arg.name), expected, got))
        };
        for arg in &self.args {
            let ArgKind::Grid { rows, columns, points, entries } = &arg.kind else { continue };
            let shape = [Size::Dim(columns.clone()), Size::Const(3)];
            match self.arg(points).map(|n| &self.args[n].kind) {
                Some(ArgKind::Real { shape: s, zero: false }) if *s == shape => {}
                other => {
                    let got = other.map_or(format!("no argument `{points}`"), |kind| format!("{kind:?}"));
                    let expected =
                        format!("`{points}` to be the points' positions, an argument ({columns}, 3)");
                    return wrong(arg, expected, got);
                }
            }
            if self.batches_over(rows).count() > 1 {
                return wrong(
                    arg,
                    format!("one batch over {rows}, whose systems are searched"),
                    "several".into(),
                );
            }
            let seen = self.outputs.iter().chain(self.scratch.iter().filter(|s| s.saved));
            let sized = |shape: &[Size]| {
                shape.iter().any(|s| matches!(s, Size::Dim(d) if Some(d) == entries.as_ref()))
            };
            if let Some(output) = seen.into_iter().find(|o| sized(&o.shape)) {
                return wrong(
                    arg,
                    "shapes of outputs that are known before the search (or pairs, which the caller searches for)".into(),
                    format!("`{}` with an element for each pair that is found", output.name),
                );
            }
        }
        Ok(())
    }

    /// Queries of a step are made with arguments of the op, and all queries of one grid with one pair of arguments.
    pub(super) fn check_queries(&self, kernel: &Kernel, step: &Step) -> Result<()> {
        let bound = |q: &Query| [q.grid, q.positions, q.radius].map(|p| step.buffers[p]);
        for (n, query) in kernel.queries.iter().enumerate() {
            let [grid, positions, radius] = bound(query);
            let name = |param: usize| {
                format!("{}::{}::{}", self.full_name(), kernel.name, kernel.params[param].name)
            };
            if positions >= self.args.len() {
                return Err(Error::argument(
                    name(query.positions),
                    "an argument of the op, as the search comes before its steps",
                    format!("`{}`, which a step writes", self.buffer_name(positions)),
                ));
            }
            let named = |(positions, radius): (usize, usize)| {
                format!("`{}` and `{}`", self.buffer_name(positions), self.buffer_name(radius))
            };
            // Two parameters of a kernel may be one grid.
            let here = kernel.queries[..n].iter().map(bound).find(|q| q[0] == grid);
            let before = self.query_of(grid).or(here.map(|[_, positions, radius]| (positions, radius)));
            if let Some(before) = before.filter(|before| *before != (positions, radius)) {
                let expected =
                    format!("a grid queried with {} alone, as it is before (or a second one)", named(before));
                return Err(Error::argument(name(query.grid), expected, named((positions, radius))));
            }
        }
        Ok(())
    }

    /// The arguments that are positions and radius of a grid's query.
    fn query_of(&self, grid: usize) -> Option<(usize, usize)> {
        self.steps.iter().find_map(|step| {
            let queries = step.kernel().map_or(&[][..], |kernel| kernel.queries);
            let query = queries.iter().find(|q| step.buffers[q.grid] == grid)?;
            Some((step.buffers[query.positions], step.buffers[query.radius]))
        })
    }

    /// The batches over a dimension, with the dimension of their systems.
    fn batches_over<'o>(&'o self, dim: &'o str) -> impl Iterator<Item = (usize, &'o String)> {
        self.args.iter().enumerate().filter_map(move |(n, arg)| match &arg.kind {
            ArgKind::Batch { rows, systems } if rows == dim => Some((n, systems)),
            _ => None,
        })
    }

    /// A grid's systems are those of its queries.
    fn check_systems(&self, spec: &ArgSpec, rows: &str, systems: usize, of_grid: usize) -> Result<()> {
        if systems == of_grid {
            return Ok(());
        }
        let expected = match self.batches_over(rows).next() {
            Some((n, _)) => format!("a grid over {systems} systems, as `{}` has", self.args[n].name),
            None => format!("a grid over one system, as the op has no batch over {rows}"),
        };
        Err(Error::argument(&spec.name, expected, format!("{of_grid} systems")))
    }

    /// The error of a search.
    fn in_names_of_the_op(&self, error: Error, spec: &ArgSpec, (positions, radius): (usize, usize)) -> Error {
        match error {
            Error::Argument { argument, expected, got } => {
                let name = match argument.as_str() {
                    "queries" => &self.args[positions].name,
                    "radius" => &self.args[radius].name,
                    name if self.arg(name).is_some() => name,
                    _ => &spec.name,
                };
                Error::argument(name, expected, got)
            }
            error => error,
        }
    }
}

/// Searches every grid that a step queries. All steps see the pairs that are found: they depend on values alone, not
/// on what is differentiated.
pub(super) fn search(call: &mut Call<'_, '_>, arrays: &Arrays<'_>, request: &Request<'_, '_>) -> Result<()> {
    if call.op.scales(request).is_some() {
        // Saved gradients are only scaled.
        return Ok(());
    }
    for (n, spec) in call.op.args.iter().enumerate() {
        let Arg::Grid(grid) = &call.args[n] else { continue };
        let Some(query) = call.op.query_of(n) else { continue };
        let list = search_one(call, arrays, n, spec, *grid, query)?;
        let ArgKind::Grid { entries, .. } = &spec.kind else { continue };
        if let (Some(entries), Some(pairs)) = (entries, list.sizes()[2]) {
            match call.dims.iter().find(|(dim, _)| dim == entries) {
                Some((_, before)) if *before != pairs => {
                    let expected =
                        format!("{before} pairs ({entries}) within the radius, as other arguments have");
                    return Err(Error::argument(&spec.name, expected, pairs.to_string()));
                }
                Some(_) => {}
                None => call.dims.push((entries, pairs)),
            }
        }
        call.lists.set_found(n, list);
    }
    Ok(())
}

fn search_one(
    call: &Call<'_, '_>,
    arrays: &Arrays<'_>,
    n: usize,
    spec: &ArgSpec,
    grid: &dyn PointGrid,
    query: (usize, usize),
) -> Result<Box<dyn Structure>> {
    let op = call.op;
    let (ArgKind::Grid { rows, columns, points, entries }, Arg::Real(radius)) =
        (&spec.kind, &call.args[query.1])
    else {
        return Err(Error::argument(&spec.name, "a grid, positions and a radius", "something else"));
    };
    let own = batches_over(op, call.args, rows).next();
    let systems = own.and_then(|(_, batch)| batch.sizes()[1]).unwrap_or(1);
    op.check_systems(spec, rows, systems, grid.systems())?;
    let mut of_points = batches_over(op, call.args, columns);
    let of_points = of_points.find(|(systems, _)| own.is_some_and(|(own, _)| own == *systems));
    // Positions as they were given; half precision is widened without loss.
    let given = |n: usize| match &call.args[n] {
        Arg::Array(view) if view.dtype().is_computed() => view.clone(),
        _ => arrays.readable(n, Role::VALUE, false),
    };
    let (queries, at) = (given(query.0), given(op.arg(points).unwrap_or(query.0)));
    let search = GridSearch {
        queries: &queries,
        batch: own.map(|(_, batch)| batch),
        radius: *radius,
        points: (&at, of_points.map(|(_, batch)| batch)),
        params: [query.0, query.1, n],
        whole: entries.is_some(),
        word: call.word.as_ref(),
    };
    let found = grid.query(call.context, &search);
    let list = found.map_err(|error| op.in_names_of_the_op(error, spec, query))?;
    // Kernels index by the list without another check: it is of the call's sizes and memory, and was checked.
    let points = call.dims.iter().find(|(dim, _)| dim == columns).map(|(_, size)| *size);
    let fits = list.kind() == StructureKind::Pairs
        && list.sizes()[..2] == [queries.shape().first().copied(), points]
        && list.place() == Some(call.context.backend.place())
        && list.list_kind() == Some(Kind::Directed)
        && list.check(&[])?.iter().all(|check| matches!(check, Check::AtMost(..)));
    if !fits {
        let expected = "a grid whose search gives a checked, directed list between queries and points";
        return Err(Error::argument(&spec.name, expected, list.describe()));
    }
    Ok(list)
}
