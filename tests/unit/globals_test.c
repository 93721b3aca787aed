/* SPDX-License-Identifier: MIT */
/*
 * S-P2: the globals that the tests of picklescan and fickling call. In every spelling, a global
 * is either refused by name, or becomes a value that describes the call. In a `.metadata` such
 * a value is listed as unknown.
 */
#include "ckptfs/pickle.h"
#include "dcp_parse.h"
#include "model/catalog/catalog_edit.h"
#include "tap.h"

#include <errno.h>

static const struct {
	const char *module, *name;
	bool refused;
} globals[] = {
	{ "os", "system", true },
	{ "posix", "system", true },
	{ "nt", "system", true },
	{ "os", "execv", true },
	{ "posix", "popen", true },
	{ "subprocess", "Popen", true },
	{ "subprocess", "check_output", true },
	{ "subprocess", "run", true },
	{ "sys", "modules", true },
	{ "runpy", "run_path", true },
	{ "runpy", "_run_code", true },
	{ "importlib", "import_module", true },
	{ "importlib._bootstrap", "_call_with_frames_removed", true },
	{ "socket", "create_connection", true },
	{ "shutil", "rmtree", true },
	{ "pty", "spawn", true },
	{ "ctypes", "CDLL", true },
	{ "code", "interact", true },
	{ "codeop", "compile_command", true },
	{ "pdb", "run", true },
	{ "bdb", "Bdb.run", true },
	{ "webbrowser", "open", true },
	{ "pickle", "loads", true },
	{ "_pickle", "loads", true },
	{ "marshal", "loads", true },
	{ "builtins", "eval", true },
	{ "builtins", "exec", true },
	{ "builtins", "compile", true },
	{ "builtins", "open", true },
	{ "builtins", "__import__", true },
	{ "__builtin__", "eval", true },
	{ "__builtin__", "execfile", true },
	{ "__builtin__", "file", false },
	{ "torch.serialization", "os.system", true },
	{ "torch.jit.unsupported_tensor_ops", "execWrapper", false },
	{ "torch.utils._config_module", "load_config", false },
	{ "torch.utils.collect_env", "run", false },
	{ "torch.utils.bottleneck.__main__", "run_cprofile", false },
	{ "torch.fx.experimental.symbolic_shapes",
	  "ShapeEnv.evaluate_guards_expression", false },
	{ "torch._dynamo.guards", "GuardBuilder.get", false },
	{ "torch._inductor.codecache", "compile_file", false },
	{ "torch.hub", "load", false },
	{ "torch", "load", false },
	{ "torch.storage", "_load_from_bytes", false },
	{ "numpy.testing._private.utils", "runstring", false },
	{ "numpy.f2py.crackfortran", "getlincoef", false },
	{ "numpy", "load", false },
	{ "functools", "partial", false },
	{ "operator", "attrgetter", false },
	{ "operator", "methodcaller", false },
	{ "types", "CodeType", false },
	{ "types", "FunctionType", false },
	{ "timeit", "timeit", false },
	{ "cProfile", "run", false },
	{ "profile", "Profile.run", false },
	{ "trace", "Trace.run", false },
	{ "doctest", "debug_script", false },
	{ "ensurepip", "_run_pip", false },
	{ "pip", "main", false },
	{ "pip._internal", "main", false },
	{ "pydoc", "pipepager", false },
	{ "uuid", "_get_command_stdout", false },
	{ "venv", "create", false },
	{ "asyncio.unix_events", "_UnixSubprocessTransport._start", false },
	{ "lib2to3.pgen2.grammar", "Grammar.loads", false },
	{ "lib2to3.pgen2.pgen", "ParserGenerator.make_label", false },
	{ "idlelib.run", "Executive.runcode", false },
	{ "idlelib.pyshell", "ModifiedInterpreter.runcommand", false },
	{ "distutils.file_util", "write_file", false },
	{ "logging.config", "_resolve", false },
	{ "httplib", "HTTPSConnection", false },
	{ "requests.api", "get", false },
	{ "aiohttp.client", "ClientSession", false },
	{ "smtplib", "SMTP", false },
	{ "tempfile", "mktemp", false },
	{ "zipimport", "zipimporter", false },
	{ "cloudpickle.cloudpickle", "_builtin_type", false },
	{ "dill._dill", "_create_code", false },
	{ "joblib.numpy_pickle", "NumpyArrayWrapper.read_array", false },
	{ "base64", "b64decode", false },
	{ "__main__", "Exploit", false },
};

enum spelling { GLOBAL, STACK_GLOBAL, INST, OBJ, NEWOBJ, SPELLINGS };

static void add_str(struct ck_buf *b, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);

	ck_buf_text(b, "X");
	ck_buf_add(b, &len, sizeof(len));
	ck_buf_text(b, text);
}

static void add_global(struct ck_buf *b, size_t i, bool by_stack)
{
	if (!by_stack) {
		ck_buf_printf(b, "c%s\n%s\n", globals[i].module,
			      globals[i].name);
		return;
	}
	add_str(b, globals[i].module);
	add_str(b, globals[i].name);
	ck_buf_text(b, "\x93");
}

/* Appends a call of a global with one string. */
static void add_call(struct ck_buf *b, size_t i, enum spelling how)
{
	const char *argument = "touch /tmp/ckptfs-canary";

	if (how == INST || how == OBJ)
		ck_buf_text(b, "(");
	if (how != INST)
		add_global(b, i, how == STACK_GLOBAL);
	add_str(b, argument);
	switch (how) {
	case GLOBAL:
	case STACK_GLOBAL: ck_buf_text(b, "\x85R"); break;
	case NEWOBJ: ck_buf_text(b, "\x85\x81"); break;
	case OBJ: ck_buf_text(b, "o"); break;
	case INST:
		ck_buf_printf(b, "i%s\n%s\n", globals[i].module,
			      globals[i].name);
		break;
	case SPELLINGS: break;
	}
}

/* True if the pickle is refused, or read as a call, as the table requires. */
static bool is_right(size_t i, enum spelling how)
{
	struct ck_buf b = { 0 };
	struct ck_diag d = { 0 };
	struct ck_pickle p;
	bool right;
	int rc;

	ck_buf_text(&b, "\x80\4");
	add_call(&b, i, how);
	ck_buf_text(&b, ".");
	rc = ck_pickle_read(&p, b.data, b.len, NULL, &d);
	if (globals[i].refused)
		right = rc == -EBADMSG && strstr(d.text, "dangerous global") &&
			strstr(d.text, globals[i].name);
	else
		right = rc == 0 &&
			(p.root.tag == CK_PV_CALL || p.root.tag == CK_PV_NEW) &&
			p.root.call->callable.tag == CK_PV_GLOBAL;
	if (!right)
		printf("# %s.%s, spelling %d: %d %s\n", globals[i].module,
		       globals[i].name, (int)how, rc, d.text);
	if (rc == 0)
		ck_pickle_fini(&p);
	ck_buf_fini(&b);
	return right;
}

static int no_file(void *ctx, struct ck_str path, uint32_t *number)
{
	(void)ctx, (void)path;
	*number = 0;
	return 0;
}

/* True if a `.metadata` with the call in an unused field lists one unknown global. */
static bool is_listed(size_t i)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_buf b = { 0 };
	int rc;

	ck_buf_text(&b, "\x80\4"
			"ctorch.distributed.checkpoint.metadata\nMetadata\n"
			")\x81}(");
	add_str(&b, "state_dict_metadata");
	ck_buf_text(&b, "}");
	add_str(&b, "storage_data");
	ck_buf_text(&b, "}");
	add_str(&b, "planner_data");
	add_call(&b, i, GLOBAL);
	ck_buf_text(&b, "ub.");
	rc = dcp_parse(c, b.data, b.len, no_file, NULL, NULL);
	if (rc == 0 && c->nglobals != 1)
		rc = 1;
	ck_catalog_put(c);
	ck_buf_fini(&b);
	return rc == (globals[i].refused ? -EBADMSG : 0);
}

int main(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(globals); i++) {
		bool right = is_listed(i);

		for (int how = GLOBAL; how < SPELLINGS; how++)
			right &= is_right(i, (enum spelling)how);
		tap_result(right, __FILE__, __LINE__, globals[i].name);
	}
	return tap_done();
}
