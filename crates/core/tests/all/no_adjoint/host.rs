//! The CUDA text through the host's C++ compiler, as a backend.
#![expect(
    unsafe_code,
    reason = "what the C++ compiler made is called here, with pointers as a GPU would get them"
)]

use libloading::Library;
use madelung_core::Result;
use madelung_core::array::DType;
use madelung_core::backend::{Bound, Launch};
use madelung_core::runtime::{LaunchAbi, PRELUDE, SlotArray};
use madelung_stand_in::{HOST, Order, compiled};
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::sync::OnceLock;

type Function = unsafe extern "C" fn(*const LaunchAbi, i64, i32, u64) -> *const c_char;

/// The last block reaches beyond the rows.
const LAUNCH: &str = "
template <class Kernel>
static const char* launch(Kernel kernel, const Launch* a, long long rows, int order, unsigned long long seed) {
  const unsigned threads = 32, blocks = unsigned((rows + threads - 1) / threads);
  return stand_in::launch(blocks, threads, {stand_in::Order::Kind(order), seed}, [&] { kernel(*a, 0, rows, nullptr); });
}
";

pub(crate) struct Host {
    dtype: DType,
    library: &'static Library,
    order: Order,
}

impl Host {
    pub(crate) fn new(dtype: DType, order: Order) -> Self {
        static LIBRARIES: [OnceLock<Library>; 2] = [const { OnceLock::new() }; 2];
        let library = LIBRARIES[usize::from(dtype == DType::F32)].get_or_init(|| compile(dtype));
        Self { dtype, library, order }
    }
}

fn compile(dtype: DType) -> Library {
    let real = if dtype == DType::F32 { "float" } else { "double" };
    let mut text = format!("{HOST}#define REAL {real}\n{PRELUDE}{LAUNCH}");
    for kernel in super::kernels::all() {
        let cuda = kernel.forms[0].parts[0].cuda;
        let name = cuda.name;
        writeln!(
            text,
            "{}\nextern \"C\" const char* host_{name}(const Launch* a, long long rows, int order, unsigned long long seed) \
             {{ return launch({name}, a, rows, order, seed); }}",
            cuda.text
        )
        .expect("a string");
    }
    compiled(&text)
}

madelung_stand_in::launches_by!(Host, |host, _context, args| host.launch(args));

impl Host {
    fn launch(&self, launch: &mut Launch<'_>) -> Result<()> {
        assert_eq!(launch.dtype, self.dtype);
        let mut bound = launch.abi();
        for (n, slot) in launch.part.slots.iter().enumerate() {
            let param = slot.param;
            bound.pointers[n] = match slot.array {
                SlotArray::Values(role) => match launch.output(param, role) {
                    Some(mut output) => output.pointer_mut(),
                    None => match launch.array(param, role) {
                        Some(Bound::Input(view)) => view.data().pointer().cast_mut(),
                        _ => panic!("every array is wanted here"),
                    },
                },
                array => {
                    let integers = launch.integers(param, array);
                    integers.map_or(std::ptr::null_mut(), |view| view.data().pointer().cast_mut())
                }
            };
        }
        let (order, seed) = self.order.as_cxx();
        // SAFETY: `compile` gives this function this signature, and the launch was checked; what it answers is null or a
        // text with its zero, until this thread launches again.
        let failed = unsafe {
            let name = format!("host_{}", launch.part.cuda.name);
            let function = self.library.get::<Function>(&name).expect("one function per kernel");
            let failed = function(&bound, launch.rows() as i64, order, seed);
            (!failed.is_null()).then(|| CStr::from_ptr(failed))
        };
        assert_eq!(failed, None);
        Ok(())
    }
}
