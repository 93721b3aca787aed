/* SPDX-License-Identifier: MIT */
/*
 * pickler_restricted: which values torch.load(weights_only=True) accepts by default, as one
 * pickle for each rule. The reason of a refusal is that of the rule.
 */
#include "syntax/pickle/pickler.h"
#include "tap.h"

#define BYTES(s)                                                               \
	{                                                                      \
		s, sizeof(s) - 1                                               \
	}

/* Writes the root of a pickle again. Sets *why to the reason of a refusal. */
static int write_again(struct ck_str pickle, bool restricted, bool tensors,
		       const char **why)
{
	struct ck_buf out = { 0 };
	struct ck_pickler p = { .out = &out,
				.restricted = restricted,
				.tensors = tensors };
	struct ck_pickle from = { 0 };
	int rc = ck_pickle_read(&from, pickle.p, pickle.len, NULL, NULL);

	if (rc == 0)
		rc = ck_pickler_value(&p, &from, &from.root, NULL, 1 << 20,
				      NULL);
	*why = p.refused;
	ck_pickle_fini(&from);
	ck_buf_fini(&out);
	return rc;
}

static void test_accepted(void)
{
	static const struct {
		const char *what;
		struct ck_str pickle;
	} all[] = {
		{ "None", BYTES("N.") },
		{ "a set", BYTES("c__builtin__\nset\n](K\1K\2e\x85R.") },
		{ "an OrderedDict with _metadata",
		  BYTES("ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1u}"
			"X\1\0\0\0bK\2sb.") },
		{ "a Counter", BYTES("ccollections\nCounter\n}\x85R.") },
		{ "a device", BYTES("ctorch\ndevice\nX\4\0\0\0cudaK\1\x86R.") },
		{ "a layout", BYTES("ctorch.serialization\n_get_layout\n"
				    "X\r\0\0\0torch.strided\x85R.") },
		{ "a dtype", BYTES("ctorch\nfloat32\n.") },
		{ "bytes as a key",
		  BYTES("}c_codecs\nencode\nX\1\0\0\0aX\6\0\0\0latin1\x86RK\1s"
			".") },
		{ "a tuple of tuples as a key",
		  BYTES("}K\1X\1\0\0\0aK\2\x86\x86K\3s.") },
		{ "a list in itself", BYTES("]q\0h\0a.") },
	};

	const char *why;

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++)
		if (!ok(write_again(all[i].pickle, true, false, &why) == 0))
			printf("# %s\n", all[i].what);
}

static void test_refused(void)
{
	static const char tensors[] = "it contains tensors";
	static const char classes[] =
		"torch.load refuses its classes by default";
	static const char malformed[] = "it is malformed";

	static const struct {
		const char *what, *why;
		struct ck_str pickle;
	} all[] = {
		{ "a frozenset", classes,
		  BYTES("c__builtin__\nfrozenset\n]\x85R.") },
		{ "a range", classes,
		  BYTES("c__builtin__\nxrange\nK\1\x85R.") },
		{ "bytes without a byte", classes,
		  BYTES("c__builtin__\nbytes\n)R.") },
		{ "a class", classes, BYTES("cmodule\nClass\n.") },
		{ "an object", classes,
		  BYTES("ccollections\nOrderedDict\n)\x81.") },
		{ "a list as a key", malformed, BYTES("}]K\1s.") },
		{ "a shared tuple in a key", malformed,
		  BYTES("}K\1N\x86q\1h\1\x86K\3s.") },
		{ "a dict in a set", malformed,
		  BYTES("c__builtin__\nset\n](}e\x85R.") },
		{ "no device", malformed,
		  BYTES("ctorch\ndevice\nX\3\0\0\0abc\x85R.") },
		{ "bytes of no text", malformed,
		  BYTES("c_codecs\nencode\nK\1K\2\x86R.") },
		{ "a dict of a number", malformed,
		  BYTES("ccollections\nOrderedDict\nK\1\x85R.") },
		{ "items of a set", malformed,
		  BYTES("c__builtin__\nset\n)RK\1K\2s.") },
		{ "a state that is no dict", malformed,
		  BYTES("ccollections\nOrderedDict\n)RK\1b.") },
		{ "a tensor", tensors,
		  BYTES("ctorch._utils\n_rebuild_tensor_v2\nK\1\x85R.") },
		{ "a storage", tensors,
		  BYTES("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
			"0X\3\0\0\0cpuK\1tQ.") },
		{ "a tuple in itself", "a tuple in it contains itself",
		  BYTES("]q\0\x85q\1h\0h\1a0.") },
	};

	const char *why;

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		printf("# %s\n", all[i].what);
		eq_err(write_again(all[i].pickle, true, false, &why), -EBADMSG);
		eq_text(why ? why : "", all[i].why);
		/* Canary: it is written without the limit. */
		ok(write_again(all[i].pickle, false, false, &why) == 0 && !why);
	}
}

#define STORAGE(class) "(X\7\0\0\0storage" class "X\1\0\0\0000X\3\0\0\0cpuK\1tQ"
#define TENSOR(class)                                                          \
	"ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE(                        \
		class) "K\0K\1\x85K\1\x85\x89"                                 \
		       "ccollections\nOrderedDict\n)RtR"

/* Values with tensors, which an archive of its own can have. */
static void test_tensors(void)
{
	static const char classes[] =
		"torch.load refuses its classes by default";

	static const struct {
		const char *what, *why; /* NULL: accepted */
		struct ck_str pickle;
	} all[] = {
		{ "a tensor", NULL,
		  BYTES(TENSOR("ctorch\nFloatStorage\n") ".") },
		{ "tensors in a tuple", NULL,
		  BYTES("(" TENSOR("ctorch.cuda\nFloatStorage\n") TENSOR(
			  "ctorch.storage\nUntypedStorage\n") "t.") },
		{ "a parameter", NULL,
		  BYTES("ctorch._utils\n_rebuild_parameter\n(" TENSOR(
			  "ctorch\nFloatStorage\n") "\x88"
						    "ccollections\nOrderedDict\n)RtR.") },
		{ "a subclass", NULL,
		  BYTES("ctorch._tensor\n_rebuild_from_type_v2\n("
			"ctorch._utils\n_rebuild_tensor_v2\n"
			"ctorch.nn.parameter\nParameter\n)}tR.") },
		{ "another module's storage", classes,
		  BYTES(TENSOR("cmodule\nFloatStorage\n") ".") },
		{ "another storage of torch", classes,
		  BYTES(STORAGE("ctorch\nQuietStorage\n") ".") },
		{ "a class beside a tensor", classes,
		  BYTES("(" TENSOR(
			  "ctorch\nFloatStorage\n") "c__builtin__\n"
						    "xrange\nK\1\x85Rt.") },
		{ "another class for a subclass", classes,
		  BYTES("ctorch._tensor\n_rebuild_from_type_v2\n("
			"ctorch._utils\n_rebuild_tensor_v2\n"
			"cmodule\nClass\n)}tR.") },
		{ "hooks of another class", classes,
		  BYTES("]ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE(
			  "ctorch\nFloatStorage\n") "K\0K\1\x85K\1\x85\x89"
						    "cmodule\nClass\n)RtRa.") },
		{ "a function of another name", classes,
		  BYTES("ctorch._utils\n_rebuild_anything\n)R.") },
	};

	const char *why;

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		printf("# %s\n", all[i].what);
		eq_err(write_again(all[i].pickle, true, true, &why),
		       all[i].why ? -EBADMSG : 0);
		eq_text(why ? why : "", all[i].why ? all[i].why : "");
	}
}

int main(void)
{
	test_tensors();
	test_accepted();
	test_refused();
	return tap_done();
}
