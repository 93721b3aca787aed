/* SPDX-License-Identifier: MIT */
/* Handwritten pickles and their JSON. JSON is NULL if the pickle must be refused. */
#ifndef CK_OBJECT_CASES_H
#define CK_OBJECT_CASES_H

#include "ckptfs/base.h"

#define PICKLE(text)                                                           \
	{                                                                      \
		text, sizeof(text) - 1                                         \
	}
#define FLOAT_STORAGE                                                          \
	"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                     \
	"0X\3\0\0\0cpuK\6tQ"
#define DENSE                                                                  \
	"ctorch._utils\n_rebuild_tensor_v2\n(" FLOAT_STORAGE                   \
	"K\0K\2K\3\x86K\3K\1\x86\x89}tR"
#define DENSE_JSON "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[2,3]}}"

static const struct object_case {
	const char *what;
	struct ck_str pickle;
	const char *json;
} object_cases[] = {
	/* scalars */
	{ "None", PICKLE("N."), "null" },
	{ "bool", PICKLE("\x88."), "true" },
	{ "protocol 0 bool", PICKLE("I00\n."), "false" },
	{ "int", PICKLE("J\xff\xff\xff\xff."), "-1" },
	{ "LONG1 of no bytes", PICKLE("\x8a\0."), "0" },
	{ "2^64 - 1", PICKLE("\x8a\t\xff\xff\xff\xff\xff\xff\xff\xff\0."),
	  "18446744073709551615" },
	{ "-2^63 - 1", PICKLE("\x8a\t\xff\xff\xff\xff\xff\xff\xff\x7f\xff."),
	  "-9223372036854775809" },
	{ "more bytes than needed", PICKLE("\x8a\x0b\5\0\0\0\0\0\0\0\0\0\0."),
	  "5" },
	{ "minus a power", PICKLE("\x8a\x09\0\0\0\0\0\0\0\0\xff."),
	  "-18446744073709551616" },
	{ "LONG", PICKLE("L-12345678901234567890123L\n."),
	  "-12345678901234567890123" },
	{ "float", PICKLE("G\x3f\xb9\x99\x99\x99\x99\x99\x9a."), "0.1" },
	{ "float without fraction", PICKLE("F1\n."), "1.0" },
	{ "large float", PICKLE("F1e22\n."), "1e+22" },
	{ "1e16", PICKLE("F1e16\n."), "1e+16" },
	{ "below 1e16", PICKLE("F9999999999999998\n."), "9999999999999998.0" },
	{ "small float", PICKLE("F0.00001\n."), "1e-05" },
	{ "smallest float", PICKLE("F5e-324\n."), "5e-324" },
	{ "minus zero", PICKLE("F-0\n."), "-0.0" },
	{ "not a number", PICKLE("Fnan\n."), "{\"$float\":\"nan\"}" },
	{ "infinities", PICKLE("(Finf\nF-inf\nl."),
	  "[{\"$float\":\"inf\"},{\"$float\":\"-inf\"}]" },
	/* strings and bytes */
	{ "text", PICKLE("X\5\0\0\0a\"\\\n\x7f."), "\"a\\\"\\\\\\n\x7f\"" },
	{ "control characters", PICKLE("X\3\0\0\0\0\x1f\t."),
	  "\"\\u0000\\u001f\\t\"" },
	{ "not ASCII", PICKLE("X\4\0\0\0\xc3\xa9\xc2\x80."),
	  "\"\xc3\xa9\xc2\x80\"" },
	{ "lone surrogate", PICKLE("X\3\0\0\0\xed\xa0\x80."),
	  "{\"$str\":\"7aCA\"}" },
	{ "Python 2 str", PICKLE("S'a\\xe9'\n."), "{\"$bytes\":\"Yek=\"}" },
	{ "bytes", PICKLE("C\2\0\xff."), "{\"$bytes\":\"AP8=\"}" },
	{ "bytes of protocol 2",
	  PICKLE("c_codecs\nencode\nX\3\0\0\0\0\xc3\xbfX\6\0\0\0latin1\x86R."),
	  "{\"$bytes\":\"AP8=\"}" },
	{ "empty bytes of protocol 2", PICKLE("c__builtin__\nbytes\n)R."),
	  "{\"$bytes\":\"\"}" },
	{ "encode of what latin1 has not",
	  PICKLE("c_codecs\nencode\nX\2\0\0\0\xc4\x80X\6\0\0\0latin1\x86R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[\"\xc4\x80\",\"latin1\"]}" },
	{ "encode to something else",
	  PICKLE("c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0rot13\x86R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[\"a\",\"rot13\"]}" },
	{ "bytearray", PICKLE("\x96\1\0\0\0\0\0\0\0a."),
	  "{\"$bytearray\":\"YQ==\"}" },
	{ "empty bytearray", PICKLE("c__builtin__\nbytearray\n)R."),
	  "{\"$bytearray\":\"\"}" },
	{ "bytearray of bytes", PICKLE("cbuiltins\nbytearray\nC\1a\x85R."),
	  "{\"$bytearray\":\"YQ==\"}" },
	{ "bytearray of text",
	  PICKLE("cbuiltins\nbytearray\nX\1\0\0\0aX\7\0\0\0latin-1\x86R."),
	  "{\"$bytearray\":\"YQ==\"}" },
	{ "bytearray of a number", PICKLE("cbuiltins\nbytearray\nK\3\x85R."),
	  "{\"$class\":\"builtins.bytearray\",\"args\":[3]}" },
	/* containers */
	{ "lists", PICKLE("(]K\1l."), "[[],1]" },
	{ "empty tuple", PICKLE(")."), "{\"$tuple\":[]}" },
	{ "tuple of ints", PICKLE("K\1K\2\x86."), "{\"$tuple\":[1,2]}" },
	{ "tuple", PICKLE("K\1N\x86."), "{\"$tuple\":[1,null]}" },
	{ "dict", PICKLE("(X\1\0\0\0aK\1X\0\0\0\0K\2d."), "{\"a\":1,\"\":2}" },
	{ "dict of ints", PICKLE("(K\1Nd."), "{\"$dict\":[[1,null]]}" },
	{ "dict of two kinds", PICKLE("(X\1\0\0\0aN\x88)d."),
	  "{\"$dict\":[[\"a\",null],[true,{\"$tuple\":[]}]]}" },
	{ "dict with a dollar", PICKLE("(X\2\0\0\0$aNd."),
	  "{\"$dict\":[[\"$a\",null]]}" },
	{ "dict with a surrogate", PICKLE("(X\3\0\0\0\xed\xa0\x80Nd."),
	  "{\"$dict\":[[{\"$str\":\"7aCA\"},null]]}" },
	{ "dict with equal keys", PICKLE("(X\1\0\0\0aNX\1\0\0\0aNd."), NULL },
	{ "equal keys beside others", PICKLE("(X\1\0\0\0aNK\1NX\1\0\0\0aNd."),
	  NULL },
	{ "an equal key later", PICKLE("}X\1\0\0\0aNsX\1\0\0\0aNs."), NULL },
	{ "equal keys that are no strings", PICKLE("(K\1NK\1Nd."),
	  "{\"$dict\":[[1,null],[1,null]]}" },
	{ "OrderedDict", PICKLE("ccollections\nOrderedDict\n)RX\1\0\0\0aNs."),
	  "{\"a\":null}" },
	{ "OrderedDict with equal keys",
	  PICKLE("ccollections\nOrderedDict\n)R(X\1\0\0\0aNX\1\0\0\0aNu."),
	  NULL },
	{ "OrderedDict with attributes",
	  PICKLE("ccollections\nOrderedDict\n)RK\1Ns}X\1\0\0\0aNsb."),
	  "{\"$class\":\"collections.OrderedDict\",\"args\":[],\"items\":[[1,null]],\"state\":{\"a\":null}}" },
	{ "OrderedDict of pairs",
	  PICKLE("ccollections\nOrderedDict\n]]K\1aNaa\x85R."),
	  "{\"$class\":\"collections.OrderedDict\",\"args\":[[[1,null]]]}" },
	{ "set", PICKLE("\x8f(K\1N\x90."), "{\"$set\":[1,null]}" },
	{ "frozenset", PICKLE("(\x91."), "{\"$frozenset\":[]}" },
	{ "set of protocol 2", PICKLE("c__builtin__\nset\n]K\1a\x85R."),
	  "{\"$set\":[1]}" },
	{ "frozenset of protocol 2", PICKLE("c__builtin__\nfrozenset\n]\x85R."),
	  "{\"$frozenset\":[]}" },
	{ "set of a tuple", PICKLE("c__builtin__\nset\n)\x85R."),
	  "{\"$class\":\"builtins.set\",\"args\":[{\"$tuple\":[]}]}" },
	{ "complex", PICKLE("c__builtin__\ncomplex\nF1\nFnan\n\x86R."),
	  "{\"$complex\":[1.0,{\"$float\":\"nan\"}]}" },
	{ "complex of ints", PICKLE("c__builtin__\ncomplex\nK\1K\2\x86R."),
	  "{\"$class\":\"builtins.complex\",\"args\":[1,2]}" },
	/* names and calls */
	{ "global", PICKLE("c__builtin__\nxrange\n."),
	  "{\"$global\":\"builtins.range\"}" },
	{ "Python 2 module", PICKLE("\x80\2cexceptions\nValueError\n."),
	  "{\"$global\":\"builtins.ValueError\"}" },
	{ "module of that name", PICKLE("\x80\3cexceptions\nValueError\n."),
	  "{\"$global\":\"exceptions.ValueError\"}" },
	{ "Python 2 collection", PICKLE("\x80\2cUserDict\nIterableUserDict\n."),
	  "{\"$global\":\"collections.UserDict\"}" },
	{ "Python 2 name of subprocess",
	  PICKLE("\x80\2"
		 "ccommands\ngetoutput\n."),
	  NULL },
	{ "Python 2 name of pickle", PICKLE("ccPickle\nloads\n."), NULL },
	{ "Size", PICKLE("ctorch\nSize\nK\1K\2\x86\x85R."),
	  "{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":[1,2]}]}" },
	{ "empty Size", PICKLE("ctorch\nSize\n)\x85R."),
	  "{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":[]}]}" },
	{ "Size and its tuple",
	  PICKLE("(K\1\x85q\0ctorch\nSize\nh\0\x85Rh\0l."),
	  "[{\"$tuple\":[1]},{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":[1]}]},{\"$tuple\":[1]}]" },
	{ "Size of a list", PICKLE("ctorch\nSize\n]\x85R."),
	  "{\"$class\":\"torch.Size\",\"args\":[[]]}" },
	{ "object", PICKLE("cm\nC\n)\x81}X\1\0\0\0xK\1sb."),
	  "{\"$class\":\"m.C\",\"args\":[],\"state\":{\"x\":1}}" },
	{ "object of no name", PICKLE("cm\xff\nC\n)\x81."),
	  "{\"$class\":{\"$str\":\"bf8uQw==\"},\"args\":[]}" },
	{ "keyword arguments", PICKLE("cm\nC\nK\1\x85}X\1\0\0\0kNs\x92."),
	  "{\"$class\":\"m.C\",\"args\":[1],\"kwargs\":{\"k\":null}}" },
	{ "list subclass", PICKLE("cm\nL\n)\x81(K\1Ne."),
	  "{\"$class\":\"m.L\",\"args\":[],\"list\":[1,null]}" },
	{ "everything", PICKLE("cm\nC\nN\x85}\x92K\1aK\2\x88sNb."),
	  "{\"$class\":\"m.C\",\"args\":[null],\"kwargs\":{},\"list\":[1],\"items\":[[2,true]],\"state\":null}" },
	{ "INST", PICKLE("(K\1im\nC\n."), "{\"$class\":\"m.C\",\"args\":[1]}" },
	{ "OBJ", PICKLE("(cm\nC\nNo."),
	  "{\"$class\":\"m.C\",\"args\":[null]}" },
	{ "enum by getattr",
	  PICKLE("c__builtin__\ngetattr\ncm\nC\nX\1\0\0\0R\x86R."),
	  "{\"$global\":\"m.C.R\"}" },
	{ "call of a call", PICKLE("cm\nf\n)R)R."),
	  "{\"$class\":{\"$class\":\"m.f\",\"args\":[]},\"args\":[]}" },
	{ "dangerous", PICKLE("cos\nsystem\nX\2\0\0\0id\x85R."), NULL },
	/* calls that make scalars */
	{ "bytes",
	  PICKLE("c_codecs\nencode\nX\2\0\0\0\xc3\xbfX\6\0\0\0"
		 "latin1\x86R."),
	  "{\"$bytes\":\"/w==\"}" },
	{ "bytes of another code",
	  PICKLE("c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0utf-8\x86R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[\"a\",\"utf-8\"]}" },
	{ "bytes of a number's code",
	  PICKLE("c_codecs\nencode\nX\1\0\0\0aK\1\x86R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[\"a\",1]}" },
	{ "bytes of a number",
	  PICKLE("c_codecs\nencode\nK\1X\6\0\0\0latin1\x86R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[1,\"latin1\"]}" },
	{ "bytes of one argument", PICKLE("c_codecs\nencode\nX\1\0\0\0a\x85R."),
	  "{\"$class\":\"_codecs.encode\",\"args\":[\"a\"]}" },
	{ "bytearray of bytes by a call",
	  PICKLE("cbuiltins\nbytearray\nc__builtin__\nbytes\n)R\x85R."),
	  "{\"$bytearray\":\"\"}" },
	{ "bytearray of a list", PICKLE("cbuiltins\nbytearray\n]\x85R."),
	  "{\"$class\":\"builtins.bytearray\",\"args\":[[]]}" },
	{ "bytearray of the result of a foreign call",
	  PICKLE("cbuiltins\nbytearray\ncm\nC\n)R\x85R."),
	  "{\"$class\":\"builtins.bytearray\",\"args\":[{\"$class\":\"m.C\",\"args\":[]}]}" },
	{ "bytearray of three arguments",
	  PICKLE("cbuiltins\nbytearray\nX\1\0\0\0aX\6\0\0\0latin1N\x87R."),
	  "{\"$class\":\"builtins.bytearray\",\"args\":[\"a\",\"latin1\",null]}" },
	{ "complex of one number",
	  PICKLE("c__builtin__\ncomplex\nG\0\0\0\0\0\0\0\0\x85R."),
	  "{\"$class\":\"builtins.complex\",\"args\":[0.0]}" },
	{ "complex of ints", PICKLE("c__builtin__\ncomplex\nK\1K\2\x86R."),
	  "{\"$class\":\"builtins.complex\",\"args\":[1,2]}" },
	{ "complex with a list",
	  PICKLE("c__builtin__\ncomplex\nK\1K\2\x86RK\3a."),
	  "{\"$class\":\"builtins.complex\",\"args\":[1,2],\"list\":[3]}" },
	{ "complex with items",
	  PICKLE("c__builtin__\ncomplex\nK\1K\2\x86RK\3K\4s."),
	  "{\"$class\":\"builtins.complex\",\"args\":[1,2],\"items\":[[3,4]]}" },
	{ "complex with a state",
	  PICKLE("c__builtin__\ncomplex\nK\1K\2\x86RNb."),
	  "{\"$class\":\"builtins.complex\",\"args\":[1,2],\"state\":null}" },
	/* tensors */
	{ "tensor", PICKLE(DENSE "."), DENSE_JSON },
	{ "tensor twice", PICKLE("(" DENSE "q\0h\0l."),
	  "[" DENSE_JSON "," DENSE_JSON "]" },
	{ "named dtype",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v3\n(" FLOAT_STORAGE
		 "K\0)))\x89}ctorch\nfloat8_e5m2\ntR."),
	  NULL }, /* its shape and stride are one argument too many */
	{ "dtype that is not a dtype",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v3\n(" FLOAT_STORAGE
		 "K\0))\x89}cm\nfloat8\ntR."),
	  NULL },
	{ "new dtype",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v3\n(" FLOAT_STORAGE
		 "K\0))\x89}ctorch\nfloat3_new\ntR."),
	  "{\"$tensor\":{\"dtype\":\"float3_new\",\"shape\":[]}}" },
	{ "parameter",
	  PICKLE("ctorch._utils\n_rebuild_parameter\n" DENSE "\x88}\x87R."),
	  DENSE_JSON },
	{ "parameter of something",
	  PICKLE("ctorch._utils\n_rebuild_parameter\ncm\nT\n)R\x88}\x87R."),
	  "{\"$class\":\"torch._utils._rebuild_parameter\",\"args\":[{\"$class\":\"m.T\",\"args\":[]},true,{}]}" },
	{ "parameter of nothing",
	  PICKLE("ctorch._utils\n_rebuild_parameter\nN\x88}\x87R."), NULL },
	{ "parameter without arguments",
	  PICKLE("ctorch._utils\n_rebuild_parameter\n)R."), NULL },
	{ "tensor without storage",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v2\n(NK\0))\x89}tR."), NULL },
	{ "tensor with a negative size",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v2\n(" FLOAT_STORAGE
		 "K\0J\xff\xff\xff\xff\x85K\1\x85\x89}tR."),
	  NULL },
	{ "tensor of a type",
	  PICKLE("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n"
		 "_rebuild_wrapper_subclass\ncm\nDTensor\n(cm\nDTensor\n"
		 "ctorch\nbfloat16\nK\4\x85K\1\x85K\0NN\x89t}tR."),
	  "{\"$tensor\":{\"dtype\":\"bfloat16\",\"shape\":[4]}}" },
	{ "tensor of a foreign type",
	  PICKLE("ctorch._tensor\n_rebuild_from_type_v2\n(cm\nf\ncm\nT\n)NtR."),
	  "{\"$class\":\"torch._tensor._rebuild_from_type_v2\",\"args\":[{\"$global\":\"m.f\"},{\"$global\":\"m.T\"},{\"$tuple\":[]},null]}" },
	{ "sparse tensor",
	  PICKLE("ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n"
		 "_get_layout\nX\x10\0\0\0torch.sparse_coo\x85R(N" DENSE
		 "K\x09K\7\x86\x89t\x86R."),
	  "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[9,7]}}" },
	{ "compressed tensor",
	  PICKLE("ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n"
		 "_get_layout\nX\x10\0\0\0torch.sparse_csr\x85R(NN" DENSE
		 "K\x09K\7\x86t\x86R."),
	  "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[9,7]}}" },
	{ "sparse tensor without values",
	  PICKLE("ctorch._utils\n_rebuild_sparse_tensor\nN)\x86R."), NULL },
	{ "nested tensor",
	  PICKLE("ctorch._utils\n_rebuild_nested_tensor\n(" DENSE "NNNtR."),
	  "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":null}}" },
	{ "tensor without data",
	  PICKLE("ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\n"
		 "int8\n))\x89tR."),
	  "{\"$tensor\":{\"dtype\":\"int8\",\"shape\":[]}}" },
	{ "tensor of a device",
	  PICKLE("ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(" DENSE
		 "ctorch\nfloat16\nX\3\0\0\0xpu\x89tR."),
	  "{\"$tensor\":{\"dtype\":\"float16\",\"shape\":[2,3]}}" },
	{ "tensor of an array",
	  PICKLE("ctorch._utils\n_rebuild_device_tensor_from_numpy\n("
		 "cnumpy.core.multiarray\n_reconstruct\n)R(K\1K\5K\6\x86tb"
		 "ctorch\nint8\nX\3\0\0\0xla\x89tR."),
	  "{\"$tensor\":{\"dtype\":\"int8\",\"shape\":[5,6]}}" },
	{ "tensor of an array without state",
	  PICKLE("ctorch._utils\n_rebuild_device_tensor_from_numpy\n("
		 "cnumpy.core.multiarray\n_reconstruct\n)R"
		 "ctorch\nint8\nX\3\0\0\0xla\x89tR."),
	  "{\"$class\":\"torch._utils._rebuild_device_tensor_from_numpy\",\"args\":[{\"$class\":\"numpy.core.multiarray._reconstruct\",\"args\":[]},{\"$global\":\"torch.int8\"},\"xla\",false]}" },
	{ "tensor of an array with a short state",
	  PICKLE("ctorch._utils\n_rebuild_device_tensor_from_numpy\n("
		 "cnumpy.core.multiarray\n_reconstruct\n)RK\1\x85"
		 "b"
		 "ctorch\nint8\nX\3\0\0\0xla\x89tR."),
	  "{\"$class\":\"torch._utils._rebuild_device_tensor_from_numpy\",\"args\":[{\"$class\":\"numpy.core.multiarray._reconstruct\",\"args\":[],\"state\":{\"$tuple\":[1]}},{\"$global\":\"torch.int8\"},\"xla\",false]}" },
	{ "tensor of a device, of a foreign object",
	  PICKLE("ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n("
		 "cm\nT\n)\x81"
		 "ctorch\nint8\nX\3\0\0\0xpu\x89tR."),
	  "{\"$class\":\"torch._utils._rebuild_device_tensor_from_cpu_tensor\","
	  "\"args\":[{\"$class\":\"m.T\",\"args\":[]},{\"$global\":"
	  "\"torch.int8\"},\"xpu\",false]}" },
	{ "compressed tensor by the name of its layout",
	  PICKLE("ctorch._utils\n_rebuild_sparse_tensor\nctorch\nsparse_coo\n"
		 "(N" DENSE "K\x09K\7\x86\x89t\x86R."),
	  "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[9,7]}}" },
	{ "sparse tensor of a layout of many arguments",
	  PICKLE("ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n"
		 "_get_layout\n)R(N" DENSE "K\x09K\7\x86\x89t\x86R."),
	  NULL },
	{ "parameter of a changed tensor",
	  PICKLE("ctorch._utils\n_rebuild_parameter\n" DENSE "}b\x88}\x87R."),
	  "{\"$class\":\"torch._utils._rebuild_parameter\",\"args\":[{"
	  "\"$class\":\"torch._utils._rebuild_tensor_v2\",\"args\":[{"
	  "\"$storage\":{\"dtype\":\"float32\",\"numel\":6}},0,{\"$tuple\":"
	  "[2,3]},{\"$tuple\":[3,1]},false,{}],\"state\":{}},true,{}]}" },
	{ "parameters around a parameter",
	  PICKLE("ctorch._utils\n_rebuild_parameter\nq\0h\0h\0h\0h\0h\0h\0"
		 "h\0h\0h\0h\0h\0" DENSE
		 "\x88}\x87R\x88}\x87R\x88}\x87R\x88}\x87R\x88}\x87R"
		 "\x88}\x87R\x88}\x87R\x88}\x87R\x88}\x87R\x88}\x87R"
		 "\x88}\x87R\x88}\x87R."),
	  NULL },
	{ "tensor with a size of words",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v2\n(" FLOAT_STORAGE
		 "K\0X\1\0\0\0a\x85K\1\x85\x89}tR."),
	  NULL },
	{ "tensor with an invalid size",
	  PICKLE("ctorch._utils\n_rebuild_tensor_v2\n(" FLOAT_STORAGE
		 "K\0K\1K\1\x85\x89}tR."),
	  NULL },
	{ "storage of words",
	  PICKLE("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
		 "0X\3\0\0\0cpuX\1\0\0\0006tQ."),
	  NULL },
	{ "storage of another tag",
	  PICKLE("(X\7\0\0\0storeagctorch\nFloatStorage\nX\1\0\0\0"
		 "0X\3\0\0\0cpuK\6tQ."),
	  NULL },
	{ "storage of five numbers", PICKLE("(K\1K\1K\1K\1K\1tQ."), NULL },
	{ "storage of no class",
	  PICKLE("(X\7\0\0\0storageNX\1\0\0\0000X\3\0\0\0cpuK\6tQ."), NULL },
	{ "storage of a short class",
	  PICKLE("(X\7\0\0\0storagecm\nC\nX\1\0\0\0"
		 "0X\3\0\0\0cpuK\6tQ."),
	  "{\"$storage\":{\"dtype\":\"unknown\",\"numel\":6}}" },
	{ "storage", PICKLE(FLOAT_STORAGE "."),
	  "{\"$storage\":{\"dtype\":\"float32\",\"numel\":6}}" },
	{ "storage of bytes",
	  PICKLE("(X\7\0\0\0storagectorch.storage\nUntypedStorage\n"
		 "X\1\0\0\0000X\3\0\0\0cpuK\6tQ."),
	  "{\"$storage\":{\"dtype\":\"uint8\",\"numel\":6}}" },
	{ "persistent id of another form", PICKLE("K\1Q."), NULL },
	/* values in several places */
	{ "list in itself", PICKLE("]q\0K\1ah\0a."), "[1,{\"$ref\":\"\"}]" },
	{ "dict in itself", PICKLE("}q\0X\5\0\0\0a/b~c]h\0as."),
	  "{\"a/b~c\":[{\"$ref\":\"\"}]}" },
	{ "inner value in itself", PICKLE("}X\3\0\0\0~/\"]q\0h\0as."),
	  "{\"~/\\\"\":[{\"$ref\":\"/~0~1\\\"\"}]}" },
	{ "in the parts of an object",
	  PICKLE("cm\nC\n]q\0h\0a\x85}X\1\0\0\0k]q\1h\1as\x92"
		 "]q\2h\2aaK\1]q\3h\3as]q\4h\4ab."),
	  "{\"$class\":\"m.C\",\"args\":[[{\"$ref\":\"/args/0\"}]],"
	  "\"kwargs\":{\"k\":[{\"$ref\":\"/kwargs/k\"}]},"
	  "\"list\":[[{\"$ref\":\"/list/0\"}]],"
	  "\"items\":[[1,[{\"$ref\":\"/items/0/1\"}]]],"
	  "\"state\":[{\"$ref\":\"/state\"}]}" },
	{ "in a pair", PICKLE("(K\1Ncm\nC\n)Rq\0h\0bNd."),
	  "{\"$dict\":[[1,null],[{\"$class\":\"m.C\",\"args\":[],\"state\":{\"$ref\":\"/$dict/1/0\"}},null]]}" },
	{ "in containers", PICKLE("(]q\0h\0aN\x86\x8f(cm\nC\n)Rq\1h\1b\x90l."),
	  "[{\"$tuple\":[[{\"$ref\":\"/0/$tuple/0\"}],null]},"
	  "{\"$set\":[{\"$class\":\"m.C\",\"args\":[],\"state\":{\"$ref\":\"/1/$set/0\"}}]}]" },
	{ "short text again", PICKLE("(]K\1aq\0h\0K\2\x86h\0h\0\x86l."),
	  "[[1],{\"$tuple\":[[1],2]},{\"$tuple\":[[1],[1]]}]" },
};

#endif
