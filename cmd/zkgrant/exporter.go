package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom"
)

// exporter holds the flags of the exporter command.
type exporter struct {
	*settings

	root     string
	listen   string
	interval time.Duration
	timeout  time.Duration
	most     int
}

func newExporter(s *settings) *cobra.Command {
	e := &exporter{settings: s}
	cmd := &cobra.Command{
		Use:   "exporter [ROOT]",
		Short: "Export the locks below a path as Prometheus metrics",
		Long: `exporter serves metrics of the locks below a path to Prometheus, for all processes and libraries.
It reads the tree when it is scraped, at most once per --interval. For a large tree it exports
what it has found so far, with its age. Without a path it exports the locks below the chroot of
--servers, if there is one. It prints the address of its metrics, and runs until it is
interrupted. Every client that can reach the address sees paths.`,
		GroupID:           "look",
		Args:              arguments(0, 1, "give at most one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.interval <= 0 || e.timeout <= 0 {
				return fmt.Errorf("--interval and --poll-timeout must be above 0, not %v and %v", e.interval, e.timeout)
			}
			var err error
			if e.root, err = s.rootOf(args); err != nil {
				return err
			}
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return e.run(ctx, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.listen, "listen", "127.0.0.1:9142", "the `address` to listen on; by default, this machine only")
	f.DurationVar(&e.interval, "interval", 5*time.Second, "the minimum time between two reads of the tree")
	f.DurationVar(&e.timeout, "poll-timeout", time.Second, "how long a scrape waits for a read; then it exports what is known")
	f.IntVar(&e.most, "max-locks", 50, "how many locks below one parent have their own label")
	return cmd
}

// run serves until ctx ends. While no ZooKeeper server is reachable, it serves the state
// of the session.
func (e *exporter) run(ctx context.Context, out io.Writer) (err error) {
	hooks := zkprom.New()
	c, err := e.open(coordinator.WithHooks(hooks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := rooted(ctx, c, e.root); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(hooks, zkprom.NewQueues(c, e.root,
		zkprom.WithPollInterval(e.interval), zkprom.WithPollTimeout(e.timeout), zkprom.WithMaxLocks(e.most)))

	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", e.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	handler, err := e.announce(out, listener, e.pages(registry), "metrics")
	if err != nil {
		return err
	}
	return serve(ctx, listener, handler)
}

// rooted returns an error if root is not a valid path. It sends no request.
func rooted(ctx context.Context, c *coordinator.Coordinator, root string) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range c.Locks(ctx, root) {
		if errors.Is(err, coordinator.ErrPath) {
			return err
		}
	}
	return nil
}

func (e *exporter) pages(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		// A write error means that the client is gone.
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>zkgrant exporter</title><h1>zkgrant exporter</h1>
<p>The locks below <code>`+html.EscapeString(e.root)+`</code>: <a href="metrics">metrics</a></p></html>
`)
	})
	return mux
}
