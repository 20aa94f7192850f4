/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * How far the kernel has counted reads of a page, what is remembered of that from census to census, and telling user space
 * of pages one by one. Part of census.bpf.c.
 */
#ifndef STRATA_CENSUS_WATCH_H
#define STRATA_CENSUS_WATCH_H

/*
 * What is remembered of the pages of a block. User space makes it as large as the number of blocks that it watches.
 *
 * Of each folio its first page's number remembers: in bits 0 to 2 the rank (how far the kernel has counted reads), in bits
 * 4 to 15 the number of the census that last found it changed, in bit 3 whether that leaves open if it was read, in bit 16
 * whether its count was full at the first census and could be reset, in bits 17 to 31 a hash of which page of which file it was: the kernel's struct of the
 * file and the file's generation, since the struct of a deleted file is used again for the next one.
 */
#define RANK_MASK 7
#define IS_UNSURE 8
#define NUMBER_SHIFT 4
#define IS_CANDIDATE (1 << 16)
#define IDENTITY_SHIFT 17
#define PROBES_ALL 0x10000
struct block_memory {
	u32 pages[BLOCK_PAGES];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct block_memory);
} memory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RECORDS / CHUNK_RECORDS);
	__type(key, u32);
	__type(value, struct census_record[CHUNK_RECORDS]);
} records SEC(".maps");

/* Groups of which all page cache is told, by the inode of their directory. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u64);
	__type(value, u8);
} watched SEC(".maps");

/* What the map of watched groups said, for as long as a call lasts. */
#define NR_VERDICTS 16
struct verdict {
	u64 group;
	u64 is_of_interest;
} verdicts[NR_VERDICTS];

/* Generations of files, for as long as a call lasts. */
#define NR_OWNERS 1024
struct owner {
	u64 mapping;
	u64 call; /* when it was asked: at the begin of this call */
	u64 generation;
} owners[NR_OWNERS];

/*
 * The generation of the file that a struct of the kernel's is part of, by a hash of its address. It is read at its place
 * beside the struct. Where the struct is no part of a file, as of the swap cache, some number is.
 */
__noinline u64 generation_of(u64 mapping, u64 hash)
{
	struct owner *owner = &owners[hash & (NR_OWNERS - 1)];
	u64 inode = mapping - bpf_core_field_offset(struct inode, i_data);
	u32 generation = 0;

	if (owner->mapping == mapping && owner->call == run.started_ns)
		return owner->generation;
	bpf_probe_read_kernel(&generation, sizeof(generation),
			      (void *)(inode + bpf_core_field_offset(struct inode, i_generation)));
	owner->mapping = mapping;
	owner->call = run.started_ns;
	owner->generation = generation;
	return generation;
}

/* How far the kernel has counted reads of a page through descriptors: each is a step more, until there is none left. */
static __always_inline u64 rank_of(u64 flags)
{
	u64 rank = IS_SET(flags, PG_referenced);

	if (!run.c.has_generations)
		rank += 2 * IS_SET(flags, PG_active);
	else if (run.c.refs_flags)
		rank += IS_SET(flags, PG_workingset) + (flags >> ((run.c.gen_shift - 2) & 63) & 3);
	return rank;
}

static __always_inline u32 number_of(u32 known)
{
	return known >> NUMBER_SHIFT & NUMBER_MASK;
}

/*
 * Remembers how far the count of a page is after it was to be reset. What was read before that is not known, unless this census
 * found it read. What is full again counts as read, also where it could not be reset.
 */
static __always_inline void confirm(u32 *own, u32 identity, u32 rank, u64 nr_pages)
{
	u32 known = *own, number = run.c.number & NUMBER_MASK;

	if (known >> IDENTITY_SHIFT != identity || !(known & IS_CANDIDATE) || (known & RANK_MASK) < run.c.rank_max ||
	    rank >= run.c.rank_max)
		return;
	run.c.nr_reset += nr_pages;
	if (number_of(known) == number)
		known = (known & ~RANK_MASK) | rank;
	else
		known = (known & ~(RANK_MASK | NUMBER_MASK << NUMBER_SHIFT)) | number << NUMBER_SHIFT | IS_UNSURE | rank;
	*own = known;
}

/* Whether the file lies on a file system on which user space can open it by its number. */
__noinline u64 is_reachable(u64 mapping)
{
	struct address_space *space = (struct address_space *)mapping;
	u64 magic = BPF_CORE_READ(space, host, i_sb, s_magic);

	return magic == EXT4_MAGIC || magic == XFS_MAGIC;
}

#define BUSY_FLAGS (FLAG(PG_dirty) | FLAG(PG_writeback) | FLAG(PG_unevictable))

/*
 * Compares a page with what is remembered of it. What is new came since the census before, so it was read since; of what
 * the first census finds it is not known. A rank that fell may hide a read: the kernel reclaims, or has begun to make the
 * page active, for which it takes the first mark away. So may a mapping, the bits of which others have cleared. What is to
 * be written was used, although the kernel counts no writes.
 *
 * Of a page whose count is full a read does not show. Such pages of the first census are candidates, and some of them a sample,
 * chosen by the hash and a seed. User space is told of those of the sample whenever their counts are full, and has the kernel
 * reset the counts. Then it has us look again, and what is found is remembered, so that the next read shows. What is mapped or
 * written meanwhile is a candidate no more.
 */
__noinline int recall(u64 page, u64 mapping, u64 index, struct facts *f)
{
	u32 place = run.c.place + (page - run.c.first) / BLOCK_PAGES, known, identity, last, distance;
	struct block_memory *block;
	u32 *own, rank, unsure, candidate = 0;
	u64 hash = (mapping >> 3) * 0x9e3779b97f4a7c15ULL;

	if (!f)
		return 0;
	rank = rank_of(f->flags);
	block = bpf_map_lookup_elem(&memory, &place);
	if (!block)
		return 0;
	own = &block->pages[page & (BLOCK_PAGES - 1)];
	known = *own;
	hash ^= index * 0xc2b2ae3d27d4eb4fULL ^ generation_of(mapping, hash >> 54) * 0xff51afd7ed558ccdULL;
	identity = hash >> (32 + IDENTITY_SHIFT);
	last = number_of(known);
	unsure = known & IS_UNSURE;
	if (run.c.number != 1 && known >> IDENTITY_SHIFT == identity)
		candidate = known & IS_CANDIDATE;
	f->is_sampled = ((hash ^ run.c.probe_seed) * 0x94d049bb133111ebULL >> 40 & (PROBES_ALL - 1)) < run.c.probe_limit;
	if (run.c.is_confirming) {
		/* Counts of others fall where the kernel reclaims: nobody has had them reset. */
		if (f->is_sampled)
			confirm(own, identity, rank, f->nr_pages);
		return 0;
	}
	if (run.c.number == 1) {
		last = 0;
		unsure = 0;
	} else if (known >> IDENTITY_SHIFT != identity || rank > (known & RANK_MASK)) {
		last = run.c.number;
		unsure = 0;
	} else if (rank < (known & RANK_MASK)) {
		last = run.c.number;
		unsure = IS_UNSURE;
	}
	if (f->nr_mapped) {
		last = run.c.number;
		unsure = IS_UNSURE;
	} else if (f->flags & (FLAG(PG_dirty) | FLAG(PG_writeback)) && !(f->flags & FLAG(PG_swapbacked))) {
		last = run.c.number;
		unsure = 0;
	}
	distance = (run.c.number - last) & NUMBER_MASK;
	if (distance > NUMBERS_MAX)
		distance = NUMBERS_MAX;
	if (f->nr_mapped || run.is_partly_mapped || f->flags & BUSY_FLAGS)
		candidate = 0;
	else if (run.c.number == 1 && f->may_reset && rank >= run.c.rank_max && f->flags & FLAG(PG_uptodate) &&
		 f->nr_pages <= run.c.probe_pages_max && is_reachable(mapping))
		candidate = IS_CANDIDATE;
	f->is_candidate = candidate != 0;
	f->is_to_reset = run.c.wants_full && f->is_candidate && f->is_sampled && rank >= run.c.rank_max;
	*own = identity << IDENTITY_SHIFT | candidate |
	       (((u32)run.c.number - distance) & NUMBER_MASK) << NUMBER_SHIFT | unsure | rank;
	f->is_watched = 1;
	f->distance = distance;
	f->is_unsure = unsure;
	/* Reads of what is locked in memory are not counted, nor is it known yet which pages of such a folio are mapped. */
	f->is_full = rank >= run.c.rank_max || f->flags & FLAG(PG_unevictable) || run.is_partly_mapped;
	return 0;
}

/* Whether a group is one of those that user space has named; asked of the map once a call for most. */
__noinline u64 is_of_interest(u64 group)
{
	struct verdict *verdict = &verdicts[((group >> 6) ^ (group >> 12)) & (NR_VERDICTS - 1)];
	u64 id;

	if (!group)
		return 0;
	if (verdict->group != group) {
		id = id_of_group(group);
		verdict->group = group;
		verdict->is_of_interest = bpf_map_lookup_elem(&watched, &id) != 0;
	}
	return verdict->is_of_interest;
}

/* Tells of a folio: if it lies idle, if its count is to be reset, or whatever there is where a file is listed. */
__noinline int tell(u64 mapping, u64 group, u64 index, const struct facts *f)
{
	u64 age = run.c.ages[(run.c.records_age - 1) % NR_AGES], is_busy, is_idle;
	struct census_record (*some)[CHUNK_RECORDS], *record;
	u32 place;

	if (!f || (!run.c.wants_mapped && (run.is_partly_mapped || f->nr_mapped)))
		return 0;
	is_busy = f->flags & BUSY_FLAGS;
	/* What is in memory only is always to be written. */
	if (f->flags & FLAG(PG_swapbacked))
		is_busy &= ~FLAG(PG_dirty);
	is_idle = run.c.records_age && age && f->is_watched && f->distance >= age && !f->is_full && !is_busy;
	if (!run.c.mapping && !is_idle && !f->is_to_reset)
		return 0;
	place = run.c.nr_records / CHUNK_RECORDS;
	some = bpf_map_lookup_elem(&records, &place);
	if (!some)
		return 0;
	record = &(*some)[run.c.nr_records++ & (CHUNK_RECORDS - 1)];
	record->mapping = mapping;
	record->group = group;
	record->index = index;
	record->nr_pages = f->nr_pages;
	record->rank = rank_of(f->flags);
	record->is_busy = is_busy != 0;
	record->is_referenced = IS_SET(f->flags, PG_referenced);
	record->is_mapped = f->nr_mapped || run.is_partly_mapped;
	record->placed = f->page | IS_SET(f->flags, PG_active) * PLACED_ACTIVE |
			 IS_SET(f->flags, PG_workingset) * PLACED_WORKINGSET;
	if (run.c.gen_shift)
		record->placed |= (f->flags >> (run.c.gen_shift & 63) & GENERATION_MASK) << PLACED_GENERATION_SHIFT;
	if (f->is_to_reset) {
		struct inode *inode = BPF_CORE_READ((struct address_space *)mapping, host);

		record->inode = BPF_CORE_READ(inode, i_ino);
		record->device = BPF_CORE_READ(inode, i_sb, s_dev);
		record->generation = BPF_CORE_READ(inode, i_generation);
	}
	return 0;
}

#endif
