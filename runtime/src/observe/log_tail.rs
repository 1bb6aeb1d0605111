//! The log tail: the last lines that a run has logged, for its record.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::util::lock;

/// How many bytes of its log a run keeps.
const MOST_BYTES: usize = 4096;

/// A [`tracing_subscriber::Layer`] that keeps the last 4 KiB that each run logs, for its
/// [record](crate::history::RunRecord::log). Needs the feature `log-tail`.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer())
///     .with(jobs::LogTail::new().without_fields(["email", "token"]));
/// # let _ = subscriber; // tracing::subscriber::set_global_default(subscriber)?;
/// ```
///
/// **The lines are stored in the shared store, and everyone who can read the store, or operate the jobs, can read them.** Do
/// not add this layer if jobs log passwords or personal data. Fields are left out by name with
/// [`without_fields`](LogTail::without_fields), levels with [`max_level`](LogTail::max_level), and whole targets with a
/// [filter](tracing_subscriber::layer::Layer::with_filter). A filter must let the span `run` of the target `jobs` pass.
/// Nothing can be left out of the text of a message.
///
/// A line is collected if it is logged in the span of the run, or in a span inside of it: by the job's function, and by tasks
/// that it has spawned with `.instrument(Span::current())`. Lines of all tries under one lease are collected together, and
/// so are the warnings of the crate about the run. Lines that a task logs after the run's end are not.
///
/// Each line has the time since the run started, the level, the target, the message and the event's own fields, without those
/// of spans. When 4 KiB are exceeded, the oldest lines are dropped. A longer line is cut. Control characters are replaced.
///
/// The lines travel with the record at the end of the run. **A run that crashed has no tail**: it ended with its process.
/// Neither has a run on a server without this layer. A job's history can take 4 KiB more for each run: 400 KiB with the
/// default [`history_limit`](crate::Builder::history_limit) of 100.
#[derive(Clone, Debug)]
pub struct LogTail {
    max_level: LevelFilter,
    left_out: Vec<String>,
}

impl Default for LogTail {
    fn default() -> Self {
        Self::new()
    }
}

impl LogTail {
    /// Creates a layer that collects the levels `INFO`, `WARN` and `ERROR`, with all fields.
    pub fn new() -> Self {
        Self { max_level: LevelFilter::INFO, left_out: Vec::new() }
    }

    /// Sets the most verbose level that is collected.
    #[must_use]
    pub fn max_level(mut self, level: impl Into<LevelFilter>) -> Self {
        self.max_level = level.into();
        self
    }

    /// Leaves the fields of these names out of every line.
    #[must_use]
    pub fn without_fields<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.left_out.extend(names.into_iter().map(Into::into));
        self
    }

    fn line(&self, event: &Event<'_>, begun: Instant) -> String {
        let (metadata, since) = (event.metadata(), begun.elapsed().as_secs_f64());
        let mut line = Line { text: String::new(), is_cut: false };
        let _is_full = write!(line, "{since:.3}s {} {}:", metadata.level(), metadata.target());
        event.record(&mut LineFields { line: &mut line, left_out: &self.left_out });
        line.text
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogTail {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let of_run = || if attributes.is_root() { RunLog::being_opened() } else { None };
        let inherited = span.parent().and_then(|parent| parent.extensions().get::<Arc<RunLog>>().cloned());
        if let Some(log) = inherited.or_else(of_run) {
            span.extensions_mut().replace(log);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() > self.max_level {
            return;
        }
        // Cloned: a field's own code may log when it is formatted.
        let log = context.event_span(event).and_then(|span| span.extensions().get::<Arc<RunLog>>().cloned());
        if let Some(log) = log {
            log.push(self.line(event, log.begun));
        }
    }
}

/// The last lines of one run. Runs share nothing, so none of them waits for another.
pub(crate) struct RunLog {
    begun: Instant,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    lines: VecDeque<String>,
    /// With a line end each.
    bytes: usize,
}

/// A span of a run that a thread is opening.
#[derive(Default)]
enum Opening {
    #[default]
    None,
    Span,
    /// A layer collects its lines.
    Collected(Arc<RunLog>),
}

thread_local! {
    static OPENING: RefCell<Opening> = const { RefCell::new(Opening::None) };
}

impl RunLog {
    /// Opens the span of a run, and returns its log if a layer collects it. Subscribers receive a new span on the thread that
    /// opens it.
    pub(crate) fn of_span<T>(open: impl FnOnce() -> T) -> (T, Option<Arc<Self>>) {
        OPENING.set(Opening::Span);
        let span = open();
        let log = match OPENING.take() {
            Opening::Collected(log) => Some(log),
            Opening::None | Opening::Span => None,
        };
        (span, log)
    }

    /// The log of the run whose span this thread is opening.
    fn being_opened() -> Option<Arc<Self>> {
        OPENING.with_borrow_mut(|opening| {
            if matches!(opening, Opening::Span) {
                *opening = Opening::Collected(Arc::new(Self::begin()));
            }
            match opening {
                Opening::Collected(log) => Some(log.clone()),
                _ => None,
            }
        })
    }

    fn begin() -> Self {
        Self { begun: Instant::now(), lines: Mutex::default() }
    }

    fn push(&self, line: String) {
        let mut log = lock(&self.lines);
        log.bytes += line.len() + 1;
        log.lines.push_back(line);
        while log.bytes > MOST_BYTES {
            let Some(oldest) = log.lines.pop_front() else { return };
            log.bytes -= oldest.len() + 1;
        }
    }

    /// The lines so far; `None` if there are none.
    pub(crate) fn text(&self) -> Option<String> {
        let log = lock(&self.lines);
        let text: String = log.lines.iter().flat_map(|line| [line, "\n"]).collect();
        (!text.is_empty()).then_some(text)
    }
}

/// A line that is being formatted, cut where it has no room.
struct Line {
    text: String,
    is_cut: bool,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const CUT: char = '…';
        for c in text.chars().map(printable) {
            if self.is_cut || self.text.len() + c.len_utf8() + CUT.len_utf8() + 1 > MOST_BYTES {
                if !self.is_cut {
                    self.text.push(CUT);
                }
                self.is_cut = true;
                // Formatting ends here, however long the value is.
                return Err(fmt::Error);
            }
            self.text.push(c);
        }
        Ok(())
    }
}

/// Operators show the lines on terminals, which obey control characters.
fn printable(c: char) -> char {
    if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }
}

struct LineFields<'a> {
    line: &'a mut Line,
    left_out: &'a [String],
}

impl Visit for LineFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name().strip_prefix("r#").unwrap_or(field.name());
        if self.left_out.iter().any(|left_out| left_out == name) {
            return;
        }
        let _is_full = match name {
            "message" => write!(self.line, " {value:?}"),
            _ => write!(self.line, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn oldest_lines_are_dropped_first() {
        let log = RunLog::begin();
        for number in 0..1000 {
            log.push(format!("line {number:04}"));
        }
        let text = log.text().unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines[0], lines[lines.len() - 1]), ("line 0591", "line 0999"));
        assert!(text.len() <= MOST_BYTES && text.len() > MOST_BYTES - "line 0590\n".len(), "{}", text.len());
    }

    #[test]
    fn line_that_is_too_long_is_cut_between_characters_and_drops_all_others() {
        let log = RunLog::begin();
        log.push("first".to_owned());
        for prefix in ["", "a", "ab"] {
            let mut line = Line { text: String::new(), is_cut: false };
            let endless = std::iter::repeat_with(|| Ok("☃")).take(1_000_000);
            let written = [Ok(prefix)].into_iter().chain(endless).try_for_each(|part| line.write_str(part?));
            assert_eq!(written, Err(fmt::Error), "nothing more is formatted");
            assert!(line.text.ends_with("☃…") && line.text.len() > MOST_BYTES - 8, "{}", line.text.len());
            log.push(line.text.clone());
            assert_eq!(log.text(), Some(line.text + "\n"));
        }
        assert!(log.text().unwrap().len() <= MOST_BYTES);
    }

    #[test]
    fn control_characters_are_replaced() {
        let mut line = Line { text: String::new(), is_cut: false };
        line.write_str("\u{1b}[31mred\u{7}\0\ttab\nline").unwrap();
        assert_eq!(line.text, "�[31mred��\ttab\nline");
    }

    #[test]
    fn log_is_collected_only_for_the_span_of_a_run_and_only_by_a_layer() {
        let open = || tracing::info_span!(parent: None, "run");
        assert!(RunLog::of_span(open).1.is_none(), "no layer");
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(LogTail::new()));
        open().in_scope(|| tracing::info!("in a span of the application that has the same name"));
        let (span, log) = RunLog::of_span(open);
        let log = log.expect("a layer");
        assert_eq!(log.text(), None);
        span.in_scope(|| tracing::info_span!("inside").in_scope(|| tracing::info!(number = 7, "in the run")));
        tracing::info!("outside");
        let text = log.text().unwrap();
        assert!(text.ends_with(" INFO jobs::observe::log_tail::tests: in the run number=7\n"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn levels_and_fields_can_be_left_out() {
        let layer = LogTail::new().max_level(tracing::Level::WARN).without_fields(["token", "type"]);
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let (span, log) = RunLog::of_span(|| tracing::info_span!(parent: None, "run"));
        span.in_scope(|| {
            tracing::info!("too verbose");
            tracing::warn!(token = "secret", user = %"Ada", r#type = 3, "signed in");
        });
        let text = log.unwrap().text().unwrap();
        assert!(text.ends_with(": signed in user=Ada\n") && text.lines().count() == 1, "{text}");
    }
}
