package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/board"
)

func newBoard(s *settings) *cobra.Command {
	w := &watched{settings: s}
	cmd := &cobra.Command{
		Use:   "board [ROOT]",
		Short: "Serve a web page that shows the locks",
		Long: `board serves a live web page of the locks below a path, prints its address, and runs until it
is interrupted. Every client that can reach the address sees paths and data, so by default it
listens on this machine only; see --listen. With --allow-revoke every such client may revoke
locks, so a proxy in front of it must authenticate its users. Without a path it shows the locks
below the chroot of --servers, if there is one.`,
		GroupID:           "look",
		Args:              arguments(0, 1, "give at most one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := net.ResolveTCPAddr("tcp", w.listen)
			switch {
			case err != nil:
				return fmt.Errorf("--listen %s: %w", w.listen, err)
			case w.revoke && !address.IP.IsLoopback():
				return fmt.Errorf("--allow-revoke needs a loopback address such as 127.0.0.1:8080, not --listen %s", w.listen)
			}
			root, err := s.rootOf(args)
			if err != nil {
				return err
			}
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				return w.serve(ctx, cmd.OutOrStdout(), c, root, address)
			})
		},
	}
	cmd.Flags().StringVar(&w.listen, "listen", "127.0.0.1:8080", "the `address` to listen on; port 0 picks a free port")
	cmd.Flags().BoolVar(&w.revoke, "allow-revoke", false, "let the page revoke locks; needs a loopback address")
	return cmd
}

// watched holds the flags of the board command.
type watched struct {
	*settings

	listen string
	revoke bool
}

func (w *watched) serve(ctx context.Context, out io.Writer, c *coordinator.Coordinator, root string, address *net.TCPAddr) error {
	var options []board.Option
	if w.revoke {
		options = append(options, board.WithRevoke(func(*http.Request) error { return nil }))
	}
	b, err := board.New(c, root, options...)
	if err != nil {
		return err
	}
	defer b.Close()
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return err
	}
	handler, err := w.announce(out, listener, b, "")
	if err != nil {
		return err
	}
	if w.revoke {
		const warning = "every client that can reach it may revoke locks; a proxy in front of it must authenticate its users"
		w.say(report{Event: "warned", Error: listener.Addr().String() + ": " + warning, loud: true}, "%s: %s", listener.Addr(), warning)
	}
	// An open page would keep its request alive forever.
	defer context.AfterFunc(ctx, b.Close)()
	return serve(ctx, listener, handler)
}
