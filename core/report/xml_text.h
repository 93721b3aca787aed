/* SPDX-License-Identifier: MIT */
/*
 * xml_text: the names of a checkpoint are any bytes, and XML has only some characters. A part of
 * report.
 */
#ifndef CKPTFS_XML_TEXT_H
#define CKPTFS_XML_TEXT_H

#include "ckptfs/base.h"

/* Appends text of an element, or of an attribute in double quotes. Characters with a meaning, and
 * white space that XML would change, are escaped. U+FFFD stands for each character that XML 1.0
 * (fifth edition, section 2.2) excludes, for each lone surrogate, which is three bytes, and for
 * each other byte of malformed UTF-8. */
void ck_buf_xml(struct ck_buf *out, struct ck_str s);

#endif
