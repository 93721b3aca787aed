/* SPDX-License-Identifier: MIT */
/*
 * remarks: bounded lists of facts that were found in items, in one struct with one
 * lock. If a list is full, further facts are dropped. A pickle of known classes only,
 * the common case, takes no lock.
 */
#include "remarks.h"
#include "ckptfs/model.h"
#include "ckptfs/table.h"

#include <errno.h>
#include <pthread.h>

enum {
	CLASSES_MOST = 4096,
	CLASSES_BYTES = 1 << 20, /* total length of their names */
	ROWS_MOST = 4096,	 /* objects; quantizers */
	QUANTIZER_MOST = 200,	 /* bytes of its text */
};

struct quantizer {
	uint32_t tensor;
	struct ck_str words; /* in the arena */
	bool differs;	     /* items of the tensor have different ones */
};

struct ck_remarks {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_arena arena;
	struct ck_str *classes;
	size_t nclasses, classes_cap, bytes;
	struct ck_table by_name; /* numbers in classes */
	uint32_t *objects;	 /* sorted */
	size_t nobjects, objects_cap;
	struct quantizer *quantizers; /* sorted by tensor */
	size_t nquantizers, quantizers_cap;
};

static struct ck_str class_name(const void *arg, uint32_t i)
{
	const struct ck_remarks *r = arg;

	return r->classes[i];
}

struct ck_remarks *ck_remarks_make(void)
{
	struct ck_remarks *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->by_name = (struct ck_table){ .key = class_name, .arg = r };
	return r;
}

void ck_remarks_free(struct ck_remarks *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	ck_table_fini(&r->by_name);
	ck_arena_fini(&r->arena);
	free(r->classes);
	free(r->objects);
	free(r->quantizers);
	free(r);
}

/* --- classes --------------------------------------------------------------------- */

/* Functions and classes that a value of PyTorch or Python is rebuilt with. */
static const char *const known_globals[] = {
	"torch._utils._rebuild_tensor_v2",
	"collections.OrderedDict",
	"torch._utils._rebuild_tensor",
	"torch._utils._rebuild_tensor_v3",
	"torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state",
	"torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_nested_tensor",
	"torch._utils._rebuild_meta_tensor_no_storage",
	"torch._utils._rebuild_wrapper_subclass",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_xla_tensor",
	"torch._tensor._rebuild_from_type_v2",
	"torch.tensor._rebuild_from_type_v2",
	"torch.serialization._get_layout",
	"torch.storage.TypedStorage",
	"torch.storage._TypedStorage",
	"torch.storage._UntypedStorage",
	"torch.nn.parameter.Parameter",
	"torch.nn.parameter.Buffer",
	"torch.Tensor",
	"torch.Size",
	"torch.device",
	"torch.per_tensor_affine",
	"torch.per_channel_affine",
	"torch.per_channel_affine_float_qparams",
	"torch.fx.passes.shape_prop.TensorMetadata",
	"torch.strided",
	"torch.contiguous_format",
	"torch.preserve_format",
	"collections.defaultdict",
	"collections.Counter",
	"copyreg._reconstructor",
	"_codecs.encode",
};

/* Modules of DTensor and ShardedTensor, which differ between releases, and those of torchao
 * for training. */
static const char *const known_modules[] = {
	"torch.distributed.tensor.",
	"torch.distributed._tensor.",
	"torch.distributed.device_mesh.",
	"torch.distributed._mesh_layout.",
	"torch.distributed._shard.",
	"torch.distributed.remote_device.",
	"torchao.float8.",
	"torchao.prototype.moe_training.",
	"torchao.prototype.quantized_training.",
};

/* Names in the module builtins. */
static const char *const known_builtins[] = {
	"bool",	     "bytearray", "bytes", "complex", "dict",	"float",
	"frozenset", "getattr",	  "int",   "list",    "object", "set",
	"slice",     "str",	  "tuple", "type",
};

static bool is_dtype_or_storage(struct ck_str full)
{
	struct ck_str torch = CK_STR("torch.");
	struct ck_str name;

	if (!ck_str_starts(full, torch))
		return false;
	name = (struct ck_str){ full.p + torch.len, full.len - torch.len };
	return ck_dtype_by_name(name) != CK_DTYPE_UNKNOWN ||
	       ck_dtype_by_storage(full) != CK_DTYPE_UNKNOWN ||
	       ck_str_is(name, "storage.UntypedStorage");
}

static bool is_builtin(struct ck_str full)
{
	struct ck_str module = CK_STR("builtins.");
	struct ck_str name;

	if (!ck_str_starts(full, module))
		return false;
	name = (struct ck_str){ full.p + module.len, full.len - module.len };
	for (size_t i = 0; i < CK_ARRAY_SIZE(known_builtins); i++)
		if (ck_str_is(name, known_builtins[i]))
			return true;
	return false;
}

static bool is_known(struct ck_str full)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(known_globals); i++)
		if (ck_str_is(full, known_globals[i]))
			return true;
	for (size_t i = 0; i < CK_ARRAY_SIZE(known_modules); i++)
		if (ck_str_starts(full, ck_str_from(known_modules[i])))
			return true;
	return is_dtype_or_storage(full) || is_builtin(full);
}

/* Must hold r->lock. */
static void class_add(struct ck_remarks *r, struct ck_str full)
{
	struct ck_str *all;
	uint32_t number;

	if (r->nclasses >= CLASSES_MOST ||
	    full.len > CLASSES_BYTES - r->bytes ||
	    ck_table_find(&r->by_name, full) >= 0)
		return;
	all = ck_grow(r->classes, &r->classes_cap, r->nclasses, 1,
		      sizeof(*all));
	if (!all)
		return;
	r->classes = all;
	all[r->nclasses] = ck_arena_copy(&r->arena, full);
	if (all[r->nclasses].p &&
	    ck_table_add(&r->by_name, full, (uint32_t)r->nclasses, &number) ==
		    0) {
		r->nclasses++;
		r->bytes += full.len;
	}
}

void ck_remarks_classes(struct ck_remarks *r, const struct ck_pickle *p)
{
	for (uint32_t i = 0; r && i < p->nglobals; i++) {
		const struct ck_pv v = { .tag = CK_PV_GLOBAL, .i = i };
		struct ck_str full = ck_pickle_global(p, &v);

		if (is_known(full))
			continue;
		pthread_mutex_lock(&r->lock);
		class_add(r, full);
		pthread_mutex_unlock(&r->lock);
	}
}

int ck_remarks_list_classes(struct ck_remarks *r, struct ck_arena *arena,
			    struct ck_str **out, size_t *n)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	*n = 0;
	*out = calloc(r->nclasses + 1, sizeof(**out));
	rc = *out ? 0 : -ENOMEM;
	for (size_t i = 0; i < r->nclasses && rc == 0; i++) {
		(*out)[i] = ck_arena_copy(arena, r->classes[i]);
		rc = (*out)[i].p ? 0 : -ENOMEM;
		*n += rc == 0;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* --- objects --------------------------------------------------------------------- */

void ck_remarks_dtensor(struct ck_remarks *r, uint32_t object)
{
	uint32_t *all;
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = r->nobjects;
	while (at > 0 && r->objects[at - 1] > object)
		at--;
	if (r->nobjects < ROWS_MOST &&
	    (at == 0 || r->objects[at - 1] != object)) {
		all = ck_grow(r->objects, &r->objects_cap, r->nobjects, 1,
			      sizeof(*all));
		if (all) {
			r->objects = all;
			memmove(all + at + 1, all + at,
				(r->nobjects - at) * sizeof(*all));
			all[at] = object;
			r->nobjects++;
		}
	}
	pthread_mutex_unlock(&r->lock);
}

bool ck_remarks_dtensor_at(struct ck_remarks *r, size_t i, uint32_t *object)
{
	bool found;

	pthread_mutex_lock(&r->lock);
	found = i < r->nobjects;
	if (found)
		*object = r->objects[i];
	pthread_mutex_unlock(&r->lock);
	return found;
}

/* --- quantizers ------------------------------------------------------------------ */

/* Returns the index of the quantizer of a tensor, or the index where it belongs. Must
 * hold r->lock. */
static size_t quantizer_place(const struct ck_remarks *r, uint32_t tensor)
{
	return CK_COUNT_BEFORE(r->nquantizers, i,
			       r->quantizers[i].tensor < tensor);
}

/* Must hold r->lock. */
static void quantizer_insert(struct ck_remarks *r, size_t at, uint32_t tensor,
			     struct ck_str words)
{
	struct quantizer *all;
	struct ck_str copy;

	if (r->nquantizers >= ROWS_MOST)
		return;
	all = ck_grow(r->quantizers, &r->quantizers_cap, r->nquantizers, 1,
		      sizeof(*all));
	copy = ck_arena_copy(&r->arena, words);
	if (all)
		r->quantizers = all;
	if (!all || !copy.p)
		return;
	memmove(all + at + 1, all + at, (r->nquantizers - at) * sizeof(*all));
	all[at] = (struct quantizer){ .tensor = tensor, .words = copy };
	r->nquantizers++;
}

void ck_remarks_quantizer(struct ck_remarks *r, uint32_t tensor,
			  struct ck_str words)
{
	size_t at;

	if (words.len > QUANTIZER_MOST)
		return;
	pthread_mutex_lock(&r->lock);
	at = quantizer_place(r, tensor);
	if (at == r->nquantizers || r->quantizers[at].tensor != tensor)
		quantizer_insert(r, at, tensor, words);
	else if (!ck_str_eq(r->quantizers[at].words, words))
		r->quantizers[at].differs = true;
	pthread_mutex_unlock(&r->lock);
}

void ck_remarks_print_quantizer(struct ck_remarks *r, uint32_t tensor,
				struct ck_buf *out)
{
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = quantizer_place(r, tensor);
	if (at < r->nquantizers && r->quantizers[at].tensor == tensor) {
		if (r->quantizers[at].differs)
			ck_buf_text(out, "another one in each item");
		else
			ck_buf_str(out, r->quantizers[at].words);
	}
	pthread_mutex_unlock(&r->lock);
}
