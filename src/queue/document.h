/*
 * A submit as JSON, with its longest part read apart: the text of `body` is looked at once, while libjansson goes over a text letter by letter, three
 * times. Whatever is unusual in it is left to libjansson, which alone says what is wrong. Sans-IO.
 */
#ifndef REA_SRC_QUEUE_DOCUMENT_H
#define REA_SRC_QUEUE_DOCUMENT_H

#include "base/buffer.h"
#include "base/slice.h"

#include <jansson.h>

struct task_document {
	json_t *json; /* NULL = it is none */
	bool cut;     /* the member `body` of json is empty, and this is what it says: */
	struct rea_buffer body;
};

/* flags: of json_loadb. False: no JSON, or out of memory, with ret_error; nothing to free. */
bool task_document_load(struct task_document *ret_document, struct rea_slice text, size_t flags, json_error_t *ret_error);
void task_document_fini(struct task_document *document);

#endif
