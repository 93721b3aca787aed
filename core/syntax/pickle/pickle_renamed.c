/* SPDX-License-Identifier: MIT */
/*
 * pickle_renamed: modules and names that Python 3 renamed. Protocols below 3
 * use the names of Python 2: Lib/_compat_pickle.py of CPython 3.11. In later
 * protocols, names of __builtin__ and copy_reg have the same meaning; all
 * others belong to modules of the user. Constant tables; any thread.
 */
#include "pickle_internal.h"

#include <stdlib.h>

/* Names that moved to another module, sorted. */
static const struct moved_name {
	const char *module, *name, *to_module, *to_name;
} names[] = {
	{ "UserDict", "IterableUserDict", "collections", "UserDict" },
	{ "UserDict", "UserDict", "collections", "UserDict" },
	{ "UserList", "UserList", "collections", "UserList" },
	{ "UserString", "UserString", "collections", "UserString" },
	{ "__builtin__", "basestring", "builtins", "str" },
	{ "__builtin__", "intern", "sys", "intern" },
	{ "__builtin__", "long", "builtins", "int" },
	{ "__builtin__", "reduce", "functools", "reduce" },
	{ "__builtin__", "unichr", "builtins", "chr" },
	{ "__builtin__", "unicode", "builtins", "str" },
	{ "__builtin__", "xrange", "builtins", "range" },
	{ "_multiprocessing", "Connection", "multiprocessing.connection",
	  "Connection" },
	{ "_socket", "fromfd", "socket", "fromfd" },
	{ "exceptions", "StandardError", "builtins", "Exception" },
	{ "itertools", "ifilter", "builtins", "filter" },
	{ "itertools", "ifilterfalse", "itertools", "filterfalse" },
	{ "itertools", "imap", "builtins", "map" },
	{ "itertools", "izip", "builtins", "zip" },
	{ "itertools", "izip_longest", "itertools", "zip_longest" },
	{ "multiprocessing", "AuthenticationError", "multiprocessing.context",
	  "AuthenticationError" },
	{ "multiprocessing", "BufferTooShort", "multiprocessing.context",
	  "BufferTooShort" },
	{ "multiprocessing", "ProcessError", "multiprocessing.context",
	  "ProcessError" },
	{ "multiprocessing", "TimeoutError", "multiprocessing.context",
	  "TimeoutError" },
	{ "multiprocessing.forking", "Popen", "multiprocessing.popen_fork",
	  "Popen" },
	{ "multiprocessing.process", "Process", "multiprocessing.context",
	  "Process" },
	{ "socket", "_socketobject", "socket", "SocketType" },
	{ "urllib", "ContentTooShortError", "urllib.error",
	  "ContentTooShortError" },
	{ "urllib", "getproxies", "urllib.request", "getproxies" },
	{ "urllib", "pathname2url", "urllib.request", "pathname2url" },
	{ "urllib", "quote", "urllib.parse", "quote" },
	{ "urllib", "quote_plus", "urllib.parse", "quote_plus" },
	{ "urllib", "unquote", "urllib.parse", "unquote" },
	{ "urllib", "unquote_plus", "urllib.parse", "unquote_plus" },
	{ "urllib", "url2pathname", "urllib.request", "url2pathname" },
	{ "urllib", "urlcleanup", "urllib.request", "urlcleanup" },
	{ "urllib", "urlencode", "urllib.parse", "urlencode" },
	{ "urllib", "urlopen", "urllib.request", "urlopen" },
	{ "urllib", "urlretrieve", "urllib.request", "urlretrieve" },
	{ "urllib2", "HTTPError", "urllib.error", "HTTPError" },
	{ "urllib2", "URLError", "urllib.error", "URLError" },
	{ "whichdb", "whichdb", "dbm", "whichdb" },
};

/* Renamed modules, for all other names in them; sorted. */
static const struct moved_module {
	const char *module, *to;
} modules[] = {
	{ "BaseHTTPServer", "http.server" },
	{ "CGIHTTPServer", "http.server" },
	{ "ConfigParser", "configparser" },
	{ "Cookie", "http.cookies" },
	{ "Dialog", "tkinter.dialog" },
	{ "DocXMLRPCServer", "xmlrpc.server" },
	{ "FileDialog", "tkinter.filedialog" },
	{ "HTMLParser", "html.parser" },
	{ "Queue", "queue" },
	{ "ScrolledText", "tkinter.scrolledtext" },
	{ "SimpleDialog", "tkinter.simpledialog" },
	{ "SimpleHTTPServer", "http.server" },
	{ "SimpleXMLRPCServer", "xmlrpc.server" },
	{ "SocketServer", "socketserver" },
	{ "StringIO", "io" },
	{ "Tix", "tkinter.tix" },
	{ "Tkconstants", "tkinter.constants" },
	{ "Tkdnd", "tkinter.dnd" },
	{ "Tkinter", "tkinter" },
	{ "UserDict", "collections" },
	{ "UserList", "collections" },
	{ "UserString", "collections" },
	{ "__builtin__", "builtins" },
	{ "_abcoll", "collections.abc" },
	{ "_elementtree", "xml.etree.ElementTree" },
	{ "_winreg", "winreg" },
	{ "anydbm", "dbm" },
	{ "cPickle", "pickle" },
	{ "cStringIO", "io" },
	{ "commands", "subprocess" },
	{ "cookielib", "http.cookiejar" },
	{ "copy_reg", "copyreg" },
	{ "dbhash", "dbm.bsd" },
	{ "dbm", "dbm.ndbm" },
	{ "dumbdbm", "dbm.dumb" },
	{ "dummy_thread", "_dummy_thread" },
	{ "gdbm", "dbm.gnu" },
	{ "htmlentitydefs", "html.entities" },
	{ "httplib", "http.client" },
	{ "markupbase", "_markupbase" },
	{ "repr", "reprlib" },
	{ "robotparser", "urllib.robotparser" },
	{ "test.test_support", "test.support" },
	{ "thread", "_thread" },
	{ "tkColorChooser", "tkinter.colorchooser" },
	{ "tkCommonDialog", "tkinter.commondialog" },
	{ "tkFileDialog", "tkinter.filedialog" },
	{ "tkFont", "tkinter.font" },
	{ "tkMessageBox", "tkinter.messagebox" },
	{ "tkSimpleDialog", "tkinter.simpledialog" },
	{ "ttk", "tkinter.ttk" },
	{ "urllib2", "urllib.request" },
	{ "urlparse", "urllib.parse" },
	{ "whichdb", "dbm" },
	{ "xmlrpclib", "xmlrpc.client" },
};

/* Of the module exceptions, which are builtins. */
static const char *const exceptions[] = {
	"ArithmeticError",
	"AssertionError",
	"AttributeError",
	"BaseException",
	"BufferError",
	"BytesWarning",
	"DeprecationWarning",
	"EOFError",
	"EnvironmentError",
	"Exception",
	"FloatingPointError",
	"FutureWarning",
	"GeneratorExit",
	"IOError",
	"ImportError",
	"ImportWarning",
	"IndentationError",
	"IndexError",
	"KeyError",
	"KeyboardInterrupt",
	"LookupError",
	"MemoryError",
	"NameError",
	"NotImplementedError",
	"OSError",
	"OverflowError",
	"PendingDeprecationWarning",
	"ReferenceError",
	"RuntimeError",
	"RuntimeWarning",
	"StopIteration",
	"SyntaxError",
	"SyntaxWarning",
	"SystemError",
	"SystemExit",
	"TabError",
	"TypeError",
	"UnboundLocalError",
	"UnicodeDecodeError",
	"UnicodeEncodeError",
	"UnicodeError",
	"UnicodeTranslateError",
	"UnicodeWarning",
	"UserWarning",
	"ValueError",
	"Warning",
	"ZeroDivisionError",
};

static bool is_of_all_protocols(struct ck_str module)
{
	return ck_str_is(module, "__builtin__") ||
	       ck_str_is(module, "copy_reg");
}

/* --- finding in tables ---------------------------------------------------------------------------- */

static int text_cmp(struct ck_str a, const char *b)
{
	size_t len = strlen(b);
	size_t n = a.len < len ? a.len : len;
	int c = n ? memcmp(a.p, b, n) : 0;

	return c ? c : (a.len > len) - (a.len < len);
}

struct wanted {
	struct ck_str module, name;
};

static int name_cmp(const void *key, const void *row)
{
	const struct wanted *w = key;
	const struct moved_name *r = row;
	int c = text_cmp(w->module, r->module);

	return c ? c : text_cmp(w->name, r->name);
}

static int module_cmp(const void *key, const void *row)
{
	return text_cmp(((const struct wanted *)key)->module,
			((const struct moved_module *)row)->module);
}

static int exception_cmp(const void *key, const void *row)
{
	return text_cmp(((const struct wanted *)key)->name,
			*(const char *const *)row);
}

#define FIND(key, table, cmp)                                                  \
	bsearch(key, table, CK_ARRAY_SIZE(table), sizeof((table)[0]), cmp)

bool ck_global_rename(struct ck_str *module, struct ck_str *name,
		      bool is_python2)
{
	const struct wanted w = { *module, *name };
	const struct moved_name *n;
	const struct moved_module *m;

	if (!is_python2 && !is_of_all_protocols(*module))
		return false;
	if (ck_str_is(*module, "exceptions") &&
	    FIND(&w, exceptions, exception_cmp)) {
		*module = CK_STR("builtins");
		return true;
	}
	n = FIND(&w, names, name_cmp);
	if (n) {
		*module = ck_str_from(n->to_module);
		*name = ck_str_from(n->to_name);
		return true;
	}
	m = FIND(&w, modules, module_cmp);
	if (m)
		*module = ck_str_from(m->to);
	return m != NULL;
}
