/* SPDX-License-Identifier: MIT */
/*
 * Interface between the parts of the printer: value.c (containers, order),
 * value_again.c (repeated values), value_leaf.c (values without nested values),
 * value_tensor.c (calls that build a tensor).
 */
#ifndef CK_VALUE_INTERNAL_H
#define CK_VALUE_INTERNAL_H

#include "ckptfs/value.h"

enum {
	CK_JSON_LEVELS = 200,	 /* arrays and objects inside each other */
	CK_JSON_GLOBALS = 4096,	 /* as many as a pickle can name */
	CK_JSON_REPEATED = 4096, /* bytes of text that are printed again */
	CK_JSON_LONG_TEXT = 640, /* bytes that may print as more than that */
	CK_JSON_NO_NODE = 0,
	CK_JSON_ROOT = 1,
};

enum ck_frame_kind {
	CK_FRAME_ARRAY,
	CK_FRAME_PAIRS, /* [[k,v],...] */
	CK_FRAME_DICT,	/* {"k":v,...} */
	CK_FRAME_CALL,	/* {"$class":...} */
};

/* Parts of a call, in the order in which they are printed. */
enum ck_part_of_call {
	CK_PART_CLASS,
	CK_PART_ARGS,
	CK_PART_KWARGS,
	CK_PART_LIST,
	CK_PART_ITEMS,
	CK_PART_STATE,
	CK_PART_END
};

/* What a global means when it is called. */
enum ck_json_form {
	CK_FORM_UNSEEN,
	CK_FORM_OTHER,
	CK_FORM_ENCODE,
	CK_FORM_BYTES,
	CK_FORM_BYTEARRAY,
	CK_FORM_COMPLEX,
	CK_FORM_SET,
	CK_FORM_FROZENSET,
	CK_FORM_ORDERED,
	CK_FORM_STORED,	  /* tensor of a storage: its class has the dtype */
	CK_FORM_NAMED,	  /* the same with the dtype named */
	CK_FORM_WRAPPED,  /* tensor, and more */
	CK_FORM_TYPED,	  /* function, type, its arguments, attributes */
	CK_FORM_SPARSE,	  /* layout, (tensors, size) */
	CK_FORM_NESTED,	  /* tensor of the elements, tensors of sizes */
	CK_FORM_META,	  /* dtype, size */
	CK_FORM_SUBCLASS, /* class, dtype, size */
	CK_FORM_DEVICE,	  /* tensor or array, dtype */
};

/* A value that may occur again, and the position of its text. */
struct ck_json_record {
	const void *at; /* identity of the value, see ck_json_identity() */
	uint64_t begin; /* in the output */
	uint64_t len;
	uint32_t node; /* its path node; its frame while it is open */
	uint8_t tag, aux;
	uint8_t height; /* levels it needs */
	bool open;	/* being printed: it contains itself */
};

/* An array or object that is open. */
struct ck_json_frame {
	enum ck_frame_kind kind;
	bool is_part;	/* of the value of the frame below */
	uint8_t levels; /* it opens for its children */
	uint32_t reach; /* of the printer when it was opened */
	uint32_t i, n;	/* next of items; for a call, next part */
	const struct ck_pv *items;
	const struct ck_pcall *call;
	const char *prefix; /* of its children in a pointer, or NULL */
	const char *close;  /* text at its end */
	uint32_t record;    /* number + 1 */
	uint32_t node;
};

/* A path node: the last component of the pointer to a value. */
struct ck_json_node {
	uint32_t parent;
	uint32_t index;		 /* UINT32_MAX if unused */
	const char *prefix;	 /* before the index, or NULL */
	const struct ck_pv *key; /* in place of prefix and index */
	char side;		 /* '0' or '1' of a pair, NUL: no pair */
};

struct ck_json {
	const struct ck_pickle *p;
	struct ck_buf *out;
	struct ck_diag *d;
	uint64_t limit;	 /* bytes of output and tables */
	uint64_t tables; /* bytes of the tables below */
	uint64_t steps;	 /* left for integers */
	uint64_t seed;	 /* of tables of keys */

	struct ck_json_frame *frames;
	uint32_t nframes;
	uint32_t level; /* arrays and objects open */
	uint32_t reach; /* the deepest level since the value began */

	struct ck_json_record *records;
	uint32_t *slots; /* hash table of records: number + 1 */
	size_t nrecords, records_cap, nslots;
	struct ck_json_node *nodes;
	size_t nnodes, nodes_cap;

	struct ck_buf scratch;
	uint8_t forms[CK_JSON_GLOBALS]; /* by number of a global */
};

/* Record the reason, and return -EBADMSG or -ENOMEM. */
int ck_json_bad(struct ck_json *j, const char *what);
int ck_json_no_memory(struct ck_json *j);
/* Checks that `more` bytes stay within the limit. */
CK_MUST_USE int ck_json_limit(struct ck_json *j, uint64_t more);
/* Checks that `levels` more levels are allowed, for a text that opens and
 * closes them. */
CK_MUST_USE int ck_json_levels(struct ck_json *j, uint32_t levels);
/* Prints a string; as an object of one more level if it is not UTF-8. levels: levels that the
 * text around it has opened. Returns 0, or errors of ck_json_levels(). */
CK_MUST_USE int ck_json_str(struct ck_json *j, struct ck_str s,
			    uint32_t levels);
enum ck_json_form ck_json_form(struct ck_json *j, const struct ck_pv *global);

/* The address that identifies a value: equal at each occurrence of the same
 * value. NULL if repetitions need not be recognised. */
const void *ck_json_identity(const struct ck_json *j, const struct ck_pv *v);
const struct ck_json_record *ck_json_record_find(const struct ck_json *j,
						 const struct ck_pv *v,
						 const void *at);
/* Opens a record for the value that is printed from here on. */
CK_MUST_USE int ck_json_record_open(struct ck_json *j, const struct ck_pv *v,
				    const void *at, uint32_t *number);
/* The value is printed; j->reach is the deepest level that it needed. */
CK_MUST_USE int ck_json_record_close(struct ck_json *j, uint32_t number);
/* Prints a repeated value: its text, or a reference. */
CK_MUST_USE int ck_json_again(struct ck_json *j,
			      const struct ck_json_record *r);

/* True for a call without list items, dict items and state. */
static inline bool ck_json_is_bare(const struct ck_pcall *call)
{
	return !call->has_state && call->list.count == 0 &&
	       call->items.count == 0 && call->kwargs.tag == CK_PV_NONE;
}

/* Prints a value without nested values. */
CK_MUST_USE int ck_json_leaf(struct ck_json *j, const struct ck_pv *v);
/* The items of a tuple of ints. */
void ck_json_ints(struct ck_json *j, const struct ck_pv *v);
/* Prints a call that spells a value without nested values, such as bytes in
 * protocol 2. Returns 1 if v is such a call, 0 if not, or a negative errno. */
CK_MUST_USE int ck_json_call_leaf(struct ck_json *j, const struct ck_pv *v);
/* Prints a call that builds a tensor. Returns 1 if v is such a call, 0 if not,
 * or a negative errno. */
CK_MUST_USE int ck_json_tensor(struct ck_json *j, const struct ck_pv *v);
CK_MUST_USE int ck_json_storage(struct ck_json *j, const struct ck_pv *v);

#endif
