/* What the files of the process share. Unless it says otherwise, everything belongs to the main loop's thread. */
#ifndef REA_SRC_SERVE_INTERNAL_H
#define REA_SRC_SERVE_INTERNAL_H

#include "admin/admin.h"
#include "base/buffer.h"
#include "discovery/members.h"
#include "discovery/registrar.h"
#include "discovery/sources.h"
#include "discovery/watch.h"
#include "proxy/proxy.h"
#include "queue/api.h"
#include "serve/certificates.h"
#include "serve/serve.h"
#include "serve/sinks.h"

#include <rea/config.h>
#include <rea/event.h>

#include <stdatomic.h>

struct server;

struct worker_listener {
	struct worker_thread *thread;
	struct loop_http_listener *listener; /* NULL when it is gone */
	struct tls_context *tls;             /* under server->lock; NULL = none */
};

struct worker_thread {
	struct server *server;
	struct proxy_worker *worker;
	struct worker_listener *listeners;
	size_t listeners_len;
	size_t listeners_open;
	uv_thread_t thread;
	bool running;
	uint32_t connections_max; /* under server->lock */
	struct loop_post configure;
	bool configure_pending; /* under server->lock */
	uint64_t drain_ns;      /* set before drain is posted */
	struct loop_post drain;
	struct wheel_timer drain_timer;
	struct loop_post ended; /* to the main loop */
};

struct server {
	const char *path;
	struct loop loop; /* main thread */
	struct proxy *proxy;
	struct rea_config *config;
	struct rea_config *started; /* what the admin listener borrows from */
	/* With sources: the document of the file; config is that under what the sources tell. */
	struct rea_config *base;
	struct rea_config *asked; /* what sources borrows from */
	struct rea_config *next;  /* what the start will begin with */
	struct rea_buffer policy; /* what the sources told last that was good */
	char policy_name[320];
	struct sources *sources; /* NULL = none */
	struct members *members; /* the instances of the services */
	struct registrar *registrar;
	struct worker_thread *threads;
	uint32_t threads_len, threads_running;
	uv_mutex_t lock;
	struct admin *admin;
	struct admin_routes tables[2];
	struct queue *queue; /* NULL = no tasks */
	struct api *task_api;
	struct watch *watch;
	struct certificates *certificates;
	struct watch **contract_files; /* NULL where one could not be watched */
	size_t contract_files_len;
	struct watch **named_files; /* what the document names that was refused last, and the running one does not */
	size_t named_files_len;
	struct sinks sinks;
	struct loop_post drain_events;
	atomic_bool drain_events_due;
	uv_signal_t signals[4];
	size_t signals_len;
	bool ready, stopping, queue_stopped, unregistered;
	uint64_t reloads, rejects;
	int64_t loaded_unix_ns;
	struct rea_error_info last_error; /* message "" = none */
};

/* Functions that can fail return 0, or an error with ret_info. */

/* serve.c */
void server_end_if_done(struct server *server);

/* tell.c */
int server_no_memory(struct rea_error_info *ret_info); /* returns REA_ERR_NOMEM */
void server_drain_events(struct loop_post *post);
/* On any thread: an event waits. One wake-up serves all events until the main thread has seen it. */
void server_notify(void *user_data);
/* An event about the configuration; more may follow, so that nothing is flushed. */
void server_keep_event(struct server *server, const char *detail);
/* error: what the detail is about; NULL = nothing. */
void server_push_event(struct server *server, const char *detail, const struct rea_error_info *error);
/* A line for whoever runs this, and an event. */
void server_notice(const char *text, void *user_data);
/* What only a start can change. */
void server_tell_restart_keys(const struct server *server, const struct rea_config *config);
/* of: what else to say of it; "" = nothing. */
void server_tell_loaded(struct server *server, const struct rea_config *config, const char *of);
void server_tell_changes(struct server *server, const struct rea_config *before, const struct rea_config *after);
/* So that nobody need find it out. */
void server_tell_unverified(struct server *server, const struct rea_config *config);

/* workers.c */
int server_make_proxy(struct server *server, struct rea_config *config, struct rea_error_info *ret_info);
int server_listen(struct server *server, struct rea_error_info *ret_info);
int server_start_threads(struct server *server, struct rea_error_info *ret_info);
/* After proxy_install: posts are run in order, so the new snapshot is already in place when limits and timeouts follow. */
void server_configure_workers(struct server *server);
/* What is under way may end within that time. */
void server_drain_workers(struct server *server, uint64_t drain_ns);
/* They have ended, and so has the proxy. */
void server_free_workers(struct server *server);

/* reload.c */
int server_install(struct server *server, struct rea_config *config);
/* What only those who deliver tasks can judge. */
int server_check_tasks(const char *path, const struct rea_config *config, struct rea_error_info *ret_info);
/* Returns as certificates_prepare. */
int server_prepare_certificates(struct server *server, const struct rea_config *config, struct rea_error_info *ret_info);
void server_certificates_changed(void *user_data);
/* A watch_fn: the file as it is now. */
void server_document(const char *text, size_t length, const struct rea_error_info *error, void *user_data);
/* Ask them, and wait until it is known what holds: nobody is served under a policy that is not. */
int server_ask_sources(struct server *server, struct rea_config *config, struct rea_error_info *ret_info);
void server_members_changed(void *user_data);
/* Wait until the services have instances, or have none for a reason. */
int server_find_members(struct server *server, struct rea_config *config, struct rea_error_info *ret_info);
/* Once calls can come. */
int server_start_registrar(struct server *server, struct rea_error_info *ret_info);

/* named.c */
/* The contract files of the running configuration. One that cannot be watched is found at the next SIGHUP. */
void server_watch_contract_files(struct server *server);
/* A document that was refused: the fault may be in a file that it names, and be mended there. */
void server_watch_named_files(struct server *server, const char *text, size_t length);
void server_forget_named_files(struct server *server);

/* tasks.c */
int server_start_tasks(struct server *server, struct rea_config *config, struct rea_error_info *ret_info);
/* For admin_sources.tasks. */
int server_tell_tasks(struct rea_text biz_id, struct timeline *timeline, void *user_data);

/* shown.c */
int server_start_admin(struct server *server, struct rea_error_info *ret_info);

#endif
