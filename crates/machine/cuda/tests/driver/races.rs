//! The stand-in's race detector, on kernels with and without races.

use crate::device;
use crate::support::{Raw, apart, launch};
use madelung_cuda::{Memory, Program};
use madelung_stand_in::message;

const TEXT: &str = r#"
#define KERNEL extern "C" __global__ void
KERNEL blocks(int* x) { x[threadIdx.x] = blockIdx.x; }
KERNEL reads(int* x) {
  if (blockIdx.x > 0) x[64 + threadIdx.x] = x[threadIdx.x];
  else if (threadIdx.x == 63) x[0] = 1;
}
KERNEL warps(int* x) {
  x[threadIdx.x] = 1;
  x[64 + threadIdx.x] = x[threadIdx.x ^ 32];
}
KERNEL lanes(int* x) {
  x[threadIdx.x] = 1;
  x[64 + threadIdx.x] = x[threadIdx.x ^ 1];
}
KERNEL ordered(int* x) {
  atomicAdd(x + 128, *(volatile int*)(x + 128));
  int* own = x + 256 * blockIdx.x;
  own[threadIdx.x] = 1;
  __syncwarp();
  own[64 + threadIdx.x] = own[threadIdx.x ^ 1];
  __syncthreads();
  own[threadIdx.x ^ 32] += own[64 + (threadIdx.x ^ 32)];
}
"#;

/// The result of a launch of two blocks with two warps each.
fn launched(name: &str) -> Result<(), String> {
    let (device, program) =
        (device(0), Program { name: "races.cu", text: TEXT.into(), defines: &[], contracts: true });
    let stream = Raw::new().stream(device);
    let x = Memory::new(stream).allocate(4 * 512).expect("memory");
    launch(stream, device.function(&program, name).expect("a function"), x.address());
    stream.synchronize().map_err(|_| message())
}

/// Launches are good one after the other, and each once more.
#[test]
fn what_is_ordered_is_no_race() {
    if apart("races::what_is_ordered_is_no_race", &[("STAND_IN_RACES", "1")]) {
        assert_eq!(launched("ordered"), Ok(()));
        assert_eq!(launched("ordered"), Ok(()));
    }
}

#[test]
fn nobody_looks_unasked() {
    if apart("races::nobody_looks_unasked", &[]) {
        assert_eq!(launched("blocks"), Ok(()));
    }
}

macro_rules! found {
    ($($name:ident: $said:literal;)*) => {
        $(#[test]
        fn $name() {
            if apart(concat!("races::", stringify!($name)), &[("STAND_IN_RACES", "1")]) {
                let said = launched(stringify!($name)).expect_err("a race");
                assert!(said.starts_with(concat!(stringify!($name), ": thread")) && said.contains($said), "{said}");
            }
        })*
    };
}

found! {
    blocks: "of block 1 writes what thread 0 of block 0 writes";
    reads: "of block 1 reads what thread 63 of block 0 writes";
    warps: "thread 32 of block 0 writes what thread 0 of block 0 reads";
    lanes: "thread 1 of block 0 writes what thread 0 of block 0 reads";
}
