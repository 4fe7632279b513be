/* Instances as discovery finds them, handed to the proxy. */
#ifndef REA_SRC_SERVE_FOUND_H
#define REA_SRC_SERVE_FOUND_H

#include "discovery/members.h"
#include "proxy/proxy.h"

/* proxy_install of config, with the instances that its services have now. Returns 0 or REA_ERR_NOMEM, and then nothing has changed. */
int found_install(struct proxy *proxy, struct rea_config *config, const struct members *members);

#endif
