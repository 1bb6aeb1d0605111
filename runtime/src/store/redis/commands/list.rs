//! Lists the keys of a namespace: one `SCAN` per page, and one pipeline of looks at what it found.

use std::collections::BTreeSet;

use redis::ErrorKind::InvalidClientConfig;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};

use super::look;
use super::look::{COMMANDS_WITH_EXPIRY, add_look_with_expiry};
use crate::store::redis::connection::RedisConnection;
use crate::store::redis::topology::slots::Node;
use crate::store::redis::{RedisStore, errors};
use crate::store::{Look, Page, StoreErrorKind, to_ascii_json};

/// So many keys are visited for a page: far below a millisecond of the server's time.
const VISITED: usize = 1000;

impl RedisStore {
    pub(crate) async fn list_page(&self, page: Option<&str>) -> RedisResult<Page> {
        let foreign = || errors::own(InvalidClientConfig, "the page was not named by this store");
        let (node, at) = parse(page).ok_or_else(foreign)?;
        // One server after the other, in the order of their names.
        let masters = self.route.masters().await?;
        let mut left = masters.iter().skip_while(|master| master.node < node);
        let Some(master) = left.next() else { return Ok(Page::default()) };
        let at = if master.node == node { at } else { 0 };
        let (keys, at) = self.page_of(&master.connection, at).await?;
        let next = if at == 0 { left.next() } else { Some(master) };
        Ok(Page { keys, next: next.map(|master| to_ascii_json(&(&master.node, at))) })
    }

    /// A page, and where the server's next one begins; 0 after its last one.
    async fn page_of(
        &self,
        connection: &RedisConnection,
        at: u64,
    ) -> RedisResult<(Vec<(String, Look)>, u64)> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(at).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(VISITED);
        let talk = async |mut connection| scan.query_async::<(u64, Vec<Value>)>(&mut connection).await;
        let (next, names) = connection.exchange(talk).await?;
        // Names that are no text belong to no key.
        let keys = names.iter().filter_map(look::text_of).filter_map(|name| self.keys.key_of(name));
        let keys: BTreeSet<_> = keys.collect();
        let mut looks = Vec::new();
        if !keys.is_empty() {
            let mut commands = Pipeline::with_capacity(keys.len() * COMMANDS_WITH_EXPIRY);
            for key in &keys {
                add_look_with_expiry(&mut commands, &self.keys, key);
            }
            let talk = async |mut connection: MultiplexedConnection| {
                connection.send_packed_commands(&commands, 0, commands.len()).await
            };
            let mut answers = connection.exchange(talk).await?.into_iter();
            for key in keys {
                looks.extend(self.listed(key, answers.by_ref().take(COMMANDS_WITH_EXPIRY).collect()).await?);
            }
        }
        Ok((looks, next))
    }

    /// A key as it is listed; `None` if nothing is known of it any more, or its record cannot be read.
    async fn listed(&self, key: &str, answers: Vec<Value>) -> RedisResult<Option<(String, Look)>> {
        let mut look = look::read_with_expiry(&self.keys, key, answers);
        if look.as_ref().is_err_and(RedisError::is_cluster_error) {
            // It is at another node by now.
            look = self.look_at(key).await;
        }
        match look {
            Ok(look) => Ok((look.version.is_some() || look.lock.is_some()).then(|| (key.to_owned(), look))),
            Err(error) if errors::kind_of(&error) == StoreErrorKind::Unreadable => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The beginning of a page: a server, and the cursor of its `SCAN`. As text it is JSON.
type Cursor = (Node, u64);

fn parse(page: Option<&str>) -> Option<Cursor> {
    page.map_or(Some(Cursor::default()), |page| serde_json::from_str(page).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_its_text() {
        for node in [Node::default(), ("::1".to_owned(), 7000)] {
            let cursor = (node, u64::MAX);
            assert_eq!(parse(Some(&to_ascii_json(&cursor))), Some(cursor));
        }
        assert_eq!(parse(None), Some(Cursor::default()));
        assert_eq!(parse(Some("x@host")), None);
    }
}
