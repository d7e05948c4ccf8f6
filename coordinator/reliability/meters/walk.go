package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// phases are what is walked, in order. Each writes its counters to a folder of its name.
var phases = []struct{ name, title string }{
	{"grant", "Acquire, Grant"},
	{"release", "Release, Done"},
	{"handoff", "Release, next Grant"},
	{"loss", "expiry, Lost, Done"},
}

// walk plays the phases and writes their counters to folders below out.
func walk(out string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := zktest.New()
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	defer server.Close()
	connect := func() (*coordinator.Coordinator, error) {
		// The timeout is so long that no probe falls into a phase.
		return coordinator.Connect(ctx, server.Addr(), server.Option(), coordinator.WithSessionTimeout(40*time.Second))
	}
	c, err := connect()
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := connect()
	if err != nil {
		return err
	}
	defer d.Close()
	here, there := c.Mutex("/locks/a"), d.Mutex("/locks/a")

	for range 3 { // warm
		a := here.Acquire(ctx)
		<-a.Granted()
		a.Release()
		<-a.Done()
	}
	time.Sleep(300 * time.Millisecond)

	var a *coordinator.Acquisition
	if err := count(out, "grant", 20*time.Millisecond, func() {
		a = here.Acquire(ctx)
		<-a.Granted()
	}); err != nil {
		return err
	}
	if err := count(out, "release", 50*time.Millisecond, func() {
		a.Release()
		<-a.Done()
	}); err != nil {
		return err
	}

	a = here.Acquire(ctx)
	<-a.Granted()
	b := there.Acquire(ctx)
	time.Sleep(300 * time.Millisecond)
	if err := count(out, "handoff", 50*time.Millisecond, func() {
		a.Release()
		<-b.Granted()
	}); err != nil {
		return err
	}

	// The node of a lock that is held this long is watched.
	time.Sleep(6 * time.Second)
	var expired error
	if err := count(out, "loss", 50*time.Millisecond, func() {
		if expired = server.Expire(d.SessionID()); expired == nil {
			<-b.Lost()
			<-b.Done()
		}
	}); err != nil {
		return err
	}
	return expired
}

// count clears the counters, runs a phase, lets what it started come to rest, and writes the
// counters out.
func count(out, name string, settle time.Duration, phase func()) error {
	if err := coverage.ClearCounters(); err != nil {
		return fmt.Errorf("clearing the counters: %w", err)
	}
	phase()
	time.Sleep(settle)
	folder := filepath.Join(out, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a folder for the counters: %w", err)
	}
	if err := coverage.WriteMetaDir(folder); err != nil {
		return fmt.Errorf("writing the counters: %w", err)
	}
	if err := coverage.WriteCountersDir(folder); err != nil {
		return fmt.Errorf("writing the counters: %w", err)
	}
	return nil
}
