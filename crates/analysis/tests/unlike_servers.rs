//! Fair servers that are unlike from CPU to CPU: what stands beside them is judged by each of them.

use surety_analysis::admission::RootDomain;
use surety_analysis::fair_server::argument;
use surety_analysis::foundation::{Foundation, ReservedThread};
use surety_model::platform::{FairServer, Platform, RealtimeDemand};
use surety_model::reservation::Reservation;
use surety_units::Nanos;

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn server(runtime: i64, period: i64) -> FairServer {
    FairServer { runtime: ms(runtime), period: ms(period) }
}

fn thread(runtime: i64, period: i64) -> ReservedThread {
    ReservedThread {
        reservation: Reservation::implicit(ms(runtime), ms(period)),
        bounded: true,
        sleeps: false,
    }
}

fn machine(servers: &[FairServer]) -> Platform {
    Platform::linux_6_18(2).with_fair_servers(servers)
}

/// The larger share is not the one that has to be looked at: 5 % in a second stays in the background beside 26 ms of 40, and 4 % in 25 ms
/// does not, since the thread takes all of its window of 24 ms.
#[test]
fn each_server_has_to_find_its_room() {
    let thread = [thread(26, 40)];
    for (servers, holds) in [
        ([server(50, 1000), server(50, 1000)], true),
        ([server(50, 1000), server(1, 25)], false),
        ([server(1, 25), server(50, 1000)], false),
        ([server(50, 1000), server(100, 1000)], true),
        ([server(50, 1000), server(400, 1000)], false),
        // One that is off is in nobody's way.
        ([server(50, 1000), server(0, 25)], true),
    ] {
        let found = argument(&thread, &machine(&servers));
        assert_eq!(found.holds, holds, "{servers:?}: {found:?}");
        let said = found.steps.join(" ");
        let unlike = servers[0] != servers[1] && servers[1].runtime.is_positive();
        assert!(!(holds && unlike) || said.contains("100.0 ms in 1.000 s"), "{said}");
    }
}

#[test]
fn admission_books_each_as_it_is() {
    let domain = RootDomain::of(&machine(&[server(50, 1000), server(200, 1000)]));
    assert_eq!(domain.available(), 2 * 996_147 - 52_428 - 209_715);
    assert_eq!(RootDomain::of(&Platform::linux_6_18(2)).available(), 2 * (996_147 - 52_428));
}

/// Beside a realtime hog the servers act: each is in the test of EDF with its own parameters.
#[test]
fn servers_that_act_count_with_their_own_parameters() {
    let hog = RealtimeDemand { who: "hog".to_owned(), takes: None };
    let foundation = |servers: &[FairServer], threads: &[ReservedThread]| {
        let platform = Platform { realtime: Some(hog.clone()), ..machine(servers) };
        Foundation::of(threads, &platform)
    };
    let unlike = [server(50, 1000), server(20, 100)];
    let found = foundation(&unlike, &[thread(20, 100)]);
    assert!(found.counts_servers());
    // A tick of 4 ms on top: what it overruns it does not pay back.
    let budgets: Vec<Nanos> = found.demands().iter().skip(1).map(|demand| demand.runtime).collect();
    assert_eq!(budgets, [ms(54), ms(24)]);
    // 75 ms of 100 have their room beside 54 ms of a second and not beside 24 of 100 with a tick.
    let beside = |servers: &[FairServer]| foundation(servers, &[thread(75, 100)]).holds();
    assert!(beside(&[server(50, 1000); 2]) && !beside(&unlike) && !beside(&[server(20, 100); 2]));
}
