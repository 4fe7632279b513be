/*
 * Which service a request is for: an absolute-form target or CONNECT by its authority alone (rea as http_proxy), else by Host, else by the first
 * segment of the path, which then is not part of the path upstream. A gRPC call by :authority, else by the gRPC service in its path.
 */
#include "proxy/internal.h"

#include "http/grpc.h"

static struct view_service *service_at(struct view *view, const struct rea_config_service *service)
{
	return service == NULL ? NULL : &view->services[service->index];
}

static bool match_prefix(struct view *view, struct rea_slice path, struct match *ret_match)
{
	size_t end = 1;

	if (path.length == 0 || path.data[0] != '/')
		return false;
	while (end < path.length && path.data[end] != '/' && path.data[end] != '?')
		end++;
	ret_match->service = service_at(view, rea_config_find_service(view->snapshot->config, path.data + 1, end - 1));
	ret_match->authority = rea_slice_make(NULL, 0);
	ret_match->path = rea_slice_make(path.data + end, path.length - end);
	return ret_match->service != NULL;
}

static bool match_grpc(struct view *view, struct rea_slice path, struct match *ret_match)
{
	struct rea_slice service, method;

	if (grpc_path_split(path, &service, &method))
		ret_match->service =
		    service_at(view, rea_config_find_grpc(view->snapshot->config, service.data, service.length));
	return ret_match->service != NULL;
}

bool match_service(struct view *view, const struct http_request *request, struct match *ret_match)
{
	struct rea_slice authority = request->authority;

	ret_match->service =
	    service_at(view, rea_config_find_host(view->snapshot->config, authority.data, authority.length));
	ret_match->authority = authority;
	ret_match->path = request->path;
	if (ret_match->service != NULL)
		return true;
	if (grpc_call_is(request))
		return match_grpc(view, request->path, ret_match);
	if (request->absolute_form || request->method_id == HTTP_CONNECT)
		return false;
	return match_prefix(view, request->path, ret_match);
}
