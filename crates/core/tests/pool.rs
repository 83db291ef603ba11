//! The thread pool: nested calls, panics, caps, several callers at once, and work too small for threads.
//!
//! A binary of its own: threads that never meet would leave the results of other tests unseen, and tests that keep
//! threads waiting take the processor from others meanwhile.

use madelung_core::array::{Array, DType};
use madelung_core::backend::Scan;
use madelung_core::backend::pool::{Pool, Serial, Share, Threads, WORTH_THREADS, map_tasks, split_tasks};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

/// Runs and counts.
struct Counting<'p>(&'p dyn Pool, AtomicUsize);

impl Pool for Counting<'_> {
    fn threads(&self) -> usize {
        self.0.threads()
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(tasks, task);
    }
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 8] {
        let pool = Threads::new(threads);
        for tasks in [0, 1, 2, 7, 1000] {
            let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            for pool in [&pool as &dyn Pool, &Share::new(&pool, 2)] {
                pool.run(tasks, &|t| {
                    runs[t].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(runs.iter().all(|n| n.load(Ordering::Relaxed) == 2));
        }
        assert_eq!(map_tasks(&pool, 100, |t| t * t), (0..100).map(|t| t * t).collect::<Vec<_>>());
        let mut data = [0; 10];
        split_tasks(&pool, &mut data, &[3, 3, 10], |t, part| part.fill(t));
        assert_eq!(data, [0, 0, 0, 2, 2, 2, 2, 2, 2, 2]);
    }
}

#[test]
fn as_many_tasks_run_at_once_as_there_are_threads() {
    // Each task waits for all the others: with one thread less this would not end.
    let barrier = Barrier::new(4);
    Threads::new(4).run(4, &|_| {
        barrier.wait();
    });
}

#[test]
fn tasks_may_call_the_pool() {
    for pool in [&Threads::new(2) as &dyn Pool, &Threads::new(5), Threads::shared()] {
        let sum = AtomicUsize::new(0);
        pool.run(20, &|a| {
            let inner = map_tasks(pool, 10, |b| {
                pool.run(3, &|c| {
                    sum.fetch_add(c, Ordering::Relaxed);
                });
                b
            });
            sum.fetch_add(a * inner.iter().sum::<usize>(), Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 20 * 10 * 3 + 190 * 45);
    }
    // And another pool, whose tasks call the first.
    let (a, b) = (Threads::new(2), Threads::new(3));
    let runs = AtomicUsize::new(0);
    a.run(8, &|_| {
        b.run(8, &|_| {
            a.run(8, &|_| {
                runs.fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    assert_eq!(runs.load(Ordering::Relaxed), 512);
}

#[test]
fn a_panic_reaches_the_caller_and_leaves_the_pool_whole() {
    let pool = Threads::new(3);
    let share = Share::new(&pool, 2);
    for pool in [&pool as &dyn Pool, &share, &Serial] {
        for bad in [0, 5, 99] {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.run(100, &|t| assert!(t != bad, "task {t} is bad"));
            }));
            let panic = caught.unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), &format!("task {bad} is bad"));
            assert_eq!(map_tasks(pool, 50, |t| t).len(), 50);
        }
    }
}

#[test]
fn the_context_caps_the_threads_of_a_call() {
    let pool = Threads::new(8);
    let context = madelung_cpu::context().with_pool(&pool).with_max_threads(3);
    assert_eq!(context.threads().threads(), 3);
    assert_eq!(context.with_max_threads(0).threads().threads(), 1);
    assert_eq!(context.with_max_threads(100).threads().threads(), 8);
    let (now, most, ids) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(HashSet::new()));
    context.threads().run(64, &|_| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        ids.lock().unwrap().insert(std::thread::current().id());
        std::thread::yield_now();
        now.fetch_sub(1, Ordering::SeqCst);
    });
    assert!(most.into_inner() <= 3 && ids.into_inner().unwrap().len() <= 3);
}

/// A call whose tasks wait for another call to finish: if the pool served calls one after the other, neither would end.
#[test]
fn callers_do_not_wait_for_each_other() {
    let pool = Threads::new(2);
    let (begun, done) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        // Both threads of the pool are busy until the second call is done.
        scope.spawn(|| {
            pool.run(2, &|_| {
                begun.wait();
                done.wait();
            });
        });
        scope.spawn(|| {
            begun.wait();
            assert_eq!(map_tasks(&pool, 100, |t| t).len(), 100);
            done.wait();
        });
    });
}

#[test]
fn workers_take_turns() {
    // One worker and two callers that keep their own tasks waiting: the worker must serve both calls.
    let pool = Threads::new(2);
    let served = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let both = || served.iter().all(|n| n.load(Ordering::SeqCst) > 0);
    std::thread::scope(|scope| {
        for own in &served {
            let (pool, both) = (&pool, &both);
            scope.spawn(move || {
                let caller = std::thread::current().id();
                pool.run(10_000, &|_| {
                    if std::thread::current().id() != caller {
                        own.fetch_add(1, Ordering::SeqCst);
                    }
                    while std::thread::current().id() == caller && !both() {
                        std::thread::yield_now();
                    }
                });
            });
        }
    });
    assert!(both());
}

#[test]
fn little_work_stays_on_the_calling_thread() {
    let counting = Counting(Threads::shared(), AtomicUsize::new(0));
    let context = madelung_cpu::context().with_pool(&counting);
    assert_eq!(context.threads_for(WORTH_THREADS - 1).threads(), 1);
    assert_eq!(context.threads_for(WORTH_THREADS).threads(), Threads::shared().threads());
    let scan = |n: usize| {
        let mut sums = vec![0; n];
        madelung_cpu::scan(&context, Scan::Inclusive, &vec![1i32; n], &mut sums).unwrap();
    };
    scan(100);
    let small = Array::zeros(DType::F64, &[50]);
    context.sum(&small.view(), &mut Array::zeros(DType::F64, &[])).unwrap();
    assert_eq!(counting.1.load(Ordering::Relaxed), 0);
    if Threads::shared().threads() > 1 {
        scan(1_000_000);
        assert!(counting.1.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn pools_come_and_go() {
    for n in 0..50 {
        let pool = Threads::new(1 + n % 4);
        if n % 3 > 0 {
            assert_eq!(map_tasks(&pool, 9, |t| t).len(), 9);
        }
    }
}

/// This binary again, with another environment.
#[test]
fn a_thread_count_that_is_none_is_reported_once() {
    for (asked, reports) in [("two", 1), ("3", 0), ("", 1), ("0", 0)] {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tasks_may_call_the_pool", "--nocapture"])
            .env("MADELUNG_NUM_THREADS", asked)
            .output()
            .unwrap();
        let stderr = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.success());
        assert_eq!(stderr.matches(&format!("threads (0: all), got `{asked}`")).count(), reports, "{stderr}");
    }
}
