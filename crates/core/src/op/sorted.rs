//! Ops that search for their pairs themselves: their rows and points are brought into an order in space, and the pairs of
//! a few rows at a time are found while kernels run.
//!
//! In such an order rows that follow each other have the same neighbours, so these stay in the cache, and boxes around
//! sixteen points that follow each other are all that a search needs. A permutation is linear, so every member of the
//! family follows: what has a row for each query or point is permuted on its way in and back on its way out.

use super::declare::{ArgKind, Op};
use super::request::{Arg, Cotangent, Direction, Evaluated, Request};
use super::size::Size;
use crate::array::{Array, DType, Data, Place, View, filled};
use crate::backend::pool::{Pool, split_tasks};
use crate::backend::{Allocator, Context};
use crate::structure::{Batch, PointGrid};
use crate::{Error, Result};

/// Grid of a call's points, from the arguments of the call: on the host points are in their order in space.
pub type MakeGrid = for<'a> fn(&Context<'_>, &'a [Arg<'a>]) -> Result<Box<dyn PointGrid + 'a>>;

/// Search of an op for its own pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searching {
    /// The orders of queries and points: the place of each row in its system.
    pub(super) orders: [usize; 2],
    pub(super) make: MakeGrid,
}

/// Elements that a task moves.
const ELEMENTS: usize = 1 << 15;

impl Op {
    /// The arguments of a call: the grid of an op that makes it for itself is not one of them.
    pub fn passed(&self) -> &[super::ArgSpec] {
        &self.args[..self.args.len() - usize::from(self.searching.is_some())]
    }

    /// A call of an op that searches for its own pairs; None where the caller has given a grid.
    pub(super) fn evaluated_sorted(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
    ) -> Result<Option<Evaluated>> {
        let Some(searching) = self.searching.filter(|_| args.len() == self.passed().len()) else {
            return Ok(None);
        };
        if context.backend.place() != Place::Host {
            return self.evaluated_with_grid(context, args, request, searching.make).map(Some);
        }
        let Some(ArgKind::Grid { rows, columns, .. }) = self.args.last().map(|arg| &arg.kind) else {
            return Ok(None);
        };
        let orders = [rows, columns];
        let sorted =
            [self.order(args, rows, searching.orders[0])?, self.order(args, columns, searching.orders[1])?];
        let of = |shape: &[Size]| match shape.first() {
            Some(Size::Dim(dim)) => orders.iter().position(|d| *d == dim).map(|n| &sorted[n]),
            _ => None,
        };
        let of_buffer = |buffer: usize| self.shape_of(buffer).and_then(of);
        let pool = &context.threads();
        let taken = |buffer: usize, view: &View<'_>| {
            of_buffer(buffer).filter(|order| view.shape().first() == Some(&order.rows.len())).map(|order| {
                let mut array = context.allocator.room(view.dtype(), view.shape())?;
                gather(pool, &mut array, view, |place| order.rows[place] as usize)?;
                Ok(array)
            })
        };
        let moved = |n: usize, arg: &Arg<'_>| match arg {
            Arg::Array(view) => taken(n, view).transpose(),
            _ => Ok(None),
        };
        let arrays: Vec<Option<Array>> =
            args.iter().enumerate().map(|(n, arg)| moved(n, arg)).collect::<Result<_>>()?;
        let mut inner: Vec<Arg<'_>> = args.to_vec();
        for (arg, array) in inner.iter_mut().zip(&arrays) {
            if let Some(array) = array {
                *arg = Arg::Array(array.view());
            }
        }
        let mut tangents: Vec<Vec<Option<Array>>> = vec![];
        for direction in request.directions {
            let each = direction.iter().enumerate();
            let each = each.map(|(n, u)| u.as_ref().and_then(|u| taken(n, u)).transpose());
            tangents.push(each.collect::<Result<_>>()?);
        }
        let directions: Vec<Vec<Option<View<'_>>>> = request
            .directions
            .iter()
            .zip(&tangents)
            .map(|(given, moved)| {
                let each = given.iter().zip(moved);
                each.map(|(u, moved)| moved.as_ref().map(Array::view).or_else(|| u.clone())).collect()
            })
            .collect();
        let directions: Vec<&Direction<'_>> = directions.iter().map(Vec::as_slice).collect();
        let outputs = self.args.len();
        let weights = request.cotangents.iter().enumerate().map(|(n, w)| match w {
            Some(Cotangent::Array(view)) => taken(outputs + n, view).transpose(),
            _ => Ok(None),
        });
        let weights = weights.collect::<Result<Vec<Option<Array>>>>()?;
        let mut cotangents = request.cotangents.to_vec();
        for (w, moved) in cotangents.iter_mut().zip(&weights) {
            if let Some(moved) = moved {
                *w = Some(Cotangent::Array(moved.view()));
            }
        }
        let inner_request = Request { directions: &directions, cotangents: &cotangents, ..request.clone() };
        // What is kept for the backward pass stays in this order.
        let kept = request.save.map_or(0, |by| self.kept(by).len());
        let mut results = self.results_of(request);
        results.truncate(results.len() - kept);
        let results: Vec<_> = results.iter().map(|(buffer, _)| of_buffer(*buffer)).collect();
        let inside = Inside { outer: context.allocator, results: &results };
        let within = Context { allocator: &inside, ..*context };
        let mut evaluated = self.evaluated_with_grid(&within, &inner, &inner_request, searching.make)?;
        let made_here = evaluated.values.iter_mut().chain(&mut evaluated.gradients);
        for (n, (array, order)) in made_here.zip(&results).enumerate() {
            put_back(context, n, array, *order)?;
        }
        let made = arrays.into_iter().chain(tangents.into_iter().flatten()).chain(weights);
        made.flatten().for_each(|array| context.allocator.recycle(array));
        Ok(Some(evaluated))
    }

    /// A call with the grid of its own points: on a device the list that is found there needs no order of rows.
    fn evaluated_with_grid(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
        make: MakeGrid,
    ) -> Result<Evaluated> {
        let grid = make(context, args)?;
        let mut all = args.to_vec();
        all.push(Arg::Grid(&*grid));
        let directions: Vec<_> = request.directions.iter().map(|given| [*given, &[None]].concat()).collect();
        let directions: Vec<&Direction<'_>> = directions.iter().map(Vec::as_slice).collect();
        self.evaluated_here(context, &all, &Request { directions: &directions, ..request.clone() })
    }

    /// The one batch over a dimension.
    fn batch_of<'a>(&self, args: &[Arg<'a>], dim: &str) -> Result<&'a Batch<'a>> {
        let found = self.args.iter().zip(args).find_map(|(spec, arg)| match (&spec.kind, arg) {
            (ArgKind::Batch { rows, .. }, Arg::Structure(batch)) if rows == dim => batch.as_batch(),
            _ => None,
        });
        found.ok_or_else(|| Error::argument(dim, "a batch over its rows", "none"))
    }

    /// The row of each place in space, from the places within systems.
    fn order(&self, args: &[Arg<'_>], dim: &str, arg: usize) -> Result<Order> {
        let (name, batch) = (&self.args[arg].name, self.batch_of(args, dim)?);
        let Arg::Array(view) = &args[arg] else {
            return Err(Error::argument(name, "an array of integers", "none"));
        };
        let rows = batch.rows_in_order(name, &view.to_i32(name)?)?;
        let mut places = filled(rows.len(), 0);
        rows.iter().zip(0..).for_each(|(row, place)| places[*row as usize] = place);
        Ok(Order { rows, places })
    }
}

/// Rows in another order, on their way in and back.
struct Order {
    /// Row of each place.
    rows: Vec<i32>,
    /// Place of each row.
    places: Vec<i32>,
}

/// Memory of a call in an order in space: what is to be brought back is no result of the caller's yet.
struct Inside<'a> {
    outer: &'a dyn Allocator,
    /// Order of each result that has one.
    results: &'a [Option<&'a Order>],
}

impl Allocator for Inside<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.room(dtype, shape)
    }

    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        if self.results.get(n).is_some_and(Option::is_some) {
            return Ok(None);
        }
        self.outer.result(n, dtype, shape)
    }

    fn recycle(&self, array: Array) {
        self.outer.recycle(array);
    }
}

/// Brings the rows of result `n` back, into the caller's memory where there is some.
fn put_back(context: &Context<'_>, n: usize, array: &mut Array, order: Option<&Order>) -> Result<()> {
    let Some(order) = order else { return Ok(()) };
    let (dtype, shape) = (array.dtype(), array.shape());
    let mut rows = match context.allocator.result(n, dtype, shape)? {
        Some(rows) => rows,
        None => context.allocator.room(dtype, shape)?,
    };
    gather(&context.threads(), &mut rows, &array.view(), |row| order.places[row] as usize)?;
    context.allocator.recycle(std::mem::replace(array, rows));
    Ok(())
}

/// Rows of `from`, each where `of` says.
fn gather(
    pool: &dyn Pool,
    into: &mut Array,
    from: &View<'_>,
    of: impl Fn(usize) -> usize + Sync,
) -> Result<()> {
    let rows = from.shape().first().copied().unwrap_or(0);
    let width = from.len() / rows.max(1);
    let step = (ELEMENTS / width.max(1)).max(1);
    let ends: Vec<usize> = (1..=rows.div_ceil(step)).map(|t| rows.min(t * step) * width).collect();
    macro_rules! gathered {
        ($($kind:ident),*) => {
            match (into, from.data()) {
                $((Array::$kind(into), Data::$kind(from)) => split_tasks(pool, into, &ends, |t, part| {
                    for (row, to) in (t * step..).zip(part.chunks_exact_mut(width.max(1))) {
                        let at = of(row) * width;
                        to.copy_from_slice(&from[at..at + width]);
                    }
                }),)*
                _ => return Err(from.place().elsewhere("array")),
            }
        };
    }
    gathered!(F16, BF16, F32, F64, I32, I64);
    Ok(())
}
