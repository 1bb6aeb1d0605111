//! Finds dangerous settings of a MySQL or MariaDB server, and records that this version cannot read.

use std::collections::BTreeMap;

use super::MysqlStore;
use super::connection::{Lane, TextRow};
use super::errors::MysqlResult;
use super::statements::literals::decoded;
use super::statements::reply;
use super::statements::unreadable;
use crate::observe::finding;
use crate::observe::finding::{Finding, FindingKind, LOOKED_AT, Severity};
use crate::store::KeyState;

/// Variables that a server does not have are missing from the answer, and every user may read the others.
const SETTINGS: &str =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', 'super_read_only', 'wsrep_on',
    'log_bin', 'sync_binlog', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite')";

/// The tables that are there, and keep no transactions.
const ENGINES: &str = "SELECT table_name, engine FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN ('job_lock', 'job_fence', 'job_record', 'job_note')
    AND engine <> 'InnoDB'";

impl MysqlStore {
    /// Looks at the server, then at the tables, then at the states of these jobs.
    pub(super) async fn findings(&self, jobs: &[String]) -> MysqlResult<Vec<Finding>> {
        let settings = |rows: &[TextRow]| Settings::of(rows);
        let mut findings = self.tables.ask(Lane::Read, SETTINGS, settings).await?.findings();
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Ok(findings);
        }
        findings.extend(self.tables.ask(Lane::Read, ENGINES, about_engines).await?);
        let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
        let sql = unreadable(&self.namespace, looked_at);
        let unreadable = self.tables.ask(Lane::Read, &sql, unreadable_keys).await?;
        findings.extend(finding::about_states(looked_at, jobs.len(), &unreadable));
        Ok(findings)
    }
}

/// The keys of those states that really cannot be read.
fn unreadable_keys(rows: &[TextRow]) -> MysqlResult<Vec<String>> {
    let mut keys = Vec::new();
    for row in rows {
        if KeyState::from_json(reply::text(row, 1)?.unwrap_or_default()).is_err() {
            keys.push(decoded(reply::text(row, 0)?.unwrap_or_default()));
        }
    }
    Ok(keys)
}

fn about_engines(rows: &[TextRow]) -> MysqlResult<Option<Finding>> {
    let Some(row) = rows.first() else { return Ok(None) };
    let (table, engine) =
        (reply::text(row, 0)?.unwrap_or_default(), reply::text(row, 1)?.unwrap_or_default());
    let message = format!(
        "the table {table} has the engine {engine}, which has no transactions: a tick could start twice; run: \
         ALTER TABLE {table} ENGINE = InnoDB"
    );
    Ok(Some(Finding::error(FindingKind::NotDurable, message)))
}

/// The server's settings, by name.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn of(rows: &[TextRow]) -> MysqlResult<Self> {
        let setting = |row: &TextRow| -> MysqlResult<_> {
            let (name, value) = (reply::text(row, 0)?, reply::text(row, 1)?);
            Ok((name.unwrap_or_default().to_lowercase(), value.unwrap_or_default().to_owned()))
        };
        rows.iter().map(setting).collect::<MysqlResult<_>>().map(Self)
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|set| set.eq_ignore_ascii_case(value))
    }

    fn is_on(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|set| !set.eq_ignore_ascii_case("OFF") && set != "0")
    }

    fn findings(&self) -> Vec<Finding> {
        let version = self.0.get("version").map(String::as_str).unwrap_or_default();
        if let Some(message) = too_old(version) {
            return vec![Finding::error(FindingKind::TooOld, message)];
        }
        if self.is_on("read_only") || self.is_on("super_read_only") {
            return vec![Finding::error(
                FindingKind::NotPrimary,
                "the server is a replica, or read-only, and cannot grant leases; point the URL to the primary",
            )];
        }
        let mut findings = Vec::new();
        if self.is_on("wsrep_on") {
            findings.push(Finding::warning(
                FindingKind::LosesOnFailover,
                "the server is a node of a Galera cluster: its nodes have different clocks, and a look at one node may be older \
                 than a write that another one acknowledged; point the URLs of all servers to the same node",
            ));
        }
        let harm = "a tick that has run may run once more within its grace";
        let mut not_durable = |setting: &str, remedy: &str| {
            let message = format!(
                "{setting}: a crash of its machine can lose the newest claims, and then {harm}; {remedy}"
            );
            findings.push(Finding::warning(FindingKind::NotDurable, message));
        };
        // 3 is MariaDB's: it flushes at the prepare, too.
        if !["1", "3"].iter().any(|safe| self.is("innodb_flush_log_at_trx_commit", safe)) {
            not_durable("innodb_flush_log_at_trx_commit is not 1", "set it to 1");
        }
        if self.is_on("log_bin") && !self.is("sync_binlog", "1") {
            not_durable("sync_binlog is not 1, and there is a binary log", "set it to 1");
        }
        if self.is("innodb_doublewrite", "OFF") {
            not_durable(
                "innodb_doublewrite is off",
                "set it to on, unless the file system writes whole pages",
            );
        }
        findings
    }
}

/// Returns the message for a server that is too old.
pub(super) fn too_old(version: &str) -> Option<String> {
    let message = || {
        format!("this server is {version}, which is too old; use MySQL 8.0 or MariaDB 10.3, or a newer one")
    };
    is_too_old(version).then(message)
}

/// MySQL 8.0.1 and MariaDB 10.3 are the first ones with `NOWAIT`. A version that cannot be read counts as new.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else { return false };
    let oldest = if version.to_lowercase().contains("mariadb") { (10, 3) } else { (8, 0) };
    (major, minor) < oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(settings: &[(&str, &str)]) -> Vec<FindingKind> {
        let healthy =
            [("version", "10.11.6-MariaDB"), ("innodb_flush_log_at_trx_commit", "1"), ("read_only", "OFF")];
        let all = healthy.iter().chain(settings).map(|(name, set)| ((*name).to_owned(), (*set).to_owned()));
        Settings(all.collect()).findings().iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn dangerous_settings_are_found() {
        assert_eq!(found(&[("wsrep_on", "OFF"), ("log_bin", "OFF"), ("sync_binlog", "0")]), []);
        assert_eq!(found(&[("version", "5.7.44-log")]), [FindingKind::TooOld]);
        assert_eq!(found(&[("version", "10.2.44-MariaDB-log")]), [FindingKind::TooOld]);
        assert_eq!(found(&[("version", "8.0.36"), ("super_read_only", "ON")]), [FindingKind::NotPrimary]);
        assert_eq!(found(&[("read_only", "ON")]), [FindingKind::NotPrimary]);
        assert_eq!(found(&[("wsrep_on", "ON")]), [FindingKind::LosesOnFailover]);
        assert_eq!(found(&[("innodb_flush_log_at_trx_commit", "2")]), [FindingKind::NotDurable]);
        assert_eq!(found(&[("log_bin", "ON"), ("sync_binlog", "0")]), [FindingKind::NotDurable]);
    }

    #[test]
    fn versions_are_read() {
        for (version, too_old) in
            [("8.4.3", false), ("5.7.44", true), ("11.8.2-MariaDB", false), ("9.1.0", false)]
        {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
        assert!(is_too_old("10.2.44-MariaDB-1:10.2.44+maria~bionic") && !is_too_old("10.3.0-MariaDB"));
        assert!(!is_too_old("unknown"));
    }
}
