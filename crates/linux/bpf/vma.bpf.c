// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Streams the mappings of one task: start, end and the kernel's flags of each, as binary records.
 * The iterator takes and drops the mmap lock for reading by itself, and resumes by address.
 */
#include "kernel.h"
#include "shared.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("iter/task_vma")
int list_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct vma_record record;

	if (!vma)
		return 0;
	record.start = vma->vm_start;
	record.end = vma->vm_end;
	record.flags = vma->vm_flags;
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
