// go-echo PATH: bc.test.Echo/Unary by grpc-go, on a Unix socket, until it is killed; what lib/rpc is measured beside.
// The messages are generated from lib/rpc/test/echo.proto when it is built (tests/tools/build).
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"go-echo/echo"

	"google.golang.org/grpc"
)

type server struct{}

func (server) unary(_ context.Context, in *echo.EchoMessage) (*echo.EchoMessage, error) {
	return in, nil
}

func handleUnary(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(echo.EchoMessage)
	if err := decode(in); err != nil {
		return nil, err
	}
	return srv.(server).unary(ctx, in)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go-echo PATH")
		os.Exit(64)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bc.test.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: handleUnary}},
	}, server{})
	fmt.Println("ready")
	if err := s.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
