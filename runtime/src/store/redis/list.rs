//! Lists the keys of a namespace: one `SCAN` per page, and one pipeline of looks at what it found.

use std::collections::BTreeSet;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};

use super::super::{Look, Page, StoreError, StoreErrorKind};
use super::RedisStore;
use super::connection::Connection;
use super::look::{self, COMMANDS, add_look};
use super::route::Route;
use super::slots::Node;

/// So many keys are visited for a page: far below a millisecond of the server's time.
const VISITED: usize = 1000;

impl RedisStore {
    pub(super) async fn list_page(&self, page: Option<&str>) -> Result<Page, StoreError> {
        let trouble = |error| self.trouble("list", &error, None);
        let Some(cursor) = Cursor::parse(page) else {
            let cause = "the page was not named by this store";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, "list", &self.location, cause));
        };
        match &self.route {
            Route::One(connection) => {
                let (keys, next) = self.page_of(connection, cursor.at).await?;
                Ok(Page { keys, next: next.map(|at| Cursor { at, node: None }.to_string()) })
            }
            // One node after the other, in the order of their names.
            Route::Many(cluster) => {
                let nodes = cluster.masters().await.map_err(trouble)?;
                let mut left =
                    nodes.iter().skip_while(|(node, _)| cursor.node.as_ref().is_some_and(|at| node < at));
                let Some((node, connection)) = left.next() else { return Ok(Page::default()) };
                let at = if cursor.node.as_ref() == Some(node) { cursor.at } else { 0 };
                let (keys, next) = self.page_of(connection, at).await?;
                let next = match next {
                    Some(at) => Some(Cursor { at, node: Some(node.clone()) }),
                    None => left.next().map(|(node, _)| Cursor { at: 0, node: Some(node.clone()) }),
                };
                Ok(Page { keys, next: next.map(|cursor| cursor.to_string()) })
            }
        }
    }

    async fn page_of(
        &self,
        connection: &Connection,
        cursor: u64,
    ) -> Result<(Vec<(String, Look)>, Option<u64>), StoreError> {
        let trouble = |error| self.trouble("list", &error, None);
        let (keys, next) =
            connection.exchange(|connection| self.scan(connection, cursor)).await.map_err(trouble)?;
        let mut looks = Vec::new();
        if !keys.is_empty() {
            let mut commands = Pipeline::with_capacity(keys.len() * COMMANDS);
            for key in &keys {
                add_look(&mut commands, &self.keys, key);
            }
            let talk = async |mut connection: MultiplexedConnection| {
                connection.send_packed_commands(&commands, 0, commands.len()).await
            };
            let answers = connection.exchange(talk).await.map_err(trouble)?;
            let mut answers = answers.into_iter();
            for key in keys {
                let answers: Vec<_> = answers.by_ref().take(COMMANDS).collect();
                looks.extend(self.listed(key, answers).await?);
            }
        }
        Ok((looks, (next != 0).then_some(next)))
    }

    /// The keys of the locks and records that one `SCAN` finds. Names that are no text belong to no key.
    async fn scan(
        &self,
        mut connection: MultiplexedConnection,
        cursor: u64,
    ) -> RedisResult<(BTreeSet<String>, u64)> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(VISITED);
        let (next, names): (u64, Vec<Value>) = scan.query_async(&mut connection).await?;
        let keys = names.iter().filter_map(look::text_of).filter_map(|name| self.keys.key_of(name));
        Ok((keys.map(str::to_owned).collect(), next))
    }

    /// A key as it is listed; `None` if nothing is known of it any more, or its record cannot be read.
    async fn listed(&self, key: String, answers: Vec<Value>) -> Result<Option<(String, Look)>, StoreError> {
        let look = if answers.iter().any(look::is_redirection) {
            // It is at another node by now.
            self.look_at("list", &key).await
        } else {
            look::read(answers).map_err(|misread| self.misread("list", &key, misread))
        };
        match look {
            Ok(look) => Ok((look.version.is_some() || look.lock.is_some()).then_some((key, look))),
            Err(error) if error.kind() == StoreErrorKind::Unreadable => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Where a page begins: `17`, or on a cluster `17@host:6379`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cursor {
    at: u64,
    node: Option<Node>,
}

impl Cursor {
    fn parse(page: Option<&str>) -> Option<Self> {
        let Some(page) = page else { return Some(Self::default()) };
        let (at, node) = match page.split_once('@') {
            None => (page, None),
            Some((at, node)) => {
                let (host, port) = node.rsplit_once(':')?;
                (at, Some((host.to_owned(), port.parse().ok()?)))
            }
        };
        Some(Self { at: at.parse().ok()?, node })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.node {
            None => write!(f, "{}", self.at),
            Some((host, port)) => write!(f, "{}@{host}:{port}", self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_its_text() {
        for node in [None, Some(("::1".to_owned(), 7000))] {
            let cursor = Cursor { at: u64::MAX, node };
            assert_eq!(Cursor::parse(Some(&cursor.to_string())), Some(cursor));
        }
        assert_eq!(Cursor::parse(None), Some(Cursor::default()));
        assert_eq!(Cursor::parse(Some("x@host")), None);
    }
}
