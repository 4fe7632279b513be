/* What a server of configurations tells of one document. Every call is made on the loop, never inside the start of whoever makes it. */
#ifndef REA_SRC_SOURCE_H
#define REA_SRC_SOURCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct source_events {
	/* The document as the server has it now, on each look, changed or not. text: borrowed until return. */
	void (*present)(const char *text, size_t length, const char *server, void *user_data);
	/* In place of present and absent, of a source that is a prefix of keys: etcd's answer to a range of them, on each look. NULL = it is a key. */
	void (*listed)(const json_t *answer, const char *server, void *user_data);
	/* The server says that there is no such document. */
	void (*absent)(const char *server, void *user_data);
	/* All servers were asked and none gave an answer, or one refused us (denied). Told on each round. */
	void (*failed)(const char *why, bool denied, void *user_data);
	/* Something that whoever runs this should know, once. */
	void (*notice)(const char *text, void *user_data);
	void *user_data;
};

#endif
