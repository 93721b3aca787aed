/* SPDX-License-Identifier: MIT */
/*
 * shard_map: the boxes of a tensor as a picture, which shows which rank holds which elements. A
 * part of report. Any thread.
 *
 * The picture is SVG: one <rect> for each box, the first dimension down, the second across. Each
 * further dimension divides the columns of those before it, so that the area of a rectangle is the
 * share of its box in the elements, and boxes of a regular grid do not overlap. Programs find a
 * box by its attributes:
 *
 *	<svg data-fqn="layers.0.w" data-dtype="bfloat16" data-shape="2048,512" ...>
 *	<rect data-rank="0" data-copies="1,2" data-offset="0,0" data-size="1024,256" .../>
 *
 * data-rank is the lowest rank that has the box, data-copies are the others. Without a rank it is
 * the path of the file; empty if no file has the box. The page of `ckptfs report` draws the same
 * picture; its script has the same numbers.
 */
#ifndef CKPTFS_SHARD_MAP_H
#define CKPTFS_SHARD_MAP_H

#include "ckptfs/model.h"

/* A tensor with more boxes has no rectangle for each: data-boxes of the <svg> is their number. */
enum { CK_SHARD_MAP_BOXES = 256 };

/* Appends the map of a tensor, as well-formed XML in UTF-8. The tensor may be damaged: parts of a
 * box that lie outside of it are not drawn. On shortage of memory out->err is set. */
void ck_shard_map_print(const struct ck_catalog *c, uint32_t tensor,
			struct ck_buf *out);

#endif
