//! Grids among the arguments of an op: how they are declared, and the searches that come before the steps of a call.

use super::check::{BoundArgs, device_batches};
use super::declare::{ArgKind, ArgSpec, Op, Step};
use super::evaluate::Run;
use super::request::{Arg, Request};
use super::size::Size;
use crate::array::{Array, DType};
use crate::backend::Context;
use crate::batch::Batch;
use crate::device::DeviceArg;
use crate::grid::GridSearch;
use crate::grid::PointGrid;
use crate::pairs::PairList;
use crate::runtime::{Kernel, Query, Role};
use crate::{Error, Result};

/// What each grid among the arguments of a call found, with the argument's number.
pub(super) type Found = Vec<(usize, PairList<'static>)>;

impl Op {
    /// Every grid says where its points are, and which system its queries belong to; what is found has no part in the
    /// shapes that callers see.
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

    /// The queries of a step are made with arguments, and those of one grid in all steps with the same ones.
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

    /// Searches every grid that a step queries. All steps see what is found: it depends on values alone, not on what is
    /// differentiated.
    pub(super) fn search<'r>(
        &'r self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
        bound: &mut BoundArgs<'r>,
    ) -> Result<Found> {
        // Saved gradients are only scaled.
        let needed = self.scales(request).is_none();
        let mut found = vec![];
        for (n, arg) in args.iter().enumerate() {
            let (Arg::Grid(grid), spec) = (arg, &self.args[n]) else { continue };
            self.check_points(spec, *grid, args)?;
            let Some(query) = self.query_of(n).filter(|_| needed) else { continue };
            let list = self.search_one(context, args, spec, *grid, query)?;
            if let ArgKind::Grid { entries: Some(entries), .. } = &spec.kind {
                let pairs = list.len();
                match bound.dims.iter().find(|(dim, _)| dim == entries) {
                    Some((_, before)) if *before != pairs => {
                        let expected =
                            format!("{before} pairs ({entries}) within the radius, as other arguments have");
                        return Err(Error::argument(&spec.name, expected, pairs.to_string()));
                    }
                    Some(_) => {}
                    None => bound.dims.push((entries, pairs)),
                }
            }
            found.push((n, list));
        }
        Ok(found)
    }

    /// The grid was built from the points of the call.
    fn check_points(&self, spec: &ArgSpec, grid: &dyn PointGrid, args: &[Arg<'_>]) -> Result<()> {
        let ArgKind::Grid { points, .. } = &spec.kind else { return Ok(()) };
        match self.arg(points).map(|n| &args[n]) {
            Some(Arg::Array(view)) if !grid.is_of(view) => Err(Error::argument(
                &spec.name,
                format!("a grid of `{points}` (after they have moved: `HashGrid::rebuild`)"),
                "a grid of other coordinates",
            )),
            _ => Ok(()),
        }
    }

    fn search_one(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        spec: &ArgSpec,
        grid: &dyn PointGrid,
        (positions, radius): (usize, usize),
    ) -> Result<PairList<'static>> {
        let (ArgKind::Grid { rows, columns, .. }, Arg::Array(queries), Arg::Real(within)) =
            (&spec.kind, &args[positions], &args[radius])
        else {
            return Err(Error::argument(&spec.name, "a grid, positions and a radius", "something else"));
        };
        let batch_of = |n: usize| if let Arg::Batch(batch) = &args[n] { Some(*batch) } else { None };
        let own = self.batches_over(rows).next();
        let single = Batch::single(queries.shape().first().copied().unwrap_or(0))?;
        let (batch, systems) = match own.and_then(|(n, systems)| Some((batch_of(n)?, Some(systems)))) {
            Some((batch, systems)) => (batch, systems),
            None => (&single, None),
        };
        self.check_systems(spec, rows, batch.systems(), grid.batch().systems())?;
        let other = self.batches_over(columns).filter(|(_, s)| Some(*s) == systems);
        for (n, batch) in other.filter_map(|(n, _)| Some((n, batch_of(n)?))) {
            if batch.ptr() != grid.batch().ptr() {
                let expected = format!("a grid whose systems are those of `{}`", self.args[n].name);
                return Err(Error::argument(&spec.name, expected, "one with other systems"));
            }
        }
        // Half precision is widened without loss.
        let wide;
        let queries = if queries.dtype().is_computed() {
            queries
        } else {
            wide = Array::from_f64(DType::F64, queries.shape(), &queries.to_f64()?)?;
            &wide.view()
        };
        let list = grid.query(context, queries, batch, *within);
        list.map_err(|error| self.in_names_of_the_op(error, spec, (positions, radius)))
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
                    _ => &spec.name,
                };
                Error::argument(name, expected, got)
            }
            error => error,
        }
    }
}

impl Run<'_, '_> {
    /// [`Op::search`] where grids lie in the memory of a device: what is wrong with them, or with what they were built
    /// from, is raised in the call's word.
    pub(super) fn search_remote(&mut self, request: &Request<'_, '_>) -> Result<()> {
        let Some(word) = self.word.as_ref() else {
            return Ok(());
        };
        if self.op.scales(request).is_some() {
            return Ok(());
        }
        let mut near = vec![];
        for (n, arg) in self.args.iter().enumerate() {
            let (Arg::Device(DeviceArg::Grid { grid, capacity }), spec) = (arg, &self.op.args[n]) else {
                continue;
            };
            let (ArgKind::Grid { rows, columns, points, .. }, Some(query)) =
                (&spec.kind, self.op.query_of(n))
            else {
                continue;
            };
            let (Some(points), Arg::Real(radius)) = (self.op.arg(points), &self.args[query.1]) else {
                continue;
            };
            let own = device_batches(self.op, self.args, rows).next();
            let systems = own.map_or(1, |(_, batch)| batch.systems());
            self.op.check_systems(spec, rows, systems, grid.systems())?;
            let mut of_points = device_batches(self.op, self.args, columns);
            let of_points = of_points.find(|(systems, _)| own.is_some_and(|(own, _)| own == *systems));
            // As they were given; half precision is widened without loss.
            let given = |n: usize| match &self.args[n] {
                Arg::Array(view) if view.dtype().is_computed() => view.clone(),
                _ => self.readable(n, Role::VALUE, false),
            };
            let (queries, points) = (given(query.0), given(points));
            let asked = GridSearch {
                grid: *grid,
                capacity: *capacity,
                queries: &queries,
                batch: own.map(|(_, batch)| batch),
                radius: *radius,
                points: (&points, of_points.map(|(_, batch)| batch)),
                params: [query.0, query.1, n],
            };
            let found = grid.query(self.context, &asked, word);
            near.push((n, found.map_err(|error| self.op.in_names_of_the_op(error, spec, query))?));
        }
        self.near = near;
        Ok(())
    }
}
