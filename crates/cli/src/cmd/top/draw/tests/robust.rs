//! No size of a terminal, no figure and no key is an error.

use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, MouseButton, MouseEventKind};
use strata_host::observe::overview::{Budget, NR_AGES, Snapshot, TargetView};
use strata_linux::process::MappingClass;

use super::pointed::point;
use super::{ages, lines, mapping, press, target};
use crate::cmd::top::draw::{Charset, Colours, Look};
use crate::cmd::top::screen::Screen;

fn any_key() -> impl Strategy<Value = KeyCode> {
    let named = prop::sample::select(vec![
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Backspace,
        KeyCode::Tab,
        KeyCode::F(1),
        KeyCode::F(4),
        KeyCode::F(6),
    ]);
    let letter = prop::sample::select("/swmph?+-jkgGF x".chars().collect::<Vec<_>>());
    prop_oneof![
        named,
        letter.prop_map(KeyCode::Char),
        any::<char>().prop_map(KeyCode::Char)
    ]
}

/// The wheel and clicks, also where nothing is any more.
fn any_pointing() -> impl Strategy<Value = (MouseEventKind, (u16, u16))> {
    let kinds = vec![
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
        MouseEventKind::Down(MouseButton::Left),
    ];
    (prop::sample::select(kinds), (0u16..210, 0u16..70))
}

/// Figures as extreme as they come.
fn any_target() -> impl Strategy<Value = TargetView> {
    let figure = || prop_oneof![Just(None), Just(Some(0)), any::<u64>().prop_map(Some)];
    let name = "\\PC{0,40}|/[a-z/]{0,90}";
    let bytes = prop::collection::vec((0u64..1 << 38, 0u64..1 << 38), 0..NR_AGES);
    let ages_of = prop::option::of((any::<u64>(), bytes, name));
    (
        name,
        figure(),
        figure(),
        figure(),
        any::<f64>(),
        ages_of,
        any::<bool>(),
    )
        .prop_map(
            |(name, resident, charged, limit, rate, ages_of, is_over)| TargetView {
                is_over,
                resident_bytes: resident,
                refaults_per_s: Some(rate),
                budget: limit
                    .zip(charged)
                    .map(|(limit, charged)| Budget::new(limit, charged)),
                ..target(
                    &name,
                    1,
                    ages_of.map(|(watched_ms, mib, mapped)| {
                        ages(
                            watched_ms,
                            vec![mapping(&mapped, MappingClass::Anon, &mib, watched_ms)],
                        )
                    }),
                )
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_size_no_figure_and_no_key_is_an_error(
        targets in prop::collection::vec(any_target(), 0..30),
        keys in prop::collection::vec((any_key(), 0u16..200, 0u16..60, any_pointing()), 1..12),
        ascii: bool,
    ) {
        let mut screen = Screen::new(1000);
        let charset = if ascii { Charset::Ascii } else { Charset::Unicode };
        for (key, width, height, (kind, at)) in keys {
            screen.accept(Snapshot { targets: targets.clone(), ..Snapshot::default() });
            press(&mut screen, key);
            let size = (width.max(1), height.max(1));
            point(&mut screen, size, kind, at);
            let shown = lines(&screen, size, Look::new(charset, Colours::On));
            prop_assert_eq!(shown.len(), usize::from(size.1));
        }
    }
}
