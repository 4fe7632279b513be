/* Lines are built in memory and written whole. What cannot be written is lost: the log of a test bed is no ledger. */
#include "lab/record.h"

#include "base/buffer.h"

#define SHA256_BYTES 32

static void add(struct rea_buffer *line, const char *text)
{
	rea_buffer_append(line, text, strlen(text));
}

static void add_number(struct rea_buffer *line, const char *key, uint64_t value)
{
	add(line, key);
	rea_buffer_append_u64(line, value);
}

/* Bytes above 127 are written as the code point of the same number, so that nothing is lost and the line stays valid. */
static void add_string(struct rea_buffer *line, struct rea_slice text)
{
	static const char hex[] = "0123456789abcdef";

	add(line, "\"");
	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];
		char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

		if (c == '"' || c == '\\') {
			add(line, "\\");
			rea_buffer_append(line, &text.data[i], 1);
		} else if (c < 32 || c > 126) {
			rea_buffer_append(line, escape, sizeof(escape));
		} else {
			rea_buffer_append(line, &text.data[i], 1);
		}
	}
	add(line, "\"");
}

static void add_text(struct rea_buffer *line, const char *key, struct rea_slice text)
{
	add(line, key);
	add_string(line, text);
}

static void add_digest(struct rea_buffer *line, const char *key, EVP_MD_CTX *digest)
{
	unsigned char hash[SHA256_BYTES];
	char text[2 * SHA256_BYTES + 1];

	EVP_DigestFinal_ex(digest, hash, NULL);
	for (size_t i = 0; i < SHA256_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	add_text(line, key, rea_slice_make(text, 2 * SHA256_BYTES));
}

static void add_fields(struct rea_buffer *line, const char *key, const struct http_field *fields, size_t fields_len)
{
	add(line, key);
	add(line, "[");
	for (size_t i = 0; i < fields_len; i++) {
		add(line, i > 0 ? ",[" : "[");
		add_string(line, fields[i].name);
		add(line, ",");
		add_string(line, fields[i].value);
		add(line, "]");
	}
	add(line, "]");
}

/* Equal on all attempts of a call: without what is new on each, and without what belongs to the connection. */
static bool is_end_to_end(const struct http_field *field)
{
	return !field->hop_by_hop && field->id != HTTP_FIELD_HOST && field->id != HTTP_FIELD_REA_ATTEMPT &&
	       field->id != HTTP_FIELD_REA_DEADLINE_MS;
}

static void add_headers_digest(struct rea_buffer *line, const struct http_request *request)
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();

	if (digest == NULL)
		return;
	EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
	for (size_t i = 0; i < request->fields_len; i++) {
		const struct http_field *field = &request->fields[i];

		if (!is_end_to_end(field))
			continue;
		EVP_DigestUpdate(digest, field->name.data, field->name.length);
		EVP_DigestUpdate(digest, ": ", 2);
		EVP_DigestUpdate(digest, field->value.data, field->value.length);
		EVP_DigestUpdate(digest, "\n", 1);
	}
	add_digest(line, ",\"headers_sha256\":", digest);
	EVP_MD_CTX_free(digest);
}

static void begin_line(struct rea_buffer *line, const char *event, const struct lab_record *record)
{
	add_text(line, "{\"event\":", rea_slice_of(event));
	add_number(line, ",\"t_ns\":", record->t_ns);
	add_number(line, ",\"end_ns\":", record->end_ns);
	add_text(line, ",\"instance\":", rea_slice_of(record->instance));
	add_number(line, ",\"connection\":", record->connection);
	add_number(line, ",\"n\":", record->n);
	if (record->request != NULL) {
		add_text(line, ",\"method\":", record->request->method);
		add_text(line, ",\"path\":", record->request->path);
	}
}

static void write_line(FILE *log, struct rea_buffer *line)
{
	add(line, "}\n");
	fwrite(rea_buffer_data(line), 1, rea_buffer_length(line), log);
	fflush(log);
	rea_buffer_fini(line);
}

void lab_record_request(FILE *log, const struct lab_record *record)
{
	struct rea_buffer line = {0};

	if (log == NULL)
		return;
	begin_line(&line, "request", record);
	add_fields(&line, ",\"fields\":", record->request->fields, record->request->fields_len);
	add_fields(&line, ",\"trailers\":", record->trailers, record->trailers_len);
	add_headers_digest(&line, record->request);
	add_number(&line, ",\"body_bytes\":", record->body_bytes);
	add_digest(&line, ",\"body_sha256\":", record->body);
	add(&line, record->complete ? ",\"complete\":true" : ",\"complete\":false");
	add_text(&line, ",\"action\":", record->action);
	write_line(log, &line);
}

void lab_record_broken(FILE *log, const char *event, const struct lab_record *record, const char *why)
{
	struct rea_buffer line = {0};

	if (log == NULL)
		return;
	begin_line(&line, event, record);
	add_text(&line, ",\"why\":", rea_slice_of(why));
	write_line(log, &line);
}
