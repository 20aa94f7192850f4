// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Looks at the kernel's struct of every physical page of a range, 64 at a time, and sums up by group and by file.
 *
 * Nothing is locked and no list is followed: what is read of a page is what it was at one moment. A page may be
 * freed and used again between two reads, so each pointer is only followed by reads that may fail, and what they
 * bring is a number to sum up, never a place to write to.
 *
 * Most neighbours in memory are of the same few groups and files. Sums are therefore kept in two small tables, and go
 * to the maps when a place is needed for another one and when user space asks.
 */
#include "kernel.h"
#include "census.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CHUNK_PAGES 64
#define PAGE_WORDS 8 /* user space has checked that a struct is 64 bytes */
#define MAX_CHUNKS (1 << 20)
#define MAX_ORDER 18
#define GROUP_SLOTS 64
#define FILE_SLOTS 4096
#define IS_TAIL 1
#define MAPPING_KIND 3
#define MAPPING_ANON 1
#define MAPPING_DRIVER 2
#define MEMCG_DATA_FLAGS 7
#define PAGE_TYPE_MAX (-128) /* a count of mappings is larger */
#define PAGES_MAPPED_ENTIRELY 0x800000
#define GENERATION_MASK 7
#define DISKS_MAGIC 0x62646576 /* the kernel's own file system of disks */
#define EXT4_MAGIC 0xef53
#define XFS_MAGIC 0x58465342
#define TMPFS_MAGIC 0x01021994

#define FLAG(name) (1ULL << bpf_core_enum_value(enum pageflags, name))
#define IS_SET(flags, name) ((flags) >> bpf_core_enum_value(enum pageflags, name) & 1)
#define FLAG_IF(name) (bpf_core_enum_value_exists(enum pageflags, name) ? FLAG(name) : 0)
#define WORD(field) (bpf_core_field_offset(struct folio, field) / 8 % PAGE_WORDS)
#define HAS(field) bpf_core_field_exists(struct folio, field)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct census_key);
	__type(value, struct census_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FILES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct census_key);
	__type(value, struct census_file);
} files SEC(".maps");

struct slot {
	struct census_key key;
	struct census_sums sums;
};

struct slot group_slots[GROUP_SLOTS];
struct slot file_slots[FILE_SLOTS];
struct census_group new_group;
struct census_file new_file;

/*
 * Where a kernel keeps what others have not, as a place in the struct of a large folio's second page; of the group, in
 * that of any. NOWHERE where it has not.
 */
#define NOWHERE (~0ULL)
struct {
	u64 group;
	u64 order;       /* as a number of its own */
	u64 pages_mapped;
	u64 mappings;    /* all mappings of any of its pages, less one */
	u64 mappings_of_all; /* mappings of all of it at once, less one */
	u64 destructor;
} places;

/* One call. */
struct {
	struct census_call c;
	u64 used_flags; /* of a folio that was used again since it came */
	u64 started_ns;
	u64 chunk; /* first page of those that have been copied */
	u64 is_partly_mapped; /* kernels without a count of the pages mapped: the folio before was not mapped as a whole */
	struct census_key partly_group;
	struct census_key partly_file;
	u64 are_tails_told; /* whether pages of a large folio but the first tell whether they are mapped */
	u64 words[CHUNK_PAGES * PAGE_WORDS];
	u32 nr_chosen;
	u8 chosen[CHUNK_PAGES]; /* pages worth a look */
} run;

/* What is summed up of one folio. */
struct facts {
	u64 nr_pages;
	u64 nr_mapped;
	u64 flags;
	u64 is_watched; /* whether it is told how long ago it was read: */
	u64 distance;   /* so many censuses */
	u64 is_unsure;  /* whether it may have been used then */
	u64 is_full;    /* whether a read would not have been counted any more */
	u64 is_candidate; /* whether its count was full at the first census, and could be reset */
	u64 is_sampled; /* whether it is one of those of which it was reset */
	u64 may_reset;  /* whether its kind and its group allow that */
	u64 is_to_reset; /* whether it is to be reset in this census */
	u64 page;       /* its number */
};

static __always_inline void add(struct census_sums *sums, const struct facts *f)
{
	u64 flags = f->flags, n = f->nr_pages, generation = 0;

	sums->pages += n;
	sums->mapped += f->nr_mapped;
	sums->dirty += n * IS_SET(flags, PG_dirty);
	sums->writeback += n * IS_SET(flags, PG_writeback);
	sums->unevictable += n * IS_SET(flags, PG_unevictable);
	sums->used += flags & run.used_flags ? n : f->nr_mapped;
	if (run.c.gen_shift)
		generation = flags >> (run.c.gen_shift & 63) & GENERATION_MASK;
	if (generation < NR_GENERATIONS)
		sums->generations[generation] += n;
	if (!f->is_watched)
		return;
	n -= f->nr_mapped < n ? f->nr_mapped : n;
	for (int i = 0; i < NR_AGES; i++) {
		u64 is_recent = f->distance < run.c.ages[i];


		if (is_recent && !f->is_unsure)
			sums->read[i] += n;
		else if (run.c.ages[i] && (is_recent || f->is_full)) {
			sums->unknown[i] += n;
			sums->unprobed[i] += f->is_candidate && !f->is_sampled ? n : 0;
		} else if (run.c.ages[i] && f->is_candidate && f->is_sampled)
			sums->probed_idle[i] += n;
	}
	if (f->is_candidate && f->is_sampled) {
		sums->probed += n;
		sums->probed_squares += n * n;
	}
}

static __always_inline void merge(struct census_sums *into, struct census_sums *from)
{
	into->pages += from->pages;
	into->mapped += from->mapped;
	into->dirty += from->dirty;
	into->writeback += from->writeback;
	into->unevictable += from->unevictable;
	into->used += from->used;
	for (int i = 0; i < NR_GENERATIONS; i++)
		into->generations[i] += from->generations[i];
	for (int i = 0; i < NR_AGES; i++) {
		into->read[i] += from->read[i];
		into->unknown[i] += from->unknown[i];
		into->probed_idle[i] += from->probed_idle[i];
		into->unprobed[i] += from->unprobed[i];
	}
	into->probed += from->probed;
	into->probed_squares += from->probed_squares;
	__builtin_memset(from, 0, sizeof(*from));
}

/* The inode of a group's directory. */
static __always_inline u64 id_of_group(u64 group)
{
	struct mem_cgroup *memcg = (struct mem_cgroup *)group;

	return group ? BPF_CORE_READ(memcg, css.cgroup, kn, id) : 0;
}

__noinline int settle_group(u32 index)
{
	struct slot *slot = &group_slots[index & (GROUP_SLOTS - 1)];
	struct census_group *group;

	if (!slot->sums.pages)
		return 0;
	group = bpf_map_lookup_elem(&groups, &slot->key);
	if (group)
		merge(&group->sums, &slot->sums);
	else
		run.c.nr_lost += slot->sums.pages;
	slot->sums.pages = 0;
	return 0;
}

__noinline int settle_file(u32 index)
{
	struct slot *slot = &file_slots[index & (FILE_SLOTS - 1)];
	struct census_file *file;

	if (!slot->sums.pages)
		return 0;
	file = bpf_map_lookup_elem(&files, &slot->key);
	if (file)
		merge(&file->sums, &slot->sums);
	else
		run.c.nr_lost += slot->sums.pages;
	slot->sums.pages = 0;
	return 0;
}

/* Gives a place to another group: what it is has to be read while a page of it has just been seen. */
__noinline int admit_group(u32 index, u64 of, u64 and)
{
	struct slot *slot = &group_slots[index & (GROUP_SLOTS - 1)];

	settle_group(index);
	__builtin_memset(&slot->sums, 0, sizeof(slot->sums));
	slot->key.of = of;
	slot->key.and = and;
	if (bpf_map_lookup_elem(&groups, &slot->key))
		return 0;
	new_group.id = id_of_group(of);
	bpf_map_update_elem(&groups, &slot->key, &new_group, BPF_NOEXIST);
	return 0;
}

__noinline int admit_file(u32 index, u64 mapping, u64 group)
{
	struct slot *slot = &file_slots[index & (FILE_SLOTS - 1)];
	struct address_space *space = (struct address_space *)mapping;
	struct inode *inode;
	u64 magic;

	settle_file(index);
	__builtin_memset(&slot->sums, 0, sizeof(slot->sums));
	slot->key.of = mapping;
	slot->key.and = group;
	if (bpf_map_lookup_elem(&files, &slot->key))
		return 0;
	inode = BPF_CORE_READ(space, host);
	new_file.group_id = id_of_group(group);
	new_file.inode = BPF_CORE_READ(inode, i_ino);
	magic = BPF_CORE_READ(inode, i_sb, s_magic);
	new_file.is_disk = magic == DISKS_MAGIC;
	new_file.is_in_memory_only = magic == TMPFS_MAGIC;
	new_file.device = new_file.is_disk ? BPF_CORE_READ(inode, i_rdev) : BPF_CORE_READ(inode, i_sb, s_dev);
	new_file.generation = BPF_CORE_READ(inode, i_generation);
	new_file.nr_links = BPF_CORE_READ(inode, i_nlink);
	bpf_map_update_elem(&files, &slot->key, &new_file, BPF_NOEXIST);
	return 0;
}

static __always_inline u32 place_of(u64 of, u64 and)
{
	return ((of >> 4) ^ (of >> 12) * 31 ^ (and >> 4) ^ (and >> 12) * 17 ^ and) & 0xffff;
}

__noinline int add_to_group(u64 of, u64 and, const struct facts *f)
{
	u32 index = place_of(of, and) & (GROUP_SLOTS - 1);
	struct slot *slot = &group_slots[index];

	if (!f)
		return 0;
	if (slot->key.of != of || slot->key.and != and || !slot->sums.pages)
		admit_group(index, of, and);
	add(&slot->sums, f);
	return 0;
}

__noinline int add_to_file(u64 of, u64 and, const struct facts *f)
{
	u32 index = place_of(of, and) & (FILE_SLOTS - 1);
	struct slot *slot = &file_slots[index];

	if (!f)
		return 0;
	if (slot->key.of != of || slot->key.and != and || !slot->sums.pages)
		admit_file(index, of, and);
	add(&slot->sums, f);
	return 0;
}

/* Looked for once a call, since clang takes such a constant out of a loop and of the question whether it is there. */
#define FIND(place, field)                                              \
	if (HAS(field)) {                                               \
		u64 at = bpf_core_field_offset(struct folio, field);    \
		asm volatile("" : "+r"(at));                            \
		places.place = at % (PAGE_WORDS * 8);                   \
	} else {                                                        \
		places.place = NOWHERE;                                 \
	}

static __noinline int find_places(void)
{
	FIND(group, memcg_data)
	FIND(order, _folio_order)
	FIND(pages_mapped, _nr_pages_mapped)
	FIND(mappings, _large_mapcount)
	FIND(mappings_of_all, _total_mapcount)
	FIND(destructor, _folio_dtor)
	return 0;
}

/* What is kept at a place, in the lowest bits. */
static __always_inline u64 at(const u64 *words, u64 place)
{
	return words[place / 8 % PAGE_WORDS] >> (place % 8 * 8);
}

/* Whether this is the first page of a hugetlb folio. They are on no list, and charged to no group. */
static __always_inline u64 is_hugetlb(int type, const u64 *second)
{
	if (bpf_core_enum_value_exists(enum pagetype, PGTY_hugetlb))
		return ((u32)type >> 24) == bpf_core_enum_value(enum pagetype, PGTY_hugetlb);
	if (bpf_core_enum_value_exists(enum compound_dtor_id, HUGETLB_PAGE_DTOR) && places.destructor != NOWHERE)
		return (at(second, places.destructor) & 0xff) ==
		       bpf_core_enum_value(enum compound_dtor_id, HUGETLB_PAGE_DTOR);
	if (bpf_core_enum_value_exists(enum pageflags, PG_hugetlb))
		return IS_SET(second[0], PG_hugetlb);
	return 0;
}

/* How many of a large folio's pages are mapped; `is_partly` is set where those mapped one by one are still to be added. */
static __always_inline u64 nr_mapped_of(const u64 *second, u64 nr_pages, u64 *is_partly)
{
	u64 nr;

	if (places.pages_mapped != NOWHERE) {
		nr = (u32)at(second, places.pages_mapped);
		if (nr >= PAGES_MAPPED_ENTIRELY || nr > nr_pages)
			return nr_pages;
		return nr;
	}
	if (places.mappings != NOWHERE)
		return (int)at(second, places.mappings) >= 0 ? nr_pages : 0;
	if ((int)at(second, places.mappings_of_all) >= 0)
		return nr_pages;
	*is_partly = 1;
	return 0;
}

#include "census_watch.h"

/* One page, the struct of which has been copied. Not static, so that the verifier follows it once and not for each caller. */
__noinline int look_at_page(u32 index)
{
	u32 k = run.chosen[index & (CHUNK_PAGES - 1)];
	u64 *w = &run.words[(k & (CHUNK_PAGES - 1)) * PAGE_WORDS];
	u64 *second = &run.words[((k | 1) & (CHUNK_PAGES - 1)) * PAGE_WORDS];
	u64 flags = w[0], mapping, group, kind, order = 0, is_large, is_listed;
	int count = (int)w[WORD(_mapcount)];
	struct facts f;

	if (w[1] & IS_TAIL) {
		/* Pages of a large folio are counted with the first, but for those mapped each by itself. */
		if (run.c.is_confirming || !run.is_partly_mapped || count < 0)
			return 0;
		run.c.mapped[run.partly_group.and & (NR_KINDS - 1)]++;
		f.nr_pages = 0;
		f.nr_mapped = 1;
		f.flags = 0;
		f.is_watched = 0;
		add_to_group(run.partly_group.of, run.partly_group.and, &f);
		if (run.c.wants_files && run.partly_file.of)
			add_to_file(run.partly_file.of, run.partly_file.and, &f);
		return 0;
	}
	run.is_partly_mapped = 0;
	mapping = w[WORD(mapping)];
	is_large = flags & FLAG(PG_head);
	if (flags & (FLAG_IF(PG_slab) | FLAG(PG_reserved)))
		return 0;
	/* A page in the swap cache that nobody has mapped yet has no mapping. */
	if (!mapping && (flags & (FLAG(PG_swapcache) | FLAG(PG_swapbacked))) !=
				(FLAG(PG_swapcache) | FLAG(PG_swapbacked)))
		return 0;
	if ((mapping & MAPPING_KIND) == MAPPING_DRIVER)
		return 0;
	if (is_large) {
		order = (places.order != NOWHERE ? at(second, places.order) : second[0]) & 0xff;
		/* Taken apart or put together while it was copied. */
		if (order > MAX_ORDER)
			order = 0;
	}
	f.nr_pages = 1ULL << (order & 31);
	if (is_large && is_hugetlb(count, second)) {
		kind = KIND_HUGETLB;
		f.nr_mapped = f.nr_pages;
	} else {
		if (count < PAGE_TYPE_MAX)
			return 0;
		if (!mapping || mapping & MAPPING_ANON)
			kind = KIND_ANON;
		else
			kind = flags & FLAG(PG_swapbacked) ? KIND_SHMEM : KIND_FILE;
		f.nr_mapped = order ? nr_mapped_of(second, f.nr_pages, &run.is_partly_mapped) : count >= 0;
		if (run.is_partly_mapped)
			f.nr_mapped = count >= 0;
	}
	group = places.group != NOWHERE ? at(w, places.group) : 0;
	if (group & MEMCG_DATA_FLAGS)
		group = 0;
	f.flags = flags;
	f.page = run.chunk + k;
	f.is_watched = 0;
	f.is_candidate = 0;
	f.is_sampled = 0;
	f.may_reset = run.c.probe_limit && kind == KIND_FILE && (!run.c.probe_of_groups || is_of_interest(group));
	f.is_to_reset = 0;
	if (run.c.number && (kind == KIND_FILE || kind == KIND_SHMEM))
		recall(run.chunk + k, mapping, w[WORD(index)], &f);
	if (run.c.is_confirming)
		return 0;
	is_listed = run.c.is_of_groups && (kind == KIND_FILE || (kind == KIND_SHMEM && run.c.is_of_groups > 1)) &&
		    is_of_interest(group);
	if ((kind == KIND_FILE && (run.c.records_age || run.c.wants_full)) || (is_listed && run.c.mapping))
		tell(mapping, group, w[WORD(index)], &f);
	/* Sums are a census's. */
	if (run.c.mapping)
		return 0;
	run.c.kinds[kind] += f.nr_pages;
	run.c.mapped[kind] += f.nr_mapped;
	run.partly_group.of = group;
	run.partly_group.and = run.c.node << 32 | kind;
	add_to_group(run.partly_group.of, run.partly_group.and, &f);
	run.partly_file.of = 0;
	if (run.c.wants_files && (run.c.is_of_groups ? is_listed : kind == KIND_FILE || kind == KIND_SHMEM)) {
		run.partly_file.of = mapping;
		run.partly_file.and = group;
		add_to_file(mapping, group, &f);
	}
	return 0;
}

static long look_at(u32 index, void *ctx)
{
	look_at_page(index);
	return 0;
}

/* Keeps clang from turning arithmetic into branches, each of which the verifier would follow for each page. */
#define SETTLE(x) asm volatile("" : "+r"(x))

/*
 * Most pages of a machine are free, the kernel's own, or belong to a large folio: they are passed over without a branch.
 * Returns how many are left. Their number is kept in memory, where the verifier does not follow it.
 */
__noinline u32 choose(u64 nr)
{
	volatile u32 *nr_chosen = &run.nr_chosen;

	*nr_chosen = 0;
#pragma clang loop unroll(disable)
	for (u32 k = 0; k < CHUNK_PAGES; k++) {
		const u64 *w = &run.words[k * PAGE_WORDS];
		u64 is_tail = w[1] & IS_TAIL & ~run.are_tails_told;
		u64 is_used = w[WORD(mapping)] | (w[0] & FLAG(PG_swapcache)), is_inside = k - nr;
		u32 place = *nr_chosen;

		/* The sign of (x | -x) is set unless x is 0. */
		is_used = (is_used | -is_used) >> 63;
		SETTLE(is_used);
		/* The sign of a difference is set if it is negative. */
		is_inside >>= 63;
		SETTLE(is_inside);
		run.chosen[place & (CHUNK_PAGES - 1)] = k;
		*nr_chosen = place + (is_used & is_inside & ~is_tail);
	}
	return *nr_chosen;
}

static long look_at_chunk(u32 index, void *ctx)
{
	u64 from = run.c.next, nr;

	if (from >= run.c.end)
		return 1;
	if (index && !run.is_partly_mapped && bpf_ktime_get_ns() - run.started_ns > run.c.budget_ns)
		return 1;
	/* User space empties the records between two calls. */
	if (!run.is_partly_mapped && run.c.nr_records + BLOCK_PAGES > MAX_RECORDS)
		return 1;
	nr = run.c.end - from < CHUNK_PAGES ? run.c.end - from : CHUNK_PAGES;
	run.c.next = from + nr;
	run.chunk = from;
	run.c.nr_looked += nr;
	if (bpf_probe_read_kernel(run.words, sizeof(run.words),
				  (void *)(run.c.pages_base + from * PAGE_WORDS * 8))) {
		run.c.nr_holes += nr;
		return 0;
	}
	bpf_loop(choose(nr), look_at, 0, 0);
	return 0;
}

static long settle_group_at(u32 index, void *ctx)
{
	settle_group(index);
	return 0;
}

static long settle_file_at(u32 index, void *ctx)
{
	settle_file(index);
	return 0;
}

static __noinline int begin(struct census_call *call)
{
	if (!call)
		return 0;
	run.c = *call;
	run.c.nr_records = 0;
	run.c.nr_looked = 0;
	run.c.nr_holes = 0;
	run.c.nr_reset = 0;
	run.c.nr_lost = 0;
	for (int i = 0; i < NR_KINDS; i++) {
		run.c.kinds[i] = 0;
		run.c.mapped[i] = 0;
	}
	run.c.nr_flags = bpf_core_enum_value(enum pageflags, __NR_PAGEFLAGS);
	run.c.page_bytes = bpf_core_type_size(struct page);
	run.used_flags = FLAG(PG_active);
	if (run.c.has_generations)
		run.used_flags |= FLAG(PG_workingset) | run.c.refs_flags;
	find_places();
	run.are_tails_told = places.pages_mapped == NOWHERE && places.mappings == NOWHERE;
	run.started_ns = bpf_ktime_get_ns();
	run.is_partly_mapped = 0;
	__builtin_memset(verdicts, 0, sizeof(verdicts));
	return 0;
}

SEC("syscall")
int take_census(struct census_call *call)
{
	begin(call);
	if (run.c.wants_flush) {
		bpf_loop(GROUP_SLOTS, settle_group_at, 0, 0);
		bpf_loop(FILE_SLOTS, settle_file_at, 0, 0);
	} else if (run.c.page_bytes == PAGE_WORDS * 8) {
		bpf_loop(MAX_CHUNKS, look_at_chunk, 0, 0);
	}
	*call = run.c;
	return 0;
}

#include "census_arrivals.h"
#include "census_file.h"
#include "census_names.h"
