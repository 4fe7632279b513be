#include "http/h2.h"
#include "http/h1.h"

#include <rea/error.h>
#include <rea/time.h>

#include <assert.h>
#include <stddef.h>

#define SPARES_MAX 32u
/* What a spare stream may keep in each of its buffers. */
#define SPARE_KEEP ((size_t)4 * 1024)
#define FRAME_HEAD 9u
#define FRAME_MAX ((size_t)16 * 1024) /* we send no longer ones */
#define FIELD_OVERHEAD 32u            /* RFC 9113, 6.5.2 */
/* Frames of a head behind the first, besides those that it needs: what is in them is compressed, and must be read. */
#define CONTINUATIONS_MAX 8u
#define PIECE_MAX ((size_t)16 * 1024)

/* ---- memory ---- */

static void *take(void *p, size_t size)
{
	const struct rea_alloc *alloc = rea_alloc_default();

	return alloc->realloc(p, size, alloc->user_data);
}

static void give(void *p)
{
	const struct rea_alloc *alloc = rea_alloc_default();

	if (p != NULL)
		alloc->free(p, alloc->user_data);
}

/*
 * nghttp2's pieces are linked: when memory runs out, 1.52 may keep a pointer to what it has freed (a body's item, when its queue cannot grow), and
 * would free that again. Then it is not asked any more, and all its pieces are freed here.
 */
struct h2_piece {
	struct h2_piece *prev, *next;
};
static_assert(sizeof(struct h2_piece) % _Alignof(max_align_t) == 0, "pieces stay aligned");

static void piece_link(struct h2 *h2, struct h2_piece *piece)
{
	piece->prev = NULL;
	piece->next = h2->pieces;
	if (piece->next != NULL)
		piece->next->prev = piece;
	h2->pieces = piece;
}

static void piece_unlink(struct h2 *h2, struct h2_piece *piece)
{
	if (piece->prev != NULL)
		piece->prev->next = piece->next;
	else
		h2->pieces = piece->next;
	if (piece->next != NULL)
		piece->next->prev = piece->prev;
}

static void *piece_realloc(void *p, size_t size, void *user)
{
	struct h2 *h2 = user;
	struct h2_piece *piece = p != NULL ? (struct h2_piece *)p - 1 : NULL;

	if (size > SIZE_MAX - sizeof(*piece))
		return NULL;
	if (piece != NULL)
		piece_unlink(h2, piece);
	p = take(piece, sizeof(*piece) + size);
	/* What could not grow is still there. */
	piece = p != NULL ? p : piece;
	if (piece != NULL)
		piece_link(h2, piece);
	return p != NULL ? piece + 1 : NULL;
}

static void *piece_malloc(size_t size, void *user)
{
	return piece_realloc(NULL, size, user);
}

static void *piece_calloc(size_t count, size_t size, void *user)
{
	void *p = size != 0 && count > SIZE_MAX / size ? NULL : piece_realloc(NULL, count * size, user);

	return p != NULL ? memset(p, 0, count * size) : NULL;
}

static void piece_free(void *p, void *user)
{
	struct h2_piece *piece = p;

	if (p == NULL)
		return;
	piece_unlink(user, --piece);
	give(piece);
}

static bool grow(void **array, size_t *capacity, size_t wanted, size_t size)
{
	void *grown;

	if (wanted <= *capacity)
		return true;
	grown = take(*array, wanted * size);
	if (grown == NULL)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

/* ---- fields that arrive ---- */

void h2_fields_clear(struct h2_fields *fields)
{
	for (size_t i = 0; i < fields->owned_len; i++)
		nghttp2_rcbuf_decref(fields->owned[i]);
	for (size_t i = 0; i < 4; i++)
		if (fields->pseudo_owned[i] != NULL)
			nghttp2_rcbuf_decref(fields->pseudo_owned[i]);
	memset(fields->pseudo, 0, sizeof(fields->pseudo));
	memset(fields->pseudo_owned, 0, sizeof(fields->pseudo_owned));
	fields->length = fields->owned_len = 0;
	fields->bytes = 0;
	fields->error = HTTP_ERROR_NONE;
}

static void fields_fini(struct h2_fields *fields)
{
	h2_fields_clear(fields);
	give(fields->items);
	give(fields->owned);
}

static struct rea_slice slice_of(nghttp2_rcbuf *text)
{
	nghttp2_vec vec = nghttp2_rcbuf_get_buf(text);

	return rea_slice_make((const char *)vec.base, vec.len);
}

/* Those that there are differ in their third letters: :method, :status, :scheme, :authority, :path. */
static enum h2_pseudo pseudo_of(struct rea_slice name)
{
	switch (name.length > 2 ? name.data[2] : 0) {
	case 'c':
		return H2_SCHEME;
	case 'u':
		return H2_AUTHORITY;
	case 'a':
		return H2_PATH;
	default:
		return H2_METHOD; /* or :status */
	}
}

static bool fields_room(struct h2_fields *fields, size_t max)
{
	size_t wanted = fields->capacity < 16 ? 16 : 2 * fields->capacity, owned = 2 * fields->capacity;

	if (fields->length < fields->capacity)
		return true;
	if (fields->length >= max) {
		fields->error = HTTP_ERROR_TOO_MANY_FIELDS;
		return false;
	}
	if (!grow((void **)&fields->owned, &owned, 2 * wanted, sizeof(nghttp2_rcbuf *)) ||
	    !grow((void **)&fields->items, &fields->capacity, wanted, sizeof(struct http_field))) {
		fields->error = HTTP_ERROR_NOMEM;
		return false;
	}
	return true;
}

static void fields_add(struct h2_fields *fields, const struct http_limits *limits, size_t bytes_max,
    nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	struct http_field field = {.name = slice_of(name), .value = slice_of(value)};
	enum h2_pseudo pseudo;

	if (fields->error != HTTP_ERROR_NONE)
		return;
	fields->bytes += field.name.length + field.value.length + FIELD_OVERHEAD;
	if (fields->bytes > bytes_max) {
		fields->error = HTTP_ERROR_HEAD_TOO_LARGE;
		return;
	}
	if (*field.name.data == ':') {
		pseudo = pseudo_of(field.name);
		nghttp2_rcbuf_incref(value);
		fields->pseudo[pseudo] = field.value;
		fields->pseudo_owned[pseudo] = value;
		return;
	}
	if (fields->length >= limits->fields)
		fields->error = HTTP_ERROR_TOO_MANY_FIELDS;
	if (fields->error != HTTP_ERROR_NONE || !fields_room(fields, limits->fields))
		return;
	field.id = (uint8_t)http_field_id_of(field.name);
	field.hop_by_hop = field.id >= HTTP_FIELD_CONNECTION && field.id <= HTTP_FIELD_UPGRADE;
	nghttp2_rcbuf_incref(name);
	nghttp2_rcbuf_incref(value);
	fields->owned[fields->owned_len++] = name;
	fields->owned[fields->owned_len++] = value;
	fields->items[fields->length++] = field;
}

/* Leaves only what may be passed on. */
static void sift_trailers(struct h2_fields *trailers)
{
	size_t kept = 0;

	for (size_t i = 0; i < trailers->length; i++)
		if (h1_trailer_allowed(&trailers->items[i]))
			trailers->items[kept++] = trailers->items[i];
	trailers->length = kept;
}

uint64_t h2_content_length(const struct h2_fields *fields)
{
	const struct http_field *field = http_field_find(fields->items, fields->length, HTTP_FIELD_CONTENT_LENGTH);
	uint64_t length;

	return field != NULL && rea_slice_to_u64(field->value, &length) ? length : HTTP_LENGTH_UNKNOWN;
}

/* ---- streams ---- */

struct h2_stream *h2_stream_new(struct h2 *h2)
{
	struct h2_stream *stream = h2->spares;

	if (stream != NULL) {
		h2->spares = stream->next;
		h2->spares_len--;
		memset(&stream->h2, 0, h2->role->stream_size - offsetof(struct h2_stream, h2));
	} else {
		stream = take(NULL, h2->role->stream_size);
		if (stream == NULL)
			return NULL;
		memset(stream, 0, h2->role->stream_size);
	}
	stream->h2 = h2;
	stream->prev = NULL;
	stream->next = h2->streams;
	if (stream->next != NULL)
		stream->next->prev = stream;
	h2->streams = stream;
	h2->streams_len++;
	return stream;
}

static void stream_free(struct h2_stream *stream)
{
	rea_buffer_fini(&stream->out);
	rea_buffer_fini(&stream->tail);
	rea_buffer_fini(&stream->held);
	rea_buffer_fini(&stream->text);
	fields_fini(&stream->head);
	fields_fini(&stream->trailers);
	give(stream);
}

static void recycle_buffer(struct rea_buffer *buffer)
{
	rea_buffer_clear(buffer);
	rea_buffer_trim(buffer, SPARE_KEEP);
}

static void recycle(struct h2 *h2, struct h2_stream *stream)
{
	if (h2->spares_len >= SPARES_MAX) {
		stream_free(stream);
		return;
	}
	recycle_buffer(&stream->out);
	recycle_buffer(&stream->tail);
	recycle_buffer(&stream->held);
	recycle_buffer(&stream->text);
	h2_fields_clear(&stream->head);
	h2_fields_clear(&stream->trailers);
	stream->next = h2->spares;
	h2->spares = stream;
	h2->spares_len++;
}

static void recycle_ended(struct h2 *h2)
{
	struct h2_stream *stream;

	while ((stream = h2->ended) != NULL) {
		h2->ended = stream->next;
		recycle(h2, stream);
	}
}

/* Both sides are through with it. Its memory stays until no callback is on the stack. */
static void retire(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (!stream->over || !stream->closed)
		return;
	if (stream->writable)
		h2->writables--;
	if (stream->prev != NULL)
		stream->prev->next = stream->next;
	else
		h2->streams = stream->next;
	if (stream->next != NULL)
		stream->next->prev = stream->prev;
	stream->next = h2->ended;
	h2->ended = stream;
}

static void set_closed(struct h2_stream *stream)
{
	if (!stream->closed)
		stream->h2->streams_len--;
	stream->closed = true;
	retire(stream);
}

void h2_stream_over(struct h2_stream *stream)
{
	stream->over = true;
	rea_buffer_clear(&stream->held);
	retire(stream);
}

void h2_stream_drop(struct h2_stream *stream)
{
	stream->over = true;
	set_closed(stream);
}

void h2_stream_cancel(struct h2_stream *stream, uint32_t code)
{
	if (stream->over)
		return;
	/* Without memory for it the stream stays open for the peer, and its words are dropped. */
	if (!stream->closed && !stream->h2->dead)
		(void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
	rea_buffer_clear(&stream->out);
	h2_stream_over(stream);
}

static void stream_broken(struct h2_stream *stream, enum http_error error, uint32_t code)
{
	if (stream->over)
		return;
	h2_stream_over(stream);
	stream->h2->role->broken(stream, error, code);
}

static struct h2_stream *stream_of(struct h2 *h2, int32_t id)
{
	return nghttp2_session_get_stream_user_data(h2->session, id);
}

/* ---- sending ---- */

/* There is more to send. */
static int undefer(struct h2_stream *stream)
{
	if (!stream->deferred)
		return 0;
	stream->deferred = false;
	return nghttp2_session_resume_data(stream->h2->session, stream->id) == 0 ? 0 : REA_ERR_NOMEM;
}

int h2_stream_write(struct h2_stream *stream, const char *data, size_t length)
{
	if (stream->over || stream->h2->dead)
		return REA_ERR_IO;
	if (!stream->body || length == 0)
		return 0;
	if (stream->left != HTTP_LENGTH_UNKNOWN && length > stream->left)
		return REA_ERR_INVALID;
	if (rea_buffer_append(&stream->out, data, length) != 0)
		return REA_ERR_NOMEM;
	if (stream->left != HTTP_LENGTH_UNKNOWN)
		stream->left -= length;
	return undefer(stream);
}

/* length of the name, length of the value, both texts; and so on */
static int keep_trailers(struct h2_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	int error = 0;

	for (size_t i = 0; i < trailers_len && error == 0; i++) {
		const uint32_t lengths[2] = {(uint32_t)trailers[i].name.length, (uint32_t)trailers[i].value.length};

		if (trailers[i].hop_by_hop || trailers[i].id == HTTP_FIELD_CONTENT_LENGTH || trailers[i].id == HTTP_FIELD_HOST)
			continue;
		error = rea_buffer_append(&stream->tail, (const char *)lengths, sizeof(lengths));
		if (error == 0)
			error = rea_buffer_append_slice(&stream->tail, trailers[i].name);
		if (error == 0)
			error = rea_buffer_append_slice(&stream->tail, trailers[i].value);
	}
	return error;
}

int h2_stream_finish(struct h2_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	int error;

	if (stream->over || stream->h2->dead)
		return REA_ERR_IO;
	if (!stream->body) {
		stream->finished = true;
		return 0;
	}
	if (stream->left != HTTP_LENGTH_UNKNOWN && stream->left > 0)
		return REA_ERR_INVALID;
	error = keep_trailers(stream, trailers, trailers_len);
	if (error != 0)
		return error;
	stream->finished = true;
	return undefer(stream);
}

bool h2_stream_congested(struct h2_stream *stream)
{
	if (stream->h2->dead || rea_buffer_length(&stream->out) < H2_STREAM_HIGH)
		return false;
	stream->congested = true;
	return true;
}

void h2_head_begin(struct h2 *h2)
{
	h2->nv_len = 0;
}

bool h2_head_add(struct h2 *h2, struct rea_slice name, struct rea_slice value)
{
	size_t wanted = h2->nv_capacity < 32 ? 32 : 2 * h2->nv_capacity;

	if (h2->nv_len == h2->nv_capacity && !grow((void **)&h2->nv, &h2->nv_capacity, wanted, sizeof(*h2->nv)))
		return false;
	/* nghttp2 copies, and writes names in lower case. */
	h2->nv[h2->nv_len++] = (nghttp2_nv){
	    .name = (uint8_t *)(uintptr_t)name.data,
	    .value = (uint8_t *)(uintptr_t)(value.length > 0 ? value.data : ""),
	    .namelen = name.length,
	    .valuelen = value.length,
	    .flags = NGHTTP2_NV_FLAG_NONE,
	};
	return true;
}

/* Other in each request: to remember them would only push out what comes again. */
#define UNIQUE                                                                                   \
	(UINT64_C(1) << HTTP_FIELD_IDEMPOTENCY_KEY | UINT64_C(1) << HTTP_FIELD_REA_DEADLINE_MS | \
	    UINT64_C(1) << HTTP_FIELD_TRACEPARENT | UINT64_C(1) << HTTP_FIELD_CONTENT_LENGTH)

bool h2_head_add_fields(struct h2 *h2, const struct http_field *fields, size_t fields_len, uint64_t except)
{
	for (size_t i = 0; i < fields_len; i++) {
		if (fields[i].hop_by_hop || (except >> fields[i].id & 1))
			continue;
		if (!h2_head_add(h2, fields[i].name, fields[i].value))
			return false;
		if (UNIQUE >> fields[i].id & 1)
			h2->nv[h2->nv_len - 1].flags = NGHTTP2_NV_FLAG_NO_INDEX;
	}
	return true;
}

static int submit_trailers(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;
	const char *p = rea_buffer_data(&stream->tail), *end = p + rea_buffer_length(&stream->tail);
	uint32_t lengths[2];

	h2_head_begin(h2);
	while (p < end) {
		memcpy(lengths, p, sizeof(lengths));
		p += sizeof(lengths);
		if (!h2_head_add(h2, rea_slice_make(p, lengths[0]), rea_slice_make(p + lengths[0], lengths[1])))
			return NGHTTP2_ERR_NOMEM;
		p += lengths[0] + lengths[1];
	}
	return nghttp2_submit_trailer(h2->session, stream->id, h2->nv, h2->nv_len);
}

/* nghttp2 asks how much of a body there is; on_send_data takes it. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
    nghttp2_data_source *source, void *user)
{
	struct h2_stream *stream = source->ptr;
	size_t waiting = rea_buffer_length(&stream->out);

	(void)session;
	(void)id;
	(void)buf;
	(void)user;
	if (waiting == 0 && !stream->finished) {
		stream->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (waiting > length)
		return (ssize_t)length;
	if (stream->finished) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (rea_buffer_length(&stream->tail) > 0) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			if (submit_trailers(stream) != 0)
				return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		}
	}
	return (ssize_t)waiting;
}

nghttp2_data_provider h2_body_of(struct h2_stream *stream)
{
	return (nghttp2_data_provider){.source.ptr = stream, .read_callback = read_body};
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
    nghttp2_data_source *source, void *user)
{
	struct h2 *h2 = user;
	struct h2_stream *stream = source->ptr;

	(void)session;
	assert(frame->data.padlen == 0);
	if (rea_buffer_length(h2->out) >= H2_OUT_HIGH)
		return NGHTTP2_ERR_WOULDBLOCK;
	if (rea_buffer_reserve(h2->out, FRAME_HEAD + length) != 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	(void)rea_buffer_append(h2->out, (const char *)head, FRAME_HEAD);
	(void)rea_buffer_append(h2->out, rea_buffer_data(&stream->out), length);
	rea_buffer_consume(&stream->out, length);
	if (stream->congested && !stream->over && rea_buffer_length(&stream->out) < H2_STREAM_LOW) {
		stream->congested = false;
		stream->writable = true;
		h2->writables++;
	}
	return 0;
}

static void put_u32(unsigned char *p, uint32_t value)
{
	p[0] = (unsigned char)(value >> 24);
	p[1] = (unsigned char)(value >> 16);
	p[2] = (unsigned char)(value >> 8);
	p[3] = (unsigned char)value;
}

/* nghttp2 cannot be asked any more: the last word is ours. */
static void write_goaway(struct h2 *h2, uint32_t code)
{
	unsigned char frame[FRAME_HEAD + 8] = {0, 0, 8, NGHTTP2_GOAWAY};

	put_u32(frame + FRAME_HEAD, (uint32_t)nghttp2_session_get_last_proc_stream_id(h2->session));
	put_u32(frame + FRAME_HEAD + 4, code);
	(void)rea_buffer_append(h2->out, (const char *)frame, sizeof(frame));
}

static struct h2_stream *first_broken(const struct h2 *h2)
{
	struct h2_stream *stream = h2->streams;

	while (stream != NULL && h2->role->keeps_received && stream->received && !stream->peer_reset)
		stream = stream->next;
	return stream;
}

void h2_end(struct h2 *h2, enum http_error error)
{
	struct h2_stream *stream, *next;

	if (h2->dead)
		return;
	h2->dead = true;
	h2->error = error;
	for (stream = h2->streams; stream != NULL; stream = next) {
		next = stream->next;
		set_closed(stream);
	}
	/* Each leaves the list before it hears of it. */
	while ((stream = first_broken(h2)) != NULL)
		stream_broken(stream, error == HTTP_ERROR_NONE ? HTTP_ERROR_TRUNCATED : error, 0);
	h2->role->ended(h2);
}

/* An error of the whole connection that nghttp2 has not told the peer. */
static void fail(struct h2 *h2, int code)
{
	enum http_error error = h2->error;

	/* A callback that fails for another reason has said which. */
	if (error == HTTP_ERROR_NONE)
		error = code == NGHTTP2_ERR_NOMEM || code == NGHTTP2_ERR_CALLBACK_FAILURE           ? HTTP_ERROR_NOMEM
			: code == NGHTTP2_ERR_FLOODED || code == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS ? HTTP_ERROR_FLOOD
												    : HTTP_ERROR_PROTOCOL;
	write_goaway(h2, h2->code != 0               ? h2->code
			 : error == HTTP_ERROR_NOMEM ? NGHTTP2_INTERNAL_ERROR
			 : error == HTTP_ERROR_FLOOD ? NGHTTP2_ENHANCE_YOUR_CALM
						     : NGHTTP2_PROTOCOL_ERROR);
	h2_end(h2, error);
}

/* Nothing will be said any more: both have said goodbye, or nghttp2 has told the peer what is wrong. */
static void end_if_over(struct h2 *h2)
{
	if (!h2->dead && !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session))
		h2_end(h2, h2->error);
}

static void tell_writable(struct h2 *h2)
{
	struct h2_stream *stream;

	while (h2->writables > 0) {
		for (stream = h2->streams; !stream->writable; stream = stream->next)
			;
		stream->writable = false;
		h2->writables--;
		if (!stream->over)
			h2->role->writable(stream);
	}
}

static void produce(struct h2 *h2)
{
	const uint8_t *data = NULL;
	ssize_t length;

	h2->inside = true;
	do {
		length = rea_buffer_length(h2->out) < H2_OUT_HIGH ? nghttp2_session_mem_send(h2->session, &data) : 0;
		if (length > 0 && rea_buffer_append(h2->out, (const char *)data, (size_t)length) != 0)
			length = NGHTTP2_ERR_NOMEM;
	} while (length > 0);
	h2->inside = false;
	if (length < 0)
		fail(h2, (int)length);
}

bool h2_fill(struct h2 *h2)
{
	bool told;

	if (h2->inside || h2->filling || h2->dead)
		return false;
	h2->filling = true;
	recycle_ended(h2);
	/* A writer that goes on may bring more. */
	do {
		produce(h2);
		told = h2->writables > 0;
		tell_writable(h2);
	} while (told && !h2->dead && rea_buffer_length(h2->out) < H2_OUT_HIGH);
	end_if_over(h2);
	h2->filling = false;
	return !h2->dead && rea_buffer_length(h2->out) >= H2_OUT_HIGH;
}

/* ---- receiving ---- */

void h2_stream_refuse(struct h2_stream *stream, enum http_error error, uint32_t code)
{
	if (!stream->closed)
		(void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
	stream_broken(stream, error, code);
}

static void tell_end(struct h2_stream *stream)
{
	if (!stream->received || stream->end_told || stream->over || rea_buffer_length(&stream->held) > 0)
		return;
	stream->end_told = true;
	sift_trailers(&stream->trailers);
	stream->h2->role->body_end(stream);
}

int h2_stream_resume(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	stream->paused = false;
	if (stream->delivering) /* that call goes on with it */
		return 0;
	stream->delivering = true;
	while (!stream->over && !stream->paused && rea_buffer_length(&stream->held) > 0) {
		size_t piece = rea_buffer_length(&stream->held);

		if (piece > PIECE_MAX)
			piece = PIECE_MAX;
		h2->role->body(stream, rea_buffer_data(&stream->held), piece);
		if (stream->over)
			break;
		rea_buffer_consume(&stream->held, piece);
		if (!stream->closed)
			(void)nghttp2_session_consume_stream(h2->session, stream->id, piece);
	}
	stream->delivering = false;
	if (!stream->over)
		tell_end(stream);
	return h2->dead && !h2->role->keeps_received ? REA_ERR_IO : 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h2 = user;
	int32_t id = frame->hd.stream_id;

	h2->head_of = frame->hd.type == NGHTTP2_HEADERS ? stream_of(h2, id) : NULL; /* nobody may push */
	if (h2->head_of == NULL && h2->role->opened != NULL) {
		h2->head_of = h2->role->opened(h2, id);
		if (h2->head_of != NULL)
			nghttp2_session_set_stream_user_data(session, id, h2->head_of);
	}
	return h2->head_of != NULL ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name, nghttp2_rcbuf *value,
    uint8_t flags, void *user)
{
	struct h2 *h2 = user;
	struct h2_stream *stream = h2->head_of;

	(void)session;
	(void)frame;
	(void)flags;
	if (stream == NULL || stream->over)
		return 0;
	if (stream->headed)
		fields_add(&stream->trailers, h2->limits, h2->limits->trailer_bytes, name, value);
	else
		fields_add(&stream->head, h2->limits, h2->limits->head_bytes, name, value);
	return 0;
}

/* A malformed field makes its message malformed; nghttp2 by itself would leave it out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
    nghttp2_rcbuf *value, uint8_t flags, void *user)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)value;
	(void)flags;
	(void)user;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t length, void *user)
{
	struct h2 *h2 = user;
	struct h2_stream *stream = stream_of(h2, id);

	(void)flags;
	if (stream == NULL || stream->over)
		return nghttp2_session_consume(session, id, length);
	if (!stream->paused && rea_buffer_length(&stream->held) == 0) {
		h2->role->body(stream, (const char *)data, length);
		return nghttp2_session_consume(session, id, length);
	}
	/* The connection's window is for all streams; this one's tells its sender to wait. */
	if (rea_buffer_append(&stream->held, (const char *)data, length) != 0)
		h2_stream_refuse(stream, HTTP_ERROR_NOMEM, NGHTTP2_INTERNAL_ERROR);
	return nghttp2_session_consume_connection(session, length);
}

static void head_received(struct h2_stream *stream, bool ends)
{
	if (!stream->headed)
		stream->h2->role->head(stream, ends);
	else if (stream->trailers.error != HTTP_ERROR_NONE)
		h2_stream_refuse(stream,
		    stream->trailers.error == HTTP_ERROR_NOMEM ? HTTP_ERROR_NOMEM : HTTP_ERROR_TRAILER_TOO_LARGE,
		    NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h2 = user;
	struct h2_stream *stream = frame->hd.stream_id != 0 ? stream_of(h2, frame->hd.stream_id) : NULL;
	bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

	(void)session;
	if (frame->hd.type == NGHTTP2_HEADERS)
		h2->head_of = NULL;
	else if (!h2->role->frame(h2, frame))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (stream == NULL)
		return 0;
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		stream->peer_reset = true;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && !stream->over)
		head_received(stream, ends);
	if (ends) {
		stream->received = true;
		tell_end(stream);
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct h2 *h2 = user;
	struct h2_stream *stream = stream_of(h2, id);
	enum http_error error = HTTP_ERROR_PROTOCOL;

	(void)session;
	if (stream == NULL)
		return 0;
	if (h2->head_of == stream)
		h2->head_of = NULL;
	set_closed(stream);
	/* What was held is still to be read. */
	if (stream->over || (code == NGHTTP2_NO_ERROR && stream->received && !stream->peer_reset))
		return 0;
	if (stream->peer_reset)
		error = HTTP_ERROR_RESET;
	else if (code == NGHTTP2_REFUSED_STREAM)
		error = HTTP_ERROR_GOING_AWAY;
	stream_broken(stream, error, code);
	return 0;
}

static int before_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h2 = user;

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		h2->error = frame->goaway.error_code == NGHTTP2_ENHANCE_YOUR_CALM ? HTTP_ERROR_FLOOD : HTTP_ERROR_PROTOCOL;
	h2->role->frame_starts(h2, frame);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h2 = user;

	(void)session;
	if (h2->role->frame_sent != NULL)
		h2->role->frame_sent(h2, frame);
	return 0;
}

static bool frame_begins(struct h2 *h2)
{
	const unsigned char *p = h2->frame_head;
	const nghttp2_frame_hd head = {
	    .length = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2],
	    .type = p[3],
	    .flags = p[4],
	    .stream_id = (int32_t)((uint32_t)(p[5] & 0x7f) << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8]),
	};

	h2->frame_head_len = 0;
	h2->frame_left = head.length;
	h2->continuations = head.type == NGHTTP2_CONTINUATION ? h2->continuations + 1 : 0;
	if (h2->continuations > h2->limits->head_bytes / FRAME_MAX + CONTINUATIONS_MAX) {
		h2->error = HTTP_ERROR_FLOOD;
		return false;
	}
	return h2->role->frame_begins == NULL || h2->role->frame_begins(h2, &head);
}

static size_t part(size_t *left, size_t length)
{
	size_t taken = length < *left ? length : *left;

	*left -= taken;
	return taken;
}

/* How many of these bytes are of one frame: its head, or what is left of it. 0 = it is refused. */
static size_t frame_part(struct h2 *h2, const char *data, size_t length)
{
	size_t taken;

	if (h2->preface_left > 0)
		return part(&h2->preface_left, length);
	if (h2->frame_left > 0)
		return part(&h2->frame_left, length);
	taken = FRAME_HEAD - h2->frame_head_len;
	if (taken > length)
		taken = length;
	memcpy(h2->frame_head + h2->frame_head_len, data, taken);
	h2->frame_head_len += taken;
	if (h2->frame_head_len < FRAME_HEAD)
		return taken;
	return frame_begins(h2) ? taken + part(&h2->frame_left, length - taken) : 0;
}

/* nghttp2 is given one frame after the other: so it is known what follows each, and what it passes over is seen. */
static void receive_frames(struct h2 *h2, const char *data, size_t length)
{
	ssize_t result = 0;

	h2->inside = true;
	while (length > 0 && result >= 0) {
		size_t taken = frame_part(h2, data, length);

		h2->unread = length - taken;
		result = taken > 0 ? nghttp2_session_mem_recv(h2->session, (const uint8_t *)data, taken)
				   : NGHTTP2_ERR_CALLBACK_FAILURE;
		data += taken;
		length -= taken;
	}
	h2->inside = false;
	h2->unread = 0;
	if (result < 0)
		fail(h2, (int)result);
	else
		end_if_over(h2);
}

int h2_receive(struct h2 *h2, const char *data, size_t length)
{
	assert(!h2->inside);
	if (h2->dead || length == 0)
		return 0;
	recycle_ended(h2);
	receive_frames(h2, data, length);
	if (h2->error == HTTP_ERROR_NONE)
		return 0;
	return h2->error == HTTP_ERROR_NOMEM ? REA_ERR_NOMEM : REA_ERR_SYNTAX;
}

/* ---- the session ---- */

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_frame_send);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	return callbacks;
}

static nghttp2_option *make_option(const struct http_limits *limits)
{
	nghttp2_option *option;

	if (nghttp2_option_new(&option) != 0)
		return NULL;
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	/* Of a client that has not heard yet what the peer allows. */
	nghttp2_option_set_peer_max_concurrent_streams(option, 1);
	nghttp2_option_set_max_send_header_block_length(option, 2 * (size_t)limits->head_bytes + 64 * 1024);
	/* Its own count takes a frame that drips in for many; on_begin_frame counts. */
	nghttp2_option_set_max_continuations(option, SIZE_MAX);
	/* It reads the clock itself, and any reset counts; ours are in h2_server.c. */
	nghttp2_option_set_stream_reset_rate_limit(option, UINT64_C(1) << 40, UINT64_C(1) << 20);
	return option;
}

int h2_init(struct h2 *h2, const struct h2_role *role, const struct http_limits *limits, struct rea_buffer *out, bool server)
{
	nghttp2_mem mem = {h2, piece_malloc, piece_free, piece_calloc, piece_realloc};
	nghttp2_settings_entry settings[3] = {{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->head_bytes},
	    {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
	nghttp2_session_callbacks *callbacks = make_callbacks();
	nghttp2_option *option = make_option(limits);
	int error = NGHTTP2_ERR_NOMEM;

	*h2 = (struct h2){.role = role, .limits = limits, .out = out, .preface_left = server ? H2_PREFACE_LENGTH : 0};
	if (server)
		settings[2] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX};
	if (callbacks != NULL && option != NULL)
		error = server ? nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem)
			       : nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &mem);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	if (error == 0)
		error = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3);
	if (error == 0)
		error = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, H2_CONNECTION_WINDOW);
	return error == 0 ? 0 : REA_ERR_NOMEM;
}

void h2_fini(struct h2 *h2)
{
	struct h2_stream *stream, *next;

	for (stream = h2->streams; stream != NULL; stream = next) {
		next = stream->next;
		stream_free(stream);
	}
	h2->streams = NULL;
	recycle_ended(h2);
	while ((stream = h2->spares) != NULL) {
		h2->spares = stream->next;
		stream_free(stream);
	}
	if (h2->session != NULL && h2->error != HTTP_ERROR_NOMEM)
		nghttp2_session_del(h2->session);
	while (h2->pieces != NULL)
		piece_free(h2->pieces + 1, h2);
	give(h2->nv);
}

struct rea_slice h2_decimal(uint64_t value, char digits[H2_DIGITS])
{
	size_t i = H2_DIGITS;

	do {
		digits[--i] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return rea_slice_make(digits + i, H2_DIGITS - i);
}
