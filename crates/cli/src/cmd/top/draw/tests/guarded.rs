//! The list beside a guard that runs.

use super::*;
use strata_host::observe::overview::GuardView;

#[test]
fn where_a_guard_runs_its_groups_show_what_is_away_and_what_came_back() {
    let mut screen = screen();
    let mut guarded = snapshot();
    for target in &mut guarded.targets {
        target.guard = (target.name == redis().name).then_some(GuardView {
            taken_bytes: 180 * MIB,
            away_bytes: 171 * MIB,
            came_back_per_min_bytes: MIB / 4,
            allowed_per_min_bytes: MIB,
        });
    }
    screen.accept(guarded);
    check("guarded-80x24", &screen, (80, 24), Charset::Unicode);
    check("guarded-120x40", &screen, (120, 40), Charset::Unicode);
}
