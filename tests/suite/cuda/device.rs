//! Calls on a device, of arguments that lie on the host: everything goes there, and results come back.

use super::streams;
use madelung::Result;
use madelung::array::{Array, Data, View};
use madelung::backend::Context;
use madelung::cuda::{Cuda, Device, Memory, Stream};
use madelung::device::{DeviceBatch, DeviceMap, DevicePairs};
use madelung::op::Structure;
use madelung::op::{Arg, Cotangent, Evaluated, Op, Request};
use madelung_core::runtime::SlotArray;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device with memory for one stream.
pub(crate) struct Gpu {
    cuda: Cuda,
    pub(crate) memory: Memory,
    /// A device has one record of errors, and what the stand-ins are told is for both devices: tests take turns.
    _turn: Vec<MutexGuard<'static, ()>>,
}

/// An argument there. Those that own their arrays keep them alive.
enum Sent<'a> {
    Same(Arg<'a>),
    Array(Array),
    Batch([Array; 2]),
    Pairs(Box<List>),
    Map(Array, usize),
}

struct List {
    /// Beginnings and ends of rows, (2, N).
    ranges: Array,
    others: Array,
    shifts: Array,
    columns: usize,
    kind: madelung::pairs::Kind,
}

impl Gpu {
    /// On the default stream of the first device, alone with all of them.
    pub(crate) fn alone() -> Self {
        Self::with(0, &[0, 1])
    }

    /// On the default stream of a device, alone with it.
    pub(crate) fn of(ordinal: usize) -> Self {
        Self::with(ordinal, &[ordinal])
    }

    /// On that of the second device, where there are two: the tests of one need not wait for those of the other.
    pub(crate) fn last() -> Self {
        madelung_stand_in::install();
        Self::of(usize::from(Device::count().expect("a driver") > 1))
    }

    fn with(ordinal: usize, turns: &[usize]) -> Self {
        static TURNS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
        madelung_stand_in::install();
        // A test that failed does not concern the others.
        let turn = turns.iter().map(|n| TURNS[*n].lock().unwrap_or_else(PoisonError::into_inner)).collect();
        Self { _turn: turn, ..Self::on(streams::default(Device::get(ordinal).expect("a device"))) }
    }

    /// On a stream, as part of a test that has its turn.
    pub(crate) fn on(stream: Stream) -> Self {
        Self { cuda: Cuda::new(stream), memory: Memory::new(stream), _turn: vec![] }
    }

    /// With records of what is gathered at so many partners or more.
    pub(crate) fn with_records_from(self, columns: usize) -> Self {
        Self { cuda: self.cuda.with_records_from(columns), ..self }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { backend: &self.cuda, allocator: &self.memory, ..madelung::cpu::context() }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.cuda.stream()
    }

    pub(crate) fn device(&self) -> &'static Device {
        self.cuda.device()
    }

    fn send(&self, view: &View<'_>) -> Result<Array> {
        self.memory.upload(view)
    }

    fn send_arg<'a>(&self, arg: &Arg<'a>) -> Result<Sent<'a>> {
        Ok(match arg {
            Arg::Array(view) => Sent::Array(self.send(view)?),
            Arg::Structure(structure) => match (structure.as_batch(), structure.as_pairs()) {
                (Some(b), _) => Sent::Batch([self.send(&b.idx().into())?, self.send(&b.ptr().into())?]),
                (None, Some(list)) => {
                    let shifts = match list.array(SlotArray::PackedShift)? {
                        Some(packed) => self.send(&packed)?,
                        None => self.send(&(&*list.shifts()).into())?,
                    };
                    let ranges = [list.starts(), list.ends()].concat();
                    Sent::Pairs(Box::new(List {
                        ranges: self.send(&View::new(Data::I64(&ranges), &[2, list.rows()])?)?,
                        others: self.send(&list.others().into())?,
                        shifts,
                        columns: list.columns(),
                        kind: list.kind(),
                    }))
                }
                (None, None) => match (structure.array(SlotArray::MapOf)?, structure.sizes()[1]) {
                    (Some(of), Some(into)) => Sent::Map(self.send(&of)?, into),
                    _ => Sent::Same(arg.clone()),
                },
            },
            same => Sent::Same(same.clone()),
        })
    }

    /// A member of an op there: what it gives is read back, and then what it raised.
    pub(crate) fn evaluate(&self, op: &Op, args: &[Arg<'_>], request: &Request<'_, '_>) -> Result<Evaluated> {
        let sent = args.iter().map(|arg| self.send_arg(arg)).collect::<Result<Vec<_>>>()?;
        let mut batches = vec![];
        let (mut pairs, mut maps) = (vec![], vec![]);
        for sent in &sent {
            match sent {
                Sent::Batch([idx, ptr]) => batches.push(DeviceBatch::new(idx.view(), ptr.view())?),
                Sent::Pairs(l) => {
                    let [ranges, others, shifts] = [&l.ranges, &l.others, &l.shifts].map(Array::view);
                    pairs.push(DevicePairs::from_ranges(ranges, others, shifts, l.columns, l.kind)?);
                }
                Sent::Map(of, into) => maps.push(DeviceMap::new(of.view(), *into)?),
                Sent::Same(_) | Sent::Array(_) => {}
            }
        }
        let (mut batches, mut pairs, mut maps) = (batches.iter(), pairs.iter(), maps.iter());
        let there: Vec<Arg<'_>> = sent
            .iter()
            .map(|sent| match sent {
                Sent::Same(arg) => arg.clone(),
                Sent::Array(array) => Arg::Array(array.view()),
                Sent::Batch(_) => Arg::Structure(batches.next().expect("made above")),
                Sent::Pairs(_) => Arg::Structure(pairs.next().expect("made above")),
                Sent::Map(..) => Arg::Structure(maps.next().expect("made above")),
            })
            .collect();
        let send_all = |views: &[Option<View<'_>>]| -> Result<Vec<Option<Array>>> {
            views.iter().map(|v| v.as_ref().map(|v| self.send(v)).transpose()).collect()
        };
        let directions =
            request.directions.iter().map(|views| send_all(views)).collect::<Result<Vec<_>>>()?;
        let views: Vec<Vec<Option<View<'_>>>> =
            directions.iter().map(|d| d.iter().map(|a| a.as_ref().map(Array::view)).collect()).collect();
        let directions: Vec<&[Option<View<'_>>]> = views.iter().map(Vec::as_slice).collect();
        let weights = request
            .cotangents
            .iter()
            .map(|c| match c {
                Some(Cotangent::Array(view)) => self.send(view).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        let cotangents: Vec<Option<Cotangent<'_>>> = request
            .cotangents
            .iter()
            .zip(&weights)
            .map(|(c, sent)| match (c, sent) {
                (_, Some(array)) => Some(Cotangent::Array(array.view())),
                (Some(Cotangent::Uniform(x)), None) => Some(Cotangent::Uniform(*x)),
                _ => None,
            })
            .collect();
        let request = Request {
            values: request.values,
            directions: &directions,
            cotangents: &cotangents,
            gradients: request.gradients,
            save: request.save,
            saved: &[],
        };
        let done = op.evaluate(&self.context(), &there, &request)?;
        let stream = self.cuda.stream();
        let read =
            |arrays: &[Array]| arrays.iter().map(|a| stream.read(&a.view())).collect::<Result<Vec<_>>>();
        let read_saved = |a: &Option<Array>| a.as_ref().map(|a| stream.read(&a.view())).transpose();
        let read = Evaluated {
            values: read(&done.values)?,
            gradients: read(&done.gradients)?,
            saved: done.saved.iter().map(read_saved).collect::<Result<_>>()?,
        };
        madelung::cuda::check(self.cuda.device())?;
        Ok(read)
    }
}
