//! Generated traces by their names.

use super::*;

fn trace(name: &str) -> Vec<Access> {
    let generator: Generator = name.parse().unwrap();
    generator.collect()
}

/// FNV-1a over everything that makes an access.
fn hash(accesses: &[Access]) -> u64 {
    let words = accesses.iter().flat_map(|access| {
        let kind = u64::from(access.backing == Backing::Anon)
            | u64::from(access.backing == Backing::Code) << 3
            | u64::from(access.via == Via::PageTable) << 1
            | u64::from(access.op == Op::Write) << 2
            | u64::from(access.group) << 8
            | u64::from(access.key.space) << 32;
        [access.key.page, kind]
    });
    let bytes = words.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn a_name_gives_the_same_accesses_for_ever() {
    let names = [
        "gen:uniform,pages=1000,accesses=5000,seed=1",
        "gen:zipf,pages=1000,accesses=5000,seed=2,exponent=1.2",
        "gen:hotscan,hot=300,scan=500,period=1000,accesses=5000,seed=3,via=mmap",
        "gen:loop,pages=700,accesses=5000,backing=anon,writes=30",
        "gen:phases,pages=400,phases=3,accesses=5000,seed=4",
        "gen:mixed,anon=300,file=600,accesses=5000,seed=5,groups=3",
        "gen:loop-zipf-loop-scan,pages=600,accesses=8000,seed=6",
        "gen:mixed-groups,anon=300,file=600,accesses=5000,seed=7,groups=2",
        "gen:replicas,pages=700,accesses=5000,ahead=2",
        "gen:sparse,pages=700,accesses=5000,backing=anon",
        "gen:code,code=700,accesses=5000,seed=8",
        "gen:apps,heap=30,code=20,files=10,groups=5,turn=40,accesses=5000,seed=9",
    ];
    let hashes = names.map(|name| hash(&trace(name)));
    let expected = [
        0x45e8_d2bc_5da7_f55d,
        0xc53b_70d2_b0d3_c94e,
        0x7530_3872_c043_6c8a,
        0xcf0d_7bd6_c8a5_132d,
        0xee80_38df_c1a9_7b16,
        0x98f3_100e_34a7_05ec,
        0x0921_d714_6c60_4708,
        0x8003_c456_1df0_9552,
        0xa607_9eed_ec50_89c9,
        0x61d1_575c_5646_bf95,
        0x9aaa_d0a1_93b0_d522,
        0x85a6_fb92_ca1b_5921,
    ];
    assert_eq!(hashes, expected, "{hashes:#x?}");
}

#[test]
fn code_takes_turns_with_a_file_of_which_each_page_comes_once() {
    let accesses = trace("gen:code,code=10,turn=4,accesses=16");
    for (turn, of_turn) in accesses.chunks(4).enumerate() {
        let (space, backing) = [(0, Backing::Code), (1, Backing::File)][turn % 2];
        let is_right = |of: &Access| (of.key.space, of.backing) == (space, backing);
        assert!(of_turn.iter().all(is_right), "turn {turn}");
        assert!(of_turn.iter().all(|of| of.via == Via::PageTable));
    }
    let of_file = accesses.iter().filter(|of| of.key.space == 1);
    let pages: Vec<u64> = of_file.map(|of| of.key.page).collect();
    assert_eq!(pages, [0, 1, 2, 3, 4, 5, 6, 7]);
    let alike = trace("gen:code,code=10,turn=4,accesses=16,backing=file");
    for (code, file) in accesses.iter().zip(alike) {
        assert_eq!((code.key, Backing::File), (file.key, file.backing));
    }
}

#[test]
fn apps_start_in_order_and_then_one_at_a_time_is_in_front_for_a_turn() {
    let accesses =
        trace("gen:apps,heap=30,code=20,files=10,groups=5,turn=40,accesses=20300,seed=1");
    let (starts, turns) = accesses.split_at(5 * 60);
    for (number, start) in starts.chunks(60).enumerate() {
        assert!(start.iter().all(|of| usize::from(of.group) == number));
        let seen = |of: &Access| (of.backing, of.via, of.op, of.key.page);
        let heap = (0..30).map(|page| (Backing::Anon, Via::PageTable, Op::Write, page));
        let code = (0..20).map(|page| (Backing::Code, Via::PageTable, Op::Read, page));
        let files = (0..10).map(|page| (Backing::File, Via::FileDescriptor, Op::Read, page));
        let expected = heap.chain(code).chain(files);
        assert!(start.iter().map(seen).eq(expected), "app {number}");
    }
    let in_front: Vec<u16> = turns.chunks(40).map(|turn| turn[0].group).collect();
    for (turn, group) in turns.chunks(40).zip(&in_front) {
        assert!(turn.iter().all(|of| of.group == *group));
    }
    assert_ne!(in_front[0], 4, "which had started last");
    assert!(in_front.windows(2).all(|of| of[0] != of[1]), "another one");
    // Of four others the one before comes 1 / (1 + 1/2 + 1/3 + 1/4) of the time, 0.48; by chance it would be a quarter.
    let is_back = |of: &&[u16]| of[0] == of[2];
    let nr_back = in_front.windows(3).filter(is_back).count();
    assert!((200..280).contains(&nr_back), "{nr_back} of 500");
    let pages = |seed| trace(&format!("gen:apps,turn=9,accesses=200000,seed={seed}"));
    assert_eq!(pages(1), pages(1));
    assert_ne!(pages(1), pages(2));
}

#[test]
fn replicas_touch_their_anon_once_and_the_first_alone_reads_on() {
    let accesses = trace("gen:replicas,anon=1,pages=2,ahead=2,groups=2,accesses=11");
    let seen: Vec<(u16, Backing, u64)> = accesses
        .iter()
        .map(|of| (of.group, of.backing, of.key.page))
        .collect();
    let file = |group, page| (group, Backing::File, page);
    let first = [
        (0, Backing::Anon, 0),
        file(0, 0),
        file(0, 1),
        file(0, 0),
        file(0, 1),
    ];
    let second = [(1, Backing::Anon, 0), file(1, 0), file(1, 1)];
    let alone = [file(0, 0), file(0, 1), file(0, 0)];
    assert_eq!(seen, [&first[..], &second, &alone].concat());
}

#[test]
fn patterns_joined_come_one_after_the_other_and_share_what_pages_there_are() {
    let accesses = trace("gen:loop-zipf-scan-loop-scan,pages=40,accesses=500");
    let pages: Vec<u64> = accesses.iter().map(|access| access.key.page).collect();
    let rounds: Vec<u64> = (0..100).map(|n| n % 40).collect();
    assert_eq!(pages[..100], rounds);
    assert!(pages[100..200].iter().all(|page| *page < 40));
    assert_ne!(pages[100..200], rounds, "drawn");
    let scanned: Vec<u64> = (40..240).collect();
    assert_eq!(pages[200..300], scanned[..100]);
    assert_eq!(pages[300..400], rounds, "begun anew");
    assert_eq!(pages[400..], scanned[100..], "none of the pages before");
}

#[test]
fn what_is_wrong_with_a_name_is_said() {
    let complaint = |name: &str| Generator::from_str(name).unwrap_err().to_string();
    let expected = [
        ("zipf", "names no generator"),
        (
            "gen:zopf",
            "unknown pattern \"zopf\": did you mean zipf? use uniform, ",
        ),
        ("gen:zipf,pages", "\"pages\" is no option"),
        (
            "gen:zipf,pages=0",
            "pages=0 is out of bounds: choose 1 to 134217728",
        ),
        ("gen:zipf,pages=x", "pages=x is out of bounds"),
        (
            "gen:zipf,exponent=9",
            "exponent=9 is out of bounds: choose 0 to 4",
        ),
        ("gen:zipf,seed=1,seed=2", "\"seed\" is given twice"),
        ("gen:loop,exponent=1", "no option \"exponent\": use "),
        (
            "gen:zipf,pags=3",
            "no option \"pags\": did you mean pages? use ",
        ),
        ("gen:mixed,via=fd", "no option \"via\""),
        ("gen:loop,via=pipe", "choose one of fd, mmap"),
        ("gen:loop-", "unknown pattern \"\""),
        ("gen:loop-zopf", "unknown pattern \"zopf\""),
        ("gen:loop-mixed", "mixed can't be one of several patterns"),
        ("gen:loop-sparse", "sparse can't be one of several patterns"),
        ("gen:loop-code", "code can't be one of several patterns"),
        ("gen:code,backing=anon", "choose one of code, file"),
        ("gen:loop-apps", "apps can't be one of several patterns"),
        (
            "gen:apps,groups=1",
            "groups=1 is out of bounds: choose 2 to 4096",
        ),
        ("gen:apps,heaps=1", "did you mean heap? use "),
        ("gen:apps,backing=anon", "no option \"backing\""),
        ("gen:replicas,turn=3", "no option \"turn\""),
        ("gen:loop-scan,exponent=1", "no option \"exponent\""),
        ("oracle:fdread", "unknown oracle sequence"),
        ("oracle:mixed/zipf", "unknown oracle sequence"),
        ("oracle:fdread/zipf,memory=1", "memory=1 is out of bounds"),
        ("oracle:fdread/zipf,seed=1", "no option \"seed\""),
    ];
    for (name, part) in expected {
        let complaint = complaint(name);
        assert!(complaint.contains(part), "{name}: {complaint}");
    }
}
