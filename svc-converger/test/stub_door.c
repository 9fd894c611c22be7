#include "svc-converger/test/stub_door.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

struct rpc_server *stub_door_open(struct loop *loop, const char *path, ProtobufCService *service)
{
	struct rpc_server_options options = { .path = path, .listen_fd = -EBADF };
	struct rpc_server *server = NULL;

	assert(rpc_server_new(loop, &options, &server, NULL) == 0);
	assert(rpc_server_add(server, service) == 0);
	assert(rpc_server_start(server, NULL) == 0);
	return server;
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(userdata, 0);
}

struct rpc_server *stub_door_close(struct loop *loop, const char *path, struct rpc_server *server)
{
	rpc_server_drain(server, 0, on_drained, loop);
	(void)loop_run(loop);
	(void)unlink(path);
	return rpc_server_free(server);
}
