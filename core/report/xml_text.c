/* SPDX-License-Identifier: MIT */
/*
 * xml_text: any bytes as text of XML. No state; any thread.
 */
#include "xml_text.h"

/* Bytes of a surrogate, which UTF-8 does not have; 0 if there is none. */
static size_t surrogate_len(const char *p, size_t len)
{
	return len >= 3 && (uint8_t)p[0] == 0xed && (uint8_t)p[1] >= 0xa0 &&
			       (uint8_t)p[1] <= 0xbf &&
			       (uint8_t)(p[2] & 0xc0) == 0x80
		       ? 3
		       : 0;
}

/* The spelling of a character in XML; NULL: as it is. XML 1.0 (fifth edition), 2.2, has neither
 * other control characters nor U+FFFE and U+FFFF. */
static const char *xml_spelling(const char *p, size_t len)
{
	static const char replaced[] = "\xef\xbf\xbd"; /* U+FFFD */

	switch (*p) {
	case '&': return "&amp;";
	case '<': return "&lt;";
	case '>': return "&gt;";
	case '"': return "&quot;";
	case '\t': return "&#9;";
	case '\n': return "&#10;";
	case '\r': return "&#13;";
	default: break;
	}
	if (len == 0 || (len == 1 && (uint8_t)*p < 0x20) ||
	    (len == 3 && (memcmp(p, "\xef\xbf\xbe", 3) == 0 ||
			  memcmp(p, "\xef\xbf\xbf", 3) == 0)))
		return replaced;
	return NULL;
}

void ck_buf_xml(struct ck_buf *out, struct ck_str s)
{
	size_t len, skip, done = 0;

	for (size_t i = 0; i < s.len; i += skip) {
		const char *spelling;

		len = ck_utf8_len(s.p + i, s.len - i);
		skip = len ? len : surrogate_len(s.p + i, s.len - i);
		skip = skip ? skip : 1;
		spelling = xml_spelling(s.p + i, len);
		if (!spelling)
			continue;
		ck_buf_add(out, s.p + done, i - done);
		ck_buf_text(out, spelling);
		done = i + skip;
	}
	if (done < s.len)
		ck_buf_add(out, s.p + done, s.len - done);
}
