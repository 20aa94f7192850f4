// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Reads the page tables of one task and leaves, for every last-level table that holds anything, a
 * record of bitmaps. Writes nothing but its own map.
 *
 * The iterator shows us the task under its kernel reference; from mm->pgd on we follow physical
 * addresses through the direct map with bpf_probe_read_kernel, which fails instead of faulting.
 * Nothing is locked, so tables may be freed under us. What keeps the records true:
 *  - unlinking a table clears the entry that led to it, so after a copy the links above it that
 *    were read before it are read again, and a changed link voids the copy;
 *  - task->mm is read again at the end: as long as it is the same, the address space was alive.
 */
#include "kernel.h"
#include "shared.h"
#include "x86_64.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Entries are passed over by cache lines where they are empty. */
#define LINE_BYTES 64
#define ENTRIES_A_LINE 8
#define LINE_SHIFT 3
#define ANY_OF_8(e) ((e)[0] | (e)[1] | (e)[2] | (e)[3] | (e)[4] | (e)[5] | (e)[6] | (e)[7])

#define MAX_STEPS (1 << 20)
#define STEPS_A_CLOCK_READ 32
/* Far more often than links change within the microseconds this takes. */
#define MAX_TORN_RETRIES 64

struct walk_shared shared SEC(".bss.shared");

/* State of a run that user space has no business with. */
static struct {
	u64 started_ns;
	u64 cached_no;      /* which 1 GiB of address space the middle table below maps; ~0: none */
	u64 cached_link_at; /* where the entry leading to it was read */
	u64 cached_link;    /* and what it was */
	u64 cached_table;   /* the middle table, or 0 if a 1 GiB page stands there */
	u64 is_middle_copied;
	u64 torn_retries;
	struct node_range node; /* the one that was looked up last */
	u64 group[ENTRIES_A_LINE];
	u64 middle[TABLE_ENTRIES];
	u64 entries[TABLE_ENTRIES];
} run;

static __always_inline u64 read_entry(u64 addr)
{
	u64 entry = 0;

	if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)addr))
		return 0;
	return entry;
}

/* Virtual address of the table or page an entry leads to; 0 if that is not in memory. */
static __always_inline u64 target_of(u64 entry)
{
	u64 phys = (entry & ENTRY_ADDRESS) & ~shared.h.encrypt_bits;

	if (phys >= shared.h.ram_end) {
		shared.h.nr_refused++;
		return 0;
	}
	return shared.h.direct_base + phys;
}

static __always_inline u64 entry_at(u64 table, u64 addr, int shift)
{
	return table + ((addr >> shift) & (TABLE_ENTRIES - 1)) * 8;
}

/* Moves the cursor to the next multiple of what one entry at this level maps. */
static __always_inline void skip(u64 table_no, int shift)
{
	int bits = shift - SHIFT_PMD;

	shared.h.cursor = ((table_no >> bits) + 1) << bits;
}

/* Whether a link still leads where it did; hardware may have marked it accessed meanwhile. */
static __always_inline int is_same_link(u64 at, u64 link)
{
	return !((read_entry(at) ^ link) & ~ENTRY_NOISE);
}

/*
 * Finds the middle table for the 1 GiB that `table_no` lies in. Returns 0 and moves the cursor past
 * what is absent, if so.
 */
static __always_inline int find_middle(u64 table_no)
{
	u64 addr = table_no << SHIFT_PMD;
	u64 table = shared.h.pgd, at, link;

	run.cached_no = ~0ULL;
	if (shared.h.levels == 5) {
		link = read_entry(entry_at(table, addr, SHIFT_PGD5));
		table = link & ENTRY_PRESENT ? target_of(link) : 0;
		if (!table) {
			skip(table_no, SHIFT_PGD5);
			return 0;
		}
	}
	link = read_entry(entry_at(table, addr, SHIFT_P4D));
	table = link & ENTRY_PRESENT ? target_of(link) : 0;
	if (!table) {
		skip(table_no, SHIFT_P4D);
		return 0;
	}
	/* One cache line at a time, so that a vast hole is passed quickly. */
	at = entry_at(table, addr, SHIFT_PUD);
	if (bpf_probe_read_kernel(run.group, sizeof(run.group), (void *)(at & ~(u64)(LINE_BYTES - 1)))) {
		skip(table_no, SHIFT_PUD);
		return 0;
	}
	link = run.group[(at / 8) & (ENTRIES_A_LINE - 1)];
	if (!(link & ENTRY_PRESENT)) {
		if (ANY_OF_8(run.group))
			skip(table_no, SHIFT_PUD);
		else
			skip(table_no, SHIFT_PUD + LINE_SHIFT);
		return 0;
	}
	table = 0;
	run.is_middle_copied = 0;
	if (!(link & ENTRY_LARGE)) {
		table = target_of(link);
		if (!table) {
			skip(table_no, SHIFT_PUD);
			return 0;
		}
		/* Only a longer stretch is worth a copy, which lets empty entries be skipped fast. */
		if (shared.h.span_end - table_no >= 16)
			run.is_middle_copied =
				!bpf_probe_read_kernel(run.middle, sizeof(run.middle), (void *)table) &&
				is_same_link(at, link);
	}
	run.cached_table = table;
	run.cached_link_at = at;
	run.cached_link = link;
	run.cached_no = table_no >> (SHIFT_PUD - SHIFT_PMD);
	return 1;
}

/* Ends a step: clang would else load all 64 entries first, onto a stack that is too small. */
#define SETTLE(x) asm volatile("" : "+r"(x))

#define EACH_OF_8(f, i) f((i)) f((i) + 1) f((i) + 2) f((i) + 3) f((i) + 4) f((i) + 5) f((i) + 6) f((i) + 7)
#define EACH_OF_64(f) \
	EACH_OF_8(f, 0) EACH_OF_8(f, 8) EACH_OF_8(f, 16) EACH_OF_8(f, 24) \
	EACH_OF_8(f, 32) EACH_OF_8(f, 40) EACH_OF_8(f, 48) EACH_OF_8(f, 56)

/* How every struct page begins. */
struct page_words {
	u64 flags;
	u64 head; /* of a tail of a large folio: where its head is, and IS_TAIL */
};
#define IS_TAIL 1

/* The kernel's struct of a physical page. */
static __always_inline u64 page_at(u64 phys)
{
	return shared.h.pages_base + (phys >> SHIFT_PAGE) * bpf_core_type_size(struct page);
}

/* The struct of a page's folio and its first words; 0 where they can't be read. */
static __always_inline u64 folio_of(u64 phys, struct page_words *words)
{
	u64 at = page_at(phys);

	if (phys >= shared.h.ram_end || bpf_probe_read_kernel(words, sizeof(*words), (void *)at))
		return 0;
	if (!(words->head & IS_TAIL))
		return at;
	at = words->head - IS_TAIL;
	return bpf_probe_read_kernel(words, sizeof(*words), (void *)at) ? 0 : at;
}

/* Whether the page at this address is known to be on a list of inactive pages (classic LRU). */
static __always_inline u64 is_inactive(u64 phys)
{
	struct page_words words;

	if (!folio_of(phys, &words))
		return 0;
	return (words.flags >> bpf_core_enum_value(enum pageflags, PG_lru)) &
	       ~(words.flags >> bpf_core_enum_value(enum pageflags, PG_active)) & 1;
}

static __always_inline u64 address_of(u64 entry)
{
	return (entry & ENTRY_ADDRESS) & ~shared.h.encrypt_bits;
}

static long find_inactive(u32 index, void *ctx)
{
	u32 i = index & (TABLE_ENTRIES - 1), w = i / 64;
	struct walk_record *rec = &shared.records[shared.h.nr_records & (MAX_RECORDS - 1)];

	if (rec->present[w] >> (i & 63) & 1)
		rec->inactive[w] |= is_inactive(address_of(run.entries[i])) << (i & 63);
	return 0;
}

/* The memory node of a page of physical memory. */
static __always_inline u64 node_of(u64 phys)
{
	u64 page = phys >> SHIFT_PAGE;

	if (page >= run.node.first && page < run.node.end)
		return run.node.node;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_NODE_RANGES; i++) {
		if (i >= shared.h.nr_node_ranges)
			break;
		if (page >= shared.node_ranges[i].first && page < shared.node_ranges[i].end) {
			run.node.first = shared.node_ranges[i].first;
			run.node.end = shared.node_ranges[i].end;
			run.node.node = shared.node_ranges[i].node;
			return run.node.node;
		}
	}
	return NODE_UNKNOWN;
}

/* The kernel turns address bits around in an entry that is not present, so that no processor guesses memory there (L1TF). */
static __always_inline u64 as_present(u64 entry)
{
	return entry & ENTRY_PRESENT ? entry : ~entry;
}

static long find_node(u32 index, void *ctx)
{
	u32 i = index & (TABLE_ENTRIES - 1), w = i / 64;
	struct walk_record *rec = &shared.records[shared.h.nr_records & (MAX_RECORDS - 1)];
	u64 node;

	if (!((rec->present[w] | rec->protnone[w]) >> (i & 63) & 1))
		return 0;
	node = node_of(address_of(as_present(run.entries[i])));
	for (u32 bit = 0; bit < NODE_BITS; bit++)
		rec->node[bit][w] |= (node >> bit & 1) << (i & 63);
	return 0;
}

/*
 * Turns 64 entries into one word of each bitmap. Straight-line code throughout: a branch per entry
 * would be mispredicted on real, mixed tables. Most words are empty, or present throughout with one
 * common accessed bit, so the union and the intersection of the entries are looked at first.
 */
static long classify_word(u32 index, void *ctx)
{
	u32 w = index & (TABLE_WORDS - 1);
	struct walk_record *rec = &shared.records[shared.h.nr_records & (MAX_RECORDS - 1)];
	const volatile u64 *e = &run.entries[w * 64];
	u64 any = 0, all = ~0ULL;
	u64 present = 0, accessed = 0, dirty = 0, swapped = 0, special = 0, protnone = 0, other = 0;

#define FOLD(i) { u64 v = e[i]; any |= v; all &= v; SETTLE(any); SETTLE(all); }
	EACH_OF_64(FOLD)
#undef FOLD
	if (!(any & ~ENTRY_NOISE))
		goto out;
	rec->leaf = 1;
	if ((all & ENTRY_PRESENT) && !(any & ENTRY_SPECIAL)) {
		present = ~0ULL;
		if (all & ENTRY_ACCESSED) {
			accessed = ~0ULL;
		} else if (any & ENTRY_ACCESSED) {
#define GATHER(i) accessed |= ((e[i] >> BIT_ACCESSED) & 1) << (i); SETTLE(accessed);
			EACH_OF_64(GATHER)
#undef GATHER
		}
		if (all & (ENTRY_DIRTY | ENTRY_SAVED_DIRTY)) {
			dirty = ~0ULL;
		} else if (any & (ENTRY_DIRTY | ENTRY_SAVED_DIRTY)) {
#define GATHER(i) { u64 v = e[i]; dirty |= IS_DIRTY(v) << (i); SETTLE(dirty); }
			EACH_OF_64(GATHER)
#undef GATHER
		}
		goto out;
	}
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		u64 v = e[i];
		u64 is_there = v & 1;
		u64 is_hidden = (v >> BIT_PROTNONE) & ~is_there & 1;
		u64 is_special = (v >> BIT_SPECIAL) & (is_there | is_hidden);
		u64 is_present = is_there & ~is_special;
		u64 is_protnone = is_hidden & ~is_special;
		u64 is_held = is_present | is_protnone;
		u64 payload = v & ~ENTRY_NOISE;
		/* The sign of (x | -x) is set unless x is 0. */
		u64 is_away = ((payload | -payload) >> 63) & ~is_there & ~is_hidden;
		u64 is_other = is_away & ((SWAP_TYPES_MIN - 1 - (v >> SWAP_TYPE_SHIFT)) >> 63);

		present |= is_present << i;
		accessed |= ((v >> BIT_ACCESSED) & is_held) << i;
		dirty |= (IS_DIRTY(v) & is_held) << i;
		special |= is_special << i;
		protnone |= is_protnone << i;
		other |= is_other << i;
		swapped |= (is_away & ~is_other) << i;
	}
out:
	rec->present[w] = present;
	rec->accessed[w] = accessed;
	rec->dirty[w] = dirty;
	rec->swapped[w] = swapped;
	rec->special[w] = special;
	rec->protnone[w] = protnone;
	rec->migrating[w] = other;
	rec->inactive[w] = 0;
	for (u32 bit = 0; bit < NODE_BITS; bit++)
		rec->node[bit][w] = 0;
	return 0;
}

static __always_inline void record_huge(u64 table_no, u64 leaf, int is_gigantic)
{
	struct walk_record *rec = &shared.records[shared.h.nr_records & (MAX_RECORDS - 1)];
	u64 kind = KIND_HUGE;

	/* A huge page being split is for a moment neither present nor gone, but stays large. */
	if (!(leaf & (ENTRY_PRESENT | ENTRY_PROTNONE | ENTRY_LARGE))) {
		kind |= HUGE_MIGRATING;
	} else if (!(leaf & ENTRY_PRESENT) && (leaf & ENTRY_PROTNONE)) {
		kind |= HUGE_PROTNONE;
		if (leaf & ENTRY_ACCESSED)
			kind |= HUGE_ACCESSED;
		if (IS_DIRTY(leaf))
			kind |= HUGE_DIRTY;
		if (shared.h.nr_node_ranges)
			kind |= (node_of(address_of(as_present(leaf)) & ~LARGE_OFFSET) & NODE_UNKNOWN) << HUGE_NODE_SHIFT;
	} else if (is_gigantic || (leaf & ENTRY_SPECIAL)) {
		kind |= HUGE_SPECIAL;
	} else {
		kind |= HUGE_PRESENT;
		if (leaf & ENTRY_ACCESSED)
			kind |= HUGE_ACCESSED;
		if (IS_DIRTY(leaf))
			kind |= HUGE_DIRTY;
		if (!(leaf & (ENTRY_WRITABLE | ENTRY_DIRTY)))
			shared.h.nr_clean_huge++;
		/* The lowest address bit of a large page is a caching attribute. */
		if (shared.h.wants_inactive && is_inactive(address_of(leaf) & ~LARGE_OFFSET))
			kind |= HUGE_INACTIVE;
		if (shared.h.nr_node_ranges)
			kind |= (node_of(address_of(leaf) & ~LARGE_OFFSET) & NODE_UNKNOWN) << HUGE_NODE_SHIFT;
	}
	rec->table = table_no;
	rec->kind = kind;
	rec->leaf = leaf;
	shared.h.nr_records++;
}

/* One table, or one stretch of nothing. Returns 1 to end the run. */
static long step(u32 index, void *ctx)
{
	u64 table_no = shared.h.cursor, at, link, table;
	struct walk_record *rec;
	long is_unreadable;

	if (shared.h.nr_records >= MAX_RECORDS) {
		shared.h.status = WALK_MORE;
		return 1;
	}
	if (!(index & (STEPS_A_CLOCK_READ - 1)) && index &&
	    bpf_ktime_get_ns() - run.started_ns > shared.h.budget_ns) {
		shared.h.status = WALK_MORE;
		return 1;
	}
	if (table_no >= shared.h.span_end) {
		u64 next = shared.h.span_index;

		if (next >= shared.h.nr_spans || next >= MAX_SPANS) {
			shared.h.status = WALK_DONE;
			return 1;
		}
		table_no = shared.spans[next].first;
		shared.h.cursor = table_no;
		shared.h.span_end = shared.spans[next].end;
		shared.h.span_index = next + 1;
		if (table_no >= shared.h.span_end)
			return 0;
	}
	if (run.cached_no != table_no >> (SHIFT_PUD - SHIFT_PMD) && !find_middle(table_no))
		return 0;
	if (!run.cached_table) {
		record_huge(table_no, run.cached_link, 1);
		shared.h.cursor = table_no + 1;
		return 0;
	}
	if (run.is_middle_copied) {
		u32 i = table_no & (TABLE_ENTRIES - 1);
		u64 *line = &run.middle[i & (TABLE_ENTRIES - ENTRIES_A_LINE)];

		if (!(i & (ENTRIES_A_LINE - 1)) && !ANY_OF_8(line)) {
			shared.h.cursor = table_no + ENTRIES_A_LINE;
			return 0;
		}
		link = run.middle[i];
		if (!(link & ~ENTRY_NOISE)) {
			shared.h.cursor = table_no + 1;
			return 0;
		}
		/* A huge page leads nowhere, so that the copy is all there is to know. */
		if ((link & ENTRY_LARGE) || !(link & ENTRY_PRESENT)) {
			record_huge(table_no, link, 0);
			shared.h.cursor = table_no + 1;
			return 0;
		}
	}
	at = run.cached_table + (table_no & (TABLE_ENTRIES - 1)) * 8;
	link = read_entry(at);
	if (!(link & ~ENTRY_NOISE)) {
		shared.h.cursor = table_no + 1;
		return 0;
	}
	if ((link & ENTRY_LARGE) || !(link & ENTRY_PRESENT)) {
		if (!is_same_link(run.cached_link_at, run.cached_link))
			goto torn;
		record_huge(table_no, link, 0);
		shared.h.cursor = table_no + 1;
		return 0;
	}
	table = target_of(link);
	if (!table) {
		shared.h.cursor = table_no + 1;
		return 0;
	}
	is_unreadable = bpf_probe_read_kernel(run.entries, sizeof(run.entries), (void *)table);
	if (!is_same_link(at, link) || !is_same_link(run.cached_link_at, run.cached_link))
		goto torn;
	if (is_unreadable) {
		shared.h.nr_refused++;
		shared.h.cursor = table_no + 1;
		return 0;
	}
	run.torn_retries = 0;
	shared.h.nr_tables++;
	rec = &shared.records[shared.h.nr_records & (MAX_RECORDS - 1)];
	rec->leaf = 0;
	bpf_loop(TABLE_WORDS, classify_word, 0, 0);
	if (rec->leaf) {
		if (shared.h.wants_inactive)
			bpf_loop(TABLE_ENTRIES, find_inactive, 0, 0);
		if (shared.h.nr_node_ranges)
			bpf_loop(TABLE_ENTRIES, find_node, 0, 0);
		rec->table = table_no;
		rec->kind = 0;
		rec->leaf = 0;
		shared.h.nr_records++;
	}
	shared.h.cursor = table_no + 1;
	return 0;
torn:
	shared.h.nr_torn++;
	run.cached_no = ~0ULL;
	if (++run.torn_retries > MAX_TORN_RETRIES) {
		run.torn_retries = 0;
		shared.h.cursor = table_no + 1;
	}
	return 0;
}

/* The physical address that a virtual one is mapped to; 0 if it is to none, or by 1 GiB at once. */
static __always_inline u64 physical_of(u64 addr)
{
	u64 table = shared.h.pgd, link;

	if (shared.h.levels == 5) {
		link = read_entry(entry_at(table, addr, SHIFT_PGD5));
		if (!(link & ENTRY_PRESENT) || !(table = target_of(link)))
			return 0;
	}
	link = read_entry(entry_at(table, addr, SHIFT_P4D));
	if (!(link & ENTRY_PRESENT) || !(table = target_of(link)))
		return 0;
	link = read_entry(entry_at(table, addr, SHIFT_PUD));
	if (!(link & ENTRY_PRESENT) || (link & ENTRY_LARGE) || !(table = target_of(link)))
		return 0;
	link = read_entry(entry_at(table, addr, SHIFT_PMD));
	if (!(link & ENTRY_PRESENT) || !(table = target_of(link)))
		return 0;
	/* The lowest address bit of a large page is a caching attribute. */
	if (link & ENTRY_LARGE)
		return ((table & ~LARGE_OFFSET) | (addr & LARGE_OFFSET)) - shared.h.direct_base;
	link = read_entry(entry_at(table, addr, SHIFT_PAGE));
	if (!(link & ENTRY_PRESENT) || !(table = target_of(link)))
		return 0;
	return (table | (addr & PAGE_OFFSET)) - shared.h.direct_base;
}

/* Copies the start of one page, so that user space can tell a true walk from a false one. */
static __always_inline void peek(void)
{
	int shift = shared.h.levels == 5 ? SHIFT_PGD5 : SHIFT_P4D;
	u64 phys = physical_of(shared.h.peek_addr);
	struct page_words words;
	struct folio *folio;

	shared.h.peek_entry = read_entry(entry_at(shared.h.pgd, shared.h.peek_addr, shift));
	if (!phys)
		return;
	bpf_probe_read_kernel(shared.h.peek, sizeof(shared.h.peek), (void *)(shared.h.direct_base + phys));
	if (!shared.h.pages_base || !bpf_core_field_exists(folio->index))
		return;
	folio = (struct folio *)folio_of(phys, &words);
	if (folio)
		shared.h.peek_flags = words.flags;
	if (!folio || bpf_probe_read_kernel(&shared.h.peek_index, sizeof(shared.h.peek_index), &folio->index))
		return;
	shared.h.peek_index += (page_at(phys) - (u64)folio) / bpf_core_type_size(struct page);
}

/*
 * Where the kernel keeps a struct for each physical page: a task's kernel stack is mapped page by
 * page, and the kernel remembers the struct of the first. From that page's number follows where number
 * 0 is.
 */
static __always_inline void find_pages_base(struct task_struct *task)
{
	u64 phys, first = 0;

	if (!bpf_core_field_exists(task->stack_vm_area))
		return;
	phys = physical_of((u64)task->stack);
	if (!phys || !task->stack_vm_area)
		return;
	if (!bpf_probe_read_kernel(&first, sizeof(first), (void *)task->stack_vm_area->pages) && first)
		shared.h.peek_base = first - page_at(phys) + shared.h.pages_base;
}

SEC("iter/task")
int walk_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct mm_struct *mm;

	/* With several threads the first that has an address space stands for all. */
	if (!task || shared.h.status != WALK_UNSEEN)
		return 0;
	mm = task->mm;
	if (!mm)
		return 0;
	shared.h.tid = task->pid;
	shared.h.mm = (u64)mm;
	shared.h.pgd = (u64)mm->pgd;
	if (shared.h.peek_addr) {
		peek();
		find_pages_base(task);
	}
	run.started_ns = bpf_ktime_get_ns();
	run.node.end = 0;
	run.cached_no = ~0ULL;
	run.torn_retries = 0;
	shared.h.status = WALK_MORE;
	if (shared.h.nr_spans)
		bpf_loop(MAX_STEPS, step, 0, 0);
	else
		shared.h.status = WALK_DONE;
	if (*(struct mm_struct *volatile *)&task->mm != mm)
		shared.h.status = WALK_MOVED;
	return 0;
}
