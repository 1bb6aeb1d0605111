//! Connections that break at every position and in every manner: between a claim and its answer, in the middle of
//! an answer, while the connection is set up. No fault starts a run twice or leaves a lock behind for longer than
//! its ttl. A proxy of the tests' own does it to real servers.

mod control;
mod servers;
mod site;
mod steps;

macro_rules! promises {
    ($store:ident: $kind:ident; $($promises:ident::$promise:ident;)+) => {
        mod $store { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                super::$promises::$promise(super::site::Kind::$kind).await;
            }
        )+ }
    };
}

macro_rules! every_store {
    ($($promises:ident::$promise:ident;)+) => {
        promises!(redis: Redis; $($promises::$promise;)+);
        promises!(postgres: Postgres; $($promises::$promise;)+);
    };
}

every_store! {
    steps::a_claim_survives_every_fault_at_every_position;
    steps::an_extension_survives_every_fault_at_every_position;
    steps::a_release_survives_every_fault_at_every_position;
    steps::abandoned_claim_holds_the_key_no_longer_than_its_ttl;
    servers::two_servers_survive_every_fault_at_every_position;
    servers::two_servers_that_share_no_lock_run_ticks_twice;
    servers::a_set_up_that_falls_silent_costs_no_run_its_lease;
    control::a_client_that_repeats_a_claim_with_another_token_is_locked_out_by_itself;
}

promises! { postgres_behind_a_pooler: Pooled;
    steps::a_claim_survives_every_fault_at_every_position;
    steps::a_release_survives_every_fault_at_every_position;
    servers::two_servers_survive_every_fault_at_every_position;
    servers::two_servers_that_share_no_lock_run_ticks_twice;
}

promises! { postgres_without_tables: Unmade;
    steps::the_first_claim_of_all_survives_every_fault_at_every_position;
}
