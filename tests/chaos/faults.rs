//! The faults of a history, as intervals.

use std::sync::Arc;

use jobs::testing::check::{Fault, Observation, Observed};

/// A fault from its begin to its end.
pub struct FaultInterval {
    pub what: Fault,
    pub server: Arc<str>,
    pub begun: u64,
    pub ended: u64,
}

pub fn intervals(observations: &[Observation]) -> Vec<FaultInterval> {
    let mut intervals: Vec<FaultInterval> = Vec::new();
    for Observation { at, server, what } in observations {
        match what {
            Observed::FaultBegan(what) => {
                let (server, begun, ended) = (server.clone(), *at, u64::MAX);
                intervals.push(FaultInterval { what: *what, server, begun, ended });
            }
            Observed::FaultEnded(what) => {
                let mut newest = intervals.iter_mut().rev();
                if let Some(open) =
                    newest.find(|open| open.what == *what && open.server == *server && open.ended == u64::MAX)
                {
                    open.ended = *at;
                }
            }
            _ => {}
        }
    }
    intervals
}

/// A process that gets no processor in time, or a store that answers late, shows that the machine is overloaded. So all
/// servers are, unless the process was stopped meanwhile. The notes of all observers are replaced by notes about all
/// servers, whose intervals do not overlap.
pub fn share_overloads(observations: &mut Vec<Observation>) {
    let all = intervals(observations);
    let was_stopped = |overload: &FaultInterval| {
        let of_server =
            all.iter().filter(|fault| fault.what == Fault::Stop && fault.server == overload.server);
        of_server.into_iter().any(|stop| stop.begun <= overload.ended && overload.begun <= stop.ended)
    };
    let is_overload = |fault: &&FaultInterval| fault.what == Fault::Overload && !was_stopped(fault);
    let mut overloads: Vec<_> =
        all.iter().filter(is_overload).map(|fault| (fault.begun, fault.ended)).collect();
    overloads.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (begun, ended) in overloads {
        match joined.last_mut().filter(|last| begun <= last.1) {
            Some(last) => last.1 = last.1.max(ended),
            None => joined.push((begun, ended)),
        }
    }
    let [began, ended] = [Observed::FaultBegan(Fault::Overload), Observed::FaultEnded(Fault::Overload)];
    observations.retain(|observation| observation.what != began && observation.what != ended);
    for (from, until) in joined {
        observations.push(Observation { at: from, server: "".into(), what: began.clone() });
        observations.push(Observation { at: until, server: "".into(), what: ended.clone() });
    }
    observations.sort_by_key(|observation| observation.at);
}
