package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/board"
)

// farewell is how long requests that are under way have at the end.
const farewell = 2 * time.Second

func newBoard(s *settings) *cobra.Command {
	w := &watched{settings: s}
	cmd := &cobra.Command{
		Use:   "board [ROOT]",
		Short: "Serve a web page that shows the locks",
		Long: `board serves a live page of the locks below a path, prints its address, and goes on until it
is interrupted. Everybody who can reach the address sees paths and data, so it listens on
this machine only unless --listen says otherwise.`,
		GroupID:           "look",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := "/"
			if len(args) > 0 {
				root = args[0]
			}
			address, err := net.ResolveTCPAddr("tcp", w.listen)
			switch {
			case err != nil:
				return fmt.Errorf("--listen %s: %w", w.listen, err)
			case w.revoke && !address.IP.IsLoopback():
				return fmt.Errorf("--allow-revoke with --listen %s: want an address of this machine only, as 127.0.0.1:8080", w.listen)
			}
			ctx, cancel := interrupted()
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				return w.serve(ctx, cmd.OutOrStdout(), c, root, address)
			})
		},
	}
	cmd.Flags().StringVar(&w.listen, "listen", "127.0.0.1:8080", "the `address` to serve at; port 0 is a free one")
	cmd.Flags().BoolVar(&w.revoke, "allow-revoke", false, "let the page ask for locks back; on this machine only")
	return cmd
}

// watched is what the flags of board say.
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
	var handler http.Handler = b
	if address.IP.IsLoopback() {
		handler = local(b)
	} else {
		w.say(report{Event: "warned", loud: true}, "everybody who can reach %s sees the locks and their data", listener.Addr())
	}
	url := "http://" + listener.Addr().String() + "/"
	if w.json {
		err = object(out, struct {
			Event string `json:"event"`
			URL   string `json:"url"`
		}{"serving", url})
	} else {
		_, err = fmt.Fprintln(out, url)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	b.Close() // the open pages; else Shutdown waits for them
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err = server.Shutdown(last)
	if err != nil {
		err = server.Close()
	}
	if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

// local refuses requests that name another host: a foreign page whose name was made to lead to this machine would be the board's own
// site for a browser.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this board is for this machine: ask for localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
