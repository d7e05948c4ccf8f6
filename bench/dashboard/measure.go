package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom/promtest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// instance stands for a process, with its own way to the servers and its own page of metrics.
type instance struct {
	*coordinator.Coordinator

	network  *faultnet.Network
	registry *prometheus.Registry
	page     *http.Server
	addr     string
}

const (
	instances      = 3
	sessionTimeout = 4 * time.Second
	tick           = 500 * time.Millisecond
)

// measure plays the script while a Prometheus scrapes, and returns the panels with Prometheus's answers.
func measure(ctx context.Context, folder string, d *promtest.Dashboard) (panels []panel, err error) {
	programs, err := promtest.Find()
	if err != nil {
		return nil, err
	}
	zookeeper, err := ensemble.Find()
	if err != nil {
		return nil, err
	}
	servers, err := ensemble.Launch(ctx, zookeeper, folder, instances, ensemble.Tick(tick))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	var all []*instance
	defer func() {
		for _, i := range all {
			err = errors.Join(err, i.close())
		}
	}()
	targets := map[string][]string{}
	for n := range instances {
		i, err := newInstance(ctx, servers.Connect())
		if err != nil {
			return nil, err
		}
		all, targets["app"] = append(all, i), append(targets["app"], i.addr)
		if n == 0 {
			i.registry.MustRegister(zkprom.NewQueues(i.Coordinator, "/", zkprom.WithPollInterval(step), zkprom.WithPollTimeout(step)))
		}
	}
	home := filepath.Join(folder, "prometheus")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	server, err := promtest.Start(ctx, programs, home, promtest.Config{Interval: step, Targets: targets})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	for {
		seen, err := server.Query(ctx, "count(up == 1)")
		if err != nil {
			return nil, err
		}
		if len(seen) == 1 && seen[0].Points[0].Value == instances {
			break
		}
		if err := pause(ctx, step); err != nil {
			return nil, err
		}
	}
	from := time.Now()
	if err := script(ctx, all); err != nil {
		return nil, err
	}
	return ask(ctx, server, d, targets["app"], from, time.Now())
}

func newInstance(ctx context.Context, servers string) (*instance, error) {
	metrics := zkprom.New()
	i := &instance{network: faultnet.New((&net.Dialer{}).DialContext, nil), registry: prometheus.NewRegistry()}
	i.registry.MustRegister(metrics)
	var err error
	i.Coordinator, err = coordinator.Connect(ctx, servers, coordinator.WithHooks(metrics), coordinator.WithDialer(i.network.Dial),
		coordinator.WithSessionTimeout(sessionTimeout), coordinator.WithTickTime(tick))
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, i.Coordinator.Close())
	}
	i.addr = listener.Addr().String()
	i.page = &http.Server{Handler: promhttp.HandlerFor(i.registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Minute}
	go func() { _ = i.page.Serve(listener) }() // until the page is closed
	return i, nil
}

func (i *instance) close() error {
	err := errors.Join(i.Coordinator.Close(), i.page.Close())
	i.network.Close()
	return err
}

// ask queries what each panel shows. Instances are named by letters.
func ask(ctx context.Context, server *promtest.Server, d *promtest.Dashboard, addresses []string, from, to time.Time) (all []panel, _ error) {
	letters := make([]string, 0, 2*len(addresses))
	for n, addr := range addresses {
		letters = append(letters, addr, string(rune('a'+n)))
	}
	naming := strings.NewReplacer(letters...)
	for _, p := range d.Panels {
		one := panel{Panel: p, from: from, to: to}
		for _, target := range p.Targets {
			series, err := server.QueryRange(ctx, target.Expanded(rate), from, to, step)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Title, err)
			}
			for _, s := range series {
				if v, ok := s.Labels["instance"]; ok {
					s.Labels["instance"] = naming.Replace(v)
				}
				one.lines = append(one.lines, line{target.Legend(maps.Clone(s.Labels)), s.Points})
			}
		}
		slices.SortStableFunc(one.lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
		all = append(all, one)
	}
	return all, nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
