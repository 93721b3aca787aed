/* SPDX-License-Identifier: MIT */
/*
 * client: reads checkpoints from C, without a mount and without the kernel's FUSE. Link with
 * `pkg-config --cflags --libs ckptfs`.
 *
 *	struct ckptfs *ck;
 *
 *	if (ckptfs_open("step-1000", NULL, &ck))
 *		errx(1, "%s", ckptfs_last_error()->text);
 *	const struct ckptfs_tensor *t = ckptfs_tensor(ck, "model.norm.weight");
 *	void *bytes = malloc(t->nbytes);
 *	struct ckptfs_box all = { .fqn = t->fqn, .to = bytes };
 *	int rc = ckptfs_read_box(ck, &all);
 *
 * Names: a tensor has a fully qualified name (FQN), as a mount shows it: the key of the state
 * dict without the prefixes of wrappers. Names are UTF-8, unless the checkpoint has other
 * bytes. A name with a NUL is not found by name, only by number. A path is that of a file or
 * directory in a mount, as "full/model.norm.weight.npy", see ckptfs(5).
 *
 * Shapes, offsets and sizes are in elements, slowest dimension first. Strides, lengths and
 * positions are in bytes. Elements have the byte order of this machine. The two values of an
 * element of float4_e2m1fn_x2 count as one element of one byte.
 *
 * Errors: a function that can fail returns 0, or a count, or a negative errno. It then sets
 * the error of the calling thread, see ckptfs_last_error(). The library prints nothing.
 * ENODATA: no file has some bytes. EIO: some bytes cannot be read. EBADMSG: some bytes cannot
 * be interpreted. ESTALE: a file changed since the open. ENOENT: there is no such name.
 * EINVAL: an argument is wrong. ENOMEM, EMFILE and other errors of this process are transient.
 *
 * Threads: any thread may call all functions at any time, but nothing else may use a handle
 * during its ckptfs_close(). Only ckptfs_read_many() starts threads; they end before it
 * returns.
 *
 * fork(2): a handle can be used in the child, too, which must close it as well. fork(2) waits
 * until no other thread is in a function of the library. Do not call functions of the
 * library in the child of vfork(2), or in a handler of a signal.
 *
 * SIGBUS: the first ckptfs_open() installs a handler, since a data file that is cut during a
 * read raises SIGBUS; the read returns EIO. Other SIGBUS go to the handler that was there
 * before. A program that installs its own handler afterwards gets these signals.
 */
#ifndef CKPTFS_CLIENT_H
#define CKPTFS_CLIENT_H

#include <ckptfs/gpu_memory.h> /* tensors of a mount in GPU memory; needs no library */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open checkpoint. */
struct ckptfs;

/* --- errors ------------------------------------------------------------------------ */

/* The last error of a thread. Texts that do not apply are "". Memory is the library's, and is
 * valid until the thread calls another function of the library. */
struct ckptfs_error {
	int err;	      /* positive errno; 0: no call has failed yet */
	const char *text;     /* one line, without control characters */
	const char *fqn;      /* tensor or other entry */
	const char *file;     /* data file, relative to the checkpoint */
	const char *expected; /* value that the checkpoint should have */
	const char *found;    /* value in its place */
};

const struct ckptfs_error *ckptfs_last_error(void);

/* --- open -------------------------------------------------------------------------- */

/* Version of the program, as "0.1.0". */
const char *ckptfs_version(void);

/* Opens a checkpoint: a directory or file that can be mounted. options: as in -o of a mount,
 * "kind=dcp,root=model", NULL or "". Only options that select how a checkpoint is read and
 * shown are valid, and none for several hosts. Reads the metadata and stats the data files;
 * damage of single tensors is no error. *out: caller calls ckptfs_close(). */
int ckptfs_open(const char *source, const char *options, struct ckptfs **out);
/* NULL is allowed. Pointers that the handle gave become invalid. */
void ckptfs_close(struct ckptfs *ck);
/* Kind of the checkpoint: "dcp", "safetensors", "torch", "ranks", "torch_checkpointing"; "run"
 * for a run directory, which has no tensors itself: its steps can be read by path, or opened
 * by themselves. */
const char *ckptfs_kind(const struct ckptfs *ck);

/* --- tensors and objects ----------------------------------------------------------- */

/* A tensor. Owned by the handle, constant. */
struct ckptfs_tensor {
	const char *fqn;  /* NUL-terminated, of fqn_len bytes */
	const char *stem; /* its files: "raw/STEM", "full/STEM.npy" */
	uint64_t fqn_len;
	const char *dtype;    /* torch's name without "torch.": "bfloat16" */
	const int64_t *shape; /* ndim */
	uint64_t nbytes; /* 0 if the size cannot be known, then err is set */
	/* Number of the first tensor with the same storage, shape and dtype; UINT64_MAX: the
	 * tensor is no alias. */
	uint64_t alias_of;
	uint64_t chunks; /* stored boxes */
	uint32_t ndim;
	uint32_t itemsize; /* bytes of an element; 0: unknown */
	/* Positive errno that reading the tensor as a whole returns, as far as the open found
	 * out; 0: no fault is known, see ckptfs_check_tensor(). */
	int32_t err;
	/* Number of the data file of the first stored box, and position in it: tensors in
	 * this order are read front to back. UINT32_MAX: no file has the box. */
	uint32_t file;
	uint64_t position;
	/* Key in the state dict, which equals the FQN if no prefix of a wrapper was removed
	 * and no option renames it. NUL-terminated, of key_len bytes. */
	const char *key;
	uint64_t key_len;
};

/* Number of tensors, and tensor i in the order of the checkpoint; NULL if i is too large. */
uint64_t ckptfs_tensors(const struct ckptfs *ck);
const struct ckptfs_tensor *ckptfs_tensor_at(const struct ckptfs *ck,
					     uint64_t i);
/* Finds a tensor by its FQN. Returns NULL if it does not exist; the error of the thread is
 * ENOENT then. */
const struct ckptfs_tensor *ckptfs_tensor(const struct ckptfs *ck,
					  const char *fqn);
/* Number of a tensor of this handle. */
uint64_t ckptfs_tensor_number(const struct ckptfs *ck,
			      const struct ckptfs_tensor *t);
/* Reads the headers of all stored boxes of tensor i. Returns 0, or the error of the first box
 * with a fault. Does not read the elements. */
int ckptfs_check_tensor(struct ckptfs *ck, uint64_t i);

/* Bytes [begin, begin + size) of a file, which are elements of a tensor. */
struct ckptfs_part {
	uint64_t tensor; /* number */
	uint64_t begin, size;
};

/* Finds the elements of tensors in a file, such as "torch/checkpoint.pt" or
 * "hf/model.safetensors", in the order of the file. A tensor without elements may be
 * absent, and those that only local/ has are left out. Returns the number of parts, and
 * stores at most `most` of them. */
int64_t ckptfs_parts(struct ckptfs *ck, const char *path,
		     struct ckptfs_part *parts, uint64_t most);

/* An entry that is no tensor: a step, a scheduler. Owned by the handle, constant. */
struct ckptfs_object {
	const char *fqn; /* NUL-terminated, of fqn_len bytes */
	const char
		*stem; /* its files: "objects/STEM.json", "objects/STEM.pt" */
	uint64_t fqn_len;
	const char *key; /* as of a tensor */
	uint64_t key_len;
};

uint64_t ckptfs_objects(const struct ckptfs *ck);
const struct ckptfs_object *ckptfs_object_at(const struct ckptfs *ck,
					     uint64_t i);

/* --- reading tensors ------------------------------------------------------------------ */

/* A box of a tensor and its destination. Zero-initialise: fields that are 0 have the default
 * value. Index i of a dimension of the destination is element offset + i * step of the
 * tensor. */
struct ckptfs_box {
	const char *fqn; /* NULL: `path`, or `tensor` */
	/* A file of one tensor or of a part of it, as "local/rank-1/STEM.npy": offsets and
	 * sizes are within that part. Links are followed. NULL: `tensor` is the number. */
	const char *path;
	uint64_t tensor;
	uint32_t ndim; /* of the arrays below; 0 if all of them are NULL */
	int32_t err;   /* set by the read: 0, or a negative errno */
	const uint64_t *offsets; /* NULL: 0 */
	const uint64_t
		*sizes; /* NULL: as many as there are from the offset on */
	const uint64_t *steps; /* at least 1; NULL: 1 */
	/* Destination, owned by the caller. Address of element i: to + sum(i[d] * strides[d]).
	 * Elements must not overlap. */
	void *to;
	const int64_t
		*strides; /* bytes, may be negative; NULL: C order, no gaps */
	uint64_t reserved[1]; /* 0 */
};

/* Reads a box in the calling thread. Returns 0, or a negative errno: -ERANGE if the box is not
 * within the tensor; -EINVAL if ndim or a step is wrong; -ENOTTY if the file is not
 * of one tensor, or has no elements. After an error the content of the
 * destination is undefined. */
int ckptfs_read_box(struct ckptfs *ck, struct ckptfs_box *box);
/* Reads n boxes by `threads` threads, the calling one included; 0: as many as there are
 * processors; at most 16. A large box is read by several threads. Destinations must not
 * overlap. An error of a box does not prevent the others. Returns 0, or the error of the
 * first box with an error; each box has its own in `err`. */
int ckptfs_read_many(struct ckptfs *ck, struct ckptfs_box *boxes, uint64_t n,
		     unsigned threads);

/* Zeroed memory for a destination, aligned to a page; above 64 MiB with pages of 2 MiB where the
 * kernel has them, since faults of small pages take longer than the copy. NULL if out of
 * memory. The same `size` frees it; NULL is allowed. */
void *ckptfs_alloc(size_t size);
void ckptfs_free(void *memory, size_t size);

/* --- paths ------------------------------------------------------------------------------ */

struct ckptfs_entry {
	const char *name;
	uint32_t type; /* S_IFREG, S_IFDIR or S_IFLNK */
};

struct ckptfs_list {
	uint64_t n;
	const struct ckptfs_entry *entries;
};

/* Lists a directory in its order; "" is the root. Names that exist only on lookup are not
 * listed. *out: caller calls ckptfs_list_free(), also after the close. */
int ckptfs_list(struct ckptfs *ck, const char *path, struct ckptfs_list **out);
void ckptfs_list_free(struct ckptfs_list *list); /* NULL is allowed */

struct ckptfs_stat {
	uint64_t number; /* as st_ino of a mount */
	uint64_t size;	 /* bytes; 0 of a directory */
	uint32_t mode;	 /* with the type */
	uint32_t uid, gid;
	uint32_t mtime_nsec;
	int64_t mtime; /* seconds since 1970 */
	uint64_t reserved[4];
};

/* Does not follow a link at the end of the path. */
int ckptfs_stat(struct ckptfs *ck, const char *path, struct ckptfs_stat *out);
/* Reads an extended attribute, as "user.ckptfs.shape", see ckptfs(5). Returns its length, which
 * has no NUL; -ENODATA if the file has no such attribute; -ERANGE if it is longer than `size`.
 * size 0: returns only the length. */
int64_t ckptfs_getxattr(struct ckptfs *ck, const char *path, const char *name,
			void *value, size_t size);
/* Names of the attributes of a file, each with a NUL; otherwise as ckptfs_getxattr(). */
int64_t ckptfs_listxattr(struct ckptfs *ck, const char *path, void *names,
			 size_t size);
/* Reads bytes [offset, offset + len) of a file. Returns the number of bytes, which is less than
 * len only at the end of the file. Links are followed. Each call opens the file: large
 * ranges are faster. */
int64_t ckptfs_read(struct ckptfs *ck, const char *path, void *to, size_t len,
		    uint64_t offset);

#ifdef __cplusplus
}
#endif

#endif
