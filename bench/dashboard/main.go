package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom/promtest"
)

const (
	step = 500 * time.Millisecond // between scrapes, and between points of the picture
	rate = "4s"                   // for Grafana's $__rate_interval: some scrapes
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	source := flags.String("dashboard", "../coordinator/telemetry/zkprom/dashboard.json", "the `file` of the dashboard")
	picture := flags.String("o", "../coordinator/telemetry/zkprom/dashboard.png", "the `file` of the picture")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	text, err := os.ReadFile(*source)
	if err != nil {
		return err
	}
	d, err := promtest.ParseDashboard(text)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "zkgrant-dashboard")
	if err != nil {
		return err
	}
	panels, err := measure(ctx, folder, d)
	if err = errors.Join(err, os.RemoveAll(folder)); err != nil {
		return err
	}
	return paint(*picture, d.Title, panels)
}

// panel is a panel with its lines.
type panel struct {
	promtest.Panel
	from, to time.Time
	lines    []line
}

// line is a series with its name in the legend.
type line struct {
	name   string
	points []promtest.Point
}
