//! The CUDA driver layer on the stand-in libraries: present and missing libraries, and state that belongs to the
//! caller.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "addresses and streams are handed over here")]

mod caches;
mod races;
mod support;

use madelung_core::Error;
use madelung_cuda::cufft::{Plan, Transform};
use madelung_cuda::{Capture, Device, Graph, Memory, Program, Stream};
use madelung_stand_in::{Order, UNASKED, calls, folder, install, message, set_memory, set_order};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use support::{Raw, add, apart, download, function, program, start, sum, upload};

fn device(ordinal: usize) -> &'static Device {
    install();
    Device::get(ordinal).expect("a device of the stand-in")
}

#[test]
fn without_a_driver() {
    if !apart("without_a_driver", &[]) {
        return;
    }
    // A machine may have a real one.
    if let Err(e) = Device::count() {
        assert!(matches!(e, Error::Unsupported(_)), "{e}");
        assert!(e.to_string().contains("no NVIDIA driver"), "{e}");
    }
    // Once there is one, it is found.
    assert_eq!(device(1).ordinal(), 1);
}

#[test]
fn without_nvrtc() {
    let lone = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(folder().join("libcuda.so"), lone.path().join("libcuda.so")).expect("a link");
    if !apart("without_nvrtc", &[("LD_LIBRARY_PATH", &lone.path().to_string_lossy())]) {
        return;
    }
    let device = Device::get(0).expect("a device of the stand-in");
    if let Err(e) = device.function(&program(), "add") {
        for part in ["libnvrtc.so.12", "libnvrtc.so.13", "pip install nvidia-cuda-nvrtc-cu12"] {
            assert!(e.to_string().contains(part), "{e}");
        }
    }
    madelung_cuda::set_library_folders(vec![folder().to_path_buf()]);
    device.function(&program(), "add").expect("NVRTC, from the folder that was given");
}

#[test]
fn a_text_that_is_refused() {
    if !apart("a_text_that_is_refused", &[]) {
        return;
    }
    let text = "extern \"C\" __global__ void k(float* x) { x[0] = undeclared; }";
    let refused = device(0)
        .function(&Program { name: "bad.cu", text: text.into(), defines: &[], contracts: true }, "k");
    let said = refused.expect_err("an error").to_string();
    assert!(said.contains("bad.cu") && said.contains("undeclared"), "{said}");
    let missing = device(0).function(&program(), "nothing").expect_err("an error").to_string();
    assert!(missing.contains("`nothing`") && missing.contains("CUDA_ERROR_NOT_FOUND"), "{missing}");
    let zero =
        device(0).function(&Program { name: "k", text: "a\0b".into(), defines: &[], contracts: true }, "k");
    assert!(matches!(zero, Err(Error::Argument { argument, .. }) if argument == "text"));
    let none = Device::get(7).expect_err("an error").to_string();
    assert!(none.contains("`ordinal`") && none.contains('7'), "{none}");
}

#[test]
fn an_architecture_too_old() {
    if !apart("an_architecture_too_old", &[("STAND_IN_CAPABILITY", "70")]) {
        return;
    }
    assert_eq!(device(0).architecture(), (7, 0));
    let said = device(0).function(&program(), "add").expect_err("an error").to_string();
    assert!(said.contains("sm_70") && said.contains("NVRTC 12.8") && said.contains("pip install"), "{said}");
}

/// The driver finishes what an older compiler makes.
#[test]
fn an_architecture_too_new() {
    if !apart("an_architecture_too_new", &[("STAND_IN_CAPABILITY", "103"), ("STAND_IN_NVRTC_HIGHEST", "90")])
    {
        return;
    }
    runs(device(0));
}

/// NVIDIA's own compiler, where Python has it. The stand-in driver cannot load its output, and says so.
#[test]
fn the_real_nvrtc() {
    let ask = "import nvidia.cuda_nvrtc as found; print(next(iter(found.__path__)), end='/lib')";
    let asked = Command::new("python3").args(["-c", ask]).output();
    let Some(found) = asked.ok().filter(|asked| asked.status.success()) else { return };
    let found = String::from_utf8(found.stdout).expect("a path");
    let lone = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(folder().join("libcuda.so"), lone.path().join("libcuda.so")).expect("a link");
    let environment = [("LD_LIBRARY_PATH", &*lone.path().to_string_lossy()), ("MADELUNG_TEST_NVRTC", &found)];
    if !apart("the_real_nvrtc", &environment) {
        return;
    }
    let given = std::env::var_os("MADELUNG_TEST_NVRTC").expect("a folder");
    madelung_cuda::set_library_folders(vec![given.into()]);
    let device = Device::get(0).expect("a device of the stand-in");
    let said = device.function(&program(), "add").expect_err("what no stand-in loads").to_string();
    assert!(said.contains("CUDA_ERROR_INVALID_IMAGE") && said.contains("as NVRTC"), "{said}");
    let bad = Program {
        name: "bad.cu",
        text: "__global__ void k() { undeclared; }".into(),
        defines: &[],
        contracts: true,
    };
    let said = device.function(&bad, "k").expect_err("an error").to_string();
    assert!(said.contains("bad.cu(1): error: identifier \"undeclared\" is undefined"), "{said}");
}

/// A missing copy from the device fails in tests, as it would with a GPU.
#[test]
fn the_host_reads_no_device_memory() {
    if std::env::var_os("MADELUNG_TEST_APART").is_none() {
        let cache = tempfile::tempdir().expect("a temporary folder");
        let done = start("the_host_reads_no_device_memory", cache.path(), &[]).wait().expect("a process");
        assert_eq!(done.signal(), Some(libc::SIGSEGV));
        return;
    }
    let device = device(0);
    let x = Memory::new(Raw::new().stream(device)).allocate(8).expect("memory");
    // SAFETY: none: this has to end the process.
    let read = unsafe { (x.address() as *const f64).read_volatile() };
    println!("{read}");
}

/// Adds one to three numbers.
fn runs(device: &'static Device) {
    let stream = Raw::new().stream(device);
    let x = Memory::new(stream).allocate(24).expect("memory");
    upload(stream, x.address(), &[1.0, 2.0, 3.0]);
    add(stream, function(device, "add"), x.address(), 3, 0.5).expect("a launch");
    assert_eq!(download(stream, x.address(), 3), [1.5, 2.5, 3.5]);
}

#[test]
fn what_is_the_callers_stays_so() {
    if !apart("what_is_the_callers_stays_so", &[]) {
        return;
    }
    let (device, raw) = (device(0), Raw::new());
    let stream = raw.stream(device);
    let memory = Memory::new(stream);
    let x = memory.allocate(8 * 1000).expect("memory");
    let out = memory.allocate(8).expect("memory");
    upload(stream, x.address(), &[0.25; 1000]);
    let (plus, total) = (function(device, "add"), function(device, "sum"));
    let before = UNASKED.map(calls);
    // SAFETY: the stream lives as long as the process.
    let borrowed = unsafe { device.stream(stream.as_raw()) }.expect("a stream of this device");
    for _ in 0..3 {
        add(borrowed, plus, x.address(), 1000, 0.25).expect("a launch");
    }
    sum(borrowed, total, x.address(), out.address(), 1000).expect("a launch");
    // SAFETY: the block is large enough.
    unsafe {
        borrowed.copy(x.address(), out.address(), 8).expect("a copy");
        borrowed.zero(x.address() + 8, 8).expect("zeros");
    }
    device.check_pointer("x", x.address(), 8000).expect("memory of this device");
    assert_eq!(UNASKED.map(calls), before, "{UNASKED:?}");
    assert_eq!(download(stream, x.address(), 3), [1000.0, 0.0, 1.0]);
}

#[test]
fn graphs_are_replayed() {
    if !apart("graphs_are_replayed", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let memory = Memory::new(stream);
    let numbers: Vec<f64> = (0..500).map(|n| f64::from(n).sin()).collect();
    let (plus, total) = (function(device, "add"), function(device, "sum"));
    let work = |stream: Stream| {
        let x = memory.allocate(4000)?;
        let out = memory.allocate(8)?;
        // SAFETY: both blocks are large enough.
        unsafe { stream.copy(out.address(), x.address(), 8)? };
        add(stream, plus, x.address(), 500, 0.1)?;
        add(stream, plus, x.address(), 500, 0.7)?;
        sum(stream, total, x.address(), out.address(), 500)
    };
    // The memory of a stream: freed blocks are reused, in the order in which they were given back.
    let (x, out) = (memory.allocate(4000).expect("memory"), memory.allocate(8).expect("memory"));
    let (x_at, out_at) = (x.address(), out.address());
    drop((x, out));
    let mut results = vec![];
    let mut once = |run: &dyn Fn()| {
        upload(stream, x_at, &numbers);
        run();
        results.push((download(stream, x_at, 500), download(stream, out_at, 1)));
    };
    once(&|| work(stream).expect("launches"));
    let before = UNASKED.map(calls);
    let graph = Graph::capture(stream, work).expect("a graph");
    assert_eq!(UNASKED.map(calls), before, "{UNASKED:?}");
    for order in [Order::Forwards, Order::Backwards, Order::Shuffled(5)] {
        set_order(order);
        // SAFETY: the blocks are still there.
        once(&|| unsafe { graph.replay() }.expect("a replay"));
    }
    assert!(results.iter().all(|result| *result == results[0]));
    let expected: f64 = numbers.iter().map(|x| x + 0.8).sum();
    assert!((results[0].1[0] - expected).abs() < 1e-12 * 500.0);
    // An operation that no graph can hold is an error, and ends the capture.
    let refused = Graph::capture(stream, |stream| stream.synchronize()).expect_err("an error");
    assert!(refused.to_string().contains("captures"), "{refused}");
    let refused = Graph::capture(stream, |_| memory.allocate(1 << 20).map(drop)).expect_err("an error");
    assert!(refused.to_string().contains("captures"), "{refused}");
    assert!(!stream.is_capturing().expect("an answer"));
    // SAFETY: 0 is the default stream.
    let default = unsafe { device.stream(0) }.expect("the default stream");
    assert!(matches!(Graph::capture(default, |_| Ok(())), Err(Error::Argument { .. })));
}

/// A program may be compiled while a stream captures.
#[test]
fn programs_are_loaded_during_a_capture() {
    if !apart("programs_are_loaded_during_a_capture", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let x = Memory::new(stream).allocate(24).expect("memory");
    upload(stream, x.address(), &[1.0, 2.0, 3.0]);
    let captured = Graph::capture(stream, |stream| add(stream, function(device, "add"), x.address(), 3, 1.0));
    let graph = captured.expect("a graph");
    assert_eq!(download(stream, x.address(), 3), [1.0, 2.0, 3.0], "what is captured does not run");
    // SAFETY: the block is still there.
    unsafe { graph.replay() }.expect("a replay");
    assert_eq!(download(stream, x.address(), 3), [2.0, 3.0, 4.0]);
}

/// Memory of a capture is allocated meanwhile, and goes to nobody else.
#[test]
fn a_capture_has_memory_of_its_own() {
    if !apart("a_capture_has_memory_of_its_own", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let (add_to, total) = (function(device, "add"), function(device, "sum"));
    let (memory, own) = (Memory::new(stream), Memory::of_capture(stream));
    let out = memory.allocate(8).expect("memory");
    let capture = Capture::begin(stream).expect("a capture");
    let between = own.allocate(4000).expect("memory of the capture");
    let at = between.address();
    // SAFETY: the block has as many bytes.
    unsafe { stream.zero(at, 4000) }.expect("zeros");
    add(stream, add_to, at, 500, 2.0).expect("a launch");
    sum(stream, total, at, out.address(), 500).expect("a launch");
    drop(between);
    let graph = capture.end().expect("a graph");
    assert!(!own.release().expect("nothing is given back"));
    let others: Vec<_> = (0..4).map(|_| memory.allocate(4000).expect("memory")).collect();
    assert!(others.iter().all(|block| block.address() != at));
    let other = Raw::new().stream(device);
    for on in [stream, other] {
        upload(on, out.address(), &[0.0]);
        // SAFETY: `out` and `own` are still there.
        unsafe { graph.replay_on(on) }.expect("a replay");
        assert_eq!(download(on, out.address(), 1), [1000.0]);
    }
    // A capture that is given up ends.
    drop(Capture::begin(stream).expect("a capture"));
    assert!(!stream.is_capturing().expect("an answer"));
}

/// A capture may end in another thread than it began in, and makes a graph only where somebody wants one.
#[test]
fn captures_end_in_any_thread() {
    if !apart("captures_end_in_any_thread", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let x = Memory::new(stream).allocate(24).expect("memory");
    upload(stream, x.address(), &[1.0, 2.0, 3.0]);
    assert_eq!(stream.capture().expect("an answer"), None);
    let capture = Capture::begin(stream).expect("a capture");
    let first = stream.capture().expect("an answer");
    add(stream, function(device, "add"), x.address(), 3, 1.0).expect("a launch");
    let graph = std::thread::spawn(|| capture.end()).join().expect("a thread").expect("a graph");
    // SAFETY: the block is still there.
    unsafe { graph.replay() }.expect("a replay");
    assert_eq!(download(stream, x.address(), 3), [2.0, 3.0, 4.0]);
    let before = ["cuGraphInstantiateWithFlags", "cuGraphDestroy"].map(calls);
    let capture = Capture::begin(stream).expect("a capture");
    let second = stream.capture().expect("an answer");
    assert!(first.is_some() && second.is_some() && first != second);
    std::thread::spawn(|| drop(capture)).join().expect("a thread");
    assert!(Graph::capture(stream, |stream| stream.synchronize()).is_err());
    let after = ["cuGraphInstantiateWithFlags", "cuGraphDestroy"].map(calls);
    assert_eq!(after, [before[0], before[1] + 2], "they are destroyed, and never made");
    assert!(!stream.is_capturing().expect("an answer"));
}

/// A capture that another library has broken is no stream that captures nothing.
#[test]
fn broken_captures_are_errors() {
    if !apart("broken_captures_are_errors", &[]) {
        return;
    }
    let device = device(0);
    let driver = Raw::new();
    let stream = driver.stream(device);
    let capture = Capture::begin(stream).expect("a capture");
    driver.set_current(0);
    assert_ne!(driver.wait(stream), 0, "none may wait");
    let error = stream.capture().expect_err("it is broken");
    assert!(error.to_string().contains("the stream's capture was broken"), "{error}");
    drop(capture);
    assert_eq!(stream.capture().expect("an answer"), None);
}

/// The end of a graph is told once, when nothing has it any more, by a thread of the driver.
#[test]
fn a_graph_says_when_it_is_over() {
    if !apart("a_graph_says_when_it_is_over", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let (say, over) = std::sync::mpsc::channel();
    let tie = |name| {
        let say = say.clone();
        stream.when_graph_is_over(move || say.send((name, std::thread::current().id())).expect("a receiver"))
    };
    let refused = tie("none").expect_err("an error");
    assert!(refused.to_string().contains("`stream`: expected one that captures"), "{refused}");
    let capture = Capture::begin(stream).expect("a capture");
    tie("kept").expect("a tie");
    let graph = capture.end().expect("a graph");
    // The graph from which that one was made is gone.
    assert!(over.try_recv().is_err());
    drop(graph);
    let (name, thread) = over.try_recv().expect("a word");
    assert!(name == "kept" && thread != std::thread::current().id());
    let capture = Capture::begin(stream).expect("a capture");
    tie("abandoned").expect("a tie");
    drop(capture);
    assert_eq!(over.try_recv().map(|(name, _)| name), Ok("abandoned"));
    assert!(over.try_recv().is_err());
}

#[test]
fn pointers_of_others() {
    if !apart("pointers_of_others", &[]) {
        return;
    }
    let (first, second) = (device(0), device(1));
    let raw = Raw::new();
    let memory = [first, second].map(|device| Memory::new(raw.stream(device)));
    let [ours, theirs] = [&memory[0], &memory[1]].map(|memory| memory.allocate(100).expect("memory"));
    first.check_pointer("x", ours.address(), 100).expect("memory of this device");
    first.check_pointer("x", ours.address() + 99, 1).expect("memory of this device");
    first.check_pointer("x", 0, 0).expect("nothing is needed of nothing");
    let host = [0.0; 4];
    let says = |address: u64, part: &str| {
        let e = first.check_pointer("x", address, 8).expect_err("an error");
        let said = e.to_string();
        assert!(said.starts_with("`x`: expected memory of device 0") && said.contains(part), "{said}");
    };
    let lies = |address: u64| Device::of_pointer("x", address).map(Device::ordinal);
    assert_eq!((lies(ours.address()), lies(theirs.address() + 99)), (Ok(0), Ok(1)));
    for address in [host.as_ptr() as u64, 0] {
        let e = lies(address).expect_err("an error").to_string();
        assert!(
            e.starts_with("`x`: expected memory of a device, got an address of the host's memory"),
            "{e}"
        );
    }
    says(theirs.address(), "device 1");
    says(host.as_ptr() as u64, "host");
    says(0, "host");
    let freed = ours.address();
    drop(ours);
    assert!(memory[0].release().expect("memory is given back"));
    says(freed, "given back");
    // SAFETY: the stand-in refuses what is not the device's.
    let copied = unsafe { memory[0].stream().copy(freed, freed, 8) };
    assert!(copied.expect_err("an error").to_string().contains("CUDA_ERROR_INVALID_VALUE"));
}

#[test]
fn streams_of_others() {
    if !apart("streams_of_others", &[]) {
        return;
    }
    let (first, second) = (device(0), device(1));
    let raw = Raw::new();
    let theirs = raw.stream(second);
    // SAFETY: it is a stream.
    let e = unsafe { first.stream(theirs.as_raw()) }.expect_err("an error").to_string();
    assert!(e.starts_with("`stream`: expected a stream of device 0"), "{e}");
    // SAFETY: they are streams.
    let of =
        [first, second].map(|device| unsafe { Stream::of(raw.stream(device).as_raw()) }.expect("a stream"));
    assert_eq!(of.map(|stream| stream.device().ordinal()), [0, 1]);
    let inside = [first, second].map(|device| device.within(|| raw.current()).expect("its context"));
    assert!(inside[0] != 0 && inside[1] != 0 && inside[0] != inside[1]);
    assert_eq!(raw.current(), 0, "no context is left current");
    for special in 0..3 {
        // SAFETY: these are the default streams.
        unsafe { first.stream(special) }.expect("a stream of this device");
        // SAFETY: as above.
        let e = unsafe { Stream::of(special) }.expect_err("an error").to_string();
        assert!(e.starts_with("`stream`: expected a stream that belongs"), "{e}");
    }
    let e = add(theirs, function(first, "add"), 0, 1, 0.0).expect_err("an error").to_string();
    assert!(e.starts_with("`function`"), "{e}");
    // Devices run side by side, each with a module of its own.
    runs(first);
    runs(second);
}

#[test]
fn streams_wait_for_each_other() {
    if !apart("streams_wait_for_each_other", &[]) {
        return;
    }
    let (device, other, raw) = (device(0), device(1), Raw::new());
    let [first, second, third] = [(); 3].map(|()| raw.stream(device));
    let elsewhere = raw.stream(other);
    let x = Memory::new(first).allocate(24).expect("memory");
    upload(first, x.address(), &[1.0, 2.0, 3.0]);
    let plus = function(device, "add");
    let work = || add(first, plus, x.address(), 3, 0.5).expect("a launch");
    // The stand-in runs work only when it is waited for, and each of these streams is read alone.
    work();
    assert_eq!(download(third, x.address(), 3), [1.0, 2.0, 3.0]);
    let waited = calls("cuStreamSynchronize");
    second.wait_for(first).expect("a wait");
    // Later work is not waited for.
    work();
    assert_eq!(calls("cuStreamSynchronize"), waited, "the host does not wait");
    assert_eq!(download(second, x.address(), 3), [1.5, 2.5, 3.5]);
    elsewhere.wait_for(first).expect("a wait");
    assert_eq!(download(third, x.address(), 3), [1.5, 2.5, 3.5]);
    elsewhere.synchronize().expect("the end");
    assert_eq!(download(third, x.address(), 3), [2.0, 3.0, 4.0]);
    assert_eq!(calls("cuEventCreate"), calls("cuEventDestroy_v2"));
    assert_eq!(raw.current(), 0, "no context is left current");
    let streams = [first, second, third, elsewhere];
    let mut ids = streams.map(|stream| stream.id().expect("a number"));
    // SAFETY: it is the same stream.
    assert_eq!(unsafe { device.stream(first.as_raw()) }.expect("a stream").id(), Ok(ids[0]));
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn memory_runs_out() {
    if !apart("memory_runs_out", &[]) {
        return;
    }
    let device = device(0);
    set_memory(1 << 20);
    let memory = Memory::new(Raw::new().stream(device));
    let e = memory.allocate(2 << 20).expect_err("an error").to_string();
    assert_eq!(e, "out of memory: 2.1 MB are needed, 1.0 MB are left");
    // Freed memory is reused before an allocation fails.
    drop(memory.allocate(700_000).expect("memory"));
    let last = memory.allocate(900_000).expect("memory");
    assert_eq!((last.bytes(), last.address() % 256), (900_000, 0));
    assert_eq!(memory.allocate(0).expect("nothing").address(), 0);
    let count = calls("cuMemAlloc_v2");
    drop(last);
    let again = memory.allocate(850_000).expect("memory");
    assert_eq!(calls("cuMemAlloc_v2"), count, "what is given back is handed out again");
    drop((again, memory));
    let (free, total) = device.memory().expect("an answer");
    assert_eq!(free, total, "everything is given back in the end");
}

#[test]
fn the_current_context_stays() {
    if !apart("the_current_context_stays", &[]) {
        return;
    }
    let (first, raw) = (device(0), Raw::new());
    assert_eq!(raw.current(), 0);
    runs(first);
    assert_eq!(raw.current(), 0, "none was current");
    let other = raw.set_current(1);
    runs(first);
    assert!(Graph::capture(raw.stream(first), |stream| stream.synchronize()).is_err());
    assert_eq!(raw.current(), other);
}

#[test]
fn a_context_is_lost() {
    if !apart("a_context_is_lost", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let x = Memory::new(stream).allocate(8).expect("memory");
    let address = x.address();
    // SAFETY: this is the parameter of `hang`.
    unsafe { stream.launch(function(device, "hang"), [1; 3], [64, 1, 1], &[(&raw const address).cast()]) }
        .expect("a launch, of which nothing is known yet");
    for _ in 0..2 {
        let said = stream.synchronize().expect_err("an error").to_string();
        assert!(said.contains("CUDA_ERROR_LAUNCH_FAILED") && said.contains("context is lost"), "{said}");
    }
    assert!(message().contains("__syncthreads"), "{}", message());
}

#[test]
fn transforms() {
    if !apart("transforms", &[]) {
        return;
    }
    let device = device(0);
    let stream = Raw::new().stream(device);
    let memory = Memory::new(stream);
    let (shape, batch) = ([2, 3, 4], 2);
    let [there, back] =
        [Transform::D2Z, Transform::Z2D].map(|t| Plan::new(device, t, shape, batch).expect("a plan"));
    let reals = memory.allocate(8 * 48).expect("memory");
    let waves = memory.allocate(8 * 2 * 36).expect("memory");
    let work = memory.allocate(there.work_bytes().max(back.work_bytes())).expect("memory");
    // A wave along each axis, and a constant in the second array.
    let tau = std::f64::consts::TAU;
    let numbers: Vec<f64> = (0..48)
        .map(|n| {
            let (i, j, k) = (n / 12 % 2, n / 4 % 3, n % 4);
            let phase = f64::from(i) / 2.0 + f64::from(j) / 3.0 + f64::from(k) / 4.0;
            if n < 24 { (tau * phase).cos() } else { 2.0 }
        })
        .collect();
    upload(stream, reals.address(), &numbers);
    // SAFETY: the blocks are as large as the plans say.
    unsafe { there.run(stream, reals.address(), waves.address(), work.address()) }.expect("a transform");
    let spectrum = download(stream, waves.address(), 72);
    // cos(k x) has half of all elements at k; its other half is at −k, which is not stored.
    let mut expected = [0.0; 72];
    expected[2 * ((3 + 1) * 3 + 1)] = 12.0;
    expected[36] = 48.0;
    for (a, b) in spectrum.iter().zip(expected) {
        assert!((a - b).abs() < 1e-13 * 48.0, "{spectrum:?}");
    }
    // SAFETY: as above.
    unsafe { back.run(stream, waves.address(), reals.address(), work.address()) }.expect("a transform");
    for (a, b) in download(stream, reals.address(), 48).iter().zip(&numbers) {
        assert!((a / 24.0 - b).abs() < 1e-13);
    }
    let e = Plan::new(device, Transform::R2C, [0, 1, 1], 1).expect_err("an error").to_string();
    assert!(e.starts_with("`shape`: expected a size from 1"), "{e}");
}
